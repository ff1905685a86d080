"""Change events that lack values: the same events make the same rows, in whatever order they come."""

from __future__ import annotations

import random
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.oracle.latest import recut
from support.tables.merged import Applied

_PLACE = "STRUCT<commit: BIGINT, event: BIGINT, row: BIGINT, topic: STRING, partition: INT, offset: BIGINT>"
_COLUMNS = (
    "h INT, k INT, n INT, doc STRING, `a$b's` ARRAY<STRING>, _change STRING, "
    f"_position STRUCT<commit: BIGINT, event: BIGINT, row: BIGINT>, _unavailable MAP<STRING, {_PLACE}>, "
    "_topic STRING, _partition INT, _offset BIGINT"
)
_LARGE = ("doc", "a$b's")


class _Event(NamedTuple):
    """A change of a key, at a place of the log: the values that the database has logged; none deletes."""

    key: int
    at: int
    number: int
    logged: dict[str, str] | None


def _log(dice: random.Random) -> list[_Event]:
    """What a database may do to two keys: a row is inserted whole, updated in part, deleted, and inserted again."""
    events, rows = list[_Event](), set[int]()
    for at in range(1, dice.randint(2, 9)):
        key = dice.randrange(2)
        if key in rows and dice.random() < 0.25:
            rows.remove(key)
            events.append(_Event(key, at, 0, None))
            continue
        logged = [name for name in _LARGE if key not in rows or dice.random() < 0.4]
        rows.add(key)
        events.append(_Event(key, at, at, {name: f"{name}{at}" for name in logged}))
    return events


def _record(history: int, event: _Event) -> tuple[Any, ...]:
    doc, array = ((event.logged or {}).get(name) for name in _LARGE)
    missing = {name: None for name in _LARGE if event.logged is not None and name not in event.logged}
    change = "delete" if event.logged is None else "update"
    position, offset = (0, event.at, 0), 1000 - event.at
    values = (event.number, doc, array and [array], change, position, missing or None)
    return (history, event.key, *values, f"t{history}", 0, offset, event.logged is None)


def _expected(history: int, events: list[_Event]) -> list[tuple[Any, ...]]:
    rows = []
    for key in {event.key for event in events}:
        values: dict[str, tuple[str, tuple[Any, ...]]] = {}
        of_key = [event for event in events if event.key == key]
        for event in of_key:
            place = (0, event.at, 0, f"t{history}", 0, 1000 - event.at)
            values = {} if event.logged is None else values
            values |= {name: (value, place) for name, value in (event.logged or {}).items()}
        last = of_key[-1]
        if last.logged is not None:
            missing = {name: values[name][1] for name in _LARGE if name not in last.logged}
            row = (last.number, values["doc"][0], [values[_LARGE[1]][0]], "update", (0, last.at, 0), missing or None)
            rows.append((history, key, *row, f"t{history}", 0, 1000 - last.at))
    return rows


@pytest.mark.parametrize("marks", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["rewritten", "marked"])
def test_values_that_were_not_logged_come_from_the_events_before(
    spark: SparkSession, tmp_path: Path, marks: bool
) -> None:
    """A hundred and twenty logs at once, each in another order and cut anywhere."""
    dice = random.Random(49)
    logs = [_log(dice) for _ in range(120)]
    applied = Applied(spark, tmp_path, _COLUMNS, keys=["h", "k"], order_by=["_position"])
    assert applied.latest.unlogged == _LARGE
    if marks:
        applied.mark()
    for cut in zip_longest(*(recut(dice, log) for log in logs), fillvalue=()):
        applied.apply([_record(at, event) for at, batch in enumerate(cut) for event in batch])
    rows = [row for at, log in enumerate(logs) for row in _expected(at, log)]
    assert len(rows) > 100
    assert sum(row[7] is not None for row in rows) > 30
    frames = (applied.rows, spark.createDataFrame(rows, _COLUMNS))
    # Spark sorts no maps.
    pairs = (f.withColumn("_unavailable", F.sort_array(F.map_entries("_unavailable"))) for f in frames)
    assert_df_equality(*pairs, ignore_row_order=True, ignore_nullable=True)


def test_a_value_that_no_event_has_is_named(spark: SparkSession, tmp_path: Path) -> None:
    applied = Applied(spark, tmp_path, _COLUMNS, keys=["h", "k"], order_by=["_position"])
    applied.apply([_record(0, _Event(1, 5, 5, {"doc": "x"}))])
    row = applied.rows.first()
    assert row is not None
    assert (row["doc"], row[_LARGE[1]], row["_unavailable"]) == ("x", None, {_LARGE[1]: None})
