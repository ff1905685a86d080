"""What would break the latest row of a key: keys and orders that change, hostile values, and what comes in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, encoded, latest
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, expire_records
from support.records.registered import maybe, record

from lakeingest.local import Addresses

pytestmark = pytest.mark.slow
MODES = ["upsert", "changelog", pytest.param("history", marks=pytest.mark.faults)]


def of(mode: str) -> dict[str, Any]:
    return {**UPSERT, "mode": mode}


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_a_key_of_another_type_and_an_order_that_is_left_out(stack: Addresses, spark: SparkSession, mode: str) -> None:
    """INT becomes BIGINT: what was deleted by the one is not brought back by the other. A version without the order is
    refused.
    """
    world = SchemaWorld(
        stack,
        spark,
        f"types_{mode}",
        table=of(mode),
        schema={"compatibility": "BACKWARD"},
        decode={"value": {"format": "avro"}},
    )
    fields = {"at": maybe("int"), "op": maybe("string")}
    narrow, wide = (world.avro(record("Change", id=kind, **fields)) for kind in ("int", "long"))
    world.produce(narrow(id=1, at=10, op="I"), narrow(id=1, at=20, op="D"), narrow(id=2, at=10, op="I"))
    world.run()
    world.produce(wide(id=1, at=15, op="U"), wide(id=2, at=20, op="U"), wide(id=2**40, at=1, op="I"))
    world.run()
    without = world.avro(record("Change", id="long", op=maybe("string")))
    world.produce(without(id=2, op="U"), wide(id=1, at=21, op="I"))
    world.run()
    rows = [(row["id"], row["at"]) for row in world.rows()]
    if mode == "upsert":
        assert sorted(rows) == [(1, 21), (2, 20), (2**40, 1)]
    else:
        assert len(rows) == 7
    assert [row["reason"] for row in world.refused] == ["NULL_ORDER"]
    report = world.ingestion().audit("source" if mode == "upsert" else None)
    assert report.conserved, report


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_hostile_keys(stack: Addresses, spark: SparkSession, named: str, mode: str) -> None:
    """Texts that SQL, Spark or Delta could read as something else; each is a key of its own, and found again."""
    quotes = ["'", "''", "\\", "\\'", "`", "--", "%", "_", "${spark.app.name}"]
    alike = ["", " ", "a", "A", "a ", "\u00e9", "e\u0301", "\U0001f600", "\0", "a" * 5000]
    keys = [*quotes, *alike]
    world = World(stack, spark, named, schema={"columns": CHANGES.replace("id INT", "id STRING")}, table=of(mode))
    for order in (1, 3, 2):
        world.produce(*(json.dumps({"id": key, "at": order, "op": "U"}).encode() for key in keys))
        world.run()
    world.produce(*(json.dumps({"id": key, "at": 9, "op": "D"}).encode() for key in keys[::2]))
    world.produce(*(json.dumps({"id": key, "at": 8, "op": "U"}).encode() for key in keys))
    world.run()
    if mode == "upsert":
        assert sorted((row["id"], row["at"]) for row in world.rows()) == sorted((key, 8) for key in keys[1::2])
    report = world.ingestion().audit("source" if mode == "upsert" else None)
    assert report.conserved, report


@pytest.mark.faults
def test_one_key_very_often(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Two hundred thousand changes of one key in a batch: one row."""
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=UPSERT)
    world.produce(*(encoded((1, at * 7919 % 200_003, "a", "U")) for at in range(200_000)))
    world.run()
    ((row),) = world.rows()
    assert row["at"] == 200_002
    assert world.ingestion().audit().superseded == 199_999


def test_tombstones_whose_key_cannot_be_read(stack: Addresses, spark: SparkSession, named: str) -> None:
    """They are refused, and delete nothing; a struct as the key is compared field by field."""
    key = {"format": "json", "columns": "region STRING, id INT"}
    table = {"mode": "upsert", "keys": "key", "order_by": []}
    world = World(stack, spark, named, schema={"columns": "status STRING"}, decode={"key": key}, table=table)
    keys = [b'{"region": "eu", "id": 1}', b'{"region": "us", "id": 1}', b'{"region": "eu", "id": 2}']
    world.produce(*(Record(b'{"status": "new"}', each, 0) for each in keys))
    world.run()
    world.produce(*(Record(None, each, 0) for each in (keys[0], b"no JSON", b'{"region": "us"}', None, b'{"id": "x"}')))
    world.run()
    assert sorted((row["_key"]["region"], row["_key"]["id"]) for row in world.rows()) == [("eu", 2), ("us", 1)]
    assert len(world.refused) == 4
    report = world.ingestion().audit("source")
    assert (report.conserved, report.quarantine) == (True, 4), report


@pytest.mark.faults
def test_compared_as_far_as_kafka_goes(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Rows whose records Kafka has deleted are counted apart; one that is older than what Kafka has is named."""
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=UPSERT)
    first: list[Change] = [(key, 10, "a", "I") for key in range(5)]
    second: list[Change] = [(1, 5, "late", "U"), (2, 20, "b", "U"), (3, 20, "", "D")]
    for changes in (first, second):
        world.produce(*map(encoded, changes))
        world.run()
    expire_records(stack, named, 5)
    report = world.ingestion().audit("source")
    # Of 1 Kafka has an older one, of 0 and 4 none.
    assert (report.conserved, report.keys_compared, report.keys_beyond) == (True, 2, 3), report
    world.sql("UPDATE {table} SET at = 19 WHERE id = 2")
    assert any("id = 2" in each for each in world.ingestion().audit("source").altered)


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_cut_off_behind_the_commit(stack: Addresses, spark: SparkSession, named: str, mode: str) -> None:
    """With a compaction and a RESTORE behind it; then all is read again."""
    table = {**of(mode), **({"deletes": "mark"} if mode == "upsert" else {})}
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=table)
    changes: list[Change] = [(1, 1, "a", "I"), (None, 1, "b", "I"), (1, 5, "", "D"), (2, 1, "c", "I"), (2, 2, "d", "U")]
    world.produce(*map(encoded, changes))
    world.run(trigger={"max_records": 2})
    version = world.commit_log().commits[-1].version
    more: list[Change] = [(1, 4, "late", "U"), (None, 2, "e", "U"), (2, 9, "", "D"), (3, 1, "f", "I")]
    world.produce(*map(encoded, more))
    world.crash()
    world.sql("OPTIMIZE {table}")
    world.run()
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    world.run()
    report = world.ingestion().audit("source" if mode == "upsert" else None)
    assert report.conserved, report
    rows = [(row["id"], row["at"]) for row in world.rows() if row["_op"] == "upsert"]
    if mode == "upsert":
        assert sorted(rows) == sorted((key, at) for key, at, _, _ in latest([*changes, *more]))
    assert report.quarantine == 2


def test_a_backfill_and_a_replay_of_a_changelog(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """Each record is a row once; what a rule refused is a row when it is replayed, with its operation."""
    suite = tmp_path / "suite.json"
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "at", "max_value": 15}}
    suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=of("changelog"), source={"start": "latest"})
    changes: list[Change] = [(1, 10, "a", "I"), (1, 20, "b", "U"), (1, 30, "", "D")]
    world.produce(*map(encoded, changes))
    world.run(gate={"suite": str(suite)})
    world.produce(encoded((1, 25, "c", "U")))
    world.run(gate={"suite": str(suite)})
    world.ingestion(gate={"suite": str(suite)}).backfill("earliest")
    assert sorted((row["at"], row["_op"]) for row in world.rows()) == [(10, "upsert"), (30, "delete")]
    assert world.ingestion().replay("the rule was wrong").moved == 2
    assert len(world.rows()) == 4
    world.checked()


@pytest.mark.faults
def test_the_memory_of_deletes_is_compacted(stack: Addresses, spark: SparkSession, named: str) -> None:
    """By `maintain`; what is remembered holds as before."""
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=UPSERT)

    def services() -> int:
        history = spark.sql(f"DESCRIBE HISTORY delta.`{world.path('_deletes')}`")
        return history.where("operation = 'OPTIMIZE'").count()

    deletes: list[Change] = [(key, 10, "", "D") for key in range(8)]
    world.produce(*map(encoded, deletes))
    world.run(trigger={"max_records": 2})
    compacted = [each.table for each in world.ingestion().maintain("compact")]
    assert world.path("_deletes") in compacted
    assert services() == 1
    world.produce(*(encoded((key, 5, "late", "U")) for key in range(8)), encoded((3, 11, "again", "U")))
    world.run()
    assert [(row["id"], row["at"]) for row in world.rows()] == [(3, 11)]
    assert world.ingestion().audit("source").conserved


@pytest.mark.faults
def test_columns_that_spark_does_not_compare(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Maps, and names of lakeingest's own beside the key: merged, and compared with the records."""
    columns = f"{CHANGES}, tags MAP<STRING, INT>, present STRING, within BOOLEAN, kind STRING, place INT"
    world = World(stack, spark, named, schema={"columns": columns}, table=UPSERT)
    more = {"tags": {"b": 1, "a": 2}, "present": "p", "within": True, "kind": "k", "place": 7}
    for at in (1, 2):
        made = ({"id": key, "at": at, "status": "a", "op": "U", **(more if key else {})} for key in range(2))
        world.produce(*(json.dumps(each).encode() for each in made))
        world.run()
    report = world.ingestion().audit("source")
    assert (report.conserved, report.keys_compared) == (True, 2), report
    world.sql("UPDATE {table} SET tags = map('a', 3) WHERE id = 1")
    assert any("changed it: id = 1" in each for each in world.ingestion().audit("source").altered)


@pytest.mark.faults
def test_columns_by_the_names_of_the_memory(stack: Addresses, spark: SparkSession, named: str) -> None:
    """key_1, order_1, pipeline and deleted_at are also columns of the table of deleted keys."""
    columns = "key_1 INT, order_1 INT, op STRING, pipeline STRING, deleted_at STRING"
    table = {**UPSERT, "keys": ["key_1"], "order_by": ["order_1"]}
    world = World(stack, spark, named, schema={"columns": columns}, table=table)

    def change(key: int, order: int, op: str) -> bytes:
        return json.dumps({"key_1": key, "order_1": order, "op": op, "pipeline": "p", "deleted_at": "x"}).encode()

    for batch in ([change(1, 5, "I"), change(2, 5, "D")], [change(1, 6, "D"), change(3, 1, "I")], [change(2, 4, "U")]):
        world.produce(*batch)
        world.run()
    assert [(row["key_1"], row["order_1"]) for row in world.rows()] == [(3, 1)]
    assert world.ingestion().audit("source").conserved
