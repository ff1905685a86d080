"""Pipelines of mode changelog: each record is a row, and a view shows the latest row of each key."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, encoded, latest, unread
from support.pipelines.command_line import Command
from support.records import Record

from lakeingest.config import file
from lakeingest.errors import PipelineFileError, TableMismatch
from lakeingest.local import Addresses

CHANGELOG = {**UPSERT, "mode": "changelog"}


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, schema={"columns": CHANGES}, table=CHANGELOG)


def check(world: World, changes: Sequence[Change], lakeingest: Command, at: Path) -> None:
    """Each record is a row, or refused; and the views of DuckDB and Spark have the latest rows."""
    world.checked()
    assert len(world.rows()) == len(changes) - unread(changes)
    at.write_text(json.dumps(world.values()))
    answer = lakeingest("sql", at, 'SELECT id, "at", status, op FROM latest', "--output", "json")
    assert answer.code == 0, answer
    rows = answer.data["rows"]
    assert sorted(tuple(row.values()) for row in rows) == sorted(latest(changes))
    printed = {each["tool"]: each["code"] for each in lakeingest("sql", at, "--output", "json").data["open"]}
    *made, last = printed["Spark SQL"].rstrip(";").split(";")
    for statement in made:
        world.spark.sql(statement)
    expected = world.spark.createDataFrame(latest(changes), CHANGES)
    shown = world.spark.sql(last).select(expected.columns)
    assert_df_equality(shown, expected, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize("most", [pytest.param(2, marks=pytest.mark.slow), 1000])
def test_the_view_has_the_latest_rows(world: World, lakeingest: Command, tmp_path: Path, most: int) -> None:
    """Of changes that are shuffled, repeated and tied, some of them without a key or an order."""
    changes: list[Change] = [
        (key, at, f"{key} at {at}", "D" if (key + at) % 3 == 0 else "U") for key in range(3) for at in range(3)
    ]
    changes += [*changes[:2], (2, 2, "tie", "U"), (None, 1, "no key", "U"), (1, None, "no order", "D")]
    random.Random(most).shuffle(changes)
    world.produce(*map(encoded, changes))
    world.run(trigger={"max_records": most})
    check(world, changes, lakeingest, tmp_path / "p.yaml")
    assert {(row["op"], row["_op"]) for row in world.rows()} == {("D", "delete"), ("U", "upsert")}
    assert {row["reason"] for row in world.refused} == {"NULL_KEY", "NULL_ORDER"}


@pytest.mark.slow
def test_tombstones_are_rows(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """By the record's own key; what a gate asks of values is not asked of them."""
    suite = tmp_path / "suite.json"
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}
    suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    world.changes |= {
        "table": {**CHANGELOG, "keys": "key", "order_by": [], "on_delete_marker": None},
        "decode": {"key": {"format": "string"}},
        "gate": {"suite": str(suite)},
        "partition": [{"by": "field", "field": "status"}],
    }
    values = [(b"a", 1), (b"b", 1), (b"a", None), (b"b", 2), (b"c", None), (b"b", "no number"), (None, 3)]
    world.produce(*(Record(n and json.dumps({"id": n}).encode(), key, 0) for key, n in values))
    world.run()
    assert [(row["_key"], row["id"], row["_op"]) for row in world.rows()] == [
        ("a", 1, "upsert"),
        ("b", 1, "upsert"),
        ("a", None, "delete"),
        ("b", 2, "upsert"),
        ("c", None, "delete"),
    ]
    assert len(world.refused) == 2
    world.checked()
    (at := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    rows = lakeingest("sql", at, "SELECT _key, id FROM latest", "--output", "json").data["rows"]
    assert rows == [{"_key": "b", "id": 2}]


def test_another_mode_is_refused(world: World) -> None:
    """Of a table that is there; and what cannot be a changelog."""
    world.produce(encoded((1, 10, "a", "I")))
    world.run()
    others: list[dict[str, Any]] = [{"path": world.path()}, {**UPSERT, "path": world.path()}]
    for table in others:
        with pytest.raises(TableMismatch, match=r"table\.mode changelog"):
            world.run(table=table)
    required = {"columns": "id INT NOT NULL"}
    keyed = {**CHANGELOG, "keys": "key", "order_by": [], "on_delete_marker": None}
    with pytest.raises(PipelineFileError, match="NOT NULL is declared for id"):
        file.from_mapping(world.values(schema=required, table=keyed, decode={"key": {"format": "string"}}))
