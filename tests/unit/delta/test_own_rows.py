"""The sums of what one commit wrote, read from its own files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeingest.config import Storage
from lakeingest.delta import sums
from lakeingest.delta.reader import own_rows
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.delta.sums import Place, Sums

FIRST = [("t", 0, 5), ("t", 1, 7), ("ü", 9, 2**40)]
SECOND = [("t", 0, 6), ("t", 17, 8)]
SCHEMA = pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("n", pa.int64())])


def write(folder: Path, rows: list[Place | tuple[None, int, int]]) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    table = pa.Table.from_arrays([pa.array(each) for each in (*columns, [1] * len(rows))], names=SCHEMA.names)
    write_deltalake(str(folder), table.cast(SCHEMA), mode="append")


def of(folder: Path, version: int) -> Sums:
    return own_rows.of_commit(OfflineLog(str(folder), Storage()), version)


def test_each_commit_by_itself(tmp_path: Path) -> None:
    """Whatever was done to the table since: a DELETE, a compaction."""
    write(tmp_path, FIRST)
    write(tmp_path, SECOND)
    table = DeltaTable(str(tmp_path))
    table.delete("_offset = 5")
    table.optimize.compact()
    assert of(tmp_path, 0) == sums.of(FIRST)
    assert of(tmp_path, 1) == sums.of(SECOND)


def test_what_cannot_be_read_so(tmp_path: Path) -> None:
    """A commit that takes rows away, one that is not there, rows without coordinates, a file that is gone."""
    write(tmp_path, FIRST)
    DeltaTable(str(tmp_path)).delete("_offset = 5")
    write(tmp_path, [(None, 0, 1)])
    write(tmp_path, SECOND)
    for version in (1, 2, 9):
        with pytest.raises(Unreadable):
            of(tmp_path, version)
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(Unreadable):
        of(tmp_path, 3)
