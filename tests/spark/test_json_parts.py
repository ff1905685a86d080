"""What no typed column can hold is JSON text at its place: the same with the jar and without, and of each format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory
from pyspark.sql import SparkSession
from support.oracle.readings import values
from support.servers import spark_versions

from lakeingest.config import AvroFormat, JsonSchemaFormat, ProtobufFormat
from lakeingest.decode.readers import read
from lakeingest.schema import json_text
from lakeingest.schema.formats import protobuf, protobuf_values

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": ["string", "integer", "boolean", "null"]},
        "tags": {"type": "array", "items": {}},
        "by": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        "tree": {"$ref": "#/$defs/node"},
        "plain": {"type": "string"},
    },
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}
"""Each kind of place: a field, an array's elements, a map's values, a field of a struct within an array."""
RECORDS: dict[str, dict[str, Any] | None] = {
    '{"id":"5"}': {"id": '"5"'},
    '{"id":5}': {"id": "5"},
    '{"id":1.10}': {"id": "1.10"},
    '{"id":true,"plain":"a"}': {"id": "true", "plain": "a"},
    '{"id":null}': {"id": None},
    '{"id":{"b" : 1.0, "a":[ 1e3, "x\\"\\u0001\\u001f\\/" ,null,{}]}}': {
        "id": '{"b":1.0,"a":[1e3,"x\\"\\u0001\\u001F/",null,{}]}'
    },
    '{"id":{"a":1,"a":2}}': {"id": '{"a":1,"a":2}'},
    '{"id":12345678901234567890.12345678901234567890}': {"id": "12345678901234567890.12345678901234567890"},
    '{"tags":["a",1,null,[],{"x":"é"}]}': {"tags": ['"a"', "1", None, "[]", '{"x":"é"}']},
    '{"by":{"k":"v","n":-0.0,"z":null}}': {"by": {"k": '"v"', "n": "-0.0", "z": None}},
    '{"tree":{"n":1,"kids":[{"n":2,"kids":[{"n":3}]},null]}}': {
        "tree": {"n": 1, "kids": ['{"n":2,"kids":[{"n":3}]}', None]}
    },
    '{"id":"\\ud83d\\ude00 ü 😀"}': {"id": '"\\uD83D\\uDE00 ü \\uD83D\\uDE00"'},
    '{"by":{"k":1,"a":"x","k":"2"}}': {"by": {"k": '"2"', "a": '"x"'}},
    '{"id":"a","id":"b"}': {"id": '"b"'},
    '{"plain":5}': {"plain": "5"},
    '{"tree":{"n":"no"},"id":1}': None,
    '{"tags":{}}': None,
    '{"id":1': None,
    '{"id":"\\ud83d"}': None,
}


@pytest.mark.parametrize("way", ["jar", "none"])
def test_json_schema(spark: SparkSession, way: str) -> None:
    reading = read(JsonSchemaFormat(format="json_schema"), "JSON", json.dumps(SCHEMA), (), b"")
    result = values(spark, "json", way, reading, [text.encode() for text in RECORDS])
    none = dict.fromkeys(SCHEMA["properties"])
    assert result == [None if row is None else none | row for row in RECORDS.values()]


CARDS = [
    {"type": "record", "name": "a.Card", "fields": [{"name": "n", "type": "int"}]},
    {"type": "record", "name": "b.Card", "fields": [{"name": "s", "type": "string"}]},
]
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tree", "type": "Node"},
        {"name": "paid", "type": ["null", *CARDS]},
        {"name": "nothing", "type": "null"},
        {"name": "by", "type": {"type": "map", "values": {"type": "array", "items": ["null", "Node"]}}},
        {"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}},
        {"name": "wide", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}},
        {"name": "choice", "type": ["int", "string", "Node"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NODE = {
    "type": "record",
    "name": "shop.Node",
    "fields": [
        {"name": "f", "type": "float"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "kids", "type": {"type": "array", "items": "Node"}},
    ],
}


def node(**fields: Any) -> dict[str, Any]:
    return {"f": 0.0, "kind": "A", "raw": b"\x00\xff", "next": None, "kids": [], **fields}


def text(**fields: Any) -> str:
    """A node as Avro's JSON encoding has it."""
    return json_text.written({"f": 0.0, "kind": "A", "raw": "\u0000\u00ff", "next": None, "kids": [], **fields})


def encoded(tree: Any, record: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, tree, record)
    return out.getvalue()


@pytest.mark.parametrize("way", ["jar", "none"])
def test_avro(spark: SparkSession, way: str) -> None:
    names: dict[str, Any] = {}
    fastavro.parse_schema(NODE, named_schemas=names)
    tree = fastavro.parse_schema(ORDER, named_schemas=names)
    record: dict[str, Any] = {
        "id": 1,
        "tree": node(f=1.1, next=node(kind="B", kids=[node()]), kids=[node(f=2.5), node()]),
        "paid": ("b.Card", {"s": 'é"'}),
        "nothing": None,
        "by": {"k": [None, node(next=node())], "e": []},
        "empty": {},
        "wide": Decimal("-12345678901234567890123456789012345678.90"),
        "choice": ("shop.Node", node()),
        "at": datetime(2024, 1, 1, tzinfo=UTC),
    }
    short = {**record, "paid": None, "choice": 7, "tree": node(), "by": {}}
    payload = encoded(tree, record)
    payloads = [payload, encoded(tree, short), payload[:-1], payload + b"\0"]
    reading = read(AvroFormat(format="avro"), "AVRO", json.dumps(ORDER), [("node", json.dumps(NODE))], b"")
    plain = {"f": 0.0, "kind": "A", "raw": bytearray(b"\x00\xff"), "next": None, "kids": []}
    none = {"member_int": None, "member_string": None, "member_Node": None}
    kid = json_text.Number(text())
    row = {
        "id": 1,
        "tree": {
            **plain,
            "f": pytest.approx(1.1),
            "next": f'{{"shop.Node":{text(kind="B", kids=[kid])}}}',
            "kids": [text(f=2.5), text()],
        },
        "paid": '{"b.Card":{"s":"é\\""}}',
        "nothing": None,
        "by": {"k": [None, plain | {"next": f'{{"shop.Node":{text()}}}'}], "e": []},
        "empty": "{}",
        "wide": "-12345678901234567890123456789012345678.90",
        "choice": none | {"member_Node": plain},
        "at": datetime(2024, 1, 1),
    }
    short_row = row | {"paid": None, "tree": plain, "by": {}, "choice": none | {"member_int": 7}}
    assert values(spark, "avro", way, reading, payloads) == [row, short_row, None, None]


PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message Node {
  string name = 1; repeated Node kids = 2; map<string, Node> by = 3; Node next = 4;
  google.protobuf.Struct meta = 5; google.protobuf.Value any = 6; repeated google.protobuf.Value anys = 7;
  oneof state { Gone gone = 8; int32 code = 9; }
  google.protobuf.Timestamp at = 10; int64 big = 11; bytes raw = 12; int32 small = 13;
}
message Gone {}
"""


@spark_versions.protobuf
def test_protobuf(spark: SparkSession) -> None:
    descriptors = protobuf.compile(PROTO)
    message = message_factory.GetMessageClass(protobuf_values.descriptor(descriptors, "Node"))
    kid = message(name="é", big=2**60, raw=b"\xff\0", small=-5, next=message(code=1))
    kid.at.FromJsonString("2024-01-01T00:00:00.5Z")
    record = message(name="r", kids=[kid], by={"k": message(name="z")}, next=message(), gone={})
    record.meta.update({"a": [1, 2.5, None, "x"], "o": {"k": True}})
    record.any.string_value = "5"
    record.anys.add().null_value = 0
    record.anys.add().number_value = 5
    outside, other_type, no_text = b"\x12\x07\x68\xff\xff\xff\xff\xff\x01", b"\x12\x02\x08\x01", b"\x12\x03\x0a\x01\xff"
    late = b"\x12\x0b\x52\x09\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
    payloads = [record.SerializeToString(), b"", outside, other_type, no_text, late]
    reading = read(ProtobufFormat(format="protobuf"), "PROTOBUF", PROTO, (), b"\0")
    none = {
        **dict.fromkeys(("next", "meta", "any", "gone", "code", "at")),
        "name": "",
        "kids": [],
        "by": {},
        "anys": [],
    }
    none |= {"big": 0, "raw": bytearray(), "small": 0}
    row = none | {
        "name": "r",
        "kids": [
            '{"at":"2024-01-01T00:00:00.500Z","big":"1152921504606846976","name":"é","next":{"code":1},"raw":"/wA=",'
            '"small":-5}'
        ],
        "by": {"k": '{"name":"z"}'},
        "next": "{}",
        "meta": '{"a":[1.0,2.5,null,"x"],"o":{"k":true}}',
        "any": '"5"',
        "anys": ["null", "5.0"],
        "gone": True,
    }
    assert values(spark, "avro", "jar", reading, payloads) == [row, none, None, None, None, None]
