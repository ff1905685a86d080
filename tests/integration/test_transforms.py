"""Transforms in whole pipelines: what the table has, what is refused and left out, and what schemas change."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import World
from support.pipelines.schema_world import SchemaWorld
from support.records.registered import maybe, record
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.delta.receipt import Counts
from lakeingest.errors import PipelineFileError, TableMismatch, UsageError
from lakeingest.local import Addresses

STEPS: list[dict[str, Any]] = [
    {"where": {"sold": "status <> 'test'"}},
    {"rename": {"id": "order"}},
    {"flatten": ["buyer"]},
    {"cast": {"amount": "DECIMAL(10,2)"}},
    {"derive": {"each": "CAST(amount / items AS DOUBLE)", "sold_on": "CAST(_timestamp AS DATE)"}},
    {"drop": ["status"]},
]
COLUMNS = "id INT NOT NULL, status STRING, amount STRING, items INT, buyer STRUCT<name: STRING, mail: STRING>"


def order(n: int, **changes: Any) -> bytes:
    fields = {"id": n, "status": "sold", "amount": f"{n}.5", "items": 2, "buyer": {"name": f"b{n}", "mail": "x@y"}}
    return json.dumps({**fields, **changes}).encode()


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(
        stack,
        spark,
        named,
        schema={"columns": COLUMNS},
        transform=STEPS,
        partition=[{"by": "time", "field": "sold_on", "extract": "field"}],
    )


def held(world: World, left_out: set[int]) -> None:
    """Each record is there once, but for those at these offsets, which are dropped as the file says."""
    report = world.ingestion().audit()
    assert report.conserved, report
    wanted = {place: sha for place, sha in world.produced.items() if place[2] not in left_out}
    assert_exactly_once(world.spark, world.ingestion(), wanted)


def test_what_becomes_of_records(world: World, tmp_path: Path) -> None:
    """Its columns, its partitions, what cannot be computed in quarantine with its bytes, what is left out by name."""
    world.produce(order(1), order(2, items=0), order(3, status="test"), order(4, amount="much"), order(5, status=None))
    world.produce(b"no JSON", order(6, buyer=None))
    assert world.run() == Counts(7, 2, 3, 2)
    frame = world.spark.read.format("delta").load(world.path())
    rows = [(1, "1.50", 2, "b1", "x@y", 0.75), (6, "6.50", 2, None, None, 3.25)]
    wanted = world.spark.createDataFrame(
        rows, "order INT, amount STRING, items INT, buyer_name STRING, buyer_mail STRING, each DOUBLE"
    ).selectExpr("order", "CAST(amount AS DECIMAL(10,2)) AS amount", "items", "buyer_name", "buyer_mail", "each")
    found = frame.select(wanted.columns)
    assert_df_equality(found, wanted, ignore_row_order=True, ignore_nullable=True)
    assert frame.where("sold_on <> CAST(_timestamp AS DATE) OR day <> sold_on OR day IS NULL").isEmpty()
    assert not {"status", "buyer", "id"} & set(frame.columns)
    # Delta 4.0 makes a table with a generated column without NOT NULL; see docs/how-to/platforms.md.
    assert frame.schema["order"].nullable == world.spark.version.startswith("4.0")
    assert [(row["_offset"], row["stage"], row["reason"], row["message"]) for row in world.refused] == [
        (1, "transform", "NOT_COMPUTED", "transform[4].derive.each cannot be computed of amount, items"),
        (3, "transform", "NOT_COMPUTED", "transform[3].cast.amount cannot be computed of amount"),
        (5, "value", "BROKEN_JSON", world.refused[2]["message"]),
    ]
    held(world, {2, 4})
    (file := tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    said = CliRunner().invoke(app, ["audit", str(file)])
    assert "dropped: 2 by sold" in said.output
    assert world.ingestion().status().commits[0]["left_out"] == {"sold": 2}


@pytest.mark.faults
def test_a_replay_under_other_steps(world: World) -> None:
    """A division that is guarded in the file lets refused records into the table."""
    world.produce(order(1), order(2, items=0))
    world.run()
    steps = json.loads(json.dumps(STEPS).replace("amount / items", "amount / nullif(items, 0)"))
    world.changes["transform"] = steps
    assert world.ingestion().replay("no items are nothing each").moved == 1
    assert [row["each"] for row in world.rows()] == [0.75, None]
    held(world, set())


def test_plan_shows_it(world: World) -> None:
    """The table's columns, and what would be refused, and why; nothing is written."""
    world.produce(order(1), order(2, items=0), order(3, status="test"))
    plan = world.ingestion().plan()
    assert (plan.counts["accepted"], plan.counts["refused"], plan.counts["dropped"]) == (1, 1, 1)
    assert plan.left_out == {"sold": 1}
    assert {"order", "each", "buyer_name"} <= {column["name"] for column in plan.columns}
    assert [(each["stage"], each["reason"]) for each in plan.refusals] == [("transform", "NOT_COMPUTED")]


def test_the_gate_sees_what_the_table_gets(world: World, tmp_path: Path) -> None:
    """An expectation of a derived column; one of a column that is gone is a mistake of the file."""
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "each", "max_value": 2}}
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    world.changes["gate"] = {"suite": str(tmp_path / "s.json")}
    world.produce(order(1), order(9))
    assert world.run() == Counts(2, 1, 1)
    assert [row["reason"] for row in world.refused] == ["EXPECTATION"]
    rule["kwargs"]["column"] = "status"
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    with pytest.raises(PipelineFileError) as wrong:
        world.ingestion()
    assert "status" in wrong.value.problems[0]


@pytest.mark.faults
def test_cut_off_between_the_commits(world: World) -> None:
    """What was refused and left out is told by the run that repairs it, by name."""
    world.produce(order(1), order(2, items=0), order(3, status="test"), order(4, status="test"))
    world.crash()
    world.produce(order(5))
    world.run()
    assert world.ingestion().audit().left_out == {"sold": 2}
    held(world, {2, 3})


def test_other_steps_for_a_table_that_is_there(world: World) -> None:
    """New columns come; one that would have another type is refused in a sentence, and nothing is consumed."""
    world.produce(order(1))
    world.run()
    world.produce(order(2))
    world.changes["transform"] = [*STEPS, {"cast": {"items": "STRING"}}]
    with pytest.raises(TableMismatch, match=r"transform makes of it|schema.columns declares"):
        world.run()
    world.changes["transform"] = [*STEPS, {"derive": {"double": "CAST(items * 2 AS BIGINT)"}}]
    assert world.run() == Counts(1, 1)
    assert [row["double"] for row in world.rows()] == [None, 4]
    held(world, set())


V1 = record("o", id="int", amount="int")
V2 = record("o", id="int", amount="long", note=maybe("string"))
V3 = record("o", id="int")
AVRO: dict[str, Any] = {
    "decode": {"value": {"format": "avro"}},
    "schema": {"columns": None},
    "transform": [{"rename": {"amount": "sum"}}, {"derive": {"big": "sum > 10"}}],
}


@pytest.mark.parametrize("mode", ["BACKWARD", pytest.param("NONE", marks=pytest.mark.faults)])
def test_the_table_follows_schemas(stack: Addresses, spark: SparkSession, named: str, mode: str) -> None:
    """A wider type and a new field go through the steps; a field that a schema removed is null to them."""
    world = SchemaWorld(stack, spark, named, **{**AVRO, "schema": {"columns": None, "compatibility": mode}})
    one, two, three = (world.avro(tree) for tree in (V1, V2, V3))
    world.produce(one(id=1, amount=5))
    world.run()
    world.produce(two(id=2, amount=2**40, note="n"), three(id=3), one(id=4, amount=12))
    world.run()
    table = spark.read.format("delta").load(world.path())
    assert dict(table.dtypes)["sum"] == "bigint"
    wanted = [(1, 5, False, None), (2, 2**40, True, "n"), (3, None, None, None), (4, 12, True, None)]
    assert [(r["id"], r["sum"], r["big"], r["note"]) for r in world.rows()] == wanted
    world.checked()


@pytest.mark.faults
def test_a_wider_type_that_a_step_bars(stack: Addresses, spark: SparkSession, named: str) -> None:
    """What plan tells a run does: the version is refused; a CAST lets the next record widen, and a replay take both."""
    world = SchemaWorld(
        stack, spark, named, **{**AVRO, "transform": [{"derive": {"sq": "CAST(amount * amount AS BIGINT)"}}]}
    )
    one, two = (world.avro(tree) for tree in (V1, V2))
    world.produce(one(id=1, amount=5))
    world.run()
    world.produce(one(id=2, amount=100_000), two(id=3, amount=100_000))
    planned = {each["reason"]: each["count"] for each in world.ingestion().plan().refusals}
    world.run()
    assert planned == Counter(row["reason"] for row in world.refused) == {"NOT_COMPUTED": 1, "DIFFERENT_TYPE": 1}
    (why,) = (row["message"] for row in world.refused if row["reason"] == "DIFFERENT_TYPE")
    assert why.endswith("write CAST(amount AS BIGINT) in the step, then replay")
    world.changes["transform"] = [{"derive": {"sq": "CAST(CAST(amount AS BIGINT) * amount AS BIGINT)"}}]
    world.produce(two(id=4, amount=1))
    world.run()
    found = world.ingestion().replay("the step says its type")
    assert (found.looked, found.moved) == (2, 2)
    assert {row["id"]: row["sq"] for row in world.rows()} == {1: 25, 2: 10**10, 3: 10**10, 4: 1}
    world.checked()


SALT, KEY = "a salt that nobody sees", "a key that nobody sees"
MASKED: list[dict[str, Any]] = [
    {"mask": {"buyer.mail": {"hash": SALT}, "buyer.name": {"last": 1}, "status": {"constant": "-"}, "items": "null"}}
]


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["encrypted", pytest.param("never", marks=pytest.mark.faults)])
def test_masked_fields_are_nowhere(world: World, kept: str) -> None:
    """In no row, no byte of quarantine and no message; what was encrypted comes back with its key, by a replay."""
    divided: dict[str, Any] = {"derive": {"each": "CAST(10 / items AS DOUBLE)"}}
    world.changes |= {"transform": [divided, *MASKED], "partition": []}
    world.changes["quarantine"] = {"keep_bytes": kept, **({"encryption_key": KEY} if kept == "encrypted" else {})}
    bad = order(2, items="SECRET", buyer={"name": "SECRET", "mail": "SECRET"})
    by_nothing = order(4, items=0, buyer={"name": "SECRET", "mail": "x@y"})
    world.produce(
        order(1, buyer={"name": "SECRET", "mail": "x@y"}), bad, order(3, buyer=None), b"SECRET", None, by_nothing
    )
    assert world.run() == Counts(6, 2, 4)
    masked = {"name": "***T", "mail": hashlib.sha256(f"{SALT}x@y".encode()).hexdigest()}
    assert [(row["status"], row["items"], row["buyer"]) for row in world.rows()] == [
        ("-", None, masked),
        ("-", None, None),
    ]
    said = "encrypted" if kept == "encrypted" else "left out"
    assert [(row["reason"], row["bytes"]) for row in world.refused] == [
        ("WRONG_TYPE", said),
        ("BROKEN_JSON", said),
        ("NULL_VALUE", None),
        ("NOT_COMPUTED", said),
    ]
    assert "SECRET" not in str(world.rows()) + str(world.refused) + str(world.ingestion().plan().to_json())
    assert world.ingestion().audit().conserved
    world.changes["transform"] = [{"derive": {"each": "CAST(10 / nullif(items, 0) AS DOUBLE)"}}, *MASKED]
    if kept == "encrypted":
        with pytest.raises(UsageError, match="encryption_key does not open"):
            world.ingestion(quarantine={"keep_bytes": kept, "encryption_key": KEY[::-1]}).replay("another key")
    found = world.ingestion().replay("no items are nothing each")
    assert (found.looked, found.moved) == ((4, 1) if kept == "encrypted" else (1, 0))
    if kept == "encrypted":
        assert world.rows()[-1]["buyer"] == masked
    assert world.ingestion().audit().conserved


@pytest.mark.classic
def test_no_plan_shows_a_secret(world: World) -> None:
    """Salt and key are in no plan that Spark keeps for its UI, and so in no event log."""
    quarantine = {"keep_bytes": "encrypted", "encryption_key": KEY}
    headers = {"mask": {"_headers.user": {"hash": SALT}}}
    world.changes |= {"transform": [*MASKED, headers], "quarantine": quarantine, "partition": []}
    world.produce(order(1), b"x")
    store = world.spark._jsparkSession.sharedState().statusStore()

    def kept() -> list[Any]:
        return list(world.spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(store.executionsList()))

    # Of one that it has forgotten, and that ended later, Spark keeps a record without a plan.
    before = max((execution.executionId() for execution in kept()), default=-1)
    world.run()
    # It forgets all but the newest ones, in a thread of its own: none may go while they are read.
    most, deadline = int(world.spark.conf.get("spark.sql.ui.retainedExecutions")), time.monotonic() + 30
    while store.executionsCount() > most:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shown = "".join(
        execution.physicalPlanDescription()
        + store.planGraph(execution.executionId()).makeDotFile(store.executionMetrics(execution.executionId()))
        for execution in kept()
        if execution.executionId() > before
    )
    assert "sha2" in shown
    assert "aes" in shown.lower()
    assert not [secret for secret in (SALT, KEY) if secret in shown]
