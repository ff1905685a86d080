"""Until when a table is complete: a small Delta table beside it, with a row for each period that is.

pipeline STRING                                   whose records it is about
period_start TIMESTAMP, period_end TIMESTAMP      the period: its first instant, and the first one behind it
complete_since TIMESTAMP                          when that was found
records BIGINT                                    the rows that the main table had of the period then; more are late
sequence BIGINT, version BIGINT                   the pipeline's last batch then, and the main table's version

Behind these stand the partition columns of the time, as the main table has them, to join by. Rows are added alone, each
period once. Where a RESTORE of the main table took a batch back, the next run takes away the rows that name it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config.periods import Periods
from lakeingest.delta import kinds
from lakeingest.delta.table import Table
from lakeingest.errors import TableMismatch
from lakeingest.schema import ddl
from lakeingest.spark import types
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = (
    "pipeline STRING, period_start TIMESTAMP, period_end TIMESTAMP, complete_since TIMESTAMP, records BIGINT, "
    "sequence BIGINT, version BIGINT"
)
"""The columns of the table but for the partition columns, as DDL."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED = 1000
"""Periods that a condition names; of more, all partitions of the main table are looked at."""


@dataclass(frozen=True)
class CompletenessTable:
    """The table of one pipeline's periods; several pipelines may have one.

    Attributes:
        late: how long after a period's end its records may still reach Kafka.

    Raises:
        StorageUnreachable: from every method.
    """

    table: Table
    periods: Periods
    pipeline: str
    late: timedelta

    def due(self, start: datetime) -> datetime:
        """When all records of a period are in Kafka, if none is later than allowed."""
        return self.periods.end(start) + self.late

    @property
    def columns(self) -> StructType:
        """`COLUMNS`, and the partition columns behind them."""
        kind = "DATE" if self.periods.is_date else "STRING"
        return types.struct(", ".join((COLUMNS, *(f"{ddl.quoted(name)} {kind}" for name in self.periods.columns))))

    def newest(self) -> tuple[datetime | None, int]:
        """The newest period that is complete, and the number of the newest batch that said so; None and 0 of none.

        Raises:
            TableMismatch: no row can be written: it is another table, or another pipeline gave a partition column
                another type.
        """
        from pyspark.sql import functions as F

        columns = self.table.schema()
        if columns is None:
            return None, 0
        self._check(columns)
        with storage_failures(self.table.identifier):
            rows = self.table.read().where(F.col("pipeline") == self.pipeline)
            ((start, sequence),) = rows.agg(F.unix_micros(F.max("period_start")), F.max("sequence")).collect()
        return (None if start is None else self.periods.of(_at(start))), sequence or 0

    def _check(self, columns: StructType) -> None:
        kinds.check(self.table, "completeness", columns.names)
        types_of = {column.name.lower(): column.dataType for column in columns}
        for column in self.columns:
            if (kind := types_of.get(column.name.lower(), column.dataType)) != column.dataType:
                raise TableMismatch(
                    f"{self.table} has {column.name} as {kind.simpleString().upper()}, and the partitions of pipeline "
                    f"{self.pipeline!r} have it as {column.dataType.simpleString().upper()}",
                    cure="name another table in contract.completeness.table",
                )

    def take_back(self, sequence: int, *, alone: bool = False) -> None:
        """Take away what later batches said than this one; or, alone, what this one said."""
        which = "=" if alone else ">"
        with storage_failures(self.table.identifier):
            self.table.delete(f"pipeline = {ddl.text(self.pipeline)} AND sequence {which} {sequence}")

    def counts(self, main: Table, version: int | None, only: Collection[datetime] = ()) -> dict[datetime, int]:
        """See `period_counts`."""
        return period_counts(main, self.periods, version, only)

    def declare(self, starts: Mapping[datetime, int], *, sequence: int, version: int | None, now: datetime) -> None:
        """Say of periods that they are complete; of one that is said already nothing changes.

        Args:
            starts: each period, and its rows.
        """
        if not starts:
            return
        columns = self.columns
        rows = [
            (
                self.pipeline,
                self.periods.begin(start),
                self.periods.end(start),
                now,
                count,
                sequence,
                version,
                *([start.date()] if self.periods.is_date else self.periods.values(start)),
            )
            for start, count in starts.items()
        ]
        existing = self.table.schema()
        if existing is None:
            existing = self.table.create(columns, properties=kinds.properties("completeness"))
            kinds.check(self.table, "completeness", existing.names)
        else:
            self.table.add_columns(existing, columns)
        with storage_failures(self.table.identifier):
            frame = self.table.spark.createDataFrame(rows, columns).coalesce(1)
            self.table.insert(frame, ("pipeline", "period_start"))


def period_counts(
    main: Table, periods: Periods, version: int | None = None, only: Collection[datetime] = (), where: str = "true"
) -> dict[datetime, int]:
    """How many rows the main table has of each period that has any; partitions of no period are left out.

    No column is read, but for `where`: the files of the partitions say how many rows they have.

    Args:
        only: some periods; all by default.
        where: what holds of the rows, in Spark SQL.

    Raises:
        StorageUnreachable: the table cannot be read.
    """
    from pyspark.sql import functions as F

    values = [F.col(f"`{name}`").cast("string") for name in periods.columns]
    with storage_failures(main.identifier):
        rows = main.read(version).where(where)
        if only and len(only) <= _NAMED:
            keys = ["\0".join(periods.values(start)) for start in only]
            rows = rows.where(F.concat_ws("\0", *values).isin(keys))
        counted = rows.groupBy(*values).count().collect()
    parsed = {periods.parse(row[:-1]): row[-1] for row in counted}
    return {start: count for start, count in parsed.items() if start is not None}


def _at(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
