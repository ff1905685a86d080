"""Avro schemas become what Connect sees and Spark's from_avro returns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.schema import model
from lakeingest.schema.formats import avro
from lakeingest.schema.model import Schema, SchemaError, column_type, struct


def read(tree: Any, *references: Any) -> Schema:
    return avro.read(json.dumps(tree), [json.dumps(reference) for reference in references])


def record(name: str = "row", **fields: Any) -> dict[str, Any]:
    """A record whose fields are given by type, or by a dict with more than a type."""
    whole = [
        {"name": n, **(f if isinstance(f, dict) and "name" not in f and "of" in f else {"type": f})}
        for n, f in fields.items()
    ]
    return {
        "type": "record",
        "name": name,
        "fields": [{k if k != "of" else "type": v for k, v in f.items()} for f in whole],
    }


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> Schema:
    parameters = ((model.PRECISION, str(precision)), (model.SCALE, str(scale)))
    return Schema("bytes", name=model.DECIMAL, parameters=parameters)


FIXED = {"type": "fixed", "name": "a.mac", "size": 16}
ENUM = {"type": "enum", "name": "a.colour", "symbols": ["R", "G"]}
COLOUR = Schema("string", name="a.colour", parameters=((model.SYMBOLS, "R,G"),))
BINARY, LONG, INT, STRING = Schema("bytes"), Schema("int64"), Schema("int32"), Schema("string")
TYPES: list[tuple[Any, Schema, str]] = [
    # (Avro, Connect, column)
    ("boolean", Schema("boolean"), "boolean"),
    ("int", INT, "int"),
    ("long", LONG, "bigint"),
    ("float", Schema("float32"), "float"),
    ("double", Schema("float64"), "double"),
    ("bytes", BINARY, "binary"),
    ("string", STRING, "string"),
    ({"type": "string", "avro.java.string": "String"}, STRING, "string"),
    ({"type": {"type": "string"}}, STRING, "string"),
    (ENUM, COLOUR, "string"),
    (FIXED, Schema("bytes", name="a.mac"), "binary"),
    ({"type": "array", "items": "int"}, Schema("array", value=INT), "array<int>"),
    ({"type": "map", "values": "int"}, Schema("map", key=STRING, value=INT), "map<string,int>"),
    (logical("bytes", "decimal", precision=9, scale=2), decimal(9, 2), "decimal(9,2)"),
    (logical("bytes", "decimal", precision=9), decimal(9, 0), "decimal(9,0)"),
    ({**FIXED, "logicalType": "decimal", "precision": 38, "scale": 9}, decimal(38, 9), "decimal(38,9)"),
    (logical("int", "date"), Schema("int32", name=model.DATE), "date"),
    (logical("int", "time-millis"), Schema("int32", name=model.TIME), "int"),
    (logical("long", "time-micros"), Schema("int64", name=model.TIME_MICROS), "bigint"),
    (logical("long", "timestamp-millis"), Schema("int64", name=model.TIMESTAMP), "timestamp"),
    (logical("long", "timestamp-micros"), Schema("int64", name=model.TIMESTAMP_MICROS), "timestamp"),
    (logical("long", "local-timestamp-millis"), Schema("int64", name=model.LOCAL_TIMESTAMP_MILLIS), "timestamp_ntz"),
    (logical("long", "local-timestamp-micros"), Schema("int64", name=model.LOCAL_TIMESTAMP_MICROS), "timestamp_ntz"),
    (logical("string", "uuid"), Schema("string", name=model.UUID), "string"),
    ({**FIXED, "logicalType": "uuid"}, Schema("bytes", name=model.UUID), "string"),
    ({**FIXED, "size": 15, "logicalType": "uuid"}, Schema("bytes", name="a.mac"), "binary"),
    # Logical types that are unknown or invalid where they stand are ignored.
    (logical("long", "timestamp-nanos"), LONG, "bigint"),
    (logical("string", "date"), STRING, "string"),
    (logical("long", ["date"]), LONG, "bigint"),
    (logical("bytes", "decimal"), BINARY, "binary"),
    (logical("bytes", "decimal", precision=4, scale=9), BINARY, "binary"),
    (logical("bytes", "decimal", precision=0), BINARY, "binary"),
    (logical("bytes", "decimal", precision="9"), BINARY, "binary"),
    (logical("long", "decimal", precision=9), LONG, "bigint"),
    ({**FIXED, "size": 2, "logicalType": "decimal", "precision": 9}, Schema("bytes", name="a.mac"), "binary"),
    # Unions.
    (["null", "int"], Schema("int32", optional=True), "int"),
    (["int", "null"], Schema("int32", optional=True), "int"),
    (["int"], INT, "int"),
    (["int", "long"], LONG, "bigint"),
    (["null", logical("long", "timestamp-millis"), "int"], Schema("int64", optional=True), "bigint"),
    (["double", "null", "float"], Schema("float64", optional=True), "double"),
    ({"type": "array", "items": ["null", "int"]}, Schema("array", value=Schema("int32", optional=True)), "array<int>"),
]


@pytest.mark.parametrize(("tree", "schema", "column"), TYPES, ids=[json.dumps(t)[:60] for t, *_ in TYPES])
def test_types(tree: Any, schema: Schema, column: str) -> None:
    """Each type by itself and as a field."""
    assert read(tree) == schema
    assert str(column_type(schema)) == column
    assert read(record(a=tree)) == struct({"a": schema}, name="row")


def test_a_union_of_several_types_is_a_struct() -> None:
    """Its fields bear Spark 4.1's stable names: member_ and the type, a named type without namespace, its case kept."""
    inner = record("a.b.Address", zip="int")
    branches = ["null", "int", logical("string", "uuid"), inner, ENUM, FIXED, "bytes", "boolean", "float"]
    schema = read([*branches, {"type": "array", "items": "int"}, {"type": "map", "values": "long"}])
    # The line is what SchemaConverters.toSqlType of spark-avro 4.1.1 printed for such a union.
    assert str(column_type(schema)) == (
        "struct<member_int:int,member_string:string,member_Address:struct<zip:int>,member_colour:string,"
        "member_mac:binary,member_bytes:binary,member_boolean:boolean,member_float:float,"
        "member_array:array<int>,member_map:map<string,bigint>>"
    )
    assert (schema.name, schema.optional) == (avro.UNION, True)
    assert all(field.schema.optional for field in schema.fields)


def test_a_union_of_three_numbers_is_a_struct() -> None:
    """Only two numbers of a kind are read as one, as from_avro does."""
    assert [field.name for field in read(["int", "long", "string"]).fields] == [
        "member_int",
        "member_long",
        "member_string",
    ]


NAMES: list[tuple[Any, str | None]] = [
    (record("a.b.row"), "a.b.row"),
    ({**record(), "namespace": "a.b"}, "a.b.row"),
    (record(), "row"),
    (ENUM, None),
    ("string", None),
    (["null", record()], None),
]


@pytest.mark.parametrize(("tree", "name"), NAMES)
def test_the_name_of_a_record(tree: Any, name: str | None) -> None:
    """The full name, for the subject strategies that go by it."""
    assert avro.name(json.dumps(tree)) == name


@pytest.mark.parametrize("text", ["{", json.dumps({"type": "record", "fields": []})])
def test_a_name_of_nothing(text: str) -> None:
    """No JSON, or a record without a name."""
    with pytest.raises(SchemaError):
        avro.name(text)


def test_names_are_resolved() -> None:
    """A named type is defined once and used by its full name, or by its short one within its namespace."""
    tree = {**record(a=ENUM, b="a.colour", c={"type": "a.colour"}), "namespace": "x"}
    schema = read(tree)
    assert schema.name == "x.row"
    assert {field.schema for field in schema.fields} == {COLOUR}
    short = {**record(a={"type": "enum", "name": "colour", "symbols": ["R", "G"]}, b="colour"), "namespace": "a"}
    assert read(short).field("b") == COLOUR


def test_references() -> None:
    """Named types come from references, each of which may use those before it."""
    address = record("a.Address", colour="a.colour")
    schema = read(record(home="a.Address", work=["null", "a.Address"]), ENUM, address)
    home = struct({"colour": COLOUR}, name="a.Address")
    assert schema.field("home") == home
    assert schema.field("work") == struct({"colour": COLOUR}, name="a.Address", optional=True)


DEFAULTS: list[tuple[Any, Any, str | None]] = [
    ("int", 1, "1"),
    ("double", 1, "1.0"),
    ({"type": "double"}, 1, "1.0"),
    ("boolean", False, "false"),
    ("string", "", '""'),
    ("string", "ä", '"ä"'),
    ("bytes", "\u00ff", '"ÿ"'),
    (ENUM, "R", '"R"'),
    ({"type": "array", "items": "int"}, [], "[]"),
    ({"type": "map", "values": "int"}, {"a": 1}, '{"a":1}'),
    (record("inner", x="int"), {"x": 1}, '{"x":1}'),
    (["null", "int"], None, None),
    (["int", "null"], 1, "1"),
    (["int", "string"], 5, '{"member_int":5}'),
    (["int", "string"], "x", '{"member_string":"x"}'),
    (["null", "int", "string"], None, None),
]


@pytest.mark.parametrize(("kind", "default", "text"), DEFAULTS)
def test_defaults(kind: Any, default: Any, text: str | None) -> None:
    """As JSON text; a default of null is none; one of a union belongs to the branch that it fits."""
    field = read(record(a={"of": kind, "default": default})).field("a")
    assert field is not None
    assert field.default == text


def test_no_default_is_none() -> None:
    """Where no default is written, none is made up."""
    assert read(record(a=["null", "int"])).field("a") == Schema("int32", optional=True)


def test_docs() -> None:
    """A field's documentation goes before that of its type."""
    schema = read({**record(a={"of": {**ENUM, "doc": "type"}, "doc": "field"}, b="a.colour"), "doc": "all"})
    assert (schema.doc, *(field.schema.doc for field in schema.fields)) == ("all", "field", "type")


def nested(levels: int) -> Any:
    tree: Any = "int"
    for _ in range(levels):
        tree = {"type": "array", "items": tree}
    return tree


FALLING = [{**record(f"r{n}", **dict.fromkeys("abcdefghij", f"r{n + 1}" if n < 5 else "int"))} for n in range(6)]
REFUSALS: list[tuple[str, str]] = [
    ("[", "not JSON: Expecting value"),
    ("", "not JSON: Expecting value"),
    ("[" * 100_000, "nested deeper than 100 levels"),
    (json.dumps(nested(101)), "nested deeper than 100 levels"),
    ("null", "the schema: None is no Avro schema"),
    ('{"a": 1}', "the schema: {'a': 1} is no Avro schema"),
    ('"strin"', "the type strin is defined neither here nor in a reference"),
    (json.dumps(record(a="b.C")), "the type b.C is defined neither here nor in a reference"),
    ("[]", "the schema: a union is empty"),
    ('["int", ["string"]]', "directly within a union"),
    ('["int", "int"]', "the schema: a union with a branch twice: int, int"),
    ('{"type": "array"}', "the schema: array without items"),
    ('{"type": "record", "name": "r"}', "the schema: record without fields"),
    ('{"type": "record", "fields": []}', '"name" is a required field'),
    ('{"type": "record", "name": "r", "fields": [{"name": "a"}]}', "a field needs a name and a type: {'name': 'a'}"),
    (json.dumps({**record(), "fields": [{"name": "a", "type": "int"}] * 2}), "a: two fields of that name"),
    ('{"type": "enum", "name": "e", "symbols": ["a-b"]}', "Every symbol must match"),
    ('{"type": "fixed", "name": "f"}', "'size' is missing"),
    (json.dumps(record(a={"of": "int", "default": "x"})), "Default value <x> must match schema type: int"),
    (json.dumps(record(a={"of": "double", "default": 10**400})), "too large"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSALS, ids=[text[:50] for text, _ in REFUSALS])
def test_what_is_no_schema_is_refused(text: str, reason: str) -> None:
    """With the place and the reason, and never by another error."""
    with pytest.raises(SchemaError) as caught:
        avro.read(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "kind", "reasons"),
    [
        (record(a="null"), "STRUCT<a: STRING>", {"a": "is always null"}),
        (
            record(u=["null", record("a.Foo", x="int"), record("b.foo", x="int")]),
            "STRUCT<u: STRING>",
            {"u": "is a union with two branches foo"},
        ),
        (
            record(a=logical("bytes", "decimal", precision=39)),
            "STRUCT<a: STRING>",
            {"a": "is a decimal of 39 digits; Spark's have at most 38"},
        ),
        (record(a=record("E"), b="int"), "STRUCT<a: STRING, b: INT>", {"a": "is a record without fields"}),
        (record("a.Node", next=["null", "Node"]), "STRUCT<next: STRING>", {"next": "is a.Node within another"}),
        (
            record("a.Node", to={"type": "array", "items": {"type": "map", "values": "Node"}}),
            "STRUCT<to: ARRAY<MAP<STRING, STRING>>>",
            {"to[]{}": "is a.Node within another"},
        ),
        (
            record("A", b=record("B", c=record("C", back="B"))),
            "STRUCT<b: STRUCT<c: STRUCT<back: STRING>>>",
            {"b.c.back": "is B within another"},
        ),
    ],
)
def test_what_no_column_can_hold_is_json_text(tree: Any, kind: str, reasons: dict[str, str]) -> None:
    """At its place; the others stay typed."""
    schema = avro.read(json.dumps(tree))
    assert (model.type_text(schema), dict(model.json_parts(schema))) == (kind, reasons)


def test_a_small_text_may_not_become_a_huge_schema() -> None:
    """Six records of ten fields, each the next record, are a million fields: refused before they are made."""
    with pytest.raises(SchemaError, match=r"more than 20,000 fields"):
        read(FALLING[0], *reversed(FALLING[1:]))


def test_references_do_not_nest_for_ever() -> None:
    """The bound of depth holds through references too."""
    deep = [record("r0", a=nested(60)), record("r1", a={"type": "array", "items": "r0"})]
    deep += [record(f"r{n}", a=f"r{n - 1}") for n in range(2, 60)]
    with pytest.raises(SchemaError, match="nested deeper than 100 levels"):
        read(deep[-1], *deep[:-1])


def test_the_marks_of_the_parser_are_not_believed() -> None:
    """A text that calls itself parsed is parsed all the same."""
    with pytest.raises(SchemaError, match="the type x is defined neither"):
        read({**record(a="x"), "__fastavro_parsed": True, "__named_schemas": {"x": "int"}})


WORDS = st.sampled_from(
    ["record", "array", "map", "enum", "fixed", "int", "double", "bytes", "null", "decimal", "date", "uuid", "r", "x.r"]
)
KEYS = st.sampled_from(
    ["type", "name", "namespace", "fields", "items", "values", "symbols", "size", "logicalType", "precision", "scale"]
)
TREES = st.recursive(
    st.one_of(WORDS, st.integers(-1, 40), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(KEYS, st.sampled_from(["default", "doc", "aliases"])), inner, max_size=6),
    ),
    max_leaves=12,
)


@given(TREES)
@searched(400)
def test_any_json_is_read_or_refused(tree: Any) -> None:
    """No text of a registry stops a pipeline by another error."""
    try:
        schema = read(tree)
    except SchemaError:
        return
    assert Schema.from_json(schema.to_json()) == schema


def test_the_default_of_an_enum_is_kept() -> None:
    """Avro reads a symbol that the enum lacks as this one."""
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "B"}
    schema = read({"type": "record", "name": "R", "fields": [{"name": "e", "type": enum}]})
    assert schema.fields[0].schema.parameters == ((model.SYMBOL_DEFAULT, "B"), (model.SYMBOLS, "A,B"))
