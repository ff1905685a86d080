"""Holds each batch of a run against the gate's suite and the failure budget, and keeps the results.

What can keep a batch back is asked before its commit; all else is counted in the pass that commits it.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeingest import quarantine, table
from lakeingest.batch import REFUSED, Batch
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

    def __init__(self, spark: SparkSession, config: Pipeline, suite: Suite | None) -> None:
        self.reason: str | None = None
        self._spark, self._config, self._suite = spark, config, suite
        self._rules = suite.rules if suite else ()
        self._asked = tuple(rule for rule in self._rules if not rule.compiled)
        self._made = False

    @property
    def decides(self) -> bool:
        """Whether a batch has to be judged before its commit, with a pass of its own."""
        return self._config.quarantine.max_refused is not None or any(rule.decides for rule in self._rules)

    def judge(self, batch: Batch, decided: DataFrame, rows: DataFrame, seen: Observation, receipt: Receipt) -> Verdict:
        """Decide about a batch before it is committed.

        Args:
            decided: all its records.
            rows: what would be committed, observed by `seen`; it is read several times, so that it should be kept.

        Raises:
            BatchHeld: an expectation fails that keeps back or ends, or too many records are refused; nothing of the
                batch was written but its results.
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
        why = [f"{each.rule.action}: {each}" for each in held]
        if not self._config.quarantine.allows(seen.get["refused"], seen.get["consumed"]):
            why.append(self._too_many(batch, decided, seen.get))
        if ends or (why and self.reason is None):
            self._keep(found, batch, receipt, "held")
            raise _held(receipt, why, ends=ends)
        accepted: dict[str, Any] = {}
        if why:
            who = f"{getpass.getuser()} on {socket.gethostname()}"
            accepted = {"who": who, "why": self.reason, "broken": why}
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
        refusing = (rule for rule in self._rules if rule.refuses)
        refused = [judge.refused(rule, seen["decoded"], broken.get(rule.name, 0)) for rule in refusing]
        self._keep([*found, *refused], batch, receipt, verdict.outcome if verdict else "committed")

    def _order(self, result: Result) -> int:
        return self._rules.index(result.rule)

    def _too_many(self, batch: Batch, decided: DataFrame, seen: Mapping[str, Any]) -> str:
        """How many records are refused, and for what reasons most of them."""
        from pyspark.sql import functions as F

        refused = decided.where(REFUSED)
        rows = quarantine.rows(refused, batch.refusals, self._config.name, 0, batch.now)
        most = rows.groupBy("stage", "reason").count().orderBy(F.desc("count"), "reason").take(3)
        reasons = ", ".join(f"{row['count']:,} {row['reason']} ({row['stage']})" for row in most)
        budget = self._config.quarantine.max_refused
        return (
            f"{seen['refused']:,} of {seen['consumed']:,} records are refused, and quarantine.max_refused is {budget}: "
            f"{reasons}"
        )

    def _keep(self, found: Sequence[Result], batch: Batch, receipt: Receipt, outcome: str) -> None:
        if self._suite is None:
            return
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


def _held(receipt: Receipt, why: Sequence[str], *, ends: bool) -> BatchHeld:
    offsets = ", ".join(f"{s.topic}-{s.partition} {s.start} to {s.end - 1}" for s in receipt.spans if s.end > s.start)
    let = "" if ends else ", or let it through: run --accept-held REASON"
    return BatchHeld(
        f"batch {receipt.sequence} of pipeline {receipt.pipeline!r} is kept back ({offsets}):"
        + "".join(f"\n  {each}" for each in why),
        cure=f"nothing was committed, and nothing is lost; mend the data or the suite and run again{let}",
    )
