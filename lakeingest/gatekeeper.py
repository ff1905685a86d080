"""Holds each batch of a run against the gate's suite: before its commit where that decides, and keeps the results."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeingest import table
from lakeingest.batch import Batch
from lakeingest.commit import Receipt, in_a_line, spark_failures, unreachable
from lakeingest.config import Pipeline
from lakeingest.errors import BatchHeld, SourceUnreachable
from lakeingest.gate import judge, results
from lakeingest.gate.judge import Result
from lakeingest.gate.suite import Suite
from lakeingest.record import UNPLANNED, Unplanned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


@dataclass(frozen=True)
class Verdict:
    """What was decided about a batch before its commit.

    Attributes:
        found: what the expectations found that were asked of the batch.
        aside: those for which the whole batch goes to quarantine.
        accepted: who let it through although it would have been held, and why; empty if it was not.
    """

    found: tuple[Result, ...] = ()
    aside: tuple[Result, ...] = ()
    accepted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return "set aside" if self.aside else "accepted" if self.accepted else "committed"


class Gatekeeper:
    """The gate of one run.

    Attributes:
        reason: why the next batch that would be held is let through; None if it is not. One batch uses it up.
    """

    def __init__(self, spark: SparkSession, config: Pipeline, suite: Suite, reason: str | None) -> None:
        self.reason = reason
        self._spark, self._config, self._suite = spark, config, suite
        self._asked = tuple(rule for rule in suite.rules if not rule.compiled)
        self._refusing = tuple(rule for rule in suite.rules if rule.refuses)
        self.decides = any(rule.decides for rule in suite.rules)
        self._made = False

    def judge(self, batch: Batch, rows: DataFrame, seen: Observation, receipt: Receipt) -> Verdict:
        """Decide about a batch before it is committed.

        Args:
            rows: what would be committed, observed by `seen`; it is read several times, so that it should be kept.

        Raises:
            BatchHeld: an expectation fails that keeps back or ends; nothing of the batch was written but its results.
            SourceUnreachable: the batch cannot be read.
            Unplanned: a record's schema is not known; nothing was written.
        """
        try:
            rows.count()
            found = judge.counted(batch.watched, seen.get) + (judge.ask(rows, self._asked) if self._asked else [])
        except spark_failures() as failed:
            if UNPLANNED in str(failed):
                raise Unplanned from failed
            raise SourceUnreachable(
                f"the batch cannot be read: {in_a_line(failed)}",
                cure="look at the broker and its log; nothing was consumed, run again",
            ) from failed
        found.sort(key=self._order)
        broken = [each for each in found if not each.success]
        held = [each for each in broken if each.rule.action in ("hold", "fail")]
        ends = any(each.rule.action == "fail" for each in held)
        if ends or (held and self.reason is None):
            self._keep(found, batch, receipt, "held")
            raise _held(receipt, held, ends=ends)
        accepted: dict[str, Any] = {}
        if held:
            who = f"{getpass.getuser()} on {socket.gethostname()}"
            accepted = {"who": who, "why": self.reason, "expectations": [each.rule.name for each in held]}
            self.reason = None
        aside = tuple(each for each in broken if each.rule.action == "quarantine")
        return Verdict(tuple(found), aside, accepted)

    def note(
        self,
        verdict: Verdict | None,
        batch: Batch,
        seen: Mapping[str, Any],
        broken: Mapping[str, int],
        receipt: Receipt,
    ) -> None:
        """Keep the results of a batch that was committed.

        Args:
            verdict: what was decided before; None where nothing had to be.
            seen: what was observed of the batch.
            broken: the name of an expectation → the records that were set aside for it.
        """
        found = verdict.found if verdict else tuple(judge.counted(batch.watched, seen))
        refused = [judge.refused(rule, seen["decoded"], broken.get(rule.name, 0)) for rule in self._refusing]
        self._keep([*found, *refused], batch, receipt, verdict.outcome if verdict else "committed")

    def _order(self, result: Result) -> int:
        return self._suite.rules.index(result.rule)

    def _keep(self, found: Sequence[Result], batch: Batch, receipt: Receipt, outcome: str) -> None:
        path = self._config.results
        rows = results.rows(
            self._spark,
            self._suite,
            sorted(found, key=self._order),
            pipeline=receipt.pipeline,
            sequence=receipt.sequence,
            spans=receipt.spans,
            now=batch.now,
            outcome=outcome,
        )
        if not self._made:
            table.ensure_results(self._spark, self._config)
            self._made = True
        try:
            rows.write.format("delta").mode("append").save(path)
        except spark_failures() as failed:
            raise unreachable(path, failed) from failed


def _held(receipt: Receipt, held: Sequence[Result], *, ends: bool) -> BatchHeld:
    offsets = ", ".join(f"{s.topic}-{s.partition} {s.start} to {s.end - 1}" for s in receipt.spans if s.end > s.start)
    let = "" if ends else ", or let it through: run --accept-held REASON"
    return BatchHeld(
        f"batch {receipt.sequence} of pipeline {receipt.pipeline!r} is kept back ({offsets}):"
        + "".join(f"\n  {each.rule.action}: {each}" for each in held),
        cure=f"nothing was committed, and nothing is lost; mend the data or the suite and run again{let}",
    )
