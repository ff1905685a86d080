"""Holds each batch of a run against the gate's suite and the failure budget, and keeps the results.

What can keep a batch back is asked before its commit; all else is counted in the pass that commits it. Results are
written while the next batch runs, and those of quick batches together: each commit costs as much as a batch's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.delta import kinds, quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, somebody
from lakeingest.errors import BatchHeld
from lakeingest.gate import evaluate, results
from lakeingest.gate.evaluate import Result
from lakeingest.gate.suite import Suite
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.record import REFUSED
from lakeingest.spark import types
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


_TOGETHER_S = 10.0
"""Results wait this long for those of the next batches."""


@dataclass(frozen=True)
class GateDecision:
    """What was decided about a batch before its commit.

    Attributes:
        results: what the expectations found that were asked of the batch.
        many: that too many records are refused, and for what; empty if they are not.
        accepted: who let it through although it would have been held, and why; empty if it was not.
    """

    results: tuple[Result, ...] = ()
    many: str = ""
    accepted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held_by(self) -> tuple[str, ...]:
        """Why it is kept back; empty if it is not."""
        return (*(f"{each.rule.action}: {each}" for each in self.results if each.holds), *self._many)

    @property
    def broken(self) -> tuple[str, ...]:
        """The same without values of records: the names of expectations."""
        return (*(each.rule.name for each in self.results if each.holds), *self._many)

    @property
    def _many(self) -> tuple[str, ...]:
        return (self.many,) if self.many else ()

    @property
    def aside(self) -> tuple[Result, ...]:
        """The expectations for which the whole batch goes to quarantine."""
        return tuple(each for each in self.results if not each.success and each.rule.action == "quarantine")

    @property
    def ends(self) -> bool:
        """Whether the run ends, whatever somebody accepts."""
        return any(each.holds and each.rule.action == "fail" for each in self.results)

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
        observation: Observation,
        receipt: Receipt,
        *,
        accept_held: str | None,
    ) -> GateDecision:
        """Decide about a batch before it is committed.

        Args:
            decided: all its records.
            rows: what would be committed, observed by `observation`. It is read several times, and so to be kept.
            accept_held: why the batch is let through if it would be held; None if it is not.

        Raises:
            BatchHeld: an expectation fails that keeps back or ends, or too many records are refused; nothing of the
                batch was written but its results.
        """
        decision = self.decide(batch, decided, rows, observation)
        if decision.ends or (decision.held_by and accept_held is None):
            self._keep(decision.results, batch, receipt, "held")
            self.wait(decided.sparkSession)
            raise _batch_held(receipt, decision)
        accepted = {"who": somebody(), "why": accept_held, "broken": [*decision.held_by]} if decision.held_by else {}
        return replace(decision, accepted=accepted)

    def decide(self, batch: BatchPlan, decided: DataFrame, rows: DataFrame, observation: Observation) -> GateDecision:
        """What is decided about a batch, of which nothing is written; for the arguments see `check`."""
        # Not count(): its shuffle would have a task that is done again counted twice in what is observed.
        rows.write.format("noop").mode("overwrite").save()
        results = evaluate.of_batch(self._suite, rows, observation.get) if self._suite else []
        many = _too_many(self._config, observation.get)
        return GateDecision(tuple(results), f"{many}: {self._most(batch, decided)}" if many else "")

    def record(
        self,
        spark: SparkSession,
        decision: GateDecision | None,
        batch: BatchPlan,
        receipt: Receipt,
        *,
        metrics: Mapping[str, Any],
        broken: Mapping[str, int],
    ) -> Sequence[Result]:
        """Keep the results of a batch that was committed, if there is a suite. The next batch need not wait for them.

        Args:
            decision: what was decided before; None where nothing had to be.
            metrics: what was observed of the batch.
            broken: the name of an expectation → the records that were set aside for it.

        Returns:
            What the expectations found, in the order of the suite's file.

        Raises:
            StorageUnreachable: the results of batches before could not be written.
        """
        if self._suite is None:
            return ()
        results = self.results(decision, metrics, broken)
        self._keep(results, batch, receipt, decision.outcome if decision else "committed")
        if time.monotonic() - self._written >= _TOGETHER_S:
            self.flush(spark)
        return results

    def results(
        self, decision: GateDecision | None, metrics: Mapping[str, Any], broken: Mapping[str, int]
    ) -> Sequence[Result]:
        """What the expectations found in a batch, in the order of the suite's file; for the arguments see `record`."""
        if self._suite is None:
            return ()
        decided_results = decision.results if decision else evaluate.counted(self._suite, metrics)
        return evaluate.in_order(
            self._suite, [*decided_results, *evaluate.refused(self._suite, metrics["decoded"], broken)]
        )

    def _most(self, batch: BatchPlan, decided: DataFrame) -> str:
        """For what reasons most of the refused records are refused."""
        from pyspark.sql import functions as F

        refused = decided.where(REFUSED)
        rows = quarantine.rows(refused, batch.refusals, self._config.known_as, 0, batch.now)
        most = rows.groupBy("stage", "reason").count().orderBy(F.desc("count"), "reason").take(3)
        return ", ".join(f"{row['count']:,} {row['reason']} ({row['stage']})" for row in most)

    def _keep(self, outcomes: Sequence[Result], batch: BatchPlan, receipt: Receipt, outcome: str) -> None:
        if self._suite is None:
            return
        self._rows += results.rows(
            self._suite,
            evaluate.in_order(self._suite, outcomes),
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
            columns = table.schema()
            if columns is None:
                columns = table.create(types.struct(results.COLUMNS), properties=kinds.properties("gate.results"))
            kinds.check(table, "gate.results", columns.names)
            frame = spark.createDataFrame(rows, results.COLUMNS).coalesce(1)
            table.save(frame.write.format("delta").mode("append"))

    def wait(self, spark: SparkSession) -> None:
        """Until the results of all batches are written.

        Raises:
            StorageUnreachable: they could not be.
        """
        self.flush(spark)
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def _too_many(config: PipelineConfig, metrics: Mapping[str, Any]) -> str | None:
    """That a batch exceeds the failure budget; None if it does not."""
    refused, consumed, budget = metrics["refused"], metrics["consumed"], config.quarantine
    if budget.allows(refused, consumed):
        return None
    return f"{refused:,} of {consumed:,} records are refused, and quarantine.max_refused is {budget.max_refused}"


def _batch_held(receipt: Receipt, decision: GateDecision) -> BatchHeld:
    offsets = ", ".join(f"{s.topic}-{s.partition} {s.start} to {s.end - 1}" for s in receipt.ranges if s.end > s.start)
    command = "backfill" if receipt.job.name == "backfill" else "run"
    let = "" if decision.ends else f", or let it through: {command} --accept-held REASON"
    return BatchHeld(
        f"batch {receipt.sequence} of pipeline {receipt.pipeline!r} is kept back ({offsets}):"
        + "".join(f"\n  {each}" for each in decision.held_by),
        cure=f"nothing was committed, and nothing is lost; mend the data or the suite and run again{let}",
        found=decision.results,
        broken=decision.broken,
    )
