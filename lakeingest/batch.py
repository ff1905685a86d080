"""How the records of one micro-batch are decided: accepted, refused, or dropped as declared. Columns only, no job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakeingest import decode, fit, partition, table
from lakeingest.config import Pipeline
from lakeingest.decode import Decoded, Shape
from lakeingest.record import HEADERS, Refusal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

REFUSED = "_refused"
DROPPED = "_dropped"


@dataclass(frozen=True)
class Batch:
    """How the records of one micro-batch are decided: its clock, the decoding, the layout, the table's columns."""

    now: datetime
    decoded: Decoded
    layout: partition.Layout
    columns: tuple[str, ...]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.decoded.refusals + self.layout.refusals

    def decide(self, kafka: DataFrame) -> DataFrame:
        """The frame with decoded columns, _refused and _dropped (BOOLEAN, never null)."""
        from pyspark.sql import functions as F

        parsed = kafka
        for stage in self.decoded.parsed:
            parsed = parsed.withColumns(stage)
        columns = {name: column for name, column in self.decoded.columns.items() if name != HEADERS}
        refused: Column = F.lit(False)
        for refusal in self.refusals:
            refused = refused | refusal.when
        return parsed.withColumns(columns).withColumns(
            {DROPPED: self.decoded.dropped, REFUSED: refused & ~self.decoded.dropped}
        )

    def accepted(self, decided: DataFrame) -> DataFrame:
        """The rows of the table: its columns, and the partition columns that Delta does not generate."""
        taken = decided.where(f"NOT {REFUSED} AND NOT {DROPPED}")
        computed = {c.name: c.value for c in self.layout.columns if c.value is not None}
        named = map(fit.quoted, self.columns)
        return taken.select(*named, *(column.alias(name) for name, column in computed.items()))


def begin(pipeline: Pipeline, shape: Shape) -> Batch:
    """The batch that begins now, for records that become columns of this shape.

    Raises:
        PipelineFileError: no table can be partitioned as the file says.
    """
    now = datetime.now(UTC)
    layout = partition.layout(pipeline.partition, shape.value, now)
    return Batch(now, decode.decode(pipeline, shape), layout, tuple(table.columns(pipeline, shape).fieldNames()))


def observed(decided: DataFrame, seen: Observation) -> DataFrame:
    """The same rows, counted.

    What is observed is also a barrier: without it Spark pushes the filter that follows below the parse, and parses once
    for each use of a column (375 times was seen).
    """
    from pyspark.sql import functions as F

    return decided.observe(
        seen,
        F.count(F.lit(1)).alias("consumed"),
        F.count_if(F.col(REFUSED)).alias("refused"),
        F.count_if(F.col(DROPPED)).alias("dropped"),
    )
