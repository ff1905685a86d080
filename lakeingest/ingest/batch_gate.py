"""Holds each batch of a run against the gate's suite and the failure budget, and keeps the results.

What can keep a batch back is asked before its commit; all else is counted in the pass that commits it. Results are
written while the next batch runs, and those of quick batches together: each commit costs as much as a batch's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.delta import quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, somebody
from lakeingest.delta.table import PROPERTIES
from lakeingest.errors import BatchHeld
from lakeingest.gate import evaluate, results
from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Suite
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.record import REFUSED
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


_TOGETHER_S = 10.0
"""Results wait this long for those of the next batches."""


@dataclass(frozen=True)
class GateDecision:
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


class BatchGate:
    """The gate of one run."""

    def __init__(self, config: PipelineConfig, suite: Suite | None) -> None:
        self._config, self._suite = config, suite
        self._pool = ThreadPoolExecutor(1, "lakeingest-results")
        self._rows: list[tuple[Any, ...]] = []
        self._writing: Future[None] | None = None
        self._written = time.monotonic()

    @property
    def decides(self) -> bool:
        """Whether a batch has to be checked before its commit, with a pass of its own."""
        rules = self._suite.rules if self._suite else ()
        return self._config.quarantine.max_refused is not None or any(rule.decides for rule in rules)

    def check(
        self,
        batch: BatchPlan,
        decided: DataFrame,
        rows: DataFrame,
        seen: Observation,
        receipt: Receipt,
        *,
        accept_held: str | None,
    ) -> GateDecision:
        """Decide about a batch before it is committed.

        Args:
            decided: all its records.
            rows: what would be committed, observed by `seen`; it is read several times, so that it should be kept.
            accept_held: why the batch is let through if it would be held; None if it is not.

        Raises:
            BatchHeld: an expectation fails that keeps back or ends, or too many records are refused; nothing of the
                batch was written but its results.
        """
        # Not count(): its shuffle would have a task that is done again counted twice in what is observed.
        rows.write.format("noop").mode("overwrite").save()
        found = evaluate.of_batch(self._suite, rows, seen.get) if self._suite else []
        ends = any(each.holds and each.rule.action == "fail" for each in found)
        why, broken = held(found), [each.rule.name for each in found if each.holds]
        if many := too_many(self._config, seen.get):
            why.append(f"{many}: {self._most(batch, decided)}")
            broken.append(why[-1])
        if ends or (why and accept_held is None):
            self._keep(found, batch, receipt, "held")
            self.wait(decided.sparkSession)
            raise _held(receipt, why, found, broken, ends=ends)
        accepted = {"who": somebody(), "why": accept_held, "broken": why} if why else {}
        aside = tuple(each for each in found if not each.success and each.rule.action == "quarantine")
        return GateDecision(tuple(found), aside, accepted)

    def record(
        self,
        spark: SparkSession,
        decision: GateDecision | None,
        batch: BatchPlan,
        receipt: Receipt,
        *,
        seen: Mapping[str, Any],
        broken: Mapping[str, int],
    ) -> Sequence[Result]:
        """Keep the results of a batch that was committed, if there is a suite. The next batch need not wait for them.

        Args:
            decision: what was decided before; None where nothing had to be.
            seen: what was observed of the batch.
            broken: the name of an expectation → the records that were set aside for it.

        Returns:
            What the expectations found, in the order of the suite's file.

        Raises:
            StorageUnreachable: the results of batches before could not be written.
        """
        if self._suite is None:
            return ()
        found = decision.found if decision else evaluate.counted(self._suite, seen)
        refused = evaluate.refused(self._suite, seen["decoded"], broken)
        told = evaluate.in_order(self._suite, [*found, *refused])
        self._keep(told, batch, receipt, decision.outcome if decision else "committed")
        if time.monotonic() - self._written >= _TOGETHER_S:
            self.flush(spark)
        return told

    def _most(self, batch: BatchPlan, decided: DataFrame) -> str:
        """For what reasons most of the refused records are refused."""
        from pyspark.sql import functions as F

        refused = decided.where(REFUSED)
        rows = quarantine.rows(refused, batch.refusals, self._config.known_as, 0, batch.now)
        most = rows.groupBy("stage", "reason").count().orderBy(F.desc("count"), "reason").take(3)
        return ", ".join(f"{row['count']:,} {row['reason']} ({row['stage']})" for row in most)

    def _keep(self, found: Sequence[Result], batch: BatchPlan, receipt: Receipt, outcome: str) -> None:
        if self._suite is None:
            return
        self._rows += results.rows(
            self._suite,
            evaluate.in_order(self._suite, found),
            pipeline=receipt.pipeline,
            sequence=receipt.sequence,
            ranges=receipt.ranges,
            now=batch.now,
            outcome=outcome,
        )

    def flush(self, spark: SparkSession) -> None:
        """Begin to write the results that are kept; what was begun before is waited for.

        Raises:
            StorageUnreachable: that could not be written.
        """
        if not self._rows:
            return
        before, self._writing = self._writing, None
        if before is not None:
            before.result()
        rows, self._rows, self._written = self._rows, [], time.monotonic()
        self._writing = self._pool.submit(self._write, spark, rows)

    def _write(self, spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> None:
        table = PipelineTables(spark, self._config).results
        with storage_failures(table.identifier):
            frame = spark.createDataFrame(rows, results.COLUMNS).coalesce(1)
            # The first write makes the table.
            table.save(frame.write.format("delta").mode("append").options(**PROPERTIES))

    def wait(self, spark: SparkSession) -> None:
        """Until the results of all batches are written.

        Raises:
            StorageUnreachable: they could not be.
        """
        self.flush(spark)
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def held(found: Sequence[Result]) -> list[str]:
    """Why a batch is kept back in which this was found; empty if it is not."""
    return [f"{each.rule.action}: {each}" for each in found if each.holds]


def too_many(config: PipelineConfig, seen: Mapping[str, Any]) -> str | None:
    """That a batch exceeds the failure budget; None if it does not."""
    refused, consumed, budget = seen["refused"], seen["consumed"], config.quarantine
    if budget.allows(refused, consumed):
        return None
    return f"{refused:,} of {consumed:,} records are refused, and quarantine.max_refused is {budget.max_refused}"


def _held(
    receipt: Receipt, why: Sequence[str], found: Sequence[Result], broken: Sequence[str], *, ends: bool
) -> BatchHeld:
    offsets = ", ".join(f"{s.topic}-{s.partition} {s.start} to {s.end - 1}" for s in receipt.ranges if s.end > s.start)
    command = "run" if receipt.remaining is None else "backfill"
    let = "" if ends else f", or let it through: {command} --accept-held REASON"
    return BatchHeld(
        f"batch {receipt.sequence} of pipeline {receipt.pipeline!r} is kept back ({offsets}):"
        + "".join(f"\n  {each}" for each in why),
        cure=f"nothing was committed, and nothing is lost; mend the data or the suite and run again{let}",
        found=found,
        broken=broken,
    )
