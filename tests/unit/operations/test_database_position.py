"""Up to which place of a database's log a table claims to hold everything: over files, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakeingest.config import Storage, file
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.log_ends import LogEnd, LogEnds
from lakeingest.delta.reader import duck
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import UsageError
from lakeingest.operations import database_position
from lakeingest.operations.database_position import NewestEvent, claim, lies_behind, parse
from lakeingest.operations.readers import FileTables
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.record import NO_RANGES

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
EARLY, LATE = NewestEvent((10, 11, 0), at=AT), NewestEvent((20, 21, 0), at=AT)


def reader(folder: Path) -> FileTables:
    values = {
        "name": "orders",
        "source": {"topics": ["shop.public.orders"], "bootstrap_servers": "localhost:1"},
        "decode": {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}},
        "table": {"path": str(folder / "orders"), "mode": "upsert", "keys": ["id"]},
    }
    return FileTables(file.from_mapping(values), Storage())


def event(offset: int, place: tuple[int, int, int], change: str = "update", partition: int = 0) -> dict[str, Any]:
    names = ("commit", "event", "row")
    coordinates = {"_topic": "t", "_partition": partition, "_offset": offset}
    return {**coordinates, "_change": change, "_changed_at": AT, "_position": dict(zip(names, place, strict=True))}


def test_the_newest_event_of_each_partition(tmp_path: Path) -> None:
    """As the receipt has it; where it tells of none, that of a row."""
    rows = [event(5, (20, 21, 0)), event(4, (20, 21, 3)), event(6, (9, 30, 0)), event(0, (50, 51, 0), "snapshot", 1)]
    write_deltalake(str(tmp_path / "orders"), pa.Table.from_pylist(rows))
    tables, log = reader(tmp_path), CommitLog("orders", "orders")
    assert database_position.newest_events(tables, log) == {
        ("t", 0): NewestEvent((20, 21, 3), at=AT),
        ("t", 1): NewestEvent((50, 51, 0), True, AT),
    }
    ends = LogEnds({("t", 0): LogEnd((30, 2, 0), int(AT.timestamp()) * 1_000_000)})
    receipt = Receipt("orders", 1, Run(), "", {}, NO_RANGES, "", log_ends=ends)
    log = replace(log, commits=(Commit(3, AT, 1, receipt),))
    assert database_position.newest_events(tables, log) == {("t", 0): NewestEvent((30, 2, 0), at=AT)}


@pytest.mark.parametrize(
    ("newest", "waiting", "expected"),
    [
        ({}, [], LogPosition(reason="no event was committed yet")),
        ({("t", 0): EARLY, ("t", 1): LATE}, [], LogPosition(LATE.place, AT)),
        ({("t", 0): EARLY, ("t", 1): LATE}, [("t", 0)], LogPosition(EARLY.place, AT)),
        ({("t", 0): EARLY, ("t", 1): LATE}, [("t", 1)], LogPosition(LATE.place, AT)),
        ({("t", 1): LATE}, [("t", 0)], LogPosition(reason="records of t-0 wait, and no change was committed yet")),
        (
            {("t", 0): NewestEvent((10, 11, 0), True, AT)},
            [],
            LogPosition(reason="a snapshot is under way, or nothing has changed since its end"),
        ),
        (
            {("t", 0): NewestEvent((0, 0, 0), at=AT)},
            [],
            LogPosition(reason="the events of this connector do not say where they stand"),
        ),
    ],
)
def test_what_is_claimed(newest: Any, waiting: Any, expected: LogPosition) -> None:
    assert claim(newest, waiting) == expected


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=8),
    st.tuples(*[st.integers(0, 12)] * 3),
    st.integers(0, 20),
)
def test_all_of_each_transaction_up_to_the_claim_is_committed(
    transactions: list[list[int]], committed: tuple[int, int, int], newer: int
) -> None:
    """Over any transactions, whose events lie in three partitions; of each a part is committed, and of the last
    transaction Kafka may have a part only.

    Args:
        transactions: the partition of each event, transaction by transaction.
        committed: how many events of each partition are.
        newer: how many events Kafka has.
    """
    events, lsn, last_end = [list[tuple[int, int, int]]() for _ in range(3)], 0, 0
    ends, count = list[int](), 0
    for transaction in transactions:
        for partition in transaction:
            lsn, count = lsn + 1, count + 1
            if count <= newer:
                events[partition].append((last_end, lsn, len(ends)))
        lsn += 1
        last_end = lsn
        ends.append(last_end)
    counts = [min(number, len(each)) for number, each in zip(committed, events, strict=True)]
    newest = {("t", p): NewestEvent((*events[p][count - 1][:2], 0)) for p, count in enumerate(counts) if count}
    place = claim(newest, [("t", p) for p, count in enumerate(counts) if count < len(events[p])]).place
    if place is None:
        return
    for each, count in zip(events, counts, strict=True):
        assert all(ends[transaction] > max(place) for _, _, transaction in each[count:])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0/16B3748", (0x16B3748,)),
        ("A/ff", (0xA000000FF,)),
        ("mysql-bin.000003:1547", (3, 1547)),
        ("3:1547", (3, 1547)),
        ("24330056", (24330056,)),
    ],
)
def test_a_place_in_a_log(text: str, place: tuple[int, ...]) -> None:
    assert parse(text) == place


@pytest.mark.parametrize("text", ["", "0/", "now", "0/123456789", "bin:x", "-1", "1.5"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="is no place in a database's log"):
        parse(text)


BINLOG, WAL = (3, 1547, 0), (2**24 + 20, 2**24 + 10, 0)


@pytest.mark.parametrize(
    ("place", "target", "is_reached"),
    [
        (BINLOG, (3, 1547), True),
        (BINLOG, (3, 1548), False),
        (BINLOG, (2, 9999), True),
        (BINLOG, (2,), True),
        (BINLOG, (3,), False),
        (WAL, (2**24 + 19,), True),
        (WAL, (2**24 + 20,), False),
        ((2**24 + 20, 2**24 + 30, 0), (2**24 + 30,), True),
        ((2**24 + 20, 2**24 + 30, 0), (2**24 + 31,), False),
        (None, (0,), False),
    ],
)
def test_a_place_that_is_reached(place: Any, target: tuple[int, ...], *, is_reached: bool) -> None:
    """A query decides alike which events lie behind it."""
    assert LogPosition(place).reaches(target) is is_reached
    events = pa.table({"place": [place and dict(zip(("commit", "event", "row"), place, strict=True))]})
    text = f"SELECT coalesce({lies_behind(target, 'place.commit', 'place.event')}, false) AS behind FROM {{events}}"
    assert duck.query(text, {"events": events}) == [{"behind": is_reached}]


def test_how_a_place_is_said() -> None:
    assert "log up to 23803720 (0/16B3748 as PostgreSQL writes it)" in LogPosition((0x16B3748, 1, 0)).text
    assert "log up to position 1547 of binlog 3; the database" in LogPosition((3, 1547, 0), AT).text
    assert LogPosition((2**70, 1, 0)).text.endswith(f"log up to {2**70}")
