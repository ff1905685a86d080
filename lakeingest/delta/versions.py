"""Commits each record as a version of its key: the mode of commit of table.mode history.

A version is valid from `_valid_from` to before `_valid_to`. That is the least `_valid_from` of all later records of the
key, and of those that delete all rows, but not before the version's own; null where there is none. Of a record that
deletes it is its own `_valid_from`. So at any moment one version of a key is valid at most: of those that begin by
then, the latest one in the order of records, unless it deletes; whatever times the records name.

What comes makes `_valid_to` smaller, never greater. So two jobs that commit at once, each without a look at the rows of
the other one, leave nothing wrong that the second one of them cannot mend behind its commit (see
`ingest.version_batch`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakeingest.delta import merge_statement
from lakeingest.delta.history import TableHistory
from lakeingest.delta.latest import LatestRows, struct_of
from lakeingest.delta.table import Table
from lakeingest.record import COORDINATES, DELETE, OPERATION, VALID_FROM, VALID_TO
from lakeingest.schema import ddl
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures
from lakeingest.spark.session import setting
from lakeingest.spark.settings import USER_METADATA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SAVED = "_raw_saved"
"""BOOLEAN: whether a row is in the table already."""
_END, _PLACE, _EMPTIED = "_raw_end", "_raw_place", "_raw_emptied"


@dataclass(frozen=True)
class KeyVersions:
    """See `commit.Mode`.

    Attributes:
        latest: which of two records of a key is the later one.
        session: that in which nothing else commits.
        version: one that the table has, as new as it is known; None where none is.
        bounds: SQL of what holds of the keys of all records (see `LatestRows.bounds`).
        empties: whether one of the records deletes all rows.
    """

    latest: LatestRows
    session: SparkSession
    version: int | None = None
    bounds: tuple[str, ...] = ()
    empties: bool = False

    def __call__(self, table: Table, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Insert records, and end the versions before them, in one commit.

        Args:
            rows: accepted records, kept, none of which is in the table.
            options: of Delta's writer.
        """
        merge_statement.add_columns(table, rows, options)
        # A MERGE reads its source twice.
        existing = table.read(TableHistory(table).newest(self.version))
        related = existing if self.empties else _related(existing, rows, self.latest, self.bounds)
        new = rows.select("*", *_places(self.latest), F.lit(False).alias(_SAVED))
        every = new.unionByName(_narrow(related, self.latest), allowMissingColumns=True)
        source = _with_ends(every, self.latest).where(f"NOT {_SAVED} OR {_ends_earlier('', _END)}")
        merge_statement.commit(
            self.session, table, source, options, lambda view: self.statement(table, view, rows.columns)
        )

    def statement(self, table: Table, view: str, columns: list[str]) -> str:
        """The MERGE, in SQL.

        Args:
            columns: those of the records.
        """
        names = [ddl.quoted(name) for name in columns]
        values = (f"s.{_END if name == VALID_TO else ddl.quoted(name)}" for name in columns)
        bounds = () if self.empties else self.bounds
        same = " AND ".join((*(f"t.{name} = s.{name}" for name in COORDINATES), *bounds))
        return (
            f"MERGE INTO {table.sql} AS t USING {view} AS s ON {same} "
            f"WHEN MATCHED AND s.{_SAVED} AND {_ends_earlier('t.', f's.{_END}')} "
            f"THEN UPDATE SET {VALID_TO} = s.{_END} "
            f"WHEN NOT MATCHED AND NOT s.{_SAVED} THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
        )


def mark(pipeline: str) -> str:
    """The userMetadata of a commit that mends the ends of versions."""
    return f"lakeingest: ends of versions of {pipeline}"


def mend(table: Table, session: SparkSession, latest: LatestRows, rows: DataFrame | None, pipeline: str) -> None:
    """End the versions that end earlier than they say, in a commit of its own if there are any.

    Args:
        session: that of the pipeline's MERGEs.
        rows: records, whose keys are looked at, and all keys if one of them deletes all rows; None for all keys.
    """
    with storage_failures(table.identifier):
        related = table.read()
        if rows is not None and (not latest.has_emptying or rows.where(_is_keyless(latest)).isEmpty()):
            related = _related(related, rows, latest)
        ends = _with_ends(_narrow(related, latest), latest).where(_ends_earlier("", _END))
        changed = frames.keep(ends.select(*COORDINATES, F.col(_END).alias(VALID_TO)))
        try:
            if not changed.isEmpty():
                still = _ends_earlier("q.", f"r.{VALID_TO}")
                with setting(session, {USER_METADATA: mark(pipeline)}):
                    Table(session, table.identifier).update(changed, COORDINATES, still, VALID_TO)
        finally:
            frames.release(changed)


def _related(existing: DataFrame, rows: DataFrame, latest: LatestRows, bounds: Sequence[str] = ()) -> DataFrame:
    """The rows of a table that have the key of one of the records, and those that delete all rows.

    Args:
        bounds: see `KeyVersions`.
    """
    keys = rows.select(*latest.renamed_keys).distinct()
    of_keys = existing.alias("t").where(" AND ".join(bounds) or "true").join(keys, latest.same_keys, "left_semi")
    return of_keys.union(existing.where(_is_keyless(latest))) if latest.has_emptying else of_keys


def _ends_earlier(row: str, end: str) -> str:
    """SQL: whether an end is before the one that a row has."""
    return f"({end} IS NOT NULL AND ({row}{VALID_TO} IS NULL OR {row}{VALID_TO} > {end}))"


def _is_keyless(latest: LatestRows) -> Column:
    """BOOLEAN: whether a row deletes all that are older: others have a key."""
    return F.col(latest.keys[0].sql).isNull()


def _narrow(rows: DataFrame, latest: LatestRows) -> DataFrame:
    """Of rows of the table what tells their ends."""
    names = (*COORDINATES, OPERATION, VALID_FROM, VALID_TO)
    return rows.select(*names, *_places(latest), F.lit(True).alias(_SAVED))


def _order(latest: LatestRows) -> list[str]:
    """The columns that have the place of a row in the order."""
    return [*(f"_raw_order_{at}" for at, _ in enumerate(latest.order, 1)), *COORDINATES]


def _places(latest: LatestRows) -> list[Column]:
    """Key and order, by names that no column of a record has."""
    order = (F.col(field.sql).alias(name) for field, name in zip(latest.order, _order(latest), strict=False))
    return [*latest.renamed_keys, *order]


def _with_ends(rows: DataFrame, latest: LatestRows) -> DataFrame:
    """Versions with _raw_end TIMESTAMP: until when they are valid.

    Args:
        rows: all of their keys, and all that delete all rows, with `_places`.
    """
    keys = [f"_key_{at}" for at, _ in enumerate(latest.keys, 1)]
    window = Window.partitionBy(*keys).orderBy(*(F.col(name).desc() for name in _order(latest)))
    end = F.min(VALID_FROM).over(window.rowsBetween(Window.unboundedPreceding, -1))
    if latest.has_emptying:
        rows = rows.withColumn(_PLACE, F.expr(struct_of(_order(latest))))
        emptied = rows.where(f"{keys[0]} IS NULL").agg(F.collect_list(F.struct(_PLACE, VALID_FROM)).alias(_EMPTIED))
        rows = rows.crossJoin(F.broadcast(emptied))
        later = F.filter(_EMPTIED, lambda each: each[_PLACE] > F.col(_PLACE))
        end = F.least(end, F.array_min(F.transform(later, lambda each: each[VALID_FROM])))
    begin = F.col(VALID_FROM)
    end = F.when(F.col(OPERATION) == DELETE, begin).when(end.isNotNull(), F.greatest(begin, end))
    return rows.withColumn(_END, end)
