"""A .proto text becomes the form that all formats share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import message_factory

from lakeingest.schema import model
from lakeingest.schema.formats import protobuf, protobuf_values, wire
from lakeingest.schema.model import Schema, SchemaError, column_type, struct

UNSIGNED = Schema("bytes", name=model.DECIMAL, parameters=(("precision", "20"), ("scale", "0")))
COLOUR = Schema("string", name="Colour", parameters=(("symbols", "RED,BLUE"),))
IMPORTS = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";'
SHAPES = f"""
syntax = "proto3"; package shop; {IMPORTS}
enum Colour {{ RED = 0; BLUE = 1; }}
message Inner {{ int32 x = 1; }}
message Other {{ message Deep {{ message Deeper {{ int32 x = 1; }} int32 x = 1; }} message Flat {{ int32 x = 1; }} }}
message All {{ %s }}
"""


def field(declared: str) -> Schema:
    """The field `f` of a proto3 message."""
    descriptors = protobuf.compile(SHAPES % declared)
    found = protobuf.read_message(descriptors, "shop.All").field("f")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("int32 f = 1;", Schema("int32", default="0")),
        ("sint32 f = 1;", Schema("int32", default="0")),
        ("sfixed32 f = 1;", Schema("int32", default="0")),
        ("uint32 f = 1;", Schema("int64", default="0")),
        ("fixed32 f = 1;", Schema("int64", default="0")),
        ("int64 f = 1;", Schema("int64", default="0")),
        ("uint64 f = 1;", replace(UNSIGNED, default='"\\u0000"')),
        ("optional fixed64 f = 1;", replace(UNSIGNED, optional=True)),
        ("float f = 1;", Schema("float32", default="0.0")),
        ("double f = 1;", Schema("float64", default="0.0")),
        ("bool f = 1;", Schema("boolean", default="false")),
        ("string f = 1;", Schema("string", default='""')),
        ("bytes f = 1;", Schema("bytes", default='""')),
        ("Colour f = 1;", replace(COLOUR, default='"RED"')),
        ("optional string f = 1;", Schema("string", optional=True)),
        ("oneof one { string f = 1; int32 g = 2; }", Schema("string", optional=True)),
        ("Inner f = 1;", struct({"x": Schema("int32", default="0")}, name="Inner", optional=True)),
        ("repeated int32 f = 1;", Schema("array", value=Schema("int32"), default="[]")),
        ("repeated Colour f = 1;", Schema("array", value=COLOUR, default="[]")),
        ("map<int32, bool> f = 1;", Schema("map", key=Schema("int32"), value=Schema("boolean"), default="{}")),
        ("google.protobuf.Timestamp f = 1;", Schema("int64", name=model.TIMESTAMP_MICROS, optional=True)),
        ("google.protobuf.BoolValue f = 1;", Schema("boolean", optional=True)),
        ("google.protobuf.UInt64Value f = 1;", replace(UNSIGNED, optional=True)),
    ],
)
def test_each_type_becomes_a_type(declared: str, expected: Schema) -> None:
    """Scalars with their zeros, presence, and Google's own messages for what Kafka Connect has types for."""
    assert field(declared) == expected


def test_proto2_says_its_own_defaults() -> None:
    """Required, optional, and defaults that are written down."""
    text = """syntax = "proto2"; enum E { A = 1; B = 2; }
        message M { required int32 r = 1; optional E e = 2 [default = B]; optional bytes b = 3 [default = "\\xff"];
        optional uint64 u = 4 [default = 255]; }"""
    expected = struct(
        {
            "r": Schema("int32"),
            "e": Schema("string", name="E", parameters=(("symbols", "A,B"),), optional=True, default='"B"'),
            "b": Schema("bytes", optional=True, default='"ÿ"'),
            "u": replace(UNSIGNED, optional=True, default='"\\u0000ÿ"'),
        },
        name="M",
    )
    assert protobuf.read(text) == expected


def test_references_are_compiled_along() -> None:
    """A reference may refer to others; Google's and Confluent's own files need none."""
    text = """syntax = "proto3"; import "a/part.proto"; import "confluent/meta.proto";
        import "confluent/type/decimal.proto"; import "google/type/date.proto"; import "google/type/timeofday.proto";
        message M { part.P p = 1 [(confluent.field_meta).doc = "d"]; confluent.type.Decimal d = 2; }"""
    part = 'syntax = "proto3"; package part; import "b.proto"; message P { B b = 1; }'
    found = protobuf.read(text, [("b.proto", 'syntax = "proto3"; message B { int32 x = 1; }'), ("a/part.proto", part)])
    assert str(column_type(found)) == (
        "struct<p:struct<b:struct<x:int>>,d:struct<value:binary,precision:bigint,scale:int>>"
    )


def test_a_reference_may_bear_the_name_of_the_main_file() -> None:
    """The registry's schemas have no name, so that ours must not be in the way of one that has."""
    text = 'syntax = "proto3"; import "schema.proto"; message M { B b = 1; }'
    assert protobuf.read(text, [("schema.proto", 'syntax = "proto3"; message B { int32 x = 1; }')]).name == "M"


def test_a_reference_is_no_code() -> None:
    """One that bears the name of a Python module is not imported by the Python that runs protoc."""
    bad = [(name, "raise SystemExit(7)") for name in ("re.py", "grpc_tools/__init__.py", "grpc_tools/protoc.py")]
    assert protobuf.read('syntax = "proto3"; message M { int32 x = 1; }', bad).name == "M"


def test_messages_are_counted_as_confluent_does() -> None:
    """By their position in the file and within each other, with the names by which they are read."""
    assert protobuf.messages(protobuf.compile(SHAPES % "int32 f = 1;")) == {
        (0,): "shop.Inner",
        (1,): "shop.Other",
        (1, 0): "shop.Other.Deep",
        (1, 0, 0): "shop.Other.Deep.Deeper",
        (1, 1): "shop.Other.Flat",
        (2,): "shop.All",
    }


@pytest.mark.parametrize(
    ("path", "written"),
    [((0,), b"\x00"), ((1,), b"\x02\x02"), ((1, 0), b"\x04\x02\x00"), ((0, 200), b"\x04\x00\x90\x03")],
)
def test_message_indexes_are_written_and_read(path: tuple[int, ...], written: bytes) -> None:
    """A count and the indexes as zigzag varints, and one byte for the first message."""
    assert wire.prefix(path) == written
    assert wire.index(written + b"more") == (path, len(written))


@pytest.mark.parametrize(
    "broken", [b"", b"\x01", b"\x02", b"\x02\x01", b"\x80", b"\xfe\x01" + b"\x00" * 99, b"\xff" * 9]
)
def test_broken_message_indexes_are_none(broken: bytes) -> None:
    """Cut, negative, or far too many."""
    assert wire.index(broken) is None


WIDE = 'syntax = "proto3";' + "".join(f"message M{i} {{ M{i + 1} a = 1; M{i + 1} b = 2; }}" for i in range(20))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; message M { int32 x = 1 }', r"compile: schema\.proto:1:"),
        ('syntax = "proto3"; import "none.proto"; message M { int32 x = 1; }', r"none\.proto: File not found"),
        ('syntax = "proto3"; message M { Other x = 1; }', '"Other" is not defined'),
        ("message M { int32 x = 1; }", r"compile: schema\.proto:1:13: Expected .required"),
        ("{}", "does not compile"),
        ('syntax = "proto3"; enum E { A = 0; }', "has no message"),
        ('syntax = "proto3"; message M { N n = 1; } message N { repeated M m = 1; }', r"n\.m is a M within another"),
        ('syntax = "proto3"; message M { map<string, M> m = 1; }', r"m\.\* is a M within another"),
        (
            'import "google/protobuf/struct.proto"; message M { optional google.protobuf.Struct s = 1; }',
            "within another",
        ),
        (WIDE + "message M20 { int32 x = 1; }", "more than 20000 fields"),
    ],
)
def test_what_no_table_can_hold_is_refused(text: str, reason: str) -> None:
    """The message is protoc's with the line, or names the place."""
    with pytest.raises(SchemaError, match=reason):
        protobuf.read(text)


@pytest.mark.parametrize("name", ["/etc/x.proto", "../x.proto", "a/../../x.proto", "", "a\0b.proto", "a" * 5000])
def test_a_reference_cannot_lead_out_of_its_folder(name: str) -> None:
    """Whoever may register a schema chooses the names."""
    with pytest.raises(SchemaError, match="reference"):
        protobuf.compile('syntax = "proto3"; message M { int32 x = 1; }', [(name, "")])


def test_a_message_that_is_not_there_is_told() -> None:
    """By its name."""
    with pytest.raises(SchemaError, match=r"no message shop\.None"):
        protobuf.read_message(protobuf.compile(SHAPES % ""), "shop.None")


def reads(text: str, payload: bytes, message: str = "M") -> dict[str, Any]:
    descriptors = protobuf.compile(text)
    return protobuf_values.Message(protobuf_values.descriptor(descriptors, message)).read(payload)


RULES = """syntax = "%s"; enum E { A = 0; B = 1; } message N { %s int32 x = 1; }
    message M { %s string s = 1; %s E e = 2; %s N n = 3; }"""
PROTO3, PROTO2 = RULES % ("proto3", "", "", "", ""), RULES % ("proto2", *["optional"] * 4)


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        (PROTO3, b"\x0a\x05abc"),
        (PROTO3, b"\x0a\xff\xff\xff\xff\x07abc"),
        (PROTO3, b"\x0a\x01\xff"),
        (PROTO2, b"\x0a\x01\xff"),
        (PROTO3, b"\x08\x01"),
        (PROTO3, b"\x1a\x02\x0a\x00"),
        (PROTO2, b"\x10\x07"),
        (RULES % ("proto2", "required", *["optional"] * 3), b"\x1a\x00"),
        (PROTO3, b"\x00\x00\x00\x00\x01"),
    ],
    ids=["cut", "2 GB", "no UTF-8", "no UTF-8 (2)", "wrong type", "wrong type within", "closed enum", "required", "0"],
)
def test_a_payload_that_is_none_of_its_message_is_a_mismatch(text: str, payload: bytes) -> None:
    """What the library lets through is refused too: wire types, text that is none, a closed enum's new number."""
    with pytest.raises(protobuf_values.Mismatch):
        reads(text, payload)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"", {"s": "", "e": "A", "n": None}),
        (b"\x10\x07", {"s": "", "e": "7", "n": None}),
        (b"\x22\x01x\x0a\x01a", {"s": "a", "e": "A", "n": None}),
        (b"\x1a\x00", {"s": "", "e": "A", "n": {"x": 0}}),
    ],
    ids=["empty", "unknown number of an open enum", "unknown field", "empty message"],
)
def test_what_protobuf_allows_is_read(payload: bytes, expected: dict[str, Any]) -> None:
    """Zeros for what is missing, digits for an enum's new number; what the schema does not know is passed over."""
    assert reads(PROTO3, payload) == expected


def test_a_payload_of_endless_messages_is_refused() -> None:
    """Two bytes make an empty message, so a large record could hold millions of them."""
    text = 'syntax = "proto3"; message M { repeated N n = 1; } message N { int32 x = 1; }'
    assert len(reads(text, b"\x0a\x00" * 1_000)["n"]) == 1_000
    with pytest.raises(protobuf_values.Mismatch, match="more than 1000000 messages"):
        reads(text, b"\x0a\x00" * 1_000_000)


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800, 2**63 - 1])
def test_times_outside_the_calendar_are_refused(seconds: int) -> None:
    """No column can hold them."""
    descriptors = protobuf.compile(SHAPES % "google.protobuf.Timestamp f = 1;")
    found = protobuf_values.descriptor(descriptors, "shop.All")
    payload = message_factory.GetMessageClass(found)(f={"seconds": seconds}).SerializeToString()
    with pytest.raises(protobuf_values.Mismatch, match="0001 to 9999"):
        protobuf_values.Message(found).read(payload)
