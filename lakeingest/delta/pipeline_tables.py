"""The Delta tables of one pipeline, and what is asked of both: how far it has come, and which records are in one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.config import PipelineConfig, periods
from lakeingest.delta import commit_log, coordinates, kinds, quarantine, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.completeness import CompletenessTable
from lakeingest.delta.kinds import Kind
from lakeingest.delta.removals import Removals
from lakeingest.delta.table import Table
from lakeingest.delta.upsert import DeletedKeys
from lakeingest.errors import TableMismatch
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC, Frontier, OffsetRanges
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class PipelineTables:
    """Where a pipeline's records are.

    Raises:
        StorageUnreachable, UnsafeStore: from every method, where the object store fails or refuses.
    """

    spark: SparkSession
    config: PipelineConfig

    @cached_property
    def main(self) -> Table:
        """The table of accepted records."""
        return Table(self.spark, self.config.table.identifier)

    @cached_property
    def quarantine(self) -> Table:
        """The table of refused records; several pipelines may have one."""
        return Table(self.spark, self.config.quarantine.identifier)

    @cached_property
    def results(self) -> Table:
        """The table of the gate's results; there is none without a gate."""
        return Table(self.spark, self.config.results)

    @cached_property
    def deleted_keys(self) -> DeletedKeys | None:
        """The table of deleted keys; None where no record deletes a row."""
        place = self.config.deletes
        return DeletedKeys(Table(self.spark, place), self.config.known_as) if place else None

    @cached_property
    def removals(self) -> Removals:
        """The list of records that were taken out of either of the two."""
        return Removals(Table(self.spark, self.config.removals), self.config.known_as)

    @cached_property
    def completeness(self) -> CompletenessTable | None:
        """The table that says until when the main one is complete; None where that is not followed."""
        promised, followed = self.config.contract, periods.of(self.config.partition)
        if promised is None or promised.completeness is None or followed is None:
            return None
        table = Table(self.spark, self.config.completeness)
        return CompletenessTable(table, followed, self.config.known_as, promised.completeness.late)

    def ensure_quarantine(self) -> bool:
        """Make the quarantine if it is missing, and add columns that it lacks since an older version made it.

        Returns:
            Whether it was missing.

        Raises:
            TableMismatch: what is there is another table.
        """
        columns = self.quarantine.schema()
        missing = columns is None
        if columns is None:
            # Somebody may make another table there at the same time.
            columns = self.quarantine.create(quarantine.schema(), properties=kinds.properties("quarantine"))
        kinds.check(self.quarantine, "quarantine", columns.names)
        if not missing:
            self.quarantine.add_columns(columns, quarantine.schema())
        return missing

    def refused(self, version: int | None = None) -> DataFrame:
        """The pipeline's own rows of quarantine, with today's columns."""
        return quarantine.of(self.quarantine.read(version), self.config.known_as)

    def existing_refused(self) -> DataFrame:
        """The same, of a quarantine that need not be there.

        Raises:
            UsageError: there is none yet.
        """
        self.quarantine.existing()
        return self.refused()

    def coordinates(self, ranges: OffsetRanges) -> DataFrame:
        """The coordinates within `ranges` that are in one of the two tables, or were taken out of one; each once."""
        refused = coordinates.of(quarantine.unmoved(self.refused()), ranges)
        existing, removed = self.main.coordinates(ranges).union(refused), self.removals.coordinates(ranges)
        return (existing if removed is None else existing.union(removed)).distinct()

    def of_topics(self, rows: DataFrame) -> DataFrame:
        """Without the rows of other pipelines, as far as these have other topics. Topics that the file does not name,
        those of a pattern or of a bronze table, are known from the rows alone.
        """
        topics = self.config.source.topics
        return rows.where(F.col(TOPIC).isin(*topics)) if topics else rows

    # How far it has come -----------------------------------------------------------------------------------------

    def commit_logs(
        self, *, back: int | None = 1, new: Collection[Table] = (), adopting: bool = False
    ) -> tuple[CommitLog, CommitLog]:
        """What the pipeline committed to the main table, and to quarantine (see `commit_log.read`).

        Where the log does not say how far the pipeline has come (clean-up took its receipts, after 30 days by default;
        or the table is a copy or a clone of one that had them), but the table has rows of its topics, the frontier is
        taken from the rows of both tables. The ledger of schemas is the newest commit's, or the table property's.

        Args:
            back: how many commits at least (see `commit_log.read`).
            new: tables that are missing or were just made, and are not asked: their logs are empty.
            adopting: whether the rows are not asked for the frontier.

        Raises:
            TableMismatch: a table is another than the file says (see `kinds`), or forgets which commits were made (see
                `_RETENTION`); or it has rows that neither a receipt nor their coordinates tell of.
        """
        log, refused = (
            CommitLog(table.identifier, self.config.known_as)
            if table in new
            else commit_log.numbered(table, commit_log.read(table, self.config.known_as, back=back))
            for table in (self.main, self.quarantine)
        )
        if self.quarantine not in new:
            refused = replace(refused, properties=self._properties(self.quarantine, "quarantine"))
        if self.main not in new:
            properties = self._properties(self.main, "table")
            property_ledger = table_properties.ledger(properties, self.config.known_as)
            log = replace(log, property_ledger=property_ledger, properties=properties)
            if not adopting and log.newest is None and not (log.undone_starts and log.complete):
                log = replace(log, recovered=self._frontier_of_rows(properties))
        has_frontier = adopting or log.newest is not None or log.recovered
        if not has_frontier:
            return log, refused
        schemas = commit_log.ledger(log, lambda: commit_log.read(self.main, log.pipeline, back=None).commits)
        return replace(log, schemas=schemas), refused

    def _properties(self, table: Table, kind: Kind) -> dict[str, str]:
        """A table's properties.

        Raises:
            TableMismatch: it is of another kind, or forgets which commits were made.
        """
        properties = table.properties()
        kind_named = kinds.kind_of(properties, ())
        columns = table.schema() if kind_named is None else None
        kinds.check(table, kind, columns.names if columns is not None else (), properties)
        _check_retention(table, properties)
        return properties

    def _frontier_of_rows(self, properties: Mapping[str, str]) -> dict[tuple[str, int], int]:
        """The first offset behind the table's rows, and behind quarantine's that follow them without a gap; of a table
        that was adopted at least where the pipeline went on then.

        Args:
            properties: the main table's.

        Raises:
            TableMismatch: the table has rows without coordinates, and was not adopted.
        """
        adoption = table_properties.adoption(properties, self.config.known_as)
        ends = dict(adoption[1].frontier) if adoption else {}
        rows = self.main.read()
        has_coordinates = set(COORDINATES) <= set(rows.columns)
        with storage_failures(self.main.identifier):
            strange = without_coordinates(rows) if has_coordinates else rows
            # Those of a table that another pipeline adopted are of that one's topics.
            if not table_properties.is_adopted(properties) and not strange.isEmpty():
                raise TableMismatch(
                    f"{self.main} has rows that no commit of pipeline {self.config.name!r} tells of, and they have no "
                    "coordinates: which records they are is not known, and a run would write them a second time",
                    cure="let the pipeline go on behind them: `lakeingest adopt FILE --dry-run`; or give it a table of "
                    "its own",
                )
            if has_coordinates:
                of_topics = F.col(TOPIC).isin(*self.config.source.topics)
                reached = rows.where(of_topics).groupBy(TOPIC, PARTITION).agg(F.max(OFFSET) + 1)
                for topic, partition, end in reached.collect():
                    ends[topic, partition] = max(end, ends.get((topic, partition), 0))
        return self.with_quarantine(ends)

    def with_quarantine(self, reached: Frontier) -> dict[tuple[str, int], int]:
        """A frontier, moved on by the rows of quarantine that follow it without a gap.

        What lies further on in quarantine is left out by its coordinates when it is read again.
        """
        ends = dict(reached)
        if self.quarantine.schema() is None:
            return ends
        of_topics = F.col(TOPIC).isin(*self.config.source.topics)
        begin_at = F.coalesce(
            *(F.when((F.col(TOPIC) == t) & (F.col(PARTITION) == p), F.lit(end)) for (t, p), end in ends.items()),
            F.lit(0),
        )
        with storage_failures(self.quarantine.identifier):
            behind = self.refused().where(of_topics).where(F.col(OFFSET) >= begin_at)
            extents = behind.groupBy(TOPIC, PARTITION).agg(F.min(OFFSET), F.max(OFFSET) + 1, F.count_distinct(OFFSET))
            for topic, partition, start, end, count in extents.collect():
                begin = ends.setdefault((topic, partition), start)
                if begin == start and count == end - start:
                    ends[topic, partition] = end
        return ends


def without_coordinates(rows: DataFrame) -> DataFrame:
    """The rows of a table that are known by no coordinates: they were there before it was adopted, or are others'."""
    return rows.where(" OR ".join(f"{name} IS NULL" for name in COORDINATES))


def _check_retention(table: Table, properties: Mapping[str, str]) -> None:
    if _RETENTION in properties:
        raise TableMismatch(
            f"{table} has {_RETENTION} = {properties[_RETENTION]}: Delta then forgets which commits were made, and "
            "lets a writer that was overtaken commit again",
            cure=f"ALTER TABLE {table.sql} UNSET TBLPROPERTIES ('{_RETENTION}')",
        )
