"""A database's table held against the files of the lake's, without Spark: SQLite, which needs no server."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeingest.config import file
from lakeingest.errors import SetupError, SourceUnreachable, UsageError
from lakeingest.pipeline import Pipeline

ROWS = 60_000
AT_ONCE = timedelta(0)


def of_lake(ids: list[int], words: list[str | None]) -> pa.Table:
    count = len(ids)
    columns: dict[str, Any] = {
        "_topic": ["shop.main.orders"] * count,
        "_partition": pa.array([0] * count, pa.int32()),
        "_offset": list(range(count)),
        "id": ids,
        "word": words,
        "amount": [each / 4 for each in ids],
        "_change": ["insert"] * count,
        "noted": ["x"] * count,
    }
    return pa.table(columns)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    values = {
        "name": "orders",
        "source": {"topics": ["shop.main.orders"], "bootstrap_servers": "localhost:1"},
        "decode": {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}},
        "table": {"path": str(tmp_path / "orders"), "mode": "upsert", "keys": ["id"]},
    }
    return Pipeline(file.from_mapping(values))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with three rows other than the lake's: one more, one less, one changed."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT, amount REAL, later TEXT)")
        rows = ((id, None if id % 7 == 0 else f"wörd {id}", id / 4, "y") for id in range(1, ROWS + 1))
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
        database.execute("UPDATE orders SET word = 'other', amount = -1 WHERE id = 51000")
    database.close()
    return f"sqlite:///{tmp_path / 'shop.db'}"


def test_each_difference_is_named_and_nothing_else(pipeline: Pipeline, url: str) -> None:
    """Over several pieces of the database's rows."""
    ids = [id for id in range(ROWS + 1) if id != 17]
    words = [None if id % 7 == 0 else f"wörd {id}" for id in ids]
    write_deltalake(pipeline.config.table.path, of_lake(ids, words))
    comparison = pipeline.compare_database(url, wait=AT_ONCE)
    assert [(each.key, each.kind, each.columns) for each in comparison.different] == [
        ("id = 17", "missing", ()),
        ("id = 51000", "different", ("word", "amount")),
        ("id = 0", "extra", ()),
    ]
    assert (comparison.keys, comparison.equal, comparison.exit_code, comparison.position) == (ROWS, False, 1, None)
    assert dict(comparison.left_out) == {
        "noted": "which the database has not",
        "later": "which the lake has not",
    }


def test_equal_tables(pipeline: Pipeline, url: str) -> None:
    ids = list(range(1, ROWS + 1))
    words = ["other" if id == 51000 else None if id % 7 == 0 else f"wörd {id}" for id in ids]
    rows = of_lake(ids, words)
    amounts = pa.array([-1.0 if id == 51000 else id / 4 for id in ids])
    write_deltalake(pipeline.config.table.path, rows.set_column(5, "amount", amounts))
    assert pipeline.compare_database(url, "main.orders").equal


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        ("sqlite:///{folder}/empty.db", UsageError, "the database has no table"),
        ("sqlite:///{folder}/nowhere/shop.db", SourceUnreachable, "the database fails: unable to open"),
        ("nosuch://host/shop", UsageError, "none that SQLAlchemy knows"),
        ("mysql+mysqldb://host/shop", SetupError, "the driver MySQLdb is not installed"),
    ],
)
def test_what_is_wrong_with_a_database(
    pipeline: Pipeline, tmp_path: Path, at: str, error: type[Exception], message: str
) -> None:
    write_deltalake(pipeline.config.table.path, of_lake([1], ["a"]))
    with pytest.raises(error, match=message):
        pipeline.compare_database(at.format(folder=tmp_path), wait=AT_ONCE)


def test_rows_without_keys_are_not_compared(pipeline: Pipeline, url: str) -> None:
    config = pipeline.config.model_copy(update={"table": pipeline.config.table.model_copy(update={"mode": "append"})})
    with pytest.raises(UsageError, match=r"has table\.mode append, and a database has one row for each key"):
        Pipeline(config).compare_database(url)
