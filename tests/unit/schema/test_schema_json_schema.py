"""JSON Schema becomes the form that all formats share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeingest.schema import model
from lakeingest.schema.formats.json_schema import read
from lakeingest.schema.model import Schema, SchemaError, struct

TEXT, LONG = Schema("string"), Schema("int64")
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def schema(tree: Any, *references: tuple[str, Any]) -> Schema:
    return read(json.dumps(tree), [(name, json.dumps(text)) for name, text in references])


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"type": "string"}, TEXT),
        ({"type": "integer"}, LONG),
        ({"type": "number"}, Schema("float64")),
        ({"type": "boolean"}, Schema("boolean")),
        ({"type": ["integer", "number"]}, Schema("float64")),
        ({"type": ["string", "null"]}, Schema("string", optional=True)),
        ({"type": "integer", "connect.type": "int8"}, Schema("int8")),
        ({"type": "integer", "connect.type": "int32"}, Schema("int32")),
        ({"type": "number", "connect.type": "float32"}, Schema("float32")),
        ({"type": "string", "connect.type": "bytes"}, Schema("bytes")),
        (
            {"type": "integer", "connect.type": "int64", "title": "org.apache.kafka.connect.data.Timestamp"},
            Schema("int64", name=model.TIMESTAMP),
        ),
        (
            {
                "type": "number",
                "connect.type": "bytes",
                "title": DECIMAL,
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
            Schema("bytes", name=DECIMAL, parameters=(("precision", "10"), ("scale", "2"))),
        ),
        ({"type": "string", "format": "date"}, Schema("int32", name=model.DATE)),
        ({"type": "string", "format": "date-time"}, Schema("int64", name=model.TIMESTAMP)),
        ({"type": "string", "format": "email"}, TEXT),
        ({"enum": ["b", "a"]}, Schema("string", parameters=(("symbols", "b,a"),))),
        ({"enum": ["b", None]}, Schema("string", optional=True, parameters=(("symbols", "b"),))),
        ({"enum": [1, 2]}, LONG),
        ({"const": "a"}, Schema("string", parameters=(("symbols", "a"),))),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, Schema("string", parameters=(("symbols", "a,b"),))),
        ({"enum": ["a,b", "c"]}, TEXT),
        ({"type": "array", "items": {"type": "integer"}}, Schema("array", value=LONG)),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, Schema("map", key=TEXT, value=LONG)),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, Schema("map", key=TEXT, value=LONG)),
        ({"type": "object"}, TEXT),
        ({"type": "object", "additionalProperties": True}, TEXT),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, Schema("string", optional=True)),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "n"}, Schema("int64", name="n", optional=True)),
        ({"allOf": [{"type": "string"}, {"enum": ["a"]}]}, Schema("string", parameters=(("symbols", "a"),))),
        ({"type": "string", "description": "why"}, Schema("string", doc="why")),
    ],
)
def test_each_type_becomes_a_type(tree: Any, expected: Schema) -> None:
    """Types, formats, enums, and what Confluent's converter adds to them."""
    assert schema(tree) == expected


@pytest.mark.parametrize(
    ("tree", "default"),
    [
        ({"type": "integer", "default": 7}, "7"),
        ({"type": "string", "default": "ä"}, '"ä"'),
        ({"type": ["string", "null"], "default": None}, None),
        ({"type": "string", "format": "date", "default": "1970-01-11"}, "10"),
        ({"type": "string", "format": "date-time", "default": "1970-01-01T00:00:01.5Z"}, "1500"),
        ({"type": "string", "connect.type": "bytes", "default": "/w=="}, '"ÿ"'),
        ({"type": "array", "items": {"type": "integer"}, "default": [1]}, "[1]"),
    ],
)
def test_defaults_are_kept_as_the_column_holds_them(tree: Any, default: str | None) -> None:
    """Times are written as ISO text and bytes as base64, but held as numbers and as characters."""
    assert schema(tree).default == default


def test_an_object_is_a_struct() -> None:
    """Its title is its name, and a field is optional unless it is required."""
    found = schema({"title": "Order", **of(id={"type": "integer"}), "description": "d"})
    assert found == struct({"id": LONG}, name="Order", doc="d")
    assert schema({"properties": {"id": {"type": "integer"}}}) == struct({"id": Schema("int64", optional=True)})


def test_connect_index_orders_the_fields() -> None:
    """Confluent's converter writes the order down, because a JSON object has none."""
    tree = of(a={"type": "string", "connect.index": 1}, b={"oneOf": [{"type": "null"}, {"type": "string"}]})
    tree["properties"]["b"]["connect.index"] = 0
    assert [field.name for field in schema(tree).fields] == ["b", "a"]


@pytest.mark.parametrize(
    ("ref", "references"),
    [
        ("#/definitions/a~1b", []),
        ("#named", []),
        ("https://example.org/part.json", []),
        ("other.json", [("other.json", {"type": "integer"})]),
        ("https://example.org/o/sub.json#/$defs/x", [("sub", {"$id": "https://example.org/o/sub.json"})]),
        ("up.json", [("up.json", {"$ref": "down.json#/$defs/y"}), ("down.json", {"$defs": {"y": {"$ref": "#/z"}}})]),
    ],
)
def test_references_are_followed(ref: str, references: list[tuple[str, Any]]) -> None:
    """By pointer, anchor, $id, and the name under which Confluent's registry lists them, from text to text."""
    for _, text in references:
        text.setdefault("$defs", {}).setdefault("x", {"type": "integer"})
        text["z"] = {"type": "integer"}
    tree = {
        **of(f={"$ref": ref}),
        "definitions": {"a/b": {"type": "integer"}, "n": {"$anchor": "named", "type": "integer"}},
        "$defs": {"p": {"$id": "https://example.org/part.json", "type": "integer"}},
    }
    assert schema(tree, *references) == struct({"f": LONG})


def test_all_of_merges_objects() -> None:
    """A base and what is added to it are one struct; the same part may come twice."""
    tree = {
        "allOf": [{"$ref": "#/$defs/base"}, of(more={"$ref": "#/$defs/part"})],
        "$defs": {"base": of(id={"$ref": "#/$defs/part"}), "part": {"type": "integer"}},
    }
    assert schema(tree) == struct({"id": LONG, "more": LONG})


def test_what_pydantic_writes_is_read() -> None:
    """An optional field with a default, as most Python producers register it."""
    tree = {"properties": {"price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None, "title": "P"}}}
    assert schema(tree) == struct({"price": Schema("float64", name="P", optional=True)})


WIDE = {"$defs": {f"a{i}": of(x={"$ref": f"#/$defs/a{i + 1}"}, y={"$ref": f"#/$defs/a{i + 1}"}) for i in range(30)}}
WIDE["$defs"]["a30"] = {"type": "string"}


NO_ITEMS = "is an array without one schema for all of its items"
CHOICE = {"oneOf": [{"type": "string"}, of(x={"type": "integer"})]}


@pytest.mark.parametrize(
    ("part", "kind", "reasons", "optional"),
    [
        (True, "STRING", {"a": "says no type"}, True),
        ({}, "STRING", {"a": "says no type"}, True),
        ({"type": "null"}, "STRING", {"a": "is always null"}, True),
        ({"type": ["string", "integer"]}, "STRING", {"a": "is integer or string"}, False),
        ({"type": ["string", "integer", "null"]}, "STRING", {"a": "is integer or string"}, True),
        ({"enum": ["a", 1]}, "STRING", {"a": "is integer or string"}, False),
        (CHOICE, "STRING", {"a": "is a choice of 2 types"}, False),
        ({"anyOf": [*CHOICE["oneOf"], {"type": "null"}]}, "STRING", {"a": "is a choice of 2 types"}, True),
        ({"type": "array"}, "STRING", {"a": NO_ITEMS}, False),
        ({"type": "array", "items": [{}]}, "STRING", {"a": NO_ITEMS}, False),
        ({"type": "array", "items": {}}, "ARRAY<STRING>", {"a[]": "says no type"}, False),
        ({**of(), "additionalProperties": False}, "STRING", {"a": "is an object without fields"}, False),
        ({"patternProperties": {"^x": CHOICE}}, "MAP<STRING, STRING>", {"a{}": "is a choice of 2 types"}, False),
        (of(b={"$ref": "#"}), "STRUCT<b: STRING>", {"a.b": "is recursive ($ref '#')"}, False),
        (
            {"type": "array", "items": {"$ref": "#/properties/a"}},
            "ARRAY<ARRAY<STRING>>",
            {"a[][]": "is recursive ($ref '#/properties/a')"},
            False,
        ),
    ],
)
def test_what_no_column_can_hold_is_json_text(part: Any, kind: str, reasons: dict[str, str], optional: bool) -> None:
    """At its place; the others stay typed. It may be null where the schema allows it, or does not say."""
    whole = schema(of(a=part, b={"type": "integer"}))
    (a, b) = whole.fields
    assert (model.type_text(a.schema), dict(model.json_parts(whole))) == (kind, reasons)
    assert (a.schema.optional, b.schema) == (optional, LONG)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (of(a={"$ref": "#/$defs/none"}), "^a has a .ref '#/.defs/none' that leads nowhere"),
        (of(a={"$ref": "https://example.org/x"}), "leads nowhere"),
        (of(a={"type": "integer", "default": "x"}), "^a is a int64, and its default"),
        (of(a={"type": "boolean", "default": 1}), "its default 1 is none"),
        (of(a={"type": "integer", "connect.type": "int128"}), "^a is of an unknown type: int128"),
        (of(a={"type": "text"}), "^a is of an unknown type: text"),
        ({"properties": [1]}, "has properties with something else"),
        ({"$ref": "#/$defs/a0", **WIDE}, "more than 20000 parts"),
    ],
)
def test_what_no_table_can_hold_is_refused(tree: Any, reason: str) -> None:
    """The message names the place and the reason."""
    with pytest.raises(SchemaError, match=reason):
        schema(tree)


@pytest.mark.parametrize("text", ["", "{", '{"a": ' * 100_000, "[]", "3"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    """Broken, bottomless or other JSON is an error of the schema, not of ours."""
    with pytest.raises(SchemaError):
        read(text)
