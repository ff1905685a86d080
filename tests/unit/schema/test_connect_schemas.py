"""Schemas of Kafka Connect's JSON, and those of Debezium's rows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.records import documents
from support.records.change_events import named, schema

from lakeingest.schema import debezium, model
from lakeingest.schema.formats import connect
from lakeingest.schema.model import SchemaError


def test_a_schema_is_read() -> None:
    fields = [
        {"type": "int64", "optional": False, "field": "id", "doc": "the order's number"},
        {"type": "bytes", "field": "price", "optional": True, **named("bytes", model.DECIMAL, scale="2")},
        {"type": "array", "items": {"type": "string", "optional": True}, "optional": True, "field": "tags"},
        {"type": "string", "field": "state", "default": "new", "optional": True},
        {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}, "field": "odd"},
    ]
    read = connect.read(json.dumps({"type": "struct", "name": "shop.Row", "fields": fields}))
    assert read.name == "shop.Row"
    assert [(f.name, model.type_text(f.schema), f.schema.optional) for f in read.fields] == [
        ("id", "BIGINT", False),
        ("price", "DECIMAL(38,2)", True),
        ("tags", "ARRAY<STRING>", True),
        ("state", "STRING", True),
        ("odd", "STRING", False),
    ]
    assert [f.schema.default for f in read.fields] == [None, None, None, '"new"', None]
    assert [*model.json_parts(read)] == [("odd", "is a map whose keys are no text")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "the schema is no object"),
        ('{"type": "int65"}', '"int65" is no type of Kafka Connect'),
        ('{"type": "struct", "fields": [{"type": "int32"}]}', "each with the name that its field says"),
        ('{"type": "array"}', "is no object, but null"),
        (json.dumps({"type": "struct", "fields": [{"type": "struct", "field": "a"}]}), "a: a struct has fields"),
    ],
)
def test_what_is_no_schema_of_connect(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        connect.read(text)


def row_of(columns: dict[str, Any], **more: Any) -> model.Schema:
    return debezium.row_schema(connect.read(json.dumps(schema(columns, **more))))


def test_the_columns_of_a_row() -> None:
    columns = {
        "id": {"type": "int64"},
        "at": named("int64", "io.debezium.time.MicroTimestamp"),
        "open": {"type": "array", "items": named("int32", "io.debezium.time.Time")},
    }
    place = "commit: BIGINT, event: BIGINT, row: BIGINT"
    assert {f.name: model.type_text(f.schema) for f in row_of(columns).fields} == {
        "id": "BIGINT",
        "at": "TIMESTAMP_NTZ",
        "open": "ARRAY<STRING>",
        "_change": "STRING",
        "_position": f"STRUCT<{place}>",
        "_changed_at": "TIMESTAMP",
        "_unavailable": f"MAP<STRING, STRUCT<{place}, topic: STRING, partition: INT, offset: BIGINT>>",
    }
    assert all(field.schema.optional for field in row_of(columns).fields)


def test_a_document_is_one_column() -> None:
    """Of MongoDB's connector, whose place has a second and a number."""
    event = connect.read(json.dumps(documents.SCHEMA))
    row = debezium.row_schema(event)
    assert (row.name, row.fields[0].name, model.type_text(row.fields[0].schema)) == (event.name, "document", "STRING")
    assert debezium.connector(debezium.source_fields(event)) == "mongodb"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"_change": {"type": "string"}}, "_change: decode.envelope makes a column of that name"),
        ({"_Position": {"type": "string"}}, "_Position: decode.envelope makes a column of that name"),
    ],
)
def test_a_column_in_the_way(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        row_of(columns)


def test_what_is_no_event() -> None:
    flat = {"type": "struct", "name": "shop.Flat", "fields": [{"type": "int64", "field": "id"}]}
    with pytest.raises(SchemaError, match=r"shop.Flat is no change event of Debezium: .*; it has id"):
        debezium.row_schema(connect.read(json.dumps(flat)))
