"""Pipelines of mode history: each record is a version of its key, and says from when to when it was valid."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle.version_ends import Version, ends
from support.pipelines import UPSERT, Crash, World
from support.pipelines.changes import Change
from support.pipelines.command_line import Command
from support.records import Record

from lakeingest.delta import merge_statement
from lakeingest.errors import TableMismatch
from lakeingest.local import Addresses

HISTORY = {**UPSERT, "mode": "history"}
_BEGIN = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    columns = "id INT, at TIMESTAMP, status STRING, op STRING"
    return World(stack, spark, named, schema={"columns": columns}, table=HISTORY)


def sent(change: Change) -> bytes:
    key, minute, status, op = change
    at = None if minute is None else (_BEGIN + timedelta(minutes=minute)).isoformat()
    return json.dumps({"id": key, "at": at, "status": status, "op": op}).encode()


def minutes(value: datetime | None) -> float | None:
    return None if value is None else (value.timestamp() - _BEGIN.timestamp()) / 60


def expected(changes: Sequence[Change]) -> list[tuple[Any, ...]]:
    """Offset, and what is valid from when to when, of changes in the order of their offsets."""
    made = {
        offset: Version(key, (minute, offset), minute, op == "D")
        for offset, (key, minute, _, op) in enumerate(changes)
        if key is not None and minute is not None
    }
    until = ends([*made.values()])
    return [(at, each.key, each.begins, end) for (at, each), end in zip(made.items(), until, strict=True)]


def shown(world: World) -> list[tuple[Any, ...]]:
    return [(row["_offset"], row["id"], minutes(row["_valid_from"]), minutes(row["_valid_to"])) for row in world.rows()]


def check(world: World, changes: Sequence[Change]) -> None:
    assert shown(world) == expected(changes)
    world.checked()


@pytest.mark.parametrize("most", [pytest.param(3, marks=pytest.mark.faults), 1000])
def test_versions_are_dated(world: World, lakeingest: Command, tmp_path: Path, most: int) -> None:
    """Of changes that are shuffled, repeated and tied, that delete and insert again, some without a key or an order."""
    changes: list[Change] = [
        (key, at, f"{key} at {at}", "D" if (key + at) % 3 == 0 else "U") for key in range(3) for at in range(4)
    ]
    changes += [*changes[:2], (2, 2, "tie", "U"), (None, 1, "no key", "U"), (1, None, "no order", "D")]
    random.Random(most).shuffle(changes)
    world.produce(*map(sent, changes))
    world.run(trigger={"max_records": most})
    check(world, changes)
    assert {row["reason"] for row in world.refused} == {"NULL_KEY", "NULL_ORDER"}
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    rows = lakeingest("sql", at, "SELECT id, status FROM latest", "--output", "json").data["rows"]
    newest = {(changes[at][0], changes[at][2]) for at, _, _, end in expected(changes) if end is None}
    assert {tuple(row.values()) for row in rows} == newest
    with pytest.raises(TableMismatch, match=r"table\.mode history"):
        world.run(table={**HISTORY, "mode": "changelog"})


@pytest.mark.slow
def test_late_batches_restores_and_a_batch_that_was_cut_off(world: World) -> None:
    changes: list[Change] = [(1, 1, "a", "I"), (None, 1, "b", "I"), (1, 9, "", "D"), (2, 1, "c", "I")]
    world.produce(*map(sent, changes))
    world.run(trigger={"max_records": 2})
    version = world.commit_log().commits[-1].version
    more: list[Change] = [
        (1, 4, "late", "U"),
        (None, 2, "d", "U"),
        (2, 9, "", "D"),
        (3, 1, "e", "I"),
        (1, 12, "f", "I"),
    ]
    world.produce(*map(sent, more))
    world.crash()
    world.sql("OPTIMIZE {table}")
    world.run()
    check(world, [*changes, *more])
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    last: list[Change] = [(1, 3, "later still", "U")]
    world.produce(*map(sent, last))
    world.run()
    check(world, [*changes, *more, *last])


@pytest.mark.faults
def test_a_replay_into_a_history(world: World, tmp_path: Path) -> None:
    """What a rule refused has its place among the versions when it is replayed."""
    suite = tmp_path / "suite.json"
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "max_value": 1}}
    suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    changes: list[Change] = [(1, 1, "a", "I"), (2, 5, "b", "I"), (2, 9, "", "D"), (2, 7, "c", "U")]
    world.produce(*map(sent, changes))
    world.run(gate={"suite": str(suite)})
    assert world.ingestion().replay("the rule was wrong").moved == 2
    check(world, changes)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.faults), True])
def test_a_job_that_commits_in_between(world: World, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    """A backfill commits when the run has looked at the table, and before its MERGE: neither sees the other's rows."""
    world.changes["source"] = {"start": "latest"}
    first: list[Change] = [(1, 5, "a", "U"), (1, 15, "b", "U"), (2, 5, "c", "U")]
    second: list[Change] = [(1, 10, "d", "U"), (2, 1, "e", "U"), (3, 1, "f", "U")]
    world.produce(*map(sent, first))
    world.run()
    world.produce(*map(sent, second))
    merge = merge_statement.commit

    def behind_another(*arguments: Any) -> None:
        monkeypatch.undo()
        assert world.ingestion().backfill("earliest").counts.consumed == 3
        merge(*arguments)
        if killed:
            raise Crash

    monkeypatch.setattr(merge_statement, "commit", behind_another)
    if killed:
        with pytest.raises(Crash):
            world.run()
        assert shown(world) != expected(first + second)
    world.run()
    assert merge_statement.commit is merge
    check(world, first + second)


@pytest.mark.slow
def test_tombstones_end_versions(world: World) -> None:
    """By the record's own key and time, which is no column of the value."""
    world.changes |= {
        "table": {**HISTORY, "keys": "key", "order_by": [], "on_delete_marker": None},
        "decode": {"key": {"format": "string"}},
    }
    keys = [("a", 1), ("b", 2), ("a", None), ("a", 4), ("c", None)]
    records = [
        Record(status and sent((1, 0, str(status), "U")), key.encode(), 0, at=_BEGIN + timedelta(minutes=at))
        for at, (key, status) in enumerate(keys)
    ]
    world.produce(*records)
    world.run(trigger={"max_records": 3})
    times = [(row["_op"], minutes(row["_valid_from"]), minutes(row["_valid_to"])) for row in world.rows()]
    assert times == [
        ("upsert", 0, 2),
        ("upsert", 1, None),
        ("delete", 2, 2),
        ("upsert", 3, None),
        ("delete", 4, 4),
    ]
    world.checked()
