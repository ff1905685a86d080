"""What a pipeline would do with the records that come next, from a sample of them. Writes nothing.

The sample is a run's next batch, or a part of it, and is decided by the run's own code: `MicroBatchExecution` makes the
table's columns and decides about schemas, `BatchPlan` about records, `BatchGate` about the batch. Rates come from the
records' own timestamps, sizes from the bytes of the sample's values; a forecast is as good as the sample is typical.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest import transform
from lakeingest.delta import quarantine
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.maintenance import optimize
from lakeingest.errors import UsageError, number_of
from lakeingest.gate import predicates, suggestion
from lakeingest.gate.evaluate import Result
from lakeingest.ingest import preflight
from lakeingest.ingest.batch_plan import set_aside
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.microbatch import MicroBatchExecution, decide
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import corrections, forecast
from lakeingest.operations.forecast import Forecast
from lakeingest.operations.shown import Listing, Shown
from lakeingest.record import REFUSED, OffsetRanges
from lakeingest.schema.ledger import Entry
from lakeingest.spark import frames, types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What a run would do with the sample. Its listings: refusals, corrections, held, results, schemas, columns,
    forecast, warnings.

    Attributes:
        ranges: the offsets of the sample; "spans" in JSON.
        counts: consumed, accepted, refused and dropped records.
        left_out: of the dropped ones, those that did not meet a condition of transform.where: its name → records.
        columns: the columns that the table would have, those included that only the table has: name, type, new (not
            in the table yet), and was (the type that the table has now, if that is another one; else null).
        schemas: what the table would make of schemas that it has not seen yet.
        refusals: stage, reason, count and samples, as `quarantine list` has them.
        corrections: the columns that records were refused for, each with the least type that would have taken all of
            their values: column, type (DDL), records, and possible (whether the table can become that). Of JSON's
            values only. Where only STRING takes all, a type that takes fewer comes first, if there is one.
        results: what each expectation would find.
        held: why the batch would be kept back.
        constraints: what the table itself demands of its rows: name → condition.
        rewrites: what a run would write anew because a type grows (schema.widening: rewrite): files and bytes; None
            if nothing.
        committed: whether the pipeline is caught up, so that the sample are its newest records, committed before.
        warnings: about files and partitions, with numbers.
    """

    pipeline: str
    ranges: OffsetRanges
    counts: dict[str, int]
    left_out: dict[str, int]
    columns: tuple[dict[str, Any], ...]
    schemas: tuple[Entry, ...]
    refusals: tuple[dict[str, Any], ...]
    corrections: tuple[dict[str, Any], ...]
    results: tuple[Result, ...]
    held: tuple[str, ...]
    constraints: dict[str, str]
    forecast: Forecast
    rewrites: dict[str, int] | None = None
    committed: bool = False
    warnings: tuple[str, ...] = ()
    suggested: dict[str, Any] | None = None

    @property
    def problems(self) -> int:
        """1 where something would be refused, kept back or fail, 0 else."""
        wrong = self.counts["refused"] or self.held or any(not each.success for each in self.results)
        return int(bool(wrong) or any(entry.action == "quarantine" for entry in self.schemas))

    @property
    def headline(self) -> str:
        counts = {name: f"{count:,}" for name, count in self.counts.items()}
        became = "{accepted} to the table, {refused} to quarantine, {dropped} dropped".format(**counts)
        held = "; the batch would be held" if self.held else ""
        newest = "; caught up: these are the newest, committed before" if self.committed else ""
        return f"{self.pipeline}: of {number_of(self.counts['consumed'], 'record')} sampled, {became}{held}{newest}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "refusals": self.refusals,
            "corrections": self.corrections,
            "held": [{"why": why} for why in self.held],
            "results": [each.to_json() for each in self.results],
            "schemas": self._schemas,
            "columns": self.columns,
            "forecast": [{"what": name, "value": value} for name, value in vars(self.forecast).items()],
            "warnings": [{"warning": text} for text in self.warnings],
        }

    @property
    def _schemas(self) -> list[dict[str, Any]]:
        return [{name: getattr(entry, name) for name in _OF_SCHEMAS} for entry in self.schemas]

    def to_json(self) -> dict[str, Any]:
        results = [each.to_json() for each in self.results]
        plain = {name: value for name, value in vars(self).items() if name != "ranges"}
        made = {**plain, "spans": self.ranges.to_json(), "results": results, "forecast": vars(self.forecast)}
        return {**made, "schemas": self._schemas, "problems": self.problems}


_OF_SCHEMAS = ("side", "id", "subject", "version", "verdict", "action", "changes")


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
        with ExitStack() as kept:

            def keep(frame: DataFrame) -> DataFrame:
                kept.callback(frames.release, frame)
                return frames.keep(frame)

            batch = execution.plan(strict=False)
            decided, accepted, seen = decide(batch, kafka)
            decision = gate.decide(batch, decided, keep(accepted), seen)
            if decision.aside and not decision.held:
                batch = set_aside(batch, decision.aside)
                decided, accepted, seen = decide(batch, kafka)
                keep(accepted).write.format("noop").mode("overwrite").save()
            found = seen.get
            counts = {name: found[name] for name in ("consumed", "refused", "dropped")}
            counts["accepted"] = counts["consumed"] - counts["refused"] - counts["dropped"]
            # Read once for each reason, and the diagnosis is dear.
            refused = keep(quarantine.rows(decided.where(REFUSED), batch.refusals, config.known_as, 0, batch.now))
            refusals = quarantine.reasons(refused, 2) if counts["refused"] else []
            broken = {group["reason"]: group["count"] for group in refusals if group["stage"] == predicates.STAGE}
            mended = corrections.of_refused(config, batch, refused, self.columns) if counts["refused"] else ()
            day = forecast.of_sample(config, batch, kafka, accepted)
            return Plan(
                config.name,
                self.ranges,
                counts,
                transform.left_out(batch.shape.stages, found),
                tuple(_columns(execution.writer.columns_after(accepted.schema), self.columns)),
                tuple(execution.evolution.ledger.entries[len(self.log.schemas.entries) :]),
                tuple(refusals),
                tuple(mended),
                tuple(gate.results(decision, found, broken)),
                decision.held,
                dict(batch.constraints.checks) if batch.constraints else {},
                day,
                self._rewrites(accepted.schema),
                self.committed,
                tuple(forecast.warnings(config, day)),
                suggestion.of_rows(config.name, accepted) if suggest else None,
            )

    def _rewrites(self, wanted: StructType) -> dict[str, int] | None:
        config, columns = self.execution.config, self.columns
        if config.widening != "rewrite" or columns is None or not any(types.widenings(columns, wanted)):
            return None
        files = optimize.table_files(self.execution.context.tables.main)
        return {"files": files.count, "bytes": files.bytes}


def _columns(wanted: StructType, table: StructType | None) -> Iterator[dict[str, Any]]:
    held = {f.name.lower(): f.dataType.simpleString() for f in table} if table is not None else {}
    for field in wanted:
        was, now = held.get(field.name.lower()), field.dataType.simpleString()
        yield {"name": field.name, "type": now, "new": was is None, "was": None if was in (None, now) else was}
