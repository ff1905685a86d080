"""Takes out rows that are older than `retention` in the pipeline file allows: of table, quarantine and gate's results.

Of the records a list remains (see `delta.removals`): an audit counts them as expired, and no job reads them again.

1. The records of expired rows are listed, as a version of the table has them.
2. The rows are deleted, in a commit that says so: whole partitions where the table is cut by time, so that no file is
   read; else by their coordinates.
3. Another job may have appended to these partitions between 1 and 2. What the DELETE took that is not listed is listed
   then, told by the version before it.

A process that ends between two steps leaves nothing open: the next one lists what is not listed yet, deletes what is
there, and begins with step 3 of each DELETE that came later than right behind its list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.config import periods
from lakeingest.config.durations import duration_text
from lakeingest.config.periods import Periods
from lakeingest.delta import quarantine
from lakeingest.delta.completeness import period_counts
from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.outcome import Expiry
from lakeingest.delta.pipeline_tables import PipelineTables, without_coordinates
from lakeingest.delta.receipt import removal_reason
from lakeingest.delta.removals import Place, places_of, taken_places
from lakeingest.delta.table import Table
from lakeingest.errors import UsageError
from lakeingest.record import TIMESTAMP, TOPIC
from lakeingest.schema import ddl
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_ONCE = 200
"""Partitions that one commit deletes at most: a maintenance may end behind each."""


@dataclass(frozen=True)
class TableExpiry:
    """The expiry of one table.

    Attributes:
        name: of the option in `retention`: table, quarantine or results.
        before: older rows are expired, UTC.
        before_commit: called before each commit to the main table.
        is_over: whether no partition may be begun any more.

    Raises:
        StorageError: from every method, where a table cannot be read or written.
    """

    tables: PipelineTables
    table: Table
    name: str
    before: datetime
    before_commit: Callable[[Table], None]
    is_over: Callable[[], bool]

    @classmethod
    def of(
        cls,
        tables: PipelineTables,
        table: Table,
        before_commit: Callable[[Table], None] = lambda _: None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> TableExpiry | None:
        """The one of a table; None where its rows stay for ever."""
        names = {tables.main: "table", tables.quarantine: "quarantine", tables.results: "results"}
        name = names.get(table, "")
        longest = getattr(tables.config.retention, name, None)
        if longest is None:
            return None
        return cls(tables, table, name, datetime.now(UTC) - longest, before_commit, is_over)

    def run(self, *, dry_run: bool) -> Expiry:
        """Take out what is expired; in a dry run, say what that is."""
        if self.name == "results":
            return self._of_results(dry_run=dry_run)
        if self.name == "quarantine":
            return self._of_quarantine(dry_run=dry_run)
        failure = None
        if not dry_run:
            try:
                self.list_later()
            except UsageError as unknown:
                # Nobody will ever know; the next list is where the one after it begins.
                failure = unknown
        followed = periods.told_apart(self.tables.config.partition)
        expire = self._by_timestamp if followed is None else partial(self._by_period, followed)
        return replace(expire(dry_run=dry_run), failure=failure)

    # Of the main table ---------------------------------------------------------------------------------------------

    def _by_period(self, followed: Periods, *, dry_run: bool) -> Expiry:
        counts = period_counts(self.table, followed)
        starts = sorted(start for start in counts if followed.end(start) <= self.before)
        if self._is_shared(self.table.read().where(_condition(followed, starts))):
            own_rows = f"{TOPIC} IN ({', '.join(map(ddl.text, self.tables.config.source.topics))})"
            counts = period_counts(self.table, followed, only=starts, where=own_rows)
            starts = [start for start in starts if start in counts]
        due = Expiry(self.before, sum(counts[start] for start in starts), len(starts))
        if dry_run:
            return due
        expiry = Expiry(self.before)
        for at in range(0, len(starts), AT_ONCE):
            if self.is_over():
                break
            some = starts[at : at + AT_ONCE]
            self.before_commit(self.table)
            self.delete_partitions(_condition(followed, some), self.list_rows(_condition(followed, some)))
            expiry = replace(expiry, rows=expiry.rows + sum(map(counts.__getitem__, some)), partitions=at + len(some))
        return replace(expiry, remaining=due.partitions - expiry.partitions)

    def list_rows(self, where: str) -> int:
        """Step 1: list the rows for which a condition holds; the version of the table that has them."""
        version = TableHistory(self.table).newest()
        self._list(self.tables.of_topics(self.table.read(version).where(where)), version)
        return version

    def delete_partitions(self, where: str, version: int) -> None:
        """Steps 2 and 3.

        Args:
            where: what holds of the partitions.
            version: the one whose rows are listed.
        """
        removals, rows = self.tables.removals, self.table.read(version).where(where)
        is_shared = self._is_shared(rows)
        if not (is_shared or self.tables.config.table.upserts):
            removals.delete(self.table, where, "expired", self._codec)
            self.list_later(version, where)
            return
        # Delta counts the rows that a MERGE deletes, and an audit of mode upsert counts by it.
        removals.take_out(self.table, self.tables.of_topics(rows), "expired", self._codec)
        with storage_failures(self.table.identifier):
            remain = not (is_shared or without_coordinates(rows).isEmpty())
        if remain:
            removals.delete(self.table, f"({where}) AND {TOPIC} IS NULL", "expired", self._codec)

    def list_later(self, since: int | None = None, where: str = "true") -> None:
        """Step 3, of each DELETE that did not come right behind its list.

        Args:
            since: the version whose rows are listed; the newest such one by default.
            where: what holds of the rows that it may have taken.
        """
        removals, name = self.tables.removals, self.tables.config.known_as
        since = removals.newest("expired", "table") if since is None else since
        if since is None:
            return
        for entry in TableHistory(self.table).standing(since):
            is_ours = entry["operation"] == "DELETE" and removal_reason(entry["userMetadata"], name) == "expired"
            version = entry["version"]
            if not is_ours or version == since + 1:
                continue
            places = taken_places(self.table, version, lambda rows: self.tables.of_topics(rows).where(where))
            self._list(places, version - 1)

    def _by_timestamp(self, *, dry_run: bool) -> Expiry:
        version = TableHistory(self.table).newest()
        rows = self.table.read(version)
        if TIMESTAMP not in rows.columns:
            return Expiry(self.before)
        rows = self.tables.of_topics(rows).where(F.col(TIMESTAMP) < F.lit(self.before))
        expiry = self._counted(rows)
        if not dry_run and expiry.rows:
            self.before_commit(self.table)
            self._list(rows, version)
            self.tables.removals.take_out(self.table, rows, "expired", self._codec)
        return expiry

    def _is_shared(self, rows: DataFrame) -> bool:
        """Whether there are rows of pipelines that have other topics."""
        topics = self.tables.config.source.topics
        with storage_failures(self.table.identifier):
            return bool(topics) and not rows.where(~F.col(TOPIC).isin(*topics)).isEmpty()

    # Of those beside it --------------------------------------------------------------------------------------------

    def _of_quarantine(self, *, dry_run: bool) -> Expiry:
        version = TableHistory(self.table).newest()
        of_pipeline = F.col("pipeline") == self.tables.config.known_as
        rows = quarantine.whole(self.table.read(version)).where(of_pipeline & (F.col("refused_at") < self.before))
        expiry = self._counted(rows)
        if not dry_run and expiry.rows:
            self._list(quarantine.unmoved(rows), version)
            # A record whose batch was taken back may have another row, which is younger.
            self.tables.removals.take_out(
                self.table, rows, "expired", self._codec, of_pipeline=True, also=("refused_at",)
            )
        return expiry

    def _of_results(self, *, dry_run: bool) -> Expiry:
        micros = int(self.before.timestamp() * 1_000_000)
        where = f"pipeline = {ddl.text(self.tables.config.known_as)} AND time < timestamp_micros({micros})"
        expiry = self._counted(self.table.read().where(where))
        if not dry_run and expiry.rows:
            self.tables.removals.delete(self.table, where, "expired", self._codec)
        return expiry

    # -----------------------------------------------------------------------------------------------------------------

    @property
    def _codec(self) -> str:
        return self.tables.config.table.compression

    @property
    def _why(self) -> str:
        return f"retention.{self.name} {duration_text(getattr(self.tables.config.retention, self.name))}"

    def _list(self, rows: DataFrame, version: int) -> None:
        """List what is not listed yet; one record in any case, as step 3 looks for the newest version in the list.

        Args:
            version: the one of the table that has the rows.
        """
        removals, places = self.tables.removals, places_of(rows)
        place: Place = "quarantine" if self.name == "quarantine" else "table"
        with storage_failures(self.table.identifier):
            rest = removals.unlisted(places)
            rest = places.limit(1) if rest.isEmpty() else rest
        removals.add(rest, "expired", place, version, self._why)

    def _counted(self, rows: DataFrame) -> Expiry:
        with storage_failures(self.table.identifier):
            return Expiry(self.before, rows.count())


def _condition(followed: Periods, starts: Sequence[datetime]) -> str:
    """What holds of the partitions of some periods, in Spark SQL."""
    names = ", ".join(f"CAST({ddl.quoted(name)} AS STRING)" for name in followed.columns)
    values = ", ".join(ddl.text("|".join(followed.values(start))) for start in starts)
    return f"concat_ws('|', {names}) IN ({values})" if starts else "false"
