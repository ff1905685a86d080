"""What a pipeline would do with the records that come next, from a sample of them. Writes nothing.

The sample is a run's next batch, or a part of it, and is decided by the run's own code: `MicroBatchExecution` makes the
table's columns and decides about schemas, `BatchPlan` about records, `BatchGate` about the batch. Rates come from the
records' own timestamps, sizes from the bytes of the sample's values; a forecast is as good as the sample is typical.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeingest.delta import quarantine
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.maintenance.inventory import table_files
from lakeingest.errors import UsageError
from lakeingest.gate import predicates, suggestion
from lakeingest.ingest import preflight
from lakeingest.ingest.batch_plan import BatchPlan, set_aside
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.decided import decide
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import corrections, epoch_units, forecast, merge_forecast, unlogged_values
from lakeingest.operations.merge_forecast import MergeForecast
from lakeingest.operations.results.plan import Plan
from lakeingest.record import REFUSED, OffsetRanges
from lakeingest.spark import frames, types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def plan(context: RunContext, topics: Topics, sample: int, *, suggest: bool) -> Plan:
    """See `Pipeline.plan`."""
    config, tables = context.config, context.tables
    log = CommitLog(tables.main.identifier, config.known_as)
    columns = tables.main.schema()
    if columns is None:
        preflight.check_exists(tables)
    else:
        log, refused = tables.commit_logs()
        preflight.check(config, log, refused, topics, Accept())
        preflight.check_records(tables, BatchReader(context), log, topics)
        preflight.check_adopted(tables, log)
    starts = offsets.starts(config.source, topics, log.frontier)
    committed = starts == topics.last
    sample = min(sample, config.trigger.max_records)
    if committed:
        share = max(1, sample // max(len(starts), 1))
        starts = {tp: max(topics.first[tp], end - share) for tp, end in topics.last.items()}
    ranges = offsets.next_ranges(starts, topics.last, sample)
    if not ranges.offsets:
        raise UsageError(
            f"{', '.join(config.source.topics)} holds no record, so that nothing can be told",
            cure="let some records come, and plan again",
        )
    execution = MicroBatchExecution(context, columns, log)
    planned = _Sample(execution, ranges, log, columns, committed=committed)
    return execution.reader.readable(lambda: planned.plan(suggest=suggest))


@dataclass(frozen=True)
class _Sample:
    """The next batch of a run, or as much of it as is looked at.

    Attributes:
        ranges: its offsets.
        columns: the table's; None while there is no table.
        committed: whether it was committed before.
    """

    execution: MicroBatchExecution
    ranges: OffsetRanges
    log: CommitLog
    columns: StructType | None
    committed: bool

    def plan(self, *, suggest: bool) -> Plan:
        """Decide about the sample as a run does, step by step. It is read several times, and so kept.

        Args:
            suggest: whether a suite is to be suggested that the accepted records meet.
        """
        execution, sequence = self.execution, self.log.last_sequence + 1
        if execution.evolution.settled:
            execution.ensure_table(dry_run=True)
        execution.discover_sample(self.ranges, sequence)
        kafka = frames.keep(execution.reader.frame(self.ranges))
        try:
            with execution.reader.failures():
                kafka.count()
            execution.discover_schemas(kafka, sequence)
            if execution.writer.columns is None:
                execution.ensure_table(dry_run=True)
            with execution.reader.failures():
                return self._decided(kafka, suggest=suggest)
        finally:
            frames.release(kafka)

    def _decided(self, kafka: DataFrame, *, suggest: bool) -> Plan:
        execution, config, gate = self.execution, self.execution.config, self.execution.context.gate
        with ExitStack() as stack:
            keep = partial(_keep_within, stack)
            decided = decide(execution.plan(strict=False), kafka)
            decision = gate.decide(
                decided.batch, decided.records, decided.batch.rows(keep(decided.accepted)), decided.observation
            )
            if decision.aside and not decision.held_by:
                decided = decide(set_aside(decided.batch, decision.aside), kafka)
                keep(decided.accepted).write.format("noop").mode("overwrite").save()
            batch, metrics = decided.batch, decided.metrics
            counts = {name: metrics[name] for name in ("consumed", "refused", "dropped")}
            counts["accepted"] = counts["consumed"] - counts["refused"] - counts["dropped"]
            # Read once for each reason, and the diagnosis is dear.
            rows = quarantine.rows(decided.records.where(REFUSED), batch.refusals, config.known_as, 0, batch.now)
            refused = keep(rows)
            refusals = quarantine.reasons(refused, 2) if counts["refused"] else []
            broken = {group["reason"]: group["count"] for group in refusals if group["stage"] == predicates.STAGE}
            mended = corrections.of_refused(config, batch, refused, self.columns) if counts["refused"] else ()
            day, merge = forecast.of_sample(config, batch, kafka, decided.rows), self._merge(batch, decided.accepted)
            return Plan(
                config.name,
                self.ranges,
                counts,
                batch.drops(metrics),
                tuple(_columns(execution.writer.columns_after(decided.rows.schema), self.columns)),
                tuple(execution.evolution.ledger.entries[len(self.log.schemas.entries) :]),
                tuple(refusals),
                tuple(mended),
                tuple(gate.results(decision, metrics, broken)),
                decision.held_by,
                dict(batch.constraints.checks) if batch.constraints else {},
                day,
                self._rewrites(decided.rows.schema),
                merge,
                self.committed,
                (*self._warnings(batch, kafka, decided.rows), *forecast.warnings(config, day, merge)),
                suggestion.of_rows(config.name, decided.rows) if suggest else None,
            )

    def _merge(self, batch: BatchPlan, accepted: DataFrame) -> MergeForecast | None:
        config = self.execution.config
        if batch.latest is None or not config.table.alters or self.columns is None:
            return None
        return merge_forecast.of_sample(config, batch.latest, accepted)

    def _warnings(self, batch: BatchPlan, kafka: DataFrame, rows: DataFrame) -> Iterator[str]:
        config = self.execution.config
        yield from epoch_units.warnings(config, kafka)
        yield from unlogged_values.warnings(config, batch.shape, kafka, rows)

    def _rewrites(self, target: StructType) -> dict[str, int] | None:
        config, columns = self.execution.config, self.columns
        if config.widening != "rewrite" or columns is None or not any(types.widenings(columns, target)):
            return None
        files = table_files(self.execution.context.tables.main)
        return {"files": files.count, "bytes": files.bytes}


def _keep_within(stack: ExitStack, frame: DataFrame) -> DataFrame:
    """The frame, kept until the stack is left."""
    stack.callback(frames.release, frame)
    return frames.keep(frame)


def _columns(target: StructType, table: StructType | None) -> Iterator[dict[str, Any]]:
    types_by_name = {f.name.lower(): f.dataType.simpleString() for f in table} if table is not None else {}
    for field in target:
        was, now = types_by_name.get(field.name.lower()), field.dataType.simpleString()
        yield {"name": field.name, "type": now, "new": was is None, "was": None if was in (None, now) else was}
