"""A schema is somebody else's text: whatever it holds, its records are refused, and nothing is run or fetched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakeingest import config
from lakeingest.decode import inferred
from lakeingest.decode.readers import read
from lakeingest.schema import model
from lakeingest.schema.formats import defaults
from lakeingest.schema.model import Schema, SchemaError

SLOW_S = 10
"""Of this process alone, however busy the machine is; a bomb takes minutes, or all of memory."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SLOW_S


# Schemas


def avro_record(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [*fields], **more})


def one(kind: Any, **more: Any) -> str:
    return avro_record({"name": "a", "type": kind, **more})


def json_object(part: Any, **more: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": part}, **more})


def proto(text: str) -> str:
    return f'syntax = "proto3"; {text}'


WIDE_PROTO = "".join(f"M{{}} a{i} = {i + 1};" for i in range(10))

HUGE = "x" * 10_000_000

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2}

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

BAD_AVRO = {
    "deep records": "".join(f'{{"type":"record","name":"r{i}","fields":[{{"name":"a","type":' for i in range(10_000)),
    "deep arrays": '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000,
    "deep brackets": "[" * 1_000_000,
    "large": one("int", doc=HUGE),
    "wide": avro_record(*({"name": f"f{i}", "type": "int"} for i in range(30_000))),
    "long number": '{"type": "fixed", "name": "f", "size": ' + "9" * 100_000 + "}",
    "vast fixed": one({"type": "fixed", "name": "f", "size": 2**31 - 1}),
    "negative fixed": one({"type": "fixed", "name": "f", "size": -1}),
    "deep default": one("int", default="?").replace('"?"', "[" * 900 + "]" * 900),
    "default out of range": one("int", default=2**40),
    "time out of range": one(MILLIS, default=2**63 - 1),
    "decimal out of range": one(DECIMAL, default="zzzzzzz"),
    "default within": one(
        {"type": "record", "name": "q", "fields": [{"name": "b", "type": "int"}]}, default={"b": "x"}
    ),
    "half a character": one("string", default="\ud800"),
    "half a name": avro_record({"name": "\ud800", "type": "string"}),
    "name that is SQL": avro_record({"name": "x` INT); DROP TABLE y; --", "type": "string"}),
    "record's name": avro_record({"name": "a", "type": "int"}, name="r`; --"),
    "symbols": one({"type": "enum", "name": "e", "symbols": {"a": 1}}),
    "aliases": one("int", aliases=5) and avro_record(aliases=[1]),
    "unknown": one("/etc/passwd"),
}  # fmt: skip

BAD_JSON = {
    "deep": '{"type":"object","properties":{"a":' * 10_000 + '{"type":"string"}' + "}}" * 10_000,
    "too deep": '{"type":"object","properties":{"a":' * 70 + '{"type":"string"}' + "}}" * 70,
    "large": json_object({"type": "string"}, description=HUGE),
    "wide": json.dumps({"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(30_000)}}),
    "references": json.dumps({
        "$ref": "#/d/0",
        "d": {str(i): {"allOf": [{"$ref": f"#/d/{i + 1}"}] * 10} for i in range(12)} | {"12": {"type": "object"}},
    }),
    "chain": json_object({"$ref": "#/d/0"}, d={str(i): {"$ref": f"#/d/{i + 1}"} for i in range(5000)}),
    "pointer": json_object({"$ref": "#" + "/properties/a" * 50_000}),
    "http": json_object({"$ref": "http://127.0.0.1:9/x.json"}),
    "file": json_object({"$ref": "file:///etc/passwd"}),
    "upwards": json_object({"$ref": "../../../../../../etc/passwd"}),
    "long number": '{"type":"object","properties":{"a":{"type":"integer","default":' + "9" * 5000 + "}}}",
    "default out of range": json_object({"type": "integer", "default": 2**70}),
    "default within": json_object(
        {"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": "x"}}
    ),
    "decimal that is SQL": json_object({
        "type": "number", "connect.type": "bytes", "title": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "0", "connect.decimal.precision": "9); DROP TABLE x"},
    }),
    "half a name": json.dumps({"type": "object", "properties": {"\ud800": {"type": "string"}}}),
    "name with NUL": json.dumps({"type": "object", "properties": {"a\0": {"type": "string"}}}),
    "long name": json.dumps({"type": "object", "properties": {"a" * 1000: {"type": "string"}}}),
    "empty name": json.dumps({"type": "object", "properties": {"": {"type": "string"}}}),
}  # fmt: skip

BAD_PROTO = {
    "passwd": proto('import "/etc/passwd"; message M { int32 a = 1; }'),
    "upwards": proto('import "../../x.proto"; message M { int32 a = 1; }'),
    "public": proto('import public "../../../../../etc/passwd"; message M { int32 a = 1; }'),
    "environment": proto('import "/proc/self/environ"; message M { int32 a = 1; }'),
    "endless": proto('import "/dev/zero"; message M { int32 a = 1; }'),
    "itself": proto('import "schema.proto"; message M { int32 a = 1; }'),
    "deep": proto("message M { " * 10_000),
    "chain": proto("".join(f"message M{i} {{ M{i + 1} a = 1; }} " for i in range(10_000)) + "message M10000 {}"),
    "wide": proto("message M { " + "".join(f"int32 a{i} = {i + 1};" for i in range(30_000) if i < 18_999) + "}")
    + "".join(f"message M{i} {{ M a = 1; M b = 2; }}" for i in range(1)),
    "bomb": proto("".join(f"message M{i} {{ {WIDE_PROTO.replace('{}', str(i + 1))} }} " for i in range(12)))
    + "message M12 { int32 a = 1; }",
    "large": proto(f"/* {HUGE} */ message M {{ int32 a = 1; }}"),
    "option": proto("message M { option (x) = " + "{ a: " * 100_000 + " }; }"),
    "half a character": proto("message M { int32 a = 1; } // \ud800"),
    "control": proto("message M { int32 a = 1; }\0"),
}

BAD = [
    pytest.param(format, kind, text, id=f"{format}-{what}")
    for format, kind, texts in (
        ("avro", "AVRO", BAD_AVRO),
        ("json_schema", "JSON", BAD_JSON),
        ("protobuf", "PROTOBUF", BAD_PROTO),
    )
    for what, text in texts.items()
]

FORMATS: dict[str, config.ValueFormat] = {
    "avro": config.AvroFormat(format="avro"),
    "json_schema": config.JsonSchemaFormat(format="json_schema"),
    "protobuf": config.ProtobufFormat(format="protobuf"),
}


@pytest.mark.parametrize(("format", "kind", "text"), BAD)
def test_a_schema_that_is_a_bomb_is_refused(format: str, kind: str, text: str) -> None:
    """Each is a reason for its records' refusal, short enough to stand beside each of them, and nothing is fetched."""
    with pytest.raises(SchemaError) as caught:
        read(FORMATS[format], kind, text, (), b"\0")
    said = str(caught.value)
    assert len(said) <= 501
    assert said.encode()
    assert "root:" not in said


@pytest.mark.parametrize("name", ["../../x.proto", "/etc/x.proto", "a/../../x", "a\0b", "a\\..\\b", "", "x" * 5000])
def test_a_reference_is_written_into_its_folder_alone(name: str) -> None:
    """A registry's users name references."""
    with pytest.raises(SchemaError):
        read(FORMATS["protobuf"], "PROTOBUF", proto("message M { int32 a = 1; }"), ((name, "x"),), b"\0")


def test_patterns_and_options_of_a_schema_are_not_evaluated() -> None:
    """They say nothing about columns."""
    slow = {"type": "string", "pattern": "(a+)+$" * 10_000, "default": "a" * 50 + "!"}
    found = read(FORMATS["json_schema"], "JSON", json_object(slow, patternProperties={"(x+)+$": slow}), (), b"")
    assert found is not None
    text = proto('option java_package = "$(exit 1)"; message M { int32 a = 1 [json_name = "x`; --"]; }')
    assert read(FORMATS["protobuf"], "PROTOBUF", text, (), b"\0") is not None


@pytest.mark.parametrize("indexes", [b"", b"\x02\xff", b"\xff" * 20, b"\xfe\xff\xff\xff\x0f", b"\x01", b"\x02\x7e"])
def test_indexes_that_lead_nowhere(indexes: bytes) -> None:
    """A record's message indexes are bytes that anybody wrote."""
    assert read(FORMATS["protobuf"], "PROTOBUF", proto("message M { int32 a = 1; }"), (), indexes) is None


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (Schema("int8", default="127"), True),
        (Schema("int8", default="128"), False),
        (Schema("int32", name=model.DATE, default="2932897"), False),
        (Schema("float64", default="Infinity"), False),
        (Schema("boolean", default="1"), False),
        (Schema("string", default='"x"'), True),
        (Schema("bytes", default='"\\u1234"'), False),
        (Schema("array", value=Schema("int32"), default="[1, 2]"), True),
        (Schema("array", value=Schema("int32"), default='["x"]'), False),
        (Schema("map", key=Schema("string"), value=Schema("int32"), default='{"a": 1.5}'), False),
        (Schema("struct", fields=(model.Field("a", Schema("int64")),), default='{"a": null}'), True),
        (Schema("struct", fields=(model.Field("a", Schema("int64")),), default="5"), False),
        (Schema("struct", fields=(model.Field("a", Schema("int64", default='"x"')),)), False),
    ],
    ids=repr,
)
def test_a_default_is_a_value_of_its_column(schema: Schema, fits: bool) -> None:
    """One that is none would stop the batch in which it is filled in."""
    if fits:
        defaults.check(schema)
    else:
        with pytest.raises(SchemaError, match="its default"):
            defaults.check(schema)


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("x` INT, `y", "BIGINT"),
        ("x INT) --", "BIGINT"),
        ("a b", "BIGINT"),
        ("a\nb", "BIGINT"),
        ("a" * 1000, "BIGINT"),
        ("a", "OBJECT<" + "a: OBJECT<" * 500 + "b: BIGINT" + ">" * 501),
        ("a", "OBJECT<" + ", ".join(f"k{i}: BIGINT" for i in range(5000)) + ">"),
        ("a", "VOID"),
    ],
)
def test_an_observed_field_that_no_column_can_be(name: str, type: str) -> None:
    """Its name is whatever a record says; it stays in _rescued."""
    kind = inferred._kind(type)
    assert kind is None or inferred._schema(name, kind) is None
