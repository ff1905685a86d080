"""A comparison with a database at a place in its log: what has changed behind it, and where one goes on.

SQLite, which has no log: the places are those of the lake's rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from lakeingest.config import file
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import NotComplete, UsageError
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.results.database import DatabaseComparison
from lakeingest.pipeline import Pipeline
from lakeingest.record import COORDINATES, OffsetRange, OffsetRanges

TOPIC = "shop.main.orders"
POSITION = pa.struct([("commit", pa.int64()), ("event", pa.int64()), ("row", pa.int64())])
START = 2**24
"""Of the log, whose places are greater than the numbers of binlogs."""
ROWS = 120_000


def place(offset: int) -> int:
    """Where an event stands in the log: so many offsets, so many places."""
    return START + 10 * offset


def of_lake(rows: Iterable[tuple[int, str, int]], change: str = "insert") -> pa.Table:
    """Rows of id, word, and the offset of their events."""
    ids, words, offsets = (list(each) for each in zip(*rows, strict=True))
    count = len(ids)
    coordinates = [[TOPIC] * count, pa.array([0] * count, pa.int32()), offsets]
    positions = [{"commit": place(each) - 5, "event": place(each), "row": 0} for each in offsets]
    event = [[change] * count, pa.array(positions, POSITION), pa.array([None] * count, pa.timestamp("us", "UTC"))]
    names = [*COORDINATES, "id", "word", "_change", "_position", "_changed_at"]
    return pa.table([*coordinates, ids, words, *event], names=names)


def of_deletes(offsets: Mapping[int | None, int]) -> pa.Table:
    """Deletes that are remembered: the key → the offset of the event."""
    columns = {
        "key_1": pa.array(offsets.keys(), pa.int64()),
        "order_1": [place(each) - 5 for each in offsets.values()],
        "order_2": [place(each) for each in offsets.values()],
        "order_3": [0] * len(offsets),
        "_topic": [TOPIC] * len(offsets),
        "_partition": pa.array([0] * len(offsets), pa.int32()),
        "_offset": list(offsets.values()),
        "pipeline": ["orders"] * len(offsets),
    }
    return pa.table(columns)


class CaughtUp:
    """A source whose records are all committed."""

    def topics(self) -> Topics:
        return Topics("cluster", {}, {(TOPIC, 0): 0}, {(TOPIC, 0): 0})


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("LAKEINGEST_CACHE", str(tmp_path / "cache"))
    values = {
        "name": "orders",
        "source": {"topics": [TOPIC], "bootstrap_servers": "localhost:1"},
        "decode": {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}},
        "table": {"path": str(tmp_path / "orders"), "mode": "upsert", "keys": ["id"]},
    }
    pipeline = Pipeline(file.from_mapping(values))
    pipeline.source = CaughtUp()  # type: ignore[assignment]
    return pipeline


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        yield connection
        connection.commit()


def fill(folder: Path, words: Mapping[int, str]) -> str:
    """The URL of a database with these rows."""
    with database(folder) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", words.items())
    return f"sqlite:///{folder / 'shop.db'}"


def kinds(comparison: DatabaseComparison) -> dict[str, str]:
    return {each.key: each.kind for each in comparison.different}


AT_ONCE = timedelta(0)


def test_what_changed_behind_a_place_is_not_compared(pipeline: Pipeline, tmp_path: Path) -> None:
    """Rows, and deletes, before the place differ; those behind it do not count, whatever they are."""
    url = fill(tmp_path, {1: "a", 2: "b", 3: "new", 4: "d", 6: "brought back", 7: "back, too", 8: "missing"})
    rows = [(1, "a", 10), (2, "other", 11), (3, "c", 30), (4, "d", 31), (5, "extra", 12), (9, "gone", 32)]
    consumed = Receipt("orders", 1, Run(), "c", {}, OffsetRanges((OffsetRange(TOPIC, 0, 0, 34),)), "q")
    receipt = CommitProperties(custom_metadata={"userMetadata": consumed.to_json()})
    write_deltalake(pipeline.config.table.path, of_lake(rows), commit_properties=receipt)
    write_deltalake(f"{pipeline.config.table.path}_deletes", of_deletes({6: 9, 7: 33}))
    comparison = pipeline.compare_database(url, at=f"{place(20)}", wait=AT_ONCE)
    assert kinds(comparison) == {
        "id = 2": "different",
        "id = 5": "extra",
        "id = 6": "missing",
        "id = 8": "missing",
    }
    assert (comparison.keys, comparison.compared, comparison.same, comparison.changed_since) == (7, 5, 1, 4)
    everything = pipeline.compare_database(url, wait=AT_ONCE)
    assert (everything.compared, everything.same, everything.changed_since) == (9, 2, 0)
    assert comparison.unsure == "the database does not say where it ends"
    assert "not compared: 4 keys that changed since" in "\n".join(map(str, comparison.text))


def test_a_place_that_the_table_has_not_reached(pipeline: Pipeline, tmp_path: Path) -> None:
    """What to wait for is said."""
    url = fill(tmp_path, {1: "a"})
    write_deltalake(pipeline.config.table.path, of_lake([(1, "a", 10)]))
    with pytest.raises(NotComplete, match=r"not complete up to 1/0: .*\n.*lakeingest wait FILE --position 1/0"):
        pipeline.compare_database(url, at="1/0")


def test_what_is_no_place(pipeline: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='"now" is no place in a database'):
        pipeline.compare_database("sqlite://", at="now")


def test_what_comes_while_the_database_is_read_is_not_compared(pipeline: Pipeline, tmp_path: Path) -> None:
    """The lake gets events that the rows which were read have not: an update, an insert, a delete."""
    url = fill(tmp_path, {1: "a", 2: "b", 3: "c", 4: "planted"})
    write_deltalake(pipeline.config.table.path, of_lake([(1, "a", 10), (2, "b", 11), (3, "c", 12), (4, "d", 13)]))

    def change(step: str) -> None:
        rows = [(1, "a", 10), (2, "later", 20), (4, "d", 13), (5, "new", 21)]
        write_deltalake(pipeline.config.table.path, of_lake(rows), mode="overwrite")
        write_deltalake(f"{pipeline.config.table.path}_deletes", of_deletes({3: 22}))

    comparison = pipeline.compare_database(url, wait=AT_ONCE, on_step=change)
    assert kinds(comparison) == {"id = 4": "different"}
    assert (comparison.same, comparison.changed_since) == (1, 3)


def test_a_table_that_is_emptied_while_it_is_read(pipeline: Pipeline, tmp_path: Path) -> None:
    """No row is missing: all have changed."""
    url = fill(tmp_path, {1: "a", 2: "b"})
    write_deltalake(pipeline.config.table.path, of_lake([(1, "a", 10), (2, "b", 11)]))

    def empty(step: str) -> None:
        write_deltalake(pipeline.config.table.path, of_lake([(3, "c", 21)]), mode="overwrite")
        write_deltalake(f"{pipeline.config.table.path}_deletes", of_deletes({None: 20}))

    comparison = pipeline.compare_database(url, wait=AT_ONCE, on_step=empty)
    assert (comparison.equal, comparison.compared, comparison.changed_since) == (True, 0, 3)


def test_rows_of_deleted_keys_that_stay_are_none_of_the_database_s(pipeline: Pipeline, tmp_path: Path) -> None:
    table = pipeline.config.table.model_copy(update={"deletes": "mark"})
    marking = Pipeline(pipeline.config.model_copy(update={"table": table}))
    url = fill(tmp_path, {1: "a", 3: "c"})
    rows = of_lake([(1, "a", 10), (2, "deleted", 11), (3, "deleted", 12)])
    write_deltalake(table.path, rows.append_column("_op", [["upsert", "delete", "delete"]]))
    comparison = marking.compare_database(url, wait=AT_ONCE)
    assert (kinds(comparison), comparison.same) == ({"id = 3": "missing"}, 1)


def test_a_comparison_that_was_cut_off_goes_on(pipeline: Pipeline, tmp_path: Path) -> None:
    """What was read is not read again; what changed between the starts is not compared; nothing stays behind."""
    url = fill(tmp_path, {id: f"word {id}" for id in range(ROWS)})
    rows = [(id, f"word {id}", id) for id in range(ROWS)]
    write_deltalake(pipeline.config.table.path, of_lake(rows))
    at = str(place(ROWS - 10))
    steps = list[str]()

    def cut(step: str) -> None:
        steps.append(step)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            pipeline.compare_database(url, at=at, on_step=cut)
    assert steps == [f"{count:,} rows of the database are read" for count in (50_000, 100_000)]
    steps.clear()

    def two_at_once(step: str) -> None:
        steps.append(step)
        with pytest.raises(UsageError, match="the same comparison is at work"):
            pipeline.compare_database(url, at=at)

    with database(tmp_path) as connection:
        connection.execute("UPDATE orders SET word = 'later' WHERE id IN (7, 110000)")
        # No event says so.
        connection.execute("UPDATE orders SET word = 'planted' WHERE id IN (8, 110001)")
    rows[7], rows[110_000] = (7, "later", ROWS), (110_000, "later", ROWS + 1)
    write_deltalake(pipeline.config.table.path, of_lake(rows), mode="overwrite")
    comparison = pipeline.compare_database(url, at=at, wait=AT_ONCE, on_step=two_at_once)
    assert steps == [f"{ROWS:,} rows of the database are read"]
    # The row of key 8 was read before it changed.
    assert kinds(comparison) == {"id = 110001": "different"}
    assert (comparison.keys, comparison.same, comparison.changed_since) == (ROWS, ROWS - 1 - 12, 12)
    assert list((tmp_path / "cache" / "compare").iterdir()) == []
    assert kinds(pipeline.compare_database(url, at=at, wait=AT_ONCE)) == {
        "id = 8": "different",
        "id = 110001": "different",
    }
