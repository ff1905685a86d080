"""Results of the expectations in a batch: counts of compiled ones, Great Expectations' own answers for the others."""

from __future__ import annotations

import json
import logging
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.errors import SetupError, UsageError, printable
from lakeingest.gate import predicates
from lakeingest.gate.suite import Rule, Suite
from lakeingest.record import UNDECODED, count_where

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_ASKING = threading.Lock()
"""Great Expectations has one context in a process, and one name for the view of each batch."""


@dataclass(frozen=True)
class Result:
    """The result of one expectation in one batch.

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

    @property
    def holds(self) -> bool:
        """Whether the batch is kept back for it."""
        return not self.success and self.rule.action in ("hold", "fail")

    def to_json(self) -> dict[str, Any]:
        return {
            "expectation": self.rule.name,
            "asked": self.rule.arguments_text,
            "action": self.rule.action,
            "success": self.success,
            "evaluated": self.evaluated,
            "unexpected": self.unexpected,
            "observed": self.observed,
            "sample": list(self.sample),
        }

    def __str__(self) -> str:
        if self.unexpected is None:
            return f"{self.rule.text}: observed {self.observed}"
        some = f", as {', '.join(map(printable, self.sample))}" if self.sample else ""
        return f"{self.rule.text}: {self.unexpected:,} of {self.evaluated:,} break it{some}"


def metrics(watched: Sequence[Rule], columns: StructType) -> list[Column]:
    """Columns for an Observation to count, from which `counted` makes the results: no pass of its own.

    Args:
        watched: compiled rules.
        columns: the table's columns of the value.
    """
    decoded = ~F.col(UNDECODED)
    metric_columns = [count_where(decoded).alias("decoded")]
    for i, rule in enumerate(watched):
        bad = decoded & predicates.unexpected(rule, columns)
        text = F.concat_ws(", ", *(predicates.value_text(name, columns) for name in rule.columns))
        metric_columns += [
            count_where(decoded & predicates.present(rule, columns)).alias(f"present_{i}"),
            count_where(bad).alias(f"unexpected_{i}"),
            F.min(F.when(bad, text)).alias(f"least_{i}"),
            F.max(F.when(bad, text)).alias(f"most_{i}"),
        ]
    return metric_columns


def of_batch(suite: Suite, rows: DataFrame, values: Mapping[str, Any]) -> list[Result]:
    """Results of a batch before its commit: of all rules but those that set single records aside.

    Args:
        rows: what would be committed.
        values: what was observed of the batch.

    Raises:
        SetupError, UsageError: see `ask`.
    """
    return in_order(suite, counted(suite, values) + (ask(rows, suite.other_rules) if suite.other_rules else []))


def in_order(suite: Suite, results: Sequence[Result]) -> list[Result]:
    """Results in the order of the suite's file."""
    return sorted(results, key=lambda each: suite.rules.index(each.rule))


def counted(suite: Suite, values: Mapping[str, Any]) -> list[Result]:
    """The results of what `metrics` counted."""
    results = []
    for i, rule in enumerate(suite.watched):
        present, unexpected = values[f"present_{i}"], values[f"unexpected_{i}"]
        success = present == 0 or (present - unexpected) / present >= rule.mostly
        sample = {value for value in (values[f"least_{i}"], values[f"most_{i}"]) if value is not None}
        results.append(Result(rule, success, values["decoded"], unexpected, sample=tuple(sorted(sample))))
    return results


def refused(suite: Suite, decoded: int, broken: Mapping[str, int]) -> list[Result]:
    """The results of the rules that set records aside; these are in quarantine, with their values.

    Args:
        decoded: the records of the batch that could be decoded.
        broken: the name of an expectation → the records that were set aside for it.
    """
    counts = {rule: broken.get(rule.name, 0) for rule in suite.refusing}
    return [Result(rule, count == 0, decoded, count) for rule, count in counts.items()]


def ask(frame: DataFrame, rules: Sequence[Rule]) -> list[Result]:
    """Let Great Expectations validate a batch.

    Args:
        frame: the rows that the batch would commit.

    Raises:
        SetupError: Great Expectations is not installed.
        UsageError: it cannot evaluate an expectation.
    """
    gx = great_expectations(rules[0].type)
    listed = [{"type": rule.type, "kwargs": dict(rule.kwargs), "meta": {"at": at}} for at, rule in enumerate(rules)]
    with _ASKING:
        batch = _batch(gx, frame)
        try:
            answer = batch.validate(gx.ExpectationSuite(name="gate", expectations=listed), result_format="SUMMARY")
        except Exception as failed:
            raise UsageError(
                f"Great Expectations refuses the suite: {str(failed).strip()[:500]}", cure="correct the suite"
            ) from failed
    answers = sorted(answer.results, key=lambda each: each.expectation_config.meta["at"])
    return [_answer(rule, each) for rule, each in zip(rules, answers, strict=True)]


def _batch(gx: Any, frame: DataFrame) -> Any:
    """Rows, as Great Expectations validates them."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_spark("spark", persist=False)
    # It would ask the process's first session, which knows no view that is made in another one.
    source.get_execution_engine().spark = frame.sparkSession
    asset = source.add_dataframe_asset("batch")
    return asset.add_batch_definition_whole_dataframe("batch").get_batch({"dataframe": frame})


def great_expectations(purpose: str) -> Any:
    """The package, which is imported only where it is needed: it takes seconds.

    Raises:
        SetupError: it is not installed, and `purpose` needs it.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    try:
        with warnings.catch_warnings():
            # What it imports is its own matter.
            warnings.simplefilter("ignore", DeprecationWarning)
            import great_expectations
    except ImportError as missing:
        raise SetupError(
            f"great_expectations is not installed, and the gate needs it for {purpose}",
            cure="pip install 'lakeingest[gate]'",
        ) from missing
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    return great_expectations


def _answer(rule: Rule, answer: Any) -> Result:
    if "'raised_exception': True" in str(answer.exception_info):
        raised = json.dumps(answer.exception_info, default=str)[:500]
        raise UsageError(
            f"Great Expectations cannot evaluate {rule.text}: {raised}", cure="correct the expectation, or leave it out"
        )
    result = answer.result
    observed = result.get("observed_value")
    return Result(
        rule,
        bool(answer.success),
        result.get("element_count"),
        result.get("unexpected_count"),
        None if observed is None else json.dumps(observed, default=str),
        tuple(str(value)[: predicates.SHOWN] for value in (result.get("partial_unexpected_list") or ())[:3]),
    )
