"""What a receipt says of the batch before it: observed, read from that batch's own files, or null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeingest.config import file
from lakeingest.delta import sums
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Account, Counts, Receipt, Run
from lakeingest.delta.sums import BatchSums, Place, Sums
from lakeingest.ingest.sums_chain import SumsChain
from lakeingest.record import OffsetRange, OffsetRanges

ROWS: list[Place] = [("t", 0, 0), ("t", 0, 2)]
REFUSED: list[Place] = [("t", 0, 1)]
RECEIPT = Receipt("p", 1, Run(), "c", {"t": "i"}, OffsetRanges((OffsetRange("t", 0, 0, 3),)), "q")
NEXT = replace(RECEIPT, sequence=2)
ACCOUNT = Account(Counts(3, 2, 1, 0))
SEEN = {"consumed": 3, "refused": 1, "dropped": 0}


def without_spark(values: dict[str, Any]) -> PipelineTables:
    spark: Any = None
    return PipelineTables(spark, file.from_mapping(values))


@pytest.fixture
def tables(tmp_path: Path) -> PipelineTables:
    for name, rows in (("t", ROWS), ("t_quarantine", REFUSED)):
        topic, partition, offset = zip(*rows, strict=True)
        columns = [pa.array(topic), pa.array(partition, pa.int32()), pa.array(offset)]
        table = pa.Table.from_arrays(columns, names=["_topic", "_partition", "_offset"])
        write_deltalake(str(tmp_path / name), table)
    values = {"name": "p", "source": {"topics": ["t"], "bootstrap_servers": "h:1"}, "schema": {"columns": "n INT"}}
    return without_spark({**values, "table": {"path": str(tmp_path / "t")}})


def log(rows: int, receipt: Receipt) -> CommitLog:
    return CommitLog("/t", "p", (Commit(0, datetime.now(UTC), rows, receipt),))


def before(tables: PipelineTables, account: Account | None, rows: int = 1) -> BatchSums | None:
    """What is said by the process after the one that wrote the batch, and its account in quarantine if it had one."""
    refused = log(rows, replace(RECEIPT, account=account)) if account else CommitLog("/q", "p")
    return SumsChain(tables, log(2, RECEIPT), refused).chained(NEXT).before


def observed(places: Sequence[Place]) -> dict[str, int]:
    return {**SEEN, "mixed": sums.of(places).mixed, "placed": sums.of(places).placed}


def test_another_process_reads_the_files(tables: PipelineTables) -> None:
    """Whatever others did to the table since."""
    DeltaTable(tables.config.table.identifier).delete("_offset = 2")
    assert before(tables, ACCOUNT) == BatchSums(1, sums.of(ROWS), sums.of(REFUSED))


@pytest.mark.parametrize(
    ("account", "rows"),
    [
        # It was cut off, and nobody has settled it yet.
        (None, 1),
        # Two of three were in quarantine before, from a batch that a RESTORE took back.
        (Account(Counts(5, 2, 3, 0)), 1),
    ],
)
def test_what_quarantine_took_is_not_guessed(tables: PipelineTables, account: Account | None, rows: int) -> None:
    """The table's own files are there all the same."""
    assert before(tables, account, rows) == BatchSums(1, sums.of(ROWS), None)


def test_without_files_it_is_null(tables: PipelineTables) -> None:
    """A VACUUM took them; what an account says is known without them."""
    for data in Path(tables.config.table.identifier).glob("*.parquet"):
        data.unlink()
    assert before(tables, ACCOUNT) == BatchSums(1, None, sums.of(REFUSED))
    assert before(tables, replace(ACCOUNT, table=Sums(2, 7, 8))) == BatchSums(1, Sums(2, 7, 8), sums.of(REFUSED))


def test_the_same_process_has_observed_them() -> None:
    """No file is read; what was observed counts if Delta wrote as many rows."""
    values = {"name": "p", "source": {"topics": ["t"], "bootstrap_servers": "h:1"}, "table": {"path": "/none"}}
    tables = without_spark({**values, "schema": {"columns": "n INT"}})
    chain = SumsChain(tables, CommitLog("/t", "p"), None)
    assert chain.chained(RECEIPT).before is None
    assert chain.committed(log(2, RECEIPT).commits[0], observed(ROWS)) == sums.of(ROWS)
    assert chain.chained(NEXT).before == BatchSums(1, sums.of(ROWS), None)
    chain.accounted(log(1, replace(RECEIPT, account=ACCOUNT)).commits[0], observed(REFUSED))
    assert chain.chained(NEXT).before == BatchSums(1, sums.of(ROWS), sums.of(REFUSED))
    assert chain.committed(log(3, RECEIPT).commits[0], observed(ROWS)) is None
    assert chain.chained(NEXT).before == BatchSums(1, None, Sums())
