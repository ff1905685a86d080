"""What the expectations found in a batch: counts of compiled ones, Great Expectations' own answers for the others."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.errors import SetupError, UsageError
from lakeingest.gate import rules
from lakeingest.gate.suite import Rule
from lakeingest.record import UNDECODED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_SHOWN = 200


@dataclass(frozen=True)
class Result:
    """What one expectation found in one batch.

    Attributes:
        success: whether it was met.
        evaluated: the records of the batch that could be decoded; None for a statistic that does not count them.
        unexpected: how many of them break it.
        observed: the statistic, as JSON; None for what is asked of rows.
        sample: some of the values that break it.
    """

    rule: Rule
    success: bool
    evaluated: int | None = None
    unexpected: int | None = None
    observed: str | None = None
    sample: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.unexpected is None:
            return f"{self.rule.text}: observed {self.observed}"
        some = f", as {', '.join(self.sample)}" if self.sample else ""
        return f"{self.rule.text}: {self.unexpected:,} of {self.evaluated:,} break it{some}"


def metrics(watched: Sequence[Rule], columns: StructType) -> list[Column]:
    """What an Observation is to count, so that `counted` can tell the results: no pass of its own.

    Args:
        watched: compiled rules.
        columns: the table's columns of the value.
    """
    decoded = ~F.col(UNDECODED)
    found = [F.count_if(decoded).alias("decoded")]
    for i, rule in enumerate(watched):
        bad = decoded & rules.unexpected(rule, columns)
        values = (F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in rule.columns)
        text = F.substring(F.concat_ws(", ", *values), 1, _SHOWN)
        found += [
            F.count_if(decoded & rules.present(rule)).alias(f"present_{i}"),
            F.count_if(bad).alias(f"unexpected_{i}"),
            F.min(F.when(bad, text)).alias(f"least_{i}"),
            F.max(F.when(bad, text)).alias(f"most_{i}"),
        ]
    return found


def counted(watched: Sequence[Rule], seen: Mapping[str, Any]) -> list[Result]:
    """The results of what `metrics` counted."""
    found = []
    for i, rule in enumerate(watched):
        present, unexpected = seen[f"present_{i}"], seen[f"unexpected_{i}"]
        met = present == 0 or (present - unexpected) / present >= rule.mostly
        sample = {value for value in (seen[f"least_{i}"], seen[f"most_{i}"]) if value is not None}
        found.append(Result(rule, met, seen["decoded"], unexpected, sample=tuple(sorted(sample))))
    return found


def refused(rule: Rule, evaluated: int, unexpected: int) -> Result:
    """The result of a rule that set records aside; they are in quarantine, with their values."""
    return Result(rule, unexpected == 0, evaluated, unexpected)


def ask(frame: DataFrame, asked: Sequence[Rule]) -> list[Result]:
    """Let Great Expectations validate a batch.

    Args:
        frame: the rows that the batch would commit.

    Raises:
        SetupError: Great Expectations is not installed.
        UsageError: it cannot evaluate an expectation.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    try:
        with warnings.catch_warnings():
            # What it imports is its own matter.
            warnings.simplefilter("ignore", DeprecationWarning)
            import great_expectations as gx
    except ImportError as missing:
        raise SetupError(
            f"great_expectations is not installed, and the gate needs it for {asked[0].type}",
            cure="pip install 'lakeingest[gate]'",
        ) from missing
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("batch")
    batch = asset.add_batch_definition_whole_dataframe("batch").get_batch({"dataframe": frame})
    listed = [{"type": rule.type, "kwargs": dict(rule.kwargs), "meta": {"at": at}} for at, rule in enumerate(asked)]
    try:
        answer: Any = batch.validate(gx.ExpectationSuite(name="gate", expectations=listed), result_format="SUMMARY")
    except Exception as failed:
        raise UsageError(
            f"Great Expectations refuses the suite: {str(failed).strip()[:500]}", cure="correct the suite"
        ) from failed
    in_order = sorted(answer.results, key=lambda each: each.expectation_config.meta["at"])
    return [_answer(rule, each) for rule, each in zip(asked, in_order, strict=True)]


def _answer(rule: Rule, answer: Any) -> Result:
    if "'raised_exception': True" in str(answer.exception_info):
        raised = json.dumps(answer.exception_info, default=str)[:500]
        raise UsageError(
            f"Great Expectations cannot evaluate {rule.text}: {raised}", cure="correct the expectation, or leave it out"
        )
    found = answer.result
    observed = found.get("observed_value")
    return Result(
        rule,
        bool(answer.success),
        found.get("element_count"),
        found.get("unexpected_count"),
        None if observed is None else json.dumps(observed, default=str),
        tuple(str(value)[:_SHOWN] for value in (found.get("partial_unexpected_list") or ())[:3]),
    )
