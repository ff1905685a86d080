"""A field that no typed column can hold costs itself alone: first load, evolution, an old record behind a new one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf import json_format, message_factory
from pyspark.sql import SparkSession
from support.pipelines.schema_world import SchemaWorld
from support.records import registered
from support.records.registered import header, json_schema, record
from support.records.weather import AVRO
from support.servers import spark_versions

from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses
from lakeingest.schema.formats import protobuf, protobuf_values

Encode = Callable[[Any, Any], bytes]
NODE = record("Node", name="string")
NODE["fields"].append({"name": "next", "type": ["null", "x.Node"], "default": None})
PROTO = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message R { int32 id = 1; %s }'


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, **AVRO)


def avro(tree: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(tree), value)
    return out.getvalue()


def as_json(_: Any, value: Any) -> bytes:
    return json.dumps(value).encode()


def proto(text: Any, value: Any) -> bytes:
    message = message_factory.GetMessageClass(protobuf_values.descriptor(protobuf.compile(text), "R"))()
    json_format.ParseDict(value, message)
    return b"\0" + bytes(message.SerializeToString())


CASES: Mapping[str, tuple[str, list[Any], list[Any], Encode, list[Any]]] = {
    "json_schema": (
        "JSON",
        [
            json_schema(id="integer"),
            json_schema(id="integer", odd={"type": ["integer", "string"]}),
            json_schema(id="integer", odd="string"),
        ],
        [5, "5", "5"],
        as_json,
        ["5", '"5"'],
    ),
    "avro": (
        "AVRO",
        [
            record("R", id="int"),
            record("R", id="int", odd=(["null", NODE], None)),
            record("R", id="int", odd=(["null", "string"], None)),
        ],
        [{"name": "a"}, {"name": "b", "next": {"name": "c"}}, "5"],
        avro,
        [{"name": "a", "next": None}, {"name": "b", "next": '{"x.Node":{"name":"c","next":null}}'}],
    ),
    "protobuf": (
        "PROTOBUF",
        [PROTO % "", PROTO % "google.protobuf.Value odd = 2;", PROTO % "string odd = 2;"],
        [5, "5", "5"],
        proto,
        ["5.0", '"5"'],
    ),
}
"""Format → the registry's word, three versions of a schema (the last one has plain text), a value of the odd field in
each of three records, how a record is written, and what its column has."""


@pytest.mark.parametrize(
    "mode", ["BACKWARD", *(pytest.param(mode, marks=pytest.mark.faults) for mode in ("NONE", "FORWARD", "FULL"))]
)
@pytest.mark.parametrize(
    "format",
    [
        "json_schema",
        pytest.param("avro", marks=pytest.mark.slow),
        pytest.param("protobuf", marks=[pytest.mark.slow, spark_versions.protobuf]),
    ],
)
def test_a_field_becomes_json_text(world: SchemaWorld, format: str, mode: str) -> None:
    """Spark and delta-rs read the same; plain text of a later version is refused, since no reader could tell them."""
    kind, schemas, odd, encode, texts = CASES[format]
    texts_of = [tree if isinstance(tree, str) else json.dumps(tree) for tree in schemas]
    ids = [registered.register(world.stack, f"{world.name}-value", text, kind) for text in texts_of]

    def written(version: int, value: Any) -> bytes:
        return header(ids[version]) + encode(schemas[version], value)

    world.changes = {"decode": {"value": {"format": format}}, "schema": {"compatibility": mode}}
    world.produce(written(1, {"id": 1, "odd": odd[0]}))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    world.produce(written(0, {"id": 0}), written(1, {"id": 2, "odd": odd[1]}), written(2, {"id": 3, "odd": odd[2]}))
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 2, 1)
    rows = [{"id": 1, "odd": texts[0]}, {"id": 0, "odd": None}, {"id": 2, "odd": texts[1]}]
    spark_rows = world.table.select("id", "odd").collect()
    assert [row.asDict(recursive=True) for row in spark_rows] == rows
    arrow = world.by_delta_rs().to_pyarrow_table(columns=["_offset", "id", "odd"]).sort_by("_offset")
    assert arrow.drop(["_offset"]).to_pylist() == rows
    if not isinstance(odd[0], dict):
        assert world.reasons[0, 3][:2] == ("schema", "DIFFERENT_TYPE")
        assert "odd: plain text in the record, JSON text in the table" in world.reasons[0, 3][2]
    (entry,) = [entry for entry in world.ledger.entries if entry.version == 2]
    assert any("(JSON text: " in change for change in entry.changes)
    world.checked()


def test_refuse_sends_the_whole_schema_to_quarantine(world: SchemaWorld) -> None:
    """Under another rule later its records can be replayed."""
    tree = json_schema(id="integer", odd={"type": ["integer", "string"]})
    id_ = registered.register(world.stack, f"{world.name}-value", json.dumps(tree), "JSON")
    plain = registered.register(world.stack, f"{world.name}-value", json.dumps(json_schema(id="integer")), "JSON")
    world.produce(header(plain) + b'{"id": 0}', header(id_) + b'{"id": 1, "odd": 5}')
    world.changes = {"decode": {"value": {"format": "json_schema"}}, "schema": {"unsupported": "refuse"}}
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 1, 1)
    stage, reason, message = world.reasons[0, 1]
    assert (stage, reason) == ("schema", "UNUSABLE_SCHEMA")
    assert "odd is integer or string, and schema.unsupported is refuse" in message
    del world.changes["schema"]
    world.produce(header(id_) + b'{"id": 2, "odd": "x"}')
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.ingestion().replay("by another rule").moved == 1
    assert sorted(world.columns("id", "odd")) == [(0, None), (1, "5"), (2, '"x"')]
    world.checked()


ORDER = {
    "type": "object",
    "properties": {
        "Order Id": {"type": "integer"},
        "Placed At": {"type": "string", "format": "date-time"},
        "Customer Name": {"type": "string"},
        "line items": {"type": "array", "items": {"type": "object", "properties": {"unit price": {"type": "number"}}}},
    },
}


def test_fields_of_odd_names(world: SchemaWorld) -> None:
    """One name throughout: partitions, masks and what is rescued; another rule later keeps the columns."""
    short = {**ORDER, "properties": {k: v for k, v in ORDER["properties"].items() if k != "Customer Name"}}
    ids = [registered.register(world.stack, f"{world.name}-value", json.dumps(tree), "JSON") for tree in (ORDER, short)]
    record_1 = {
        "Order Id": 1,
        "Placed At": "2024-01-01T10:00:00Z",
        "Customer Name": "Ada",
        "line items": [{"unit price": 1.5}],
        "more of it": 1,
    }
    record_2 = {"Order Id": 2, "Placed At": "2024-01-02T10:00:00Z"}
    world.changes = {
        "decode": {"value": {"format": "json_schema"}},
        "schema": {"names": "safe"},
        "transform": [{"mask": {"Customer_Name": {"last": 1}}}],
        "quarantine": {"keep_bytes": "plain"},
        "partition": [{"by": "time", "field": "Placed_At", "every": "day"}],
    }
    world.produce(
        header(ids[0]) + json.dumps(record_1).encode(),
        # The version lacks the masked field, and the record has it all the same, in two spellings.
        header(ids[1]) + json.dumps({**record_2, "Customer Name": "Bob", "Customer-Name": "Cy"}).encode(),
    )
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 2)
    names = ("Order_Id", "Placed_At", "Customer_Name", "line_items[0].unit_price", "_rescued")
    assert world.columns(*names) == [
        (1, datetime(2024, 1, 1, 10), "***a", 1.5, '{"more_of_it":1}'),
        (2, datetime(2024, 1, 2, 10), None, None, None),
    ]
    mapping = {"Order Id": "id", "Placed At": "at", "Customer Name": "name", "line items": "items"}
    world.changes["schema"] = {"names": {**mapping, "line items[].unit price": "price"}}
    world.produce(header(ids[0]) + json.dumps({"Order Id": 3, "Placed At": "2024-01-03T10:00:00Z"}).encode())
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.columns("Order_Id") == [(1,), (2,), (3,)]
    assert "id" not in world.table.columns
    world.checked()
