"""Which rows of a database's table are read, over keys of several kinds and columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from lakeingest.operations.database_rows import DatabaseRows, connected


@dataclass(frozen=True)
class Key:
    """A primary key: types of its columns in the database and in the lake, its values, and whether they tell behind
    which row to go on.
    """

    types: tuple[type[sa.types.TypeEngine[Any]], ...]
    kinds: tuple[pa.DataType, ...]
    values: list[tuple[Any, ...]]
    tells: bool = True


KEYS = {
    "a number": Key((sa.BigInteger,), (pa.int64(),), [(each,) for each in range(-10, 13)]),
    "a text": Key((sa.String,), (pa.string(),), [(each,) for each in "aAbBéß '\"%10x"]),
    "a day and a number": Key(
        (sa.Date, sa.Integer),
        (pa.date32(), pa.int32()),
        [(date(2026, 1, 1) + timedelta(each % 3), each % 7) for each in range(21)],
    ),
    "three columns": Key(
        (sa.Integer, sa.String, sa.Integer),
        (pa.int32(), pa.string(), pa.int32()),
        [(a, b, c) for a in range(3) for b in "xy" for c in range(4)],
    ),
    "a number with a fraction, and bytes": Key(
        (sa.Float, sa.LargeBinary),
        (pa.float64(), pa.binary()),
        [(each / 3, bytes([each])) for each in range(21)],
        tells=False,
    ),
    "a whole number that the lake has as a DOUBLE": Key(
        (sa.BigInteger,), (pa.float64(),), [(float(each),) for each in range(7)], tells=False
    ),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    with connected(f"sqlite:///{tmp_path / 'shop.db'}") as engine:
        yield engine


@pytest.mark.parametrize("piece", [1, 3, 1000])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_each_row_is_read_once(engine: sa.Engine, tmp_path: Path, key: Key, piece: int) -> None:
    """However many are read at once, and wherever it was cut off: where the key tells it, no file is written again."""
    of_lake = dict(zip("abc", key.kinds, strict=False))
    columns = [sa.Column(name, kind, primary_key=True) for name, kind in zip(of_lake, key.types, strict=True)]
    table = sa.Table("orders", sa.MetaData(), *columns)
    table.create(engine)
    with engine.begin() as connection:
        for values in random.Random(piece).sample(key.values, len(key.values)):
            connection.execute(table.insert().values(values))
    reading = DatabaseRows(engine, "orders", of_lake, list(of_lake), (), piece)
    folder = tmp_path / "rows"
    folder.mkdir()
    files = reading.read(folder, lambda step: None)
    for cut in (len(files) - 1, len(files) // 2):
        for file in files[cut:]:
            file.unlink()
        steps = list[str]()
        files = reading.read(folder, steps.append)
        read = [tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()]
        assert sorted(read) == sorted(key.values)
        assert len(steps) == len(files) - (cut if key.tells else 0)


def test_a_table_without_rows(engine: sa.Engine, tmp_path: Path) -> None:
    """Its file says which columns there would be."""
    sa.Table("orders", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True)).create(engine)
    (file,) = DatabaseRows(engine, "orders", {"id": pa.int32()}, ["id"], ()).read(tmp_path, lambda step: None)
    assert pq.read_table(file).equals(pa.table({"id": pa.array([], pa.int32())}))


def test_a_database_that_does_not_say_where_its_log_ends(engine: sa.Engine) -> None:
    assert DatabaseRows(engine, "orders", {}, [], ()).log_end() is None
