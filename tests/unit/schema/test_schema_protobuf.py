"""A .proto text becomes the form that all formats share."""

from __future__ import annotations

import importlib
import pkgutil
import random
import zlib
from dataclasses import replace
from functools import cache
from typing import Any

import google.type
import pytest
from confluent_kafka.schema_registry.common import protobuf as confluent_protobuf
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.schema import model
from lakeingest.schema.formats import protobuf, protobuf_fault, protobuf_values, wire
from lakeingest.schema.formats.protobuf_known import KNOWN
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


def declarations(file: FileDescriptorProto) -> dict[str, Any]:
    """All that a .proto file declares, without its options and the names of fields in JSON."""
    tree: dict[str, Any] = json_format.MessageToDict(file)
    tree.pop("options", None)
    messages = list(tree.get("messageType", []))
    for message in messages:
        messages += message.get("nestedType", [])
        for declared in message.get("field", []):
            declared.pop("jsonName", None)
    for declared in tree.get("extension", []):
        declared.pop("jsonName", None)
    return tree


def test_builtin_files_need_no_reference() -> None:
    """All that confluent-kafka's serializer never lists as one, as Google and Confluent publish them."""
    pool = DescriptorPool()
    confluent_protobuf._init_pool(pool)
    modules = [module.name for module in pkgutil.iter_modules(google.type.__path__, "google.type.")]
    for name in modules:
        pool.AddSerializedFile(importlib.import_module(name).DESCRIPTOR.serialized_pb)
    imports = "".join(f'import "{path}"; ' for path in KNOWN)
    files = FileDescriptorSet.FromString(protobuf.compile(f'syntax = "proto3"; {imports}message M {{}}')).file
    assert len(modules) == sum(path.startswith("google/type/") for path in KNOWN)
    compiled_files = {file.name: file for file in files if file.name in KNOWN}
    assert compiled_files.keys() == KNOWN.keys()
    for path, compiled in compiled_files.items():
        published = FileDescriptorProto.FromString(pool.FindFileByName(path).serialized_pb)
        assert declarations(compiled) == declarations(published)


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


def test_glue_counts_messages_by_their_names() -> None:
    """Of the whole file in the order of the alphabet, those of a map's entries too, as AWS's serializer counts them."""
    within = "message C {} message A { message D {} } map<string, int32> m = 1;"
    text = f'syntax = "proto3"; message B {{ {within} }} message AB {{}}'
    names = protobuf.messages(protobuf.compile(text))
    counted = [wire.glue_message(bytes((n,)), names) for n in range(7)]
    assert counted == ["AB", "B", "B.A", "B.A.D", "B.C", "B.MEntry", None]
    assert [wire.glue_message(each, names) for each in (b"", b"\x81\x00", b"\x81\x01")] == [None, "B", None]


@pytest.mark.parametrize(
    ("payload", "indexes"),
    [(b"\x00rest", b"\x00"), (b"\xac\x02rest", b"\xac\x02"), (b"\x80", b""), (b"", b""), (b"\xff" * 9, b"")],
)
def test_glues_index_is_read_compressed_too(payload: bytes, indexes: bytes) -> None:
    """It is one varint, which is compressed with the payload behind it; a malformed one is none."""
    version = bytes(range(16))
    assert wire.glue_header(b"\3\0" + version + payload) == b"\3\0" + version + indexes
    packed = (
        zlib.compress(payload + random.Random(1).randbytes(5000))[: wire.BEGIN - 18]
        if indexes
        else zlib.compress(payload)
    )
    assert wire.glue_header(b"\3\5" + version + packed) == b"\3\5" + version + indexes
    assert wire.glue_header(b"\3\5" + version + b"no zlib") == b"\3\5" + version


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
        (WIDE + "message M20 { int32 x = 1; }", "more than 20000 fields"),
    ],
)
def test_what_no_table_can_hold_is_refused(text: str, reason: str) -> None:
    """The message is protoc's with the line, or names the place."""
    with pytest.raises(SchemaError, match=reason):
        protobuf.read(text)


WITHIN = "is M within another"
STRUCT = "is google.protobuf.Struct, which may have any fields"


@pytest.mark.parametrize(
    ("fields", "kind", "reasons"),
    [
        ("N n = 1; } message N { map<int32, M> m = 1;", "STRUCT<n: STRUCT<m: MAP<INT, STRING>>>", {"n.m{}": WITHIN}),
        ("repeated M m = 1;", "STRUCT<m: ARRAY<STRING>>", {"m[]": WITHIN}),
        ("map<string, M> m = 1;", "STRUCT<m: MAP<STRING, STRING>>", {"m{}": WITHIN}),
        ("google.protobuf.Struct s = 1; int32 i = 2;", "STRUCT<s: STRING, i: INT>", {"s": STRUCT}),
        ("oneof o { E e = 1; int32 i = 2; } message E {}", "STRUCT<e: BOOLEAN, i: INT>", {}),
    ],
)
def test_what_no_column_can_hold_is_json_text(fields: str, kind: str, reasons: dict[str, str]) -> None:
    """At its place; a message without fields says only that it is there."""
    schema = protobuf.read(f'syntax = "proto3"; import "google/protobuf/struct.proto"; message M {{ {fields} }}')
    assert (model.type_text(schema), dict(model.json_parts(schema))) == (kind, reasons)


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
    return protobuf_values.Message(protobuf_values.descriptor(compiled(text), message)).read(payload)


compiled = cache(protobuf.compile)


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


KNOWN_TYPES = f"""syntax = "proto3"; {IMPORTS}
    enum E {{ A = 0; B = 1; }}
    message M {{ google.protobuf.Timestamp t = 1; google.protobuf.Int32Value w = 2; google.protobuf.StringValue s = 3;
      int32 i = 4; sint32 z = 5; uint32 u = 6; E e = 7; bool b = 8; repeated int32 r = 9; map<string, int32> m = 10;
      map<int32, string> k = 11; repeated google.protobuf.Timestamp ts = 12; repeated E es = 13; sfixed32 x = 14; }}"""


def varint(number: int) -> bytes:
    number %= 1 << 64
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def number(field: int, value: int) -> bytes:
    """A field of wire type 0."""
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes) -> bytes:
    """A field of wire type 2."""
    return varint(field << 3 | 2) + varint(len(content)) + content


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        (block(1, block(1, b"a")), "t.seconds"),
        (block(1, number(1, 5) + b"\x15abcd"), "t.nanos"),
        (block(1, b"\x0b\x0c"), "t.seconds"),
        (block(12, number(1, 1)) + block(12, block(1, b"a")), "ts.seconds"),
        (block(2, block(1, b"a")), "w.value"),
        (block(3, number(1, 7)), "s.value"),
        (b"\x25abcd", "i"),
        (b"\x70\x01", "x"),
        (b"\x4dabcd", "r"),
    ],
)
def test_a_wrong_wire_type_is_refused_within_known_types_too(payload: bytes, names: str) -> None:
    """Within a Timestamp and a wrapper it became 1970, 0 or an empty text; the message names the field."""
    with pytest.raises(protobuf_values.Mismatch, match=f"field {names} is not of the type"):
        reads(KNOWN_TYPES, payload)


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        (number(4, 2**32 + 1), "i: 4294967297"),
        (number(4, 2**31), "i: 2147483648"),
        (number(4, -(2**31) - 1), "i: -2147483649"),
        (number(5, (2**33) * 2), "z: 8589934592"),
        (number(6, 2**32 + 7), "u: 4294967303"),
        (number(6, -1), "u: 18446744073709551615"),
        (number(7, 2**32 + 1), "e: 4294967297"),
        (block(2, number(1, 2**32 + 9)), "w.value: 4294967305"),
        (block(1, number(1, 5) + number(2, 2**32 + 5)), "t.nanos: 4294967301"),
        (block(9, varint(1) + varint(2**32 + 1)), "r: 4294967297"),
        (number(9, 2**32 + 1), "r: 4294967297"),
        (block(10, block(1, b"a") + number(2, 2**32 + 5)), "m.value: 4294967301"),
        (block(11, number(1, 2**32 + 4) + block(2, b"x")), "k.key: 4294967300"),
        (block(13, varint(1) + varint(2**40)), "es: 1099511627776"),
    ],
)
def test_a_number_beyond_32_bits_is_refused(payload: bytes, names: str) -> None:
    """The protobuf library cuts it to 32 bits in silence."""
    with pytest.raises(protobuf_values.Mismatch, match=f"field {names} is outside of (u?int|sint)32"):
        reads(KNOWN_TYPES, payload)


def test_numbers_of_32_bits_are_read_to_their_ends() -> None:
    """A bool is true for every number but 0, an unknown group is passed over, as Protobuf has it."""
    low, high = -(2**31), 2**31 - 1
    payload = number(4, low) + number(5, 2**32 - 1) + number(6, 2**32 - 1) + number(7, -1) + number(8, 2**40)
    payload += block(9, varint(high) + varint(-1)) + number(9, low) + block(2, number(1, low) + number(9, 1))
    payload += b"\x9b\x06\x08\x04\x9c\x06" + block(1, number(2, 999_999_999) + number(9, 1))
    found = reads(KNOWN_TYPES, payload)
    assert (found["i"], found["z"], found["u"], found["e"], found["b"]) == (low, low, 2**32 - 1, "-1", True)
    assert (found["r"], found["w"], found["t"]) == ([high, -1, low], low, 999_999)


def test_a_closed_enum_says_which_number_it_lacks() -> None:
    """Packed, repeated and in a map too: the library keeps such numbers apart as unknown fields."""
    text = """syntax = "proto2"; enum E { Z = 0; A = 3; B = 1; }
        message M { optional E e = 1 [default = B]; repeated E r = 2 [packed = true]; map<int32, E> m = 3; }"""
    assert reads(text, block(2, varint(3) + varint(1))) == {"e": "B", "r": ["A", "B"], "m": []}
    for payload, names in (
        (number(1, 7), "e"),
        (block(2, varint(1) + varint(7)), "r"),
        (block(3, number(1, 1) + number(2, 7)), "m.value"),
    ):
        with pytest.raises(protobuf_values.Mismatch, match=f"field {names}: 7 is no number of the enum E"):
            reads(text, payload)


def test_a_payload_of_endless_times_is_refused() -> None:
    """Timestamps and wrappers are messages too, and were not counted."""
    with pytest.raises(protobuf_values.Mismatch, match="more than 1000000 messages"):
        reads(KNOWN_TYPES, block(12, b"") * 1_000_001)


CUT = "is cut short, or written with another schema"


@pytest.mark.parametrize(
    ("text", "payload", "told"),
    [
        (KNOWN_TYPES, number(4, 2**31), "field i is outside of int32"),
        (KNOWN_TYPES, block(10, block(1, b"777") + number(2, 2**35)), "field m.value is outside of int32"),
        (KNOWN_TYPES, block(1, number(1, 777 << 40)), "field t is outside the years 0001 to 9999"),
        (KNOWN_TYPES, block(1, block(1, b"777")), "field t.seconds is not of the type that the schema says"),
        (PROTO2, number(2, 777), "field e is no number of the enum E"),
        (PROTO2, block(1, b"777\xff"), "field s is not UTF-8"),
        (PROTO3, block(1, b"777\xff"), "field s is not UTF-8"),
        (KNOWN_TYPES, block(11, number(1, 1) + block(2, b"777\xff")), "field k.value is not UTF-8"),
        (PROTO3, block(1, b"777")[:-1], f"field s {CUT}"),
        (PROTO3, block(1, b"777") + block(3, b"\x08"), f"field n.x {CUT}"),
        (PROTO3, block(1, b"777") + block(3, b"\x80"), f"field n {CUT}"),
        (PROTO3, b"\x10" + b"\xff" * 11, f"field e {CUT}"),
        (PROTO3, block(1, b"777") + b"\xfa\x01\x7fabc", f"the payload {CUT}"),
        (PROTO3, b"777", f"the payload {CUT}"),
        (KNOWN_TYPES, b"\x71abc", f"field x {CUT}"),
        (RULES % ("proto2", "required", *["optional"] * 3), b"\x1a\x00", "lacks a required field"),
        (PROTO3, block(1, b"777"), None),
        (PROTO3, None, None),
    ],
)
def test_a_fault_is_told_without_a_value(text: str, payload: bytes | None, told: str | None) -> None:
    """Where a pipeline masks, it said neither the field nor the rule; and nowhere which field is cut short."""
    assert protobuf_fault.fault(compiled(text), "M", withheld=True)(payload) == told
    whole = protobuf_fault.fault(compiled(text), "M")(payload)
    assert (whole is None) == (told is None)
    if whole is not None and told is not None:
        assert whole.startswith(told.rpartition(" is ")[0])


def test_a_payload_of_messages_within_each_other_has_a_fault() -> None:
    """The protobuf library ends at a hundred; nobody walks further."""
    text = 'syntax = "proto3"; message M { M m = 1; string s = 2; }'
    payload = block(2, b"777\xff")
    for _ in range(300):
        payload = block(1, payload)
    found = protobuf_values.descriptor(compiled(text), "M")
    assert protobuf_fault.unread(found, payload) is None


@given(payload=st.binary(max_size=40))
@searched(200)
def test_any_bytes_have_a_fault_or_none(payload: bytes) -> None:
    """Nothing stops a batch in which a record is refused."""
    for withheld in (True, False):
        protobuf_fault.fault(compiled(KNOWN_TYPES), "M", withheld=withheld)(payload)
