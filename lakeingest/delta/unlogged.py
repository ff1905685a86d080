"""Columns whose values some change events do not have: the database did not log what was not changed (TOAST).

Such a column has the value of the latest event that has one, not later than the row's own. Which event that is, the
row's `_unavailable` says: column → its place, so that an older event that comes late completes the row, and an even
older one does not. So the same events make the same rows, in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from lakeingest.record import COORDINATES, is_reserved
from lakeingest.schema import ddl
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, COMMIT, EVENT, POSITION, ROW, UNAVAILABLE

_NUMBERS = (COMMIT, EVENT, ROW)
_LARGE = (T.StringType, T.BinaryType, T.ArrayType, T.MapType)
"""Types of PostgreSQL that may be stored apart, and so be left out of the log."""


def are_events(table: T.StructType) -> bool:
    """Whether rows with these columns are of change events."""
    return UNAVAILABLE in table.names and isinstance(table[UNAVAILABLE].dataType, T.MapType)


def columns(table: T.StructType, keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of rows that events may lack; none where the rows are of no events.

    Args:
        keys: the columns that make a key: events always have them.
    """
    if not are_events(table):
        return ()
    excluded = {*keys, CHANGE, CHANGED_AT, POSITION, UNAVAILABLE}
    large = (f.name for f in table if isinstance(f.dataType, _LARGE))
    return tuple(name for name in large if name not in excluded and not is_reserved(name))


def completed(rows: DataFrame, keys: Sequence[str], order: Sequence[Column], names: Sequence[str]) -> DataFrame:
    """Records in which the latest one of each key has the values that it lacks, as far as an earlier one has them.

    Args:
        keys: SQL of what makes a key.
        order: by which the latest one comes first.
        names: of the columns that may be missing.
    """
    window = Window.partitionBy(*map(F.expr, keys)).orderBy(*order)
    every = window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    place = F.expr(_place("", dot=""))
    lacks = {name: F.coalesce(F.map_contains_key(UNAVAILABLE, name), F.lit(False)) for name in names}
    values = {name: F.struct(F.col(ddl.quoted(name)).alias("value"), place.alias("place")) for name in names}
    latest = {
        f"_raw_latest_{at}": F.first(F.when(~lacks[name], values[name]), ignorenulls=True).over(every)
        for at, name in enumerate(names)
    }
    of_name = {name: F.col(column) for name, column in zip(names, latest, strict=True)}

    def filled(key: Column, value: Column) -> Column:
        for name, each in of_name.items():
            value = F.when(key == name, each["place"]).otherwise(value)
        return value

    with_latest = rows.withColumns(latest)
    columns_filled = {
        name: F.when(lacks[name], of_name[name]["value"]).otherwise(F.col(ddl.quoted(name))) for name in names
    }
    unavailable = {UNAVAILABLE: F.transform_values(UNAVAILABLE, filled)}
    return with_latest.withColumns({**columns_filled, **unavailable}).drop(*latest)


def assignments(names: Sequence[str], *, newer: bool) -> Iterator[tuple[str, str]]:
    """Of a MERGE of records `s` into rows `t`: each column that events may lack, quoted, and SQL of what it becomes.

    Args:
        newer: whether the record is the later one; else it only gives what the row lacks.
    """
    first, second = ("s", "t") if newer else ("t", "s")
    for name in names:
        column = ddl.quoted(name)
        one, other = _place_of(first, ddl.text(name)), _place_of(second, ddl.text(name))
        lacks = f"coalesce(map_contains_key({first}.{UNAVAILABLE}, {ddl.text(name)}), false)"
        other_is_later = f"({other} IS NOT NULL AND ({one} IS NULL OR {other} > {one}))"
        yield column, f"CASE WHEN {lacks} AND {other_is_later} THEN {second}.{column} ELSE {first}.{column} END"
    places = f"transform_values({first}.{UNAVAILABLE}, (k, v) -> greatest(v, {_place_of(second, 'k')}))"
    yield ddl.quoted(UNAVAILABLE), places


def _place_of(row: str, name: str) -> str:
    """SQL: the place of the event that a row has a column's value of."""
    unavailable = f"{row}.{UNAVAILABLE}"
    return (
        f"CASE WHEN coalesce(map_contains_key({unavailable}, {name}), false) THEN element_at({unavailable}, {name}) "
        f"ELSE {_place(row)} END"
    )


def _place(row: str, dot: str = ".") -> str:
    numbers = (f"'{name}', {row}{dot}{POSITION}.{name}" for name in _NUMBERS)
    coordinates = (f"'{name.removeprefix('_')}', {row}{dot}{name}" for name in COORDINATES)
    return f"named_struct({', '.join((*numbers, *coordinates))})"
