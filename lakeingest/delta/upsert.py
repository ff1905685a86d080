"""Commits the latest row of each key: the mode of commit of table.mode upsert, and the memory of deleted keys.

The statement is a MERGE whose conditions compare the whole order of two records. So a batch that is applied twice
changes nothing the second time, and an older record never takes the place of a newer one.

What a record deletes is remembered in a table of its own: a record that is older than the delete of its key must not
bring the row back. It is written before the table (see `ingest.latest_batch`).

What Delta writes to the log with a MERGE (userMetadata, txnAppId, txnVersion) it takes from settings of the session
alone, which all its threads share (delta-io/delta#3934). So each pipeline has a session in which nothing else commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from lakeingest.config.maintenance import TARGET
from lakeingest.delta import commit_log, coordinates, kinds, merge_statement, statistics, unlogged
from lakeingest.delta.history import TableHistory
from lakeingest.delta.latest import LatestRows, struct_of
from lakeingest.delta.maintenance import optimize
from lakeingest.delta.receipt import of_removal
from lakeingest.delta.table import Table
from lakeingest.errors import TableChanged
from lakeingest.record import COORDINATES, DELETES, Frontier, OffsetRanges
from lakeingest.schema import ddl
from lakeingest.schema.debezium import UNAVAILABLE
from lakeingest.spark.failures import storage_failures
from lakeingest.spark.session import setting
from lakeingest.spark.settings import USER_METADATA

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

_PROPERTIES = {**kinds.properties("deletes"), statistics.LISTED: ",".join(COORDINATES)}
"""Of the table of deleted keys: its log has no key."""
_OWN = ("pipeline", *COORDINATES, "deleted_at")
"""The columns by which a row of the table of deleted keys is known."""
TIED = "_raw_tied"
_NEWER = "_raw_newer"
_NUMBER = "_raw_number"


@dataclass(frozen=True)
class Upsert:
    """See `commit.Mode`.

    Attributes:
        latest: how the latest row of a key is known.
        session: that in which nothing else commits.
        bounds: SQL of what holds of the keys of all records (see `LatestRows.bounds`).
        emptied: SQL of the place in the order of the latest record that deletes all older rows; empty for none.
    """

    latest: LatestRows
    session: SparkSession
    bounds: tuple[str, ...] = ()
    emptied: str = ""

    def __call__(self, table: Table, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Apply records to the table, in one commit, which is made even if nothing changes.

        Args:
            rows: accepted records, no two of them of one key, with _raw_deletes.
            options: of Delta's writer.
        """
        merge_statement.add_columns(table, rows.drop(DELETES), options)
        merge_statement.commit(
            self.session, table, rows, options, lambda view: self.statement(table, view, rows.columns)
        )

    def statement(self, table: Table, view: str, columns: list[str]) -> str:
        """The MERGE, in SQL: every column is assigned by its name, since Delta makes structs of nulls by `UPDATE *` in
        some versions (delta-io/delta#5481, #5612).
        """
        names = [ddl.quoted(name) for name in columns if name != DELETES]
        same = " AND ".join([*(f"t.{key.sql} = s.{key.sql}" for key in self.latest.keys), *self.bounds])
        newer, older = (
            " > ".join(struct_of(f"{row}.{name}" for name in self.latest.ordered) for row in rows)
            for rows in ("st", "ts")
        )
        rows_before = f"{struct_of(f't.{name}' for name in self.latest.ordered)} < {self.emptied}"
        values = {name: f"s.{name}" for name in names}
        completes = ""
        if self.latest.unlogged:
            values |= dict(unlogged.assignments(self.latest.unlogged, newer=True))
            missing = unlogged.assignments(self.latest.unlogged, newer=False)
            completes = (
                f"WHEN MATCHED AND NOT s.{DELETES} AND t.{UNAVAILABLE} IS NOT NULL AND {older} "
                f"THEN UPDATE SET {', '.join(f'{name} = {value}' for name, value in missing)} "
            )
        return (
            f"MERGE INTO {table.sql} AS t USING {view} AS s ON {same} "
            f"WHEN MATCHED AND s.{DELETES} AND {newer} THEN DELETE "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(f'{n} = {value}' for n, value in values.items())} "
            f"{completes}"
            f"WHEN NOT MATCHED AND NOT s.{DELETES} THEN "
            f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
            + (f" WHEN NOT MATCHED BY SOURCE AND {rows_before} THEN DELETE" if self.emptied else "")
        )


def latest_of(rows: DataFrame, latest: LatestRows) -> DataFrame:
    """Of records with the same key the latest one, with _raw_tied.

    _raw_tied BOOLEAN, never null: whether the one before it has the same order, and is of another partition, so that
    nothing but the partitions' numbers tells which is the later one.
    """
    window = Window.partitionBy(*(F.col(key.sql) for key in latest.keys)).orderBy(*latest.latest_first)
    # Such a condition Spark holds against each task's rows before they are shuffled.
    last_two = rows.withColumn(_NUMBER, F.row_number().over(window)).where(f"{_NUMBER} <= 2")
    place = F.struct(*COORDINATES[:2])
    tied = F.lead(place).over(window) != place
    for each in latest.order:
        tied &= F.lead(F.col(each.sql)).over(window) == F.col(each.sql)
    return last_two.withColumn(TIED, F.coalesce(tied, F.lit(False))).where(f"{_NUMBER} = 1").drop(_NUMBER)


def completed(rows: DataFrame, latest: LatestRows) -> DataFrame:
    """Records of which the latest of each key has what it lacks from earlier ones (see `unlogged`)."""
    if not latest.unlogged:
        return rows
    return unlogged.completed(rows, [key.sql for key in latest.keys], latest.latest_first, latest.unlogged)


@dataclass
class DeletedKeys:
    """The table of deleted keys.

    key_1, key_2, …                                    the key: a column for each field of it
    order_1, …                                         the record's fields of table.order_by
    _topic STRING, _partition INT, _offset BIGINT      the record's coordinates
    pipeline STRING                                    whose record it was
    deleted_at TIMESTAMP                               when its batch ran

    Attributes:
        join_after: how many versions lie between two compactions of its files, all of which each batch reads. Delta's
            own compaction (autoCompact) computes the state of the log behind each commit.
    """

    table: Table
    pipeline: str
    join_after: int = 50
    _version: int | None = field(default=None, init=False)

    def remember(self, rows: DataFrame, latest: LatestRows, now: datetime, read_version: int | None) -> int | None:
        """Commit what some records delete. What was remembered before may be remembered again.

        Args:
            rows: records, with _raw_deletes.
            read_version: the version that was read for these records.

        Returns:
            The version behind the commit; but `read_version` where somebody else has written to the table since, too.
        """
        deletes = rows.where(DELETES).select(
            *_aliased(latest), *COORDINATES, F.lit(self.pipeline).alias("pipeline"), F.lit(now).alias("deleted_at")
        )
        existing = self.table.schema()
        if existing is None:
            self._version = None
            columns = T.StructType([T.StructField(f.name, f.dataType) for f in deletes.schema])
            existing = self.table.create(columns, properties=_PROPERTIES)
        kinds.check(self.table, "deletes", existing.names)
        self.table.widen(existing, deletes.schema)
        with storage_failures(self.table.identifier):
            self.table.append(deletes, {"optimizeWrite": "false"})
        version = self.version()
        # A new table has a commit that makes it.
        return version if version == (1 if read_version is None else read_version + 1) else read_version

    def join_files(self) -> None:
        """Make one file of its small ones, if that is due, and nobody else does so at the same time."""
        if self._version is not None and self._version % self.join_after == 0:
            with suppress(TableChanged):
                optimize.compact(self.table, TARGET, "zstd")

    def without_superseded(self, rows: DataFrame, latest: LatestRows, read_version: int | None) -> DataFrame:
        """The records but for those whose key was deleted by a later one; whether there are such is computed.

        Args:
            rows: kept.
            read_version: the table's version; None where there is no such table.
        """
        if read_version is None:
            return rows
        superseded = _superseded(rows, latest, self._rows())
        with storage_failures(self.table.identifier):
            # As a rule there are none, and the merge has less to plan. What is kept of a table is computed anew when
            # somebody writes to it, as `remember` does.
            return rows if superseded.isEmpty() else rows.join(superseded, list(COORDINATES), "left_anti")

    def _rows(self, version: int | None = None) -> DataFrame:
        """The pipeline's own rows, as they stand now, or stood in a version."""
        return self.table.read(version).where(F.col("pipeline") == self.pipeline)

    def version(self) -> int | None:
        """Its newest version; None where there is no such table yet."""
        history = TableHistory(self.table)
        if self._version is None and self.table.schema() is None:
            return None
        self._version = history.newest(self._version)
        return self._version

    def has_changed(self, version: int | None) -> bool:
        """Whether somebody has written to it since it had this version."""
        return self.version() != version

    def take_out(self, main: Table, session: SparkSession, latest: LatestRows, ranges: OffsetRanges | None) -> None:
        """Delete the rows of a table that are older than the delete of their key, in a commit which says so. A delete
        that the run has still to commit is not among them: its own merge sees the row.

        Args:
            session: that of the pipeline's MERGEs.
            ranges: those that the coordinates of the rows lie within; None for any.
        """
        table, deleted_keys = (
            Table(session, main.identifier),
            replace(self, table=Table(session, self.table.identifier)),
        )
        rows = table.read() if ranges is None else coordinates.within(table.read(), ranges)
        if deleted_keys.table.schema() is None:
            return
        committed = commit_log.read(main, self.pipeline).frontier
        deletes = deleted_keys._rows().where(~coordinates.not_before(committed))
        deleted = _superseded(rows, latest, deletes).distinct()
        metadata = {USER_METADATA: of_removal(self.pipeline, "superseded")}
        with storage_failures(main.identifier), setting(session, metadata):
            if not deleted.isEmpty():
                table.merge(deleted, COORDINATES, "WHEN MATCHED THEN DELETE")

    def not_before(self, starts: Frontier) -> DataFrame | None:
        """What records delete that are about to be read, or read again, as the table stands now; None if there is
        nothing.
        """
        version = self.version()
        if version is None:
            return None
        with storage_failures(self.table.identifier):
            rows = self._rows(version).where(coordinates.not_before(starts))
            return None if rows.isEmpty() else rows

    def forget(self, rows: DataFrame) -> None:
        """Take these rows away, and no others of the same records, which another run may write meanwhile."""
        with storage_failures(self.table.identifier):
            self.table.merge(rows.select(*_OWN).distinct(), _OWN, "WHEN MATCHED THEN DELETE")


def _superseded(rows: DataFrame, latest: LatestRows, deletes: DataFrame) -> DataFrame:
    """The coordinates of rows whose key was deleted by a later record; once for each such record.

    Args:
        deletes: rows of the table of deleted keys.
    """
    # No column of a record has such a name.
    keys = [F.col(name).alias(f"_{name}") for name in deletes.columns if name.startswith("key_")]
    order = [name for name in deletes.columns if name.startswith("order_")]
    newer = deletes.select(*keys, F.expr(f"{struct_of((*order, *COORDINATES))} AS {_NEWER}"))
    older = F.expr(f"{struct_of(latest.ordered)} < {_NEWER}")
    superseded = rows.join(newer, [*latest.same_keys, older]).select(*COORDINATES)
    if not latest.has_emptying:
        return superseded
    emptied = newer.where("_key_1 IS NULL").agg(F.max(_NEWER).alias(_NEWER))
    return superseded.union(rows.join(F.broadcast(emptied), older).select(*COORDINATES)).distinct()


def _aliased(latest: LatestRows) -> Iterator[Column]:
    for name, fields in (("key", latest.keys), ("order", latest.order)):
        for at, each in enumerate(fields, 1):
            yield F.col(each.sql).alias(f"{name}_{at}")
