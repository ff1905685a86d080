"""Each format, each side and each type, from a real producer and registry to the columns."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from chispa import assert_df_equality
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, admin_client, produce, registered
from support.records.registered import Avro, header, json_schema, maybe, record
from support.records.weather import AVRO, PAST_INT, VERSIONS, weather
from support.servers import spark_versions

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, **AVRO)


# Records of one schema too big, or of none


@pytest.mark.faults
def test_a_record_of_thirty_megabytes(world: SchemaWorld) -> None:
    """A good one becomes a row, a bad one is refused alone with all of its bytes."""
    big = 30_000_000
    admin_client(world.stack).create_topics([NewTopic(world.name, 1, 1, config={"max.message.bytes": "40000000"})])[
        world.name
    ].result()
    writer = world.avro(record("Big", text="string"))
    values = [writer(text="small"), writer(text="x" * big), writer(text="y" * big) + b"\0"]
    producer = Producer({"bootstrap.servers": world.stack.kafka, "message.max.bytes": 40_000_000})
    for value in values:
        producer.produce(world.name, value)
    assert producer.flush(60) == 0
    ingestion = world.ingestion(decode={"value": {"format": "avro"}, "max_bytes": 2 * big})
    assert ingestion.run(until_caught_up=True) == Counts(3, 2, 1)
    assert world.table.selectExpr("_offset", "length(text)").collect() == [(0, 5), (1, big)]
    assert world.reasons[0, 2][:2] == ("value", "PAYLOAD_MISMATCH")
    assert world.reasons[0, 2][2].startswith(f"a payload of {len(values[2]) - 5} bytes")
    assert len(world.reasons[0, 2][2]) < 300


# Keys

ID = record("Id", id="int")

ID_2 = record("Id", id="long", region=maybe("string"))


@pytest.mark.parametrize(
    "on_null",
    [pytest.param("ignore", marks=pytest.mark.faults), pytest.param("write", marks=pytest.mark.faults), "quarantine"],
)
def test_avro_keys_beside_json_values(stack: Addresses, spark: SparkSession, on_null: str) -> None:
    """A key's schema evolves by a field and a wider type; a bad key is refused; tombstones keep theirs, or go."""
    topic = "avro_keys"
    keys = [registered.avro(stack, f"{topic}-key", tree) for tree in (ID, ID_2)]
    if topic not in admin_client(stack).list_topics(timeout=10).topics:
        produce(
            stack,
            topic,
            [
                Record(b'{"n": 0}', keys[0](id=0)),
                Record(b'{"n": 1}', keys[1](id=PAST_INT, region="EU")),
                Record(None, keys[0](id=2)),
                Record(None, keys[1](id=3, region="US")),
                Record(b'{"n": 4}', keys[1](id=4, region="US")[:-1]),
                Record(b'{"n": 5}', b"5"),
                Record(b'{"n": 6}', None),
                Record(None, header(987654)),
            ],
        )
    decode = {"key": {"format": "avro"}, "on_null": on_null}
    world = SchemaWorld(
        stack, spark, f"{topic}_{on_null}", source={"topics": [topic]}, decode=decode, schema={"columns": "n INT"}
    )
    counts = world.ingestion().run(until_caught_up=True)
    tombstones = {(2, None, 2, None), (3, None, 3, "US")} if on_null == "write" else set()
    assert set(world.columns("_offset", "n", "_key.id", "_key.region")) == tombstones | {
        (0, 0, 0, None),
        (1, 1, PAST_INT, "EU"),
        (6, 6, None, None),
    }
    assert world.table.where("_offset = 6 AND _key IS NULL").count() == 1
    refused = {offset: why[:2] for (_, offset), why in world.reasons.items()}
    wanted = {4: ("key", "PAYLOAD_MISMATCH"), 5: ("key", "NO_SCHEMA_ID")}
    if on_null != "ignore":
        wanted[7] = ("key", "UNKNOWN_SCHEMA_ID")
    if on_null == "quarantine":
        wanted |= dict.fromkeys((2, 3), ("value", "NULL_VALUE"))
    assert refused == wanted
    assert counts.dropped == (3 if on_null == "ignore" else 0)
    assert [(e.side, e.version, e.action) for e in world.ledger.entries if e.side == "key"] == [
        ("key", 1, "evolve"),
        ("key", 2, "evolve"),
    ]
    world.checked()


@pytest.mark.faults
def test_a_primitive_key(world: SchemaWorld) -> None:
    """A key that is an INT becomes wider, and one that no column takes is refused with its verdict."""
    keys = [world.avro(kind, "key") for kind in ("int", "long", "string")]
    value = world.avro(VERSIONS[0])(weather(1, 0))
    world.produce(*(Record(value, key(what)) for key, what in zip(keys, (1, PAST_INT, "x"), strict=True)))
    world.changes = {"decode": {"value": {"format": "avro"}, "key": {"format": "avro"}}}
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 2, 1)
    assert world.columns("_key") == [(1,), (PAST_INT,)]
    assert world.reasons[0, 2][:2] == ("schema", "DIFFERENT_TYPE")
    assert world.reasons[0, 2][2].startswith(f"schema id {keys[2].id} (version 3 of {world.name}-key): ")


# Other formats, subjects and references


def test_plain_avro_follows_its_schema_file(world: SchemaWorld, tmp_path: Path) -> None:
    """A newer file is the next version: a column more, in the batch that begins with it."""
    for version, sent in ((1, [weather(1, 0)]), (2, [weather(2, 1), weather(2, 2)])):
        (tmp_path / "weather.avsc").write_text(json.dumps(VERSIONS[version - 1]))
        plain = Avro(VERSIONS[version - 1])
        value = {"format": "avro", "schema_file": "weather.avsc"}
        (tmp_path / "pipeline.yaml").write_text(json.dumps(world.values(decode={"value": value})))
        world.produce(*(plain(each) for each in sent), plain(sent[0])[:-1])
        ingestion = Pipeline(file.read(tmp_path / "pipeline.yaml", {}))
        assert ingestion.run(until_caught_up=True) == Counts(len(sent) + 1, len(sent), 1)
    assert world.columns("origin", "gust") == [("v1-0", None), ("v2-1", 1.5), ("v2-2", 2.5)]
    assert "_schema_id" not in world.table.columns
    assert [(e.version, e.verdict, e.action) for e in world.ledger.entries] == [
        (1, "OK", "evolve"),
        (2, "DIFFERENT_VERSION", "evolve"),
    ]
    assert world.reasons[0, 1][2].startswith("a payload of ")
    assert "the schema of decode.schema_file" in world.reasons[0, 1][2]
    assert ingestion.audit().conserved


def test_json_with_a_schema_in_the_registry(world: SchemaWorld) -> None:
    """Its versions evolve the table as Avro's do; what the schema does not name is rescued."""
    first = json_schema(id="integer", name="string", required=["id"])
    second = json_schema(id="integer", name="string", at=json_schema(lat="number"), required=["id"])
    ids = [
        registered.register(world.stack, f"{world.name}-value", json.dumps(tree), "JSON") for tree in (first, second)
    ]
    world.produce(
        header(ids[0]) + b'{"id": 1, "name": "a"}',
        header(ids[1]) + b'{"id": 2, "at": {"lat": 1.5}, "more": [1]}',
        header(ids[1]) + b'{"id": "three"}',
        header(ids[0]) + b'{"id": 4',
        header(ids[0]) + b'{"name": "five"}',
    )
    world.changes = {"decode": {"value": {"format": "json_schema"}}}
    assert world.ingestion().run(until_caught_up=True) == Counts(5, 2, 3)
    assert world.columns("_schema_id", "id", "name", "at.lat", "_rescued") == [
        (ids[0], 1, "a", None, None),
        (ids[1], 2, None, 1.5, '{"more":[1]}'),
    ]
    assert {offset: why[:2] for (_, offset), why in world.reasons.items()} == dict.fromkeys(
        (2, 3, 4), ("value", "PAYLOAD_MISMATCH")
    )
    assert [(e.version, e.action) for e in world.ledger.entries] == [(1, "evolve"), (2, "evolve")]


@spark_versions.protobuf
def test_protobuf(world: SchemaWorld) -> None:
    """A message within the second message of its file, whose field's type another file holds, in two versions."""
    subject = f"{world.name}-value"
    place = 'syntax = "proto3"; package x; message Place { double lat = 1; }'
    registered.register(world.stack, f"{world.name}-place", place, "PROTOBUF")
    text = (
        'syntax = "proto3"; package x; import "place.proto"; message Other { string of = 1; } '
        "message Trip { message Stop { string name = 1; int32 minutes = 2; Place at = 3; %s } }"
    )
    references = [("place.proto", f"{world.name}-place", 1)]
    ids = [
        registered.register(world.stack, subject, text % more, "PROTOBUF", references)
        for more in ("", "optional string note = 4;")
    ]
    nested, other = b"\x04\x02\x00", b"\x00"
    stop = b"\x0a\x01a\x10\x05" + b"\x1a\x09\x09" + struct.pack("<d", 1.5)
    world.produce(
        header(ids[0]) + nested + stop,
        header(ids[1]) + nested + stop + b"\x22\x02hi",
        header(ids[1]) + nested + stop[:-1],
        header(ids[1]) + b"\x02\x40" + stop,
        header(ids[1]) + other + b"\x0a\x01a",
        header(987654) + nested + stop,
    )
    world.changes = {"decode": {"value": {"format": "protobuf"}}}
    counts = world.ingestion().run(until_caught_up=True)
    assert world.columns("_schema_id", "name", "minutes", "at.lat", "note") == [
        (ids[0], "a", 5, 1.5, None),
        (ids[1], "a", 5, 1.5, "hi"),
    ]
    assert counts == Counts(6, 2, 4)
    assert {offset: why[:2] for (_, offset), why in world.reasons.items()} == {
        2: ("value", "PAYLOAD_MISMATCH"),
        3: ("value", "UNKNOWN_SCHEMA_ID"),
        4: ("schema", "DIFFERENT_NAME"),
        5: ("value", "UNKNOWN_SCHEMA_ID"),
    }


@pytest.mark.parametrize("strategy", [pytest.param("record", marks=pytest.mark.faults), "topic_record"])
def test_two_records_in_one_topic(world: SchemaWorld, strategy: str) -> None:
    """Under NONE the table is the union of both; one refers to a schema of a third subject, of two levels."""
    before = f"{world.name}-" if strategy == "topic_record" else ""
    place, town = record("Place", lat="double"), record("Town", name="string", at="x.Place")
    registered.avro(world.stack, f"{world.name}.Place", place)
    town_refers = {"x.Place": (place, f"{world.name}.Place", 1)}
    registered.avro(world.stack, f"{world.name}.Town", town, town_refers)
    login = registered.avro(world.stack, f"{before}x.Login", record("Login", user="string", n="int"))
    refers = {**town_refers, "x.Town": (town, f"{world.name}.Town", 1)}
    visit = registered.avro(world.stack, f"{before}x.Visit", record("Visit", n="long", town=maybe("x.Town")), refers)
    world.produce(
        login(user="a", n=1), visit(n=PAST_INT, town={"name": "t", "at": {"lat": 2.5}}), visit(n=3, town=None)
    )
    world.changes = {
        "decode": {"value": {"format": "avro", "subject": strategy}},
        "schema": {"compatibility": "NONE"},
    }
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 3)
    assert world.columns("user", "n", "town.name", "town.at.lat") == [
        ("a", 1, None, None),
        (None, PAST_INT, "t", 2.5),
        (None, 3, None, None),
    ]
    assert {(e.subject, e.version, e.name) for e in world.ledger.entries} == {
        (f"{before}x.Login", 1, "x.Login"),
        (f"{before}x.Visit", 1, "x.Visit"),
    }


# Types


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def test_every_type_of_avro(world: SchemaWorld) -> None:
    """Each lands in its Delta type with its value, in a full record and in one of nulls."""
    fixed = {"type": "fixed", "name": "Big", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 4}
    inner = record("Inner", n="int", deeper=maybe(record("Deeper", s=maybe("string"))))
    moment, local = datetime(2026, 3, 1, 23, 59, 59, 123456, UTC), datetime(1969, 12, 31, 12, 0, 0, 7)
    types: list[tuple[str, Any, str, Any, Any]] = [
        ("money", logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)", Decimal("-12345678.90"), None),
        ("big", fixed, "decimal(12,4)", Decimal("12345678.1234"), None),
        ("day", logical("int", "date"), "date", date(1899, 12, 31), None),
        ("time_ms", logical("int", "time-millis"), "int", time(23, 59, 59, 123000), 86399123),
        ("time_us", logical("long", "time-micros"), "bigint", time(23, 59, 59, 123456), 86399123456),
        ("ms", logical("long", "timestamp-millis"), "timestamp", moment.replace(microsecond=123000), None),
        ("us", logical("long", "timestamp-micros"), "timestamp", moment, None),
        ("local_ms", logical("long", "local-timestamp-millis"), "timestamp_ntz", local.replace(microsecond=7000), None),
        ("local_us", logical("long", "local-timestamp-micros"), "timestamp_ntz", local, None),
        ("id", logical("string", "uuid"), "string", UUID(int=7), str(UUID(int=7))),
        ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, "string", "BLUE", None),
        ("raw", {"type": "fixed", "name": "Raw", "size": 4}, "binary", b"\x00\x01\xfe\xff", None),
        ("blob", "bytes", "binary", b"", None),
        ("flag", "boolean", "boolean", False, None),
        ("real", "float", "float", 0.1, None),
        ("map", {"type": "map", "values": ["null", "double"]}, "map<string,double>", {"a": 1.5, "b": None}, None),
        ("list", {"type": "array", "items": inner}, "array<struct<n:int,deeper:struct<s:string>>>",
         [{"n": 1, "deeper": {"s": None}}, {"n": 2, "deeper": None}], None),
    ]  # fmt: skip
    fields = {name: maybe(kind) for name, kind, *_ in types}
    tree = record("All", **fields, either=(["null", "int", "string", "x.Inner"], None))
    writer = world.avro(tree)
    full = {name: sent for name, _, _, sent, _ in types}
    eithers: list[tuple[Any, Any]] = [
        (5, (5, None, None)),
        ("five", (None, "five", None)),
        (("x.Inner", {"n": 6, "deeper": None}), (None, None, (6, None))),
        (None, None),
    ]
    world.produce(*(writer({**full, "either": either}) for either, _ in eithers), writer({}))
    assert world.ingestion().run(until_caught_up=True) == Counts(5, 5)
    union = "struct<member_int:int,member_string:string,member_Inner:struct<n:int,deeper:struct<s:string>>>"
    kinds = {name: kind for name, _, kind, *_ in types} | {"either": union}
    rows = [(*(sent if held is None else held for *_, sent, held in types), held) for _, held in eithers]
    wanted = world.spark.createDataFrame(
        [*rows, (None,) * len(kinds)], ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    )
    assert_df_equality(world.table.select(*kinds), wanted, ignore_nullable=True)
