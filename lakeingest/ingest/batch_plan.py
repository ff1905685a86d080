"""How the records of one micro-batch are decided: accepted, refused, or dropped as declared. Columns only, no job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, reduce
from operator import add, or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakeingest import decode, transform
from lakeingest.config import PipelineConfig, TimePartition
from lakeingest.decode import Decoded, Shape
from lakeingest.decode.rowless import KIND
from lakeingest.delta import constraints, latest, partitioning, statistics
from lakeingest.delta.constraints import Constraints
from lakeingest.delta.latest import LatestRows
from lakeingest.gate import evaluate, predicates
from lakeingest.gate.evaluate import Result
from lakeingest.gate.expectations import WINDOWED
from lakeingest.gate.suite import Suite
from lakeingest.ingest import refused_bitmap, refused_records
from lakeingest.ingest.shape import table_columns
from lakeingest.record import (
    DELETE,
    DELETES,
    DROPPED,
    HEADERS,
    OPERATION,
    RAW_BYTES,
    RAW_HEADERS,
    RAW_KEY,
    RAW_VALUE,
    REFUSED,
    TIMESTAMP,
    UNDECODED,
    UPSERT,
    VALID_FROM,
    VALID_TO,
    Refusal,
    count_where,
    diagnosis,
)
from lakeingest.schema import ddl, hidden
from lakeingest.schema.transforms import TransformStep
from lakeingest.spark import types
from lakeingest.spark.frames import ResolvedFrame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ResolvedFrames:
    """What is resolved once for all batches of a plan.

    Attributes:
        table_id: the table of refused records that the rows of quarantine are made of (see `refused_records.records`).
        decided: the records as `BatchPlan.decide` gives them, with what `sums.of_accepted` adds.
        set_aside: the rows of quarantine.
    """

    table_id: str = field(default_factory=refused_records.new_id)
    decided: ResolvedFrame = field(default_factory=ResolvedFrame)
    set_aside: ResolvedFrame = field(default_factory=ResolvedFrame)


@dataclass(frozen=True)
class BatchPlan:
    """How the records of one micro-batch are decided.

    Attributes:
        now: its clock.
        shape: the columns that its records become.
        decoded, layout: what decoding and partitioning say of a record.
        columns: the table's columns, but for those that the layout computes.
        gate: why the gate refuses a record, between the two.
        metrics: what counts in passing how the gate's other expectations are met.
        by_record: whether each record is decided by itself; a rule of uniqueness compares it with the others.
        constraints: what the table itself demands of its rows, if anything.
        latest: how the latest row of a key is known; None in mode append.
        frames: what the next batch under this plan need not make anew.
    """

    now: datetime
    shape: Shape
    decoded: Decoded
    layout: partitioning.Layout
    columns: tuple[str, ...]
    gate: tuple[Refusal, ...] = ()
    metrics: tuple[Column, ...] = ()
    by_record: bool = True
    constraints: Constraints | None = None
    latest: LatestRows | None = None
    frames: ResolvedFrames = field(default_factory=ResolvedFrames, compare=False, repr=False)

    @property
    def refused_bitmaps(self) -> tuple[Column, ...]:
        """What has to be observed of the batch so that its refused records are found again by `maybe_refused`."""
        return refused_bitmap.aggregates() if self.by_record else ()

    @property
    def merges(self) -> bool:
        """Whether the table has the latest row of each key alone."""
        return self.latest is not None and not self.latest.is_log

    @cached_property
    def left_out(self) -> tuple[Column, ...]:
        """What has to be observed of the batch so that its drops have their names."""
        from pyspark.sql import functions as F

        kinds = enumerate(self.decoded.rowless)
        rowless = (count_where(F.col(KIND) == kind).alias(f"{KIND}_{at}") for at, kind in kinds)
        # What was to be dropped before meets no condition either.
        return (*transform.counts(self.shape.stages, F.col(DROPPED) & ~self.decoded.dropped), *rowless)

    def drops(self, values: Mapping[str, Any]) -> dict[str, int]:
        """What was counted: conditions of transform.where, and what holds no row, by name → dropped records.

        Args:
            values: the values of `left_out`.
        """
        rowless = {kind: values[f"{KIND}_{at}"] for at, kind in enumerate(self.decoded.rowless)}
        return {**transform.left_out(self.shape.stages, values), **{kind: n for kind, n in rowless.items() if n}}

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self._of_record + self._of_keys + self._behind

    @cached_property
    def _of_record(self) -> tuple[Refusal, ...]:
        """Those that come before the record has the table's columns."""
        stages, decoded = self.shape.stages, self.decoded.refusals
        if hidden.hides(self._steps):
            decoded = tuple(map(transform.without_values, decoded))
        return decoded + ((transform.refusal(stages),) if stages else ())

    @cached_property
    def _of_keys(self) -> tuple[Refusal, ...]:
        """Those of records that can be no latest row."""
        return self.latest.refusals if self.latest else ()

    @property
    def _steps(self) -> list[TransformStep]:
        return [stage.step for stage in self.shape.stages]

    @cached_property
    def _behind(self) -> tuple[Refusal, ...]:
        """Those that ask something of the columns."""
        return self.gate + self.layout.refusals + ((self.constraints.refusal,) if self.constraints else ())

    def decide(self, kafka: DataFrame) -> DataFrame:
        """The frame with decoded columns, and with _undecoded, _refused and _dropped (BOOLEAN, never null), and with
        _raw_bytes (BIGINT), the size of a record's key and value.

        If each record is decided by itself, also with the columns of `refused_bitmap.bits`.
        """
        from pyspark.sql import functions as F

        parsed = kafka
        for stage in self.decoded.parsed:
            parsed = parsed.withColumns(stage)
        columns = {name: column for name, column in self.decoded.columns.items() if name != HEADERS}
        dropped = self.decoded.dropped
        decided = parsed.withColumns(columns)
        if hidden.paths(self._steps, HEADERS):
            # Quarantine keeps them as they came.
            decided = decided.withColumn(RAW_HEADERS, F.col(HEADERS))
        if self.shape.stages:
            decided = transform.frame(decided, self.shape.stages, self.shape.table)
            undecoded = _any(self.decoded.refusals)
            dropped = dropped | (F.col(transform.LEFT_OUT).isNotNull() & ~undecoded)
        undecoded = _any(self._of_record) | dropped
        refused = F.col(UNDECODED) | _any(self._behind)
        if self.latest:
            keyless, deletes = _any(self._of_keys), F.col(DELETES)
            decided = decided.withColumn(DELETES, self.latest.deletes & ~undecoded & ~keyless)
            undecoded = undecoded | keyless | deletes
            refused = refused & ~deletes
            if self.latest.dated_by is not None:
                times = {VALID_FROM: self.latest.valid_from, VALID_TO: F.lit(None).cast("timestamp")}
                decided = decided.withColumns(times)
            if self.latest.marks:
                decided = decided.withColumn(OPERATION, F.when(deletes, DELETE).otherwise(UPSERT))
                # It becomes a row, so that it needs a partition; what rules ask of values is not asked of it.
                refused = refused | (deletes & _any(self.layout.refusals))
        decided = decided.withColumns({DROPPED: dropped, UNDECODED: undecoded})
        if self.constraints:
            decided = self.constraints.frame(decided, self.layout)
        refused = refused & ~dropped
        # As columns: an expression within what is observed would be interpreted, row by row.
        decided = decided.withColumns({REFUSED: refused, RAW_BYTES: _bytes()})
        return decided.withColumns(refused_bitmap.bits()) if self.by_record else decided

    def accepted(self, decided: DataFrame) -> DataFrame:
        """The rows of the table: its columns, and the partition columns that Delta does not generate; also _raw_deletes
        where they are merged.
        """
        from pyspark.sql import functions as F

        rows = decided.where(f"NOT {REFUSED} AND NOT {DROPPED}")
        computed = {c.name: c.value for c in self.layout.columns if c.value is not None}
        if self.latest and self.merges:
            # What is marked takes no row away.
            computed[DELETES] = F.lit(False) if self.latest.marks else F.col(DELETES)
        columns = (column.alias(name) for name, column in computed.items())
        return rows.select(*map(ddl.quoted, self.columns), *columns)

    def rows(self, accepted: DataFrame) -> DataFrame:
        """Those of accepted records that do not delete a row."""
        if self.latest is None:
            return accepted
        stays = f"{OPERATION} <> '{DELETE}'" if self.latest.marks else f"NOT {DELETES}"
        return accepted.where(stays).drop(DELETES)


def _any(refusals: Sequence[Refusal]) -> Column:
    from pyspark.sql import functions as F

    return reduce(or_, (refusal.when for refusal in refusals), F.lit(False))


def _bytes() -> Column:
    """BIGINT: of a record's key and value."""
    from pyspark.sql import functions as F

    return reduce(add, (F.coalesce(F.octet_length(name), F.lit(0)).cast("bigint") for name in (RAW_KEY, RAW_VALUE)))


def layout(config: PipelineConfig, shape: Shape, suite: Suite | None, now: datetime) -> partitioning.Layout:
    """Where records of this shape go at that moment, if they can be laid out, and asked what the suite asks.

    Raises:
        PipelineFileError: no table can be partitioned as the file says, or have the latest row of each key; or the
            suite asks what the columns cannot meet.
    """
    result = partitioning.layout(config.partition, shape.table, now, config.table.path or "")
    _latest(config, shape)
    if suite is not None:
        suite.check(types.ddl_columns(shape.table))
    return result


def _latest(config: PipelineConfig, shape: Shape) -> LatestRows | None:
    if not config.table.keyed:
        return None
    return latest.of(config.table, table_columns(config, shape), statistics.in_the_clear(config.steps))


def plan_batch(
    config: PipelineConfig,
    shape: Shape,
    suite: Suite | None,
    last: BatchPlan | None = None,
    *,
    properties: Mapping[str, str] = MappingProxyType({}),
    table: StructType | None = None,
) -> BatchPlan:
    """The batch that begins now, for records that become columns of this shape and have to meet the suite.

    Args:
        properties, table: the table's properties, and its columns; None while there is no table.
        last: the batch before it, under the same suite. Where the shape is still the same, its Columns are taken: each
            of a thousand is a call into the JVM, and all of them take a second.

    Raises:
        PipelineFileError: see `layout`.
    """
    now = datetime.now(UTC)
    if last is not None and last.shape == shape:
        if not any(isinstance(part, TimePartition) and part.extract == "wallclock" for part in config.partition):
            return replace(last, now=now)
        path = config.table.path or ""
        return replace(
            last, now=now, layout=partitioning.layout(config.partition, shape.table, now, path), frames=ResolvedFrames()
        )
    partition_layout, columns = layout(config, shape, suite, now), table_columns(config, shape)
    demands = constraints.of(properties, table, columns) if table is not None else None
    decoded, names = decode.decode(config, shape), tuple(columns.fieldNames())
    batch = BatchPlan(now, shape, decoded, partition_layout, names, constraints=demands, latest=_latest(config, shape))
    if suite is None:
        return batch
    refusing = suite.refusing
    gate = (predicates.refusal(refusing, columns),) if refusing else ()
    by_record = not any(rule.type in WINDOWED for rule in refusing)
    return replace(batch, gate=gate, metrics=tuple(evaluate.metrics(suite.watched, columns)), by_record=by_record)


def set_aside(batch: BatchPlan, why: Sequence[Result]) -> BatchPlan:
    """The batch with all its records refused, because these expectations failed for it as a whole."""
    from pyspark.sql import functions as F

    names = [result.rule.name for result in why]
    refusal = Refusal(
        predicates.STAGE,
        F.lit(True),
        lambda: diagnosis(predicates.BATCH, F.lit("; ".join(map(str, why)))),
        lambda: F.array(*map(F.lit, names)),
    )
    return replace(batch, gate=(*batch.gate, refusal), frames=ResolvedFrames())


def observed(decided: DataFrame, observation: Observation, *metrics: Column) -> DataFrame:
    """The same rows, counted.

    What is observed is also a barrier: without it Spark pushes the filter that follows below the parse, and parses once
    for each use of a column (375 times was seen).
    """
    from pyspark.sql import functions as F

    return decided.observe(
        observation,
        F.count(F.lit(1)).alias("consumed"),
        count_where(F.col(REFUSED)).alias("refused"),
        count_where(F.col(DROPPED)).alias("dropped"),
        F.sum(RAW_BYTES).alias("bytes"),
        F.unix_millis(F.max(TIMESTAMP)).alias("newest"),
        *metrics,
    )
