"""Which records are no rows any more because somebody took them out: a small Delta table beside the main one.

pipeline STRING                                    whose records they were
_topic STRING, _partition INT, low, high BIGINT    their offsets: low ≤ offset < high
reason STRING                                      forgotten, expired or deleted
place STRING                                       table or quarantine: which of both had them
version BIGINT                                     of forgotten and expired: that table's version before they were taken
                                                   out; of deleted: the version that is the DELETE
who STRING, why STRING, at TIMESTAMP               who had them taken out, or accepted that they were, and why

It has coordinates, and no value of a record. `audit` counts by it, and a job that reads these offsets again leaves the
records out. Rows are written before the records are taken out, so that a kill between the two leaves nothing open: who
is called again takes out what is listed. They outlive the clean-up of logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyspark.sql import functions as F

from lakeingest.delta import coordinates, kinds
from lakeingest.delta.reader import spark as by_spark
from lakeingest.delta.receipt import of_removal, somebody
from lakeingest.delta.table import Table
from lakeingest.errors import FilesLost, UsageError
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC, OffsetRange, OffsetRanges, in_order
from lakeingest.spark import frames, session, types
from lakeingest.spark.failures import storage_failures
from lakeingest.spark.settings import CODEC, USER_METADATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Reason: TypeAlias = Literal["forgotten", "expired", "deleted"]
Place: TypeAlias = Literal["table", "quarantine"]
COLUMNS = (
    "pipeline STRING, _topic STRING, _partition INT, low BIGINT, high BIGINT, reason STRING, place STRING, "
    "version BIGINT, who STRING, why STRING, at TIMESTAMP"
)
"""The columns of the table, as DDL."""
_SPAN = ("topic", "partition", "start", "end")
_PIECE = 100_000
"""Offsets that are spread at once."""


@dataclass(frozen=True)
class Removals:
    """The records of one pipeline that were taken out; several pipelines may have one table.

    Raises:
        StorageUnreachable, UnsafeStore: from every method, where the object store fails or refuses.
    """

    table: Table
    pipeline: str

    @property
    def exists(self) -> bool:
        """Whether there is such a table."""
        return self.table.schema() is not None

    def rows(self) -> DataFrame:
        """The pipeline's own; the table has to be there."""
        return self.table.read().where(F.col("pipeline") == self.pipeline)

    def add(self, places: DataFrame, reason: Reason, place: Place, version: int, why: str) -> int:
        """List records; how many they are. What is listed already may be listed again.

        Args:
            places: their coordinates.
        """
        runs = frames.keep(by_spark.runs(places.select(*COORDINATES)))
        try:
            with storage_failures(self.table.identifier):
                count = runs.agg(F.coalesce(F.sum(F.expr("high - low")), F.lit(0))).collect()[0][0]
                if not count:
                    return 0
                literals = {"pipeline": self.pipeline, "reason": reason, "place": place, "version": version}
                literals |= {"who": somebody(), "why": why}
                values = {name: F.lit(value) for name, value in literals.items()} | {"at": F.current_timestamp()}
                self.append(runs.withColumns(values))
            return int(count)
        finally:
            frames.release(runs)

    def append(self, rows: DataFrame) -> None:
        """Add rows to the list, which is made if it is missing."""
        columns, existing = types.struct(COLUMNS), self.table.schema()
        if existing is None:
            existing = self.table.create(columns, properties=kinds.properties("removals"))
        kinds.check(self.table, "removals", existing.names)
        typed = rows.select(*(F.col(each.name).cast(each.dataType) for each in columns))
        with storage_failures(self.table.identifier):
            self.table.append(typed.coalesce(1), {"optimizeWrite": "false"})

    def coordinates(self, ranges: OffsetRanges) -> DataFrame | None:
        """The coordinates within `ranges` that are listed: _topic STRING, _partition INT, _offset BIGINT; None where
        there is no such table.
        """
        if not self.exists:
            return None
        return self.spread(self._within(ranges))

    def spread(self, rows: DataFrame) -> DataFrame:
        """The coordinates that rows of the list name: piece by piece, as one row may name billions."""
        begins = F.explode(F.expr(f"sequence(low, high - 1, {_PIECE})"))
        pieces = rows.select(TOPIC, PARTITION, "high", begins.alias("begin"))
        offsets = F.explode(F.expr(f"sequence(begin, least(begin + {_PIECE}, high) - 1)"))
        return pieces.select(TOPIC, PARTITION, offsets.alias(OFFSET))

    def _within(self, ranges: OffsetRanges) -> DataFrame:
        """The list's rows, without what they name beyond these ranges."""
        spans = [
            F.struct(*(F.lit(value).alias(name) for name, value in zip(_SPAN, in_order(each), strict=True)))
            for each in ranges.merged
        ]
        if not spans:
            return self.rows().where("false")
        rows = self.rows().select(TOPIC, PARTITION, "low", "high", F.explode(F.array(*spans)).alias("span"))
        same = f"{TOPIC} = span.topic AND {PARTITION} = span.partition AND low < span.end AND span.start < high"
        ends = {"low": F.expr("greatest(low, span.start)"), "high": F.expr("least(high, span.end)")}
        return rows.where(same).withColumns(ends)

    def unlisted(self, places: DataFrame) -> DataFrame:
        """Those of these coordinates, as `places_of` gives them, that are not listed."""
        if not self.exists:
            return places
        with storage_failures(self.table.identifier):
            listed = self.spread(self._within(coordinates.extent(places)))
        return places.join(listed, list(COORDINATES), "left_anti")

    def newest(self, reason: Reason, place: Place) -> int | None:
        """The newest version of one of the two tables whose records were taken out for that reason; None of none."""
        if not self.exists:
            return None
        with storage_failures(self.table.identifier):
            rows = self.rows().where((F.col("reason") == reason) & (F.col("place") == place))
            version: int | None = rows.agg(F.max("version")).collect()[0][0]
        return version

    def extent(self) -> OffsetRanges:
        """From the first to the last listed offset, partition by partition."""
        if not self.exists:
            return OffsetRanges(())
        with storage_failures(self.table.identifier):
            ends = self.rows().groupBy(TOPIC, PARTITION).agg(F.min("low"), F.max("high")).collect()
        return OffsetRanges(tuple(OffsetRange(*row) for row in ends))

    def declared(self, place: Place) -> set[int]:
        """The versions of one of the two tables whose deletes were accepted."""
        if not self.exists:
            return set()
        with storage_failures(self.table.identifier):
            rows = self.rows().where((F.col("reason") == "deleted") & (F.col("place") == place))
            return {row[0] for row in rows.select("version").distinct().collect()}

    def take_out(
        self,
        target: Table,
        places: DataFrame,
        reason: Reason,
        codec: str,
        *,
        of_pipeline: bool = False,
        also: Sequence[str] = (),
    ) -> None:
        """Delete the rows of records that are listed, in a commit that says so.

        Args:
            target: the main table, quarantine, or the deleted keys.
            places: the coordinates.
            codec: the compression of the files that are written anew.
            of_pipeline: whether the rows of other pipelines stay.
            also: other columns in which a row has to be the same.
        """
        names = (*COORDINATES, *also)
        same = ("pipeline", *names) if of_pipeline else names
        keys = places.select(*names).distinct().withColumn("pipeline", F.lit(self.pipeline)).select(*same)
        with self._saying(target, reason, codec) as apart:
            apart.merge(keys, same, "WHEN MATCHED THEN DELETE")

    def delete(self, target: Table, where: str, reason: Reason, codec: str) -> None:
        """Delete the rows for which a condition holds, in SQL, in a commit that says so."""
        with self._saying(target, reason, codec) as apart:
            apart.delete(where)

    @contextmanager
    def _saying(self, target: Table, reason: Reason, codec: str) -> Iterator[Table]:
        settings = {USER_METADATA: of_removal(self.pipeline, reason), CODEC: codec}
        with storage_failures(target.identifier), session.statement_session(target.spark, settings) as spark:
            yield Table(spark, target.identifier)


def taken_places(table: Table, version: int, own_rows: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """The coordinates of the rows that a version of a table lacks, and the one before it has.

    Args:
        own_rows: leaves of the table's rows those that are asked for.

    Raises:
        UsageError: the log, or a VACUUM, has taken one of the two versions.
        StorageUnreachable: the table cannot be read.
    """
    before, after = (places_of(own_rows(table.existing(each))) for each in (version - 1, version))
    places = before.join(after, list(COORDINATES), "left_anti")
    try:
        with storage_failures(table.identifier):
            places.isEmpty()
    except (FilesLost, UsageError) as failed:
        raise UsageError(
            f"what version {version} of {table} took away is not known any more: {failed}",
            cure="a VACUUM took the files of the version before: accept a DELETE, or call `lakeingest maintain` again "
            "after a kill, before that is due (seven days by default)",
        ) from failed
    return places


def places_of(rows: DataFrame) -> DataFrame:
    """The coordinates of those rows that have some: _topic STRING, _partition INT, _offset BIGINT."""
    return rows.select(*COORDINATES).dropna()
