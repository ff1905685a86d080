"""Whole pipelines of a database's change events: Debezium's, as Kafka Connect's JSON with schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import World, only
from support.pipelines.command_line import Command
from support.records import Record, produce
from support.records.change_events import event, key, named, schema, value

from lakeingest.delta.receipt import Counts
from lakeingest.errors import SourceChanged, UsageError
from lakeingest.ingest.events import Committed
from lakeingest.local import Addresses

COLUMNS: dict[str, Any] = {
    "id": {"type": "int32"},
    "status": {"type": "string"},
    "doc": {"type": "string"},
    "at": named("int64", "io.debezium.time.MicroTimestamp"),
}
WITH_NOTE = {**COLUMNS, "id": {"type": "int64"}, "note": {"type": "string"}}
UNLOGGED = "__debezium_unavailable_value"
DECODE = {
    "value": {"format": "connect_json"},
    "key": {"format": "connect_json"},
    "envelope": {"format": "debezium"},
}


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, schema=None, decode=DECODE, table={"mode": "upsert", "keys": ["id"]})


def row(id: int, status: str | None = None, doc: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": id, "status": status, "doc": doc, "at": None if status is None else id, **more}


def change(op: str, row: Mapping[str, Any], at: int, columns: Mapping[str, Any] = COLUMNS, version: int = 1) -> Record:
    return Record(value(schema(columns, version=version), event(op, row, at)), key(id=row["id"]), 0)


def tombstone(id: int) -> Record:
    return Record(None, key(id=id), 0)


def read(world: World, *names: str) -> list[tuple[Any, ...]]:
    """These columns of the table's rows, by their keys."""
    rows = sorted(world.rows(), key=lambda each: each["id"])
    return [tuple(each[name] for name in ("id", "status", "doc", *names)) for each in rows]


HISTORY = (
    change("r", row(1, "new", "a"), 10),
    change("r", row(2, "new", "b"), 10),
    change("u", row(1, "paid", UNLOGGED), 20),
    change("c", row(3, "new", "c"), 30),
    change("d", row(2), 40),
    tombstone(2),
    change("c", row(2, "again", "B"), 50),
    change("u", row(3, "lost", UNLOGGED), 60),
    change("d", row(3), 70),
    tombstone(3),
)
EXPECTED = [(1, "paid", "a"), (2, "again", "B")]


def test_a_table_has_the_rows_of_the_database(world: World, tmp_path: Path, lakeingest: Command) -> None:
    world.produce(*HISTORY)
    assert world.run() == Counts(10, 8, 0, 2)
    assert read(world) == EXPECTED
    types = {
        field.name: field.dataType.simpleString() for field in world.ingestion().spark.read.load(world.path()).schema
    }
    assert (types["at"], types["_changed_at"]) == ("timestamp_ntz", "timestamp")
    report = world.ingestion().audit("source")
    assert report.conserved, report
    assert (report.keys_compared, report.altered) == (3, ())
    # Its newest event is at 70, behind a transaction that ended at 69; none waits.
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    done = lakeingest("wait", file, "--position", "68", "--timeout", "0", "--output", "json")
    assert (done.code, done.data["complete"], done.data["position"]["event"]) == (0, True, 70), done.err
    late = lakeingest("wait", file, "--position", "70", "--timeout", "0")
    assert (late.code, "position 70 of binlog 69" in late.err) == (1, True), late.err
    assert lakeingest("wait", file, "--timeout", "0").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.faults), 3])
def test_where_batches_are_cut_changes_no_row(world: World, most: int) -> None:
    world.produce(*HISTORY)
    world.run(trigger={"max_records": most})
    assert read(world) == EXPECTED


@pytest.mark.slow
def test_events_that_are_sent_again_change_nothing(world: World) -> None:
    """A connector that was killed begins at the place that it noted last."""
    world.produce(*HISTORY)
    world.run()
    world.produce(*HISTORY[2:8])
    world.run()
    assert read(world) == EXPECTED
    report = world.ingestion().audit("source")
    assert (report.conserved, report.altered) == (True, ()), report


def restored(id: int, status: str, at: int) -> Record:
    """An update in the log of a database that was restored: its places begin anew, half an hour later."""
    source = {"lsn": at, "sequence": json.dumps([str(at - 1), str(at)]), "ts_ms": 1_796_000_000_000 + 1_800_000 + at}
    return Record(value(schema(COLUMNS), event("u", row(id, status, "x"), at, source=source)), key(id=id), 0)


@pytest.mark.parametrize("mode", ["upsert", pytest.param("history", marks=pytest.mark.slow)])
def test_a_log_that_begins_anew_stops_the_run(world: World, mode: str) -> None:
    """Its events are older than the rows by their places: left out in silence, the table would be wrong for ever."""
    changes: Any = {"table": {"mode": mode, "keys": ["id"]}}
    world.produce(*HISTORY)
    world.run(**changes)
    before = read(world)
    world.produce(restored(1, "refunded", 15), restored(4, "new", 16))
    with pytest.raises(SourceChanged, match=rf"{re.escape(world.name)}-0.* 15/16/0 .*before one at 69/70/0") as stopped:
        world.run(**changes)
    assert "--accept-log-restart" in stopped.value.cure
    assert read(world) == before
    assert world.ingestion(**changes).run(until_caught_up=True, accept_log_restart=True) == Counts(2, 2)
    # What was accepted is the log from now on.
    world.produce(restored(4, "paid", 17))
    assert world.run(**changes) == Counts(1, 1)
    assert (4, "paid", "x") in read(world)
    # Of a shard whose log is further on.
    world.produce(change("c", row(5, "new"), 90), restored(6, "new", 18))
    assert world.run(**changes, decode={**DECODE, "envelope": {"format": "debezium", "several_databases": True}})


@pytest.mark.slow
def test_a_log_that_begins_anew_within_a_batch_stops_the_run(world: World) -> None:
    world.produce(*HISTORY, restored(4, "new", 16))
    with pytest.raises(SourceChanged, match="begins anew"):
        world.run()
    assert world.commit_log().newest is None


@pytest.mark.slow
def test_an_event_that_comes_late_gives_what_the_row_lacks(world: World) -> None:
    world.produce(change("u", row(1, "paid", UNLOGGED), 20))
    world.run()
    assert read(world, "_unavailable") == [(1, "paid", None, {"doc": None})]
    world.produce(change("c", row(1, "new", "a"), 10))
    world.run()
    (only,) = world.rows()
    assert (only["status"], only["doc"], only["_unavailable"]["doc"]["event"]) == ("paid", "a", 10)
    report = world.ingestion().audit("source")
    assert (report.conserved, report.altered) == (True, ()), report


def test_a_table_that_is_altered_while_records_flow(world: World) -> None:
    """A column more, and a wider one: the schema stands beside each record, so that nobody has to be asked."""
    altered = change("u", row(1, "paid", "x", note="n"), 20, WITH_NOTE, 2)
    world.produce(change("c", row(1, "new", "a"), 10), change("c", row(2, "new", "b"), 11), altered)
    assert world.run() == Counts(3, 3)
    assert read(world, "note") == [(1, "paid", "x", "n"), (2, "new", "b", None)]
    world.produce(change("c", row(2**40, "new", "z", note=""), 30, WITH_NOTE, 2))
    world.run()
    assert read(world, "note")[-1] == (2**40, "new", "z", "")
    log, _ = world.ingestion().tables.commit_logs(back=None)
    entries = log.schemas.entries
    assert [entry.version for entry in entries if entry.side == "value"] == [1, 2]


EMPTIED = Record(value(schema(COLUMNS), event("t", None, 30)), None, 0)


@pytest.mark.slow
@pytest.mark.parametrize("most", [*(pytest.param(n, marks=pytest.mark.faults) for n in (1, 2)), 100])
def test_a_table_that_is_emptied(world: World, most: int) -> None:
    """Rows before it are gone, also those that come late; rows behind it stay."""
    before = [change("c", row(id, "new", "a"), 10 + id) for id in (1, 2, 3)]
    behind = [change("c", row(2, "again", "b"), 40), EMPTIED, change("u", row(3, "late", "c"), 20)]
    world.produce(*before, *behind, change("c", row(1, "last", "d"), 50))
    assert world.run(trigger={"max_records": most}) == Counts(7, 7)
    assert read(world) == [(1, "last", "d"), (2, "again", "b")]
    report = world.ingestion().audit("source")
    assert (report.conserved, report.altered) == (True, ()), report


@pytest.mark.faults
@pytest.mark.parametrize("most", [2, 100])
def test_versions_of_a_table_that_is_emptied(world: World, most: int) -> None:
    """They end with the event that empties the table, also those that come late; each by the database's clock."""
    before = [change("c", row(id, "new", "a"), 10 + id) for id in (1, 2, 3)]
    behind = [change("c", row(2, "again", "b"), 40), EMPTIED, change("u", row(3, "late", UNLOGGED), 20)]
    world.produce(*before, *behind, change("c", row(1, "last", "d"), 50), tombstone(1))
    history = {"mode": "history", "keys": ["id"]}
    assert world.run(table=history, trigger={"max_records": most}) == Counts(8, 7, 0, 1)
    names = ("_valid_from", "_valid_to")
    times = [
        tuple(each[name] and round(each[name].timestamp() * 1000) % 1000 for name in names) for each in world.rows()
    ]
    assert times == [(11, 30), (12, 30), (13, 20), (40, None), (30, 30), (20, 30), (50, None)]
    assert [(each["doc"], each["_unavailable"]) for each in world.rows() if each["_unavailable"]] == [
        (None, {"doc": None})
    ]
    assert world.ingestion(table=history).audit().conserved


@pytest.mark.slow
@pytest.mark.parametrize("table", [{"mode": "changelog", "keys": ["id"]}, {}], ids=["changelog", "append"])
def test_each_event_is_a_row(world: World, table: dict[str, Any]) -> None:
    world.produce(*HISTORY)
    assert world.run(table=table) == Counts(10, 8, 0, 2)
    rows = world.rows()
    changes = ["snapshot", "snapshot", "update", "insert", "delete", "insert", "update", "delete"]
    assert [each["_change"] for each in rows] == changes
    assert [each["_unavailable"] for each in rows if each["_unavailable"]] == [{"doc": None}] * 2
    if table:
        assert [each["_op"] for each in rows].count("delete") == 2
    assert world.ingestion(table=table).audit().conserved


def test_records_that_are_no_events_are_refused(world: World) -> None:
    good = change("c", row(1, "new", "a"), 10)
    assert good.value is not None
    whole = json.loads(good.value)
    no_schema = json.dumps(whole["payload"]).encode()
    wrong = json.dumps({**whole, "payload": {**whole["payload"], "op": "x"}}).encode()
    misfit = json.dumps({**whole, "payload": {**whole["payload"], "after": row(1, "new") | {"id": "one"}}}).encode()
    keyless = change("c", row(1, "new", "a") | {"id": None}, 10).value
    other = json.dumps({"schema": {"type": "struct", "fields": [{"type": "int32", "field": "x"}]}, "payload": {"x": 1}})
    values = [no_schema, wrong, misfit, keyless, other.encode(), b"{", good.value]
    world.produce(*(Record(each, key(id=1), 0) for each in values))
    assert world.run() == Counts(7, 1, 6)
    assert read(world) == [(1, "new", "a")]
    reasons = [(each["stage"], each["reason"]) for each in world.refused]
    assert reasons == [
        ("value", "NO_SCHEMA_ID"),
        ("value", "PAYLOAD_MISMATCH"),
        ("value", "PAYLOAD_MISMATCH"),
        ("table", "NULL_KEY"),
        ("schema", "UNUSABLE_SCHEMA"),
        ("value", "NO_SCHEMA_ID"),
    ]
    messages = [each["message"] for each in world.refused]
    assert "schemas.enable" in messages[0]
    assert "op is x, and none of r, c, u, d, t" in messages[1]
    assert "is no change event of Debezium" in messages[4]
    assert world.ingestion().audit().conserved


@pytest.mark.slow
def test_a_table_for_each_topic_of_a_database(
    world: World, stack: Addresses, tmp_path: Path, lakeingest: Command
) -> None:
    """Their keys have other columns; an ALTER that one table's mode refuses does not stop the other."""
    coded = {"code": {"type": "string"}, "amount": {"type": "int32"}}
    wider = {"code": {"type": "string"}, "amount": {"type": "string"}}

    def record(op: str, at: int, columns: Mapping[str, Any], **values: Any) -> Record:
        fields = [{"type": "string", "field": "code", "optional": True}]
        code = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"code": values["code"]}})
        return Record(value(schema(columns), event(op, values, at)), code.encode(), 0)

    names = {each: f"{world.name}.public.{each}" for each in ("orders", "coins")}
    produce(stack, names["orders"], HISTORY, 1)
    produce(
        stack,
        names["coins"],
        [
            record("c", 10, coded, code="a", amount=1),
            record("c", 11, coded, code="b", amount=2),
            record("u", 12, wider, code="a", amount="much"),
            record("d", 13, coded, code="b", amount=2),
        ],
        1,
    )
    file = tmp_path / "shop.yaml"
    pattern = f"{re.escape(world.name)}\\.public\\..*"
    tables = {"path": "s3a://lake/{topic}", "mode": "upsert", "keys": "key"}
    file.write_text(json.dumps(world.values(name="{topic}", source={"topics": {"pattern": pattern}}, table=tables)))
    done = lakeingest("run", file, "--until-caught-up", "--log-format", "none", "--output", "json")
    assert done.code == 0, done.err
    outcomes = {each["pipeline"]: (each["accepted"], each["refused"]) for each in done.data["pipelines"]}
    assert outcomes == {names["orders"]: (8, 0), names["coins"]: (3, 1)}
    rows = {each: world.spark.read.load(f"s3a://lake/{name}").orderBy("_key") for each, name in names.items()}
    assert [tuple(row) for row in rows["orders"].select("id", "status", "doc").collect()] == EXPECTED
    assert [tuple(row) for row in rows["coins"].select("code", "amount").collect()] == [("a", 1)]


def beside(**payload: Any) -> Record:
    """What a connector sends that is about no row."""
    kinds = {int: "int64", str: "string", type(None): "string"}
    fields = [{"field": name, "type": kinds[type(each)], "optional": True} for name, each in payload.items()]
    return Record(value({"type": "struct", "optional": False, "fields": fields}, payload), None, 0)


BESIDE = (
    beside(ts_ms=1),
    beside(status="BEGIN", id="7", event_count=None, data_collections=None, ts_ms=1),
    beside(status="END", id="7", event_count=1, data_collections="[]", ts_ms=1),
    beside(databaseName="shop", ddl="DROP TABLE x", tableChanges="[]"),
    beside(op="m", source=None, message="audit"),
)
DROPS = {"heartbeat": 1, "logical message": 1, "no value": 2, "schema change": 1, "transaction marker": 2}


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [pytest.param(False, marks=pytest.mark.faults), True])
def test_what_is_about_no_row_is_dropped_by_name(world: World, is_json: bool) -> None:
    """Also where a condition asks for what a row has."""
    options = {**(IN_JSON if is_json else {}), "transform": [{"where": {"named": "status IS NOT NULL OR id > 0"}}]}
    batches = list[Committed]()
    for records in (HISTORY[:4] + BESIDE[:3], HISTORY[4:] + BESIDE[3:]):
        world.produce(*(in_json(each) if is_json else each for each in records))
        world.ingestion(**options).run(until_caught_up=True, on_event=only(Committed, batches.append))
    assert read(world) == EXPECTED
    assert not world.refused
    assert batches[0].dropped | batches[1].dropped == DROPS
    report = world.ingestion(**options).audit("source")
    assert (report.conserved, report.altered, report.dropped) == (True, (), 7), report
    assert world.ingestion(**options).plan().counts["refused"] == 0


@pytest.mark.slow
def test_a_topic_without_rows_has_no_table(world: World) -> None:
    world.produce(*BESIDE[:3])
    with pytest.raises(UsageError, match="heartbeat or a transaction marker of Debezium; leave such a topic out"):
        world.run()


def in_json(record: Record) -> Record:
    """The same without schemas."""
    return Record(record.value and json.dumps(json.loads(record.value)["payload"]).encode(), record.key, 0)


IN_JSON: dict[str, Any] = {
    "decode": {"value": {"format": "json", "epoch": "micros"}, "envelope": {"format": "debezium"}},
    "schema": {"columns": "id INT, status STRING, doc STRING, at TIMESTAMP_NTZ"},
}


@pytest.mark.slow
def test_events_without_schemas(world: World) -> None:
    broken = Record(b'{"op": "c", "after": {"id": "one"}}', None, 0)
    world.produce(*map(in_json, HISTORY[:4]), broken)
    assert world.run(**IN_JSON) == Counts(5, 4, 1)
    world.produce(*map(in_json, HISTORY[4:]))
    assert world.run(**IN_JSON) == Counts(6, 4, 0, 2)
    assert read(world) == EXPECTED
    assert [(each["stage"], each["reason"]) for each in world.refused] == [("value", "PAYLOAD_MISMATCH")]
    report = world.ingestion(**IN_JSON).audit("source")
    assert (report.conserved, report.altered) == (True, ()), report


FLATTENED = {**IN_JSON, "decode": {**IN_JSON["decode"], "envelope": {"format": "debezium", "flattened": True}}}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, FLATTENED], ids=["schemas", "json"])
def test_events_that_a_transform_has_flattened(world: World, options: dict[str, Any]) -> None:
    """ExtractNewRecordState with add.fields=op,source.lsn,source.sequence and rewritten deletes."""
    columns = {
        **COLUMNS,
        "__op": {"type": "string"},
        "__source_lsn": {"type": "int64"},
        "__deleted": {"type": "string"},
    }
    columns["__source_sequence"] = {"type": "string"}
    fields = [{**each, "field": name, "optional": True} for name, each in columns.items()]
    flat = {"type": "struct", "name": "shop.public.orders.Value", "optional": False, "fields": fields}

    def record(op: str, values: dict[str, Any], at: int) -> Record:
        beside = {"__op": op, "__source_lsn": at, "__source_sequence": f'["{at - 1}","{at}"]'}
        return Record(value(flat, {**values, **beside, "__deleted": str(op == "d").lower()}), key(id=values["id"]), 0)

    events = (
        record("c", row(1, "new", "a"), 10),
        record("c", row(2, "new", "b"), 11),
        record("u", row(1, "paid", UNLOGGED), 20),
        record("d", row(2), 30),
        tombstone(2),
    )
    world.produce(*(map(in_json, events) if options else events))
    assert world.run(**options) == Counts(5, 4, 0, 1)
    assert read(world, "_change") == [(1, "paid", "a", "update")]
    assert not [name for name in world.rows()[0] if name.startswith("__")]


@pytest.mark.slow
def test_events_of_another_tool(world: World) -> None:
    """Maxwell's."""
    values = {"insert": ["insert"], "update": ["update"], "delete": ["delete"], "snapshot": ["bootstrap-insert"]}
    envelope = {"format": "fields", "after": "data", "op": "type", "values": values, "position": ["xid"]}
    options: dict[str, Any] = {
        "decode": {"value": {"format": "json", "epoch": "seconds"}, "envelope": {**envelope, "changed_at": "ts"}},
        "schema": {"columns": "id INT, status STRING, doc STRING"},
    }

    def record(type: str, xid: int, **data: Any) -> Record:
        head = {"database": "shop", "table": "orders", "type": type, "ts": 1_477_053_217, "xid": xid}
        return Record(json.dumps({**head, "data": data}).encode(), None, 0)

    world.produce(
        record("update", 5, id=1, status="paid", doc="a"),
        record("bootstrap-insert", 1, id=1, status="new", doc="a"),
        record("insert", 6, id=2, status="new", doc="b"),
        record("delete", 7, id=2, status="new", doc="b"),
        record("insert", 8, id=3, status="new", doc="c"),
    )
    assert world.run(**options) == Counts(5, 5)
    assert read(world, "_change") == [(1, "paid", "a", "update"), (3, "new", "c", "insert")]
    assert world.ingestion(**options).audit().conserved
