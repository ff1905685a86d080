"""Avro bytes into the table's columns, against an oracle in plain Python, and against fastavro's own resolution."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.oracle.examples import searched

from lakeingest.decode import avro, projection, writers
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.errors import SetupError
from lakeingest.record import HEADERS
from lakeingest.schema.compatibility import naming
from lakeingest.schema.compatibility.verdict import structural
from lakeingest.schema.formats import avro as avro_schema
from lakeingest.schema.model import Schema
from lakeingest.spark import jvm, session

NAMES = ("a", "b", "c", "d", "e")
PLAIN = ("int", "long", "float", "double", "string", "bytes", "boolean")
DEFAULTS: dict[str, Any] = {
    "int": 7,
    "long": 8,
    "float": 0.5,
    "double": 2.5,
    "string": "it's",
    "bytes": "\u00ff\u0000",
    "boolean": True,
}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Any:
    """An Avro type; records within it have names of their own."""
    kinds = [*PLAIN, "date", "decimal", *(("array", "map", "record") if depth else ())]
    kind = draw(st.sampled_from(kinds))
    if kind == "date":
        return {"type": "int", "logicalType": "date"}
    if kind == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}
    if kind == "array":
        return {"type": "array", "items": draw(optional(types(depth - 1)))}
    if kind == "map":
        return {"type": "map", "values": draw(optional(types(depth - 1)))}
    if kind == "record":
        return {"type": "record", "name": "R", "fields": draw(fields(depth - 1))}
    return kind


def optional(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(inner, inner.map(lambda t: ["null", t]))


@st.composite
def fields(draw: st.DrawFn, depth: int = 2) -> list[dict[str, Any]]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4)):
        field = {"name": name, "type": draw(optional(types(depth)))}
        if isinstance(field["type"], list) and draw(st.booleans()):
            field["default"] = None
        elif isinstance(field["type"], str) and draw(st.booleans()):
            field["default"] = DEFAULTS[field["type"]]
        found.append(field)
    return found


def other(draw: st.DrawFn, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields as another version might have them: some gone, some new, narrower, or required."""
    narrower = {"long": "int", "double": "float"}
    found = []
    for field in listed:
        change = draw(st.sampled_from(["same", "same", "gone", "narrow", "require"]))
        kind = field["type"]
        if change == "narrow" and isinstance(kind, str) and kind in narrower:
            kind = narrower[kind]
        if change == "require" and isinstance(kind, list):
            kind = kind[1]
        if isinstance(kind, dict) and kind["type"] == "record":
            kind = {**kind, "fields": other(draw, kind["fields"])}
        if change != "gone":
            found.append({"name": field["name"], "type": kind})
    return found or [{"name": "z", "type": "int"}]


def named(tree: Any, path: str = "R") -> Any:
    """The same type with a name of its own for each record, by its place, so that two versions have the same ones."""
    if isinstance(tree, list):
        return [named(part, path) for part in tree]
    if not isinstance(tree, dict):
        return tree
    below = {k: named(v, path + k[0]) for k, v in tree.items() if k in ("items", "values")}
    if tree.get("type") == "record":
        inner = [{**f, "type": named(f["type"], f"{path}_{f['name']}")} for f in tree["fields"]]
        return {**tree, "name": path, "fields": inner}
    return {**tree, **below}


@st.composite
def versions(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """Two versions of a record, and values of the first."""
    current = {"type": "record", "name": "R", "fields": draw(fields())}
    writer = {"type": "record", "name": "R", "fields": other(draw, current["fields"])}
    return named(writer), named(current), draw(st.lists(values(writer), min_size=1, max_size=4))


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    "bytes": st.binary(max_size=8),
    "boolean": st.booleans(),
    "date": st.dates(),
    "decimal": st.integers(-(10**8), 10**8).map(lambda n: Decimal(n).scaleb(-3)),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.none() | values(kind[1])
    name = kind.get("logicalType", kind["type"]) if isinstance(kind, dict) else kind
    if name == "array":
        return st.lists(values(kind["items"]), max_size=3)
    if name == "map":
        return st.dictionaries(st.text(max_size=3), values(kind["values"]), max_size=3)
    if name == "record":
        return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in kind["fields"]})
    return SCALARS[name]


def projected(value: Any, source: Schema, current: Schema) -> Any:
    """The projection, said once more: by name, and null where the record has nothing, whatever a default says."""
    if value is None:
        return None
    if current.type == "struct":
        return {
            f.name: projected(value[f.name], source.field(f.name) or f.schema, f.schema)
            if source.field(f.name)
            else None
            for f in current.fields
        }
    if current.type == "array" and source.value and current.value:
        return [projected(v, source.value, current.value) for v in value]
    if current.type == "map" and source.value and current.value:
        return {k: projected(v, source.value, current.value) for k, v in value.items()}
    return float(value) if current.type in ("float32", "float64") else value


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def plain(value: Any) -> Any:
    """What Spark gave, as the oracle says it."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.fixture(params=[jvm.FUNCTIONS["avro"], "none"], ids=["in one step", "by from_avro"])
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """How Avro is read: with lakeingest's functions, and in a session that lacks them."""
    with session.setting(spark, {jvm.catalog("avro"): request.param}):
        yield


def makes_floats(spark: SparkSession) -> bool:
    """Whether doubles of an array would become floats: such schemas are refused."""
    return spark.version.startswith("4.0.") and not jvm.offered("avro")


@pytest.mark.parametrize("kind", ["double", {"type": "double"}], ids=str)
def test_doubles_of_an_array(spark: SparkSession, way: None, kind: Any) -> None:
    """Without the jar Avro 1.12.0 would make floats of them: that session is refused, and no value is changed."""
    writer = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": kind}}]}
    record = {"a": [0.1, 16777217.0]}
    if makes_floats(spark):
        with pytest.raises(SetupError, match=r"makes floats of doubles in an array, of 0\.1 0\.10000000149011612"):
            rows(spark, writer, avro_schema.read(json.dumps(writer)), [record])
    else:
        assert rows(spark, writer, avro_schema.read(json.dumps(writer)), [record]) == [record]


@pytest.mark.slow
@given(versions())
@settings(searched(15), suppress_health_check=list(HealthCheck))
def test_what_is_read_is_what_the_oracle_projects(
    spark: SparkSession, way: None, found: tuple[Any, Any, list[Any]]
) -> None:
    """Values of random schemas, read with their writer's and projected to another version's columns: no default."""
    writer, current, records = found
    assume(not (makes_floats(spark) and avro.has_doubles_in_array(writer)))
    source = replace(avro_schema.read(json.dumps(writer)), version=1)
    target = avro_schema.read(json.dumps(current))
    assume(structural(source, target) is None)
    expected = [projected(record, source, target) for record in records]
    assert rows(spark, writer, target, records) == expected


def rows(spark: SparkSession, writer: Any, table: Schema, records: list[Any]) -> list[Any]:
    """What a table with the columns of a schema holds of records of another one."""
    source = avro_schema.read(json.dumps(writer))
    names = naming.with_column_names(source, naming.columns_of(table))
    branch = SchemaBranch(b"", None, "it", source, avro.AvroReader(json.dumps(writer)), names)
    branches = SchemaBranches((branch,), framing=None)
    read = writers.read("value", F.col("raw"), branches, projection.struct_type(table), 1 << 20)
    frame = spark.createDataFrame(
        [(i, bytearray(encoded(writer, r))) for i, r in enumerate(records)], "n INT, raw BINARY"
    )
    for stage in read.stages:
        frame = frame.withColumns(stage)
    refused = F.lit(False)
    for refusal in read.refusals:
        refused = refused | refusal.when
    columns = [read.columns[f.name].alias(f.name) for f in table.fields]
    got = [plain(row.asDict(recursive=True)) for row in frame.select("n", refused.alias("-"), *columns).collect()]
    assert not any(row.pop("-") for row in got)
    return [{name: value for name, value in row.items() if name != "n"} for row in sorted(got, key=lambda r: r["n"])]


def with_aliases(draw: st.DrawFn, tree: Any) -> tuple[Any, Any]:
    """A type as one version writes it, and as a later one reads it: fields and records under other names, by aliases;
    every field of the later one optional, with null as its default.
    """
    if isinstance(tree, list):
        written, read = with_aliases(draw, tree[1])
        return ["null", written], ["null", read]
    kind = tree["type"] if isinstance(tree, dict) else tree
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        written, read = with_aliases(draw, tree[part])
        return {**tree, part: written}, {**tree, part: read}
    if kind != "record":
        return tree, tree
    before, after = [], []
    for field in tree["fields"]:
        written, read = with_aliases(draw, field["type"])
        read, change = read if isinstance(read, list) else ["null", read], draw(st.sampled_from(CHANGES))
        later = {"name": field["name"], "type": read, "default": None}
        if change in ("renamed", "renamed twice"):
            later |= {"name": f"new_{field['name']}", "aliases": ["other", field["name"]][change == "renamed" :]}
        before += [{"name": field["name"], "type": written}] if change != "added" else []
        after += [later] if change != "removed" else []
    name = {"name": f"{tree['name']}_new", "aliases": [tree["name"]]} if draw(st.booleans()) else {}
    nothing = {"name": "z", "type": ["null", "int"], "default": None}
    # What stands in both has a name in both.
    return {**tree, "fields": [*before, nothing]}, {**tree, **name, "fields": [*after, nothing]}


CHANGES = ("same", "renamed", "renamed twice", "removed", "added")


@st.composite
def renamed(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """A version, a later one that has names for its fields by aliases, and values of the first."""
    tree = {"type": "record", "name": "R", "fields": draw(fields())}
    written, read = with_aliases(draw, named(tree))
    return written, read, draw(st.lists(values(written), min_size=1, max_size=3))


@pytest.mark.slow
@given(renamed())
@settings(searched(15), suppress_health_check=list(HealthCheck))
def test_aliases_are_followed_as_fastavro_does(
    spark: SparkSession, way: None, found: tuple[Any, Any, list[Any]]
) -> None:
    """A field under another name has the older records' values, nested too: they were defaults."""
    writer, reader, records = found
    assume(not (makes_floats(spark) and avro.has_doubles_in_array(writer)))
    parsed = [fastavro.parse_schema(json.loads(json.dumps(tree))) for tree in (writer, reader)]
    resolved = [fastavro.schemaless_reader(io.BytesIO(encoded(writer, record)), *parsed) for record in records]
    assert structural(*versioned(writer, reader)) is None
    assert rows(spark, writer, avro_schema.read(json.dumps(reader)), records) == resolved


def versioned(writer: Any, reader: Any) -> tuple[Schema, Schema]:
    """Both under the names of the reader's columns."""
    source, target = (avro_schema.read(json.dumps(tree)) for tree in (writer, reader))
    return naming.with_column_names(source, naming.columns_of(target)), target


def test_a_uuid_of_sixteen_bytes_is_a_text(spark: SparkSession, way: None) -> None:
    """It became bytes, where the page says STRING; a column of bytes that an older version made goes on as it was."""
    uuid = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    kinds = {"id": uuid, "more": {"type": "array", "items": ["null", "Id"]}, "by": {"type": "map", "values": "Id"}}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    text = json.dumps({"type": "record", "name": "R", "fields": [*fields, {"name": "none", "type": ["null", "Id"]}]})
    one, two = UUID(int=7), UUID("123e4567-e89b-12d3-a456-426614174000")
    out = io.BytesIO()
    record = {"id": two, "more": [one, None], "by": {"k": two}, "none": None}
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(json.loads(text.replace("logicalType", "x"))), as_bytes(record)
    )
    schema, reader = avro_schema.read(text), avro.AvroReader(text)
    frame = spark.createDataFrame([(bytearray(out.getvalue()),)], "raw BINARY").select(
        reader.parse(F.col("raw")).alias("p")
    )
    value, target = reader.value(F.col("p")), projection.struct_type(schema)
    assert target.simpleString() == "struct<id:string,more:array<string>,by:map<string,string>,none:string>"
    (row,) = frame.select(projection.project(value, schema, schema, target).alias("v")).select("v.*").collect()
    assert row.asDict() == {"id": str(two), "more": [str(one), None], "by": {"k": str(two)}, "none": None}
    older = T.StructType.fromJson(
        json.loads(target.json().replace('"string"', '"binary"').replace('"keyType":"binary"', '"keyType":"string"'))
    )
    (row,) = frame.select(projection.project(value, schema, schema, older).alias("v")).select("v.*").collect()
    assert row.asDict() == {"id": two.bytes, "more": [one.bytes, None], "by": {"k": two.bytes}, "none": None}
    assert projection.dropped(schema, schema, older) == ()


def as_bytes(value: Any) -> Any:
    """With the bytes of each UUID in its place."""
    if isinstance(value, dict):
        return {name: as_bytes(each) for name, each in value.items()}
    return [as_bytes(each) for each in value] if isinstance(value, list) else value and value.bytes


def test_a_record_is_read_once(spark: SparkSession, way: None) -> None:
    """However many columns and tests look at it: what is read twice takes twice as long."""
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in NAMES]})
    target = avro_schema.read(schema)
    known = (SchemaBranch(b"\0\0\0\0\1", 1, "one", target, avro.AvroReader(schema), target),)
    read = writers.read("value", F.col("raw"), SchemaBranches(known), projection.struct_type(target), 100)
    frame = spark.range(1, 2, 1, 1).select(F.encode(F.col("id").cast("string"), "UTF-8").alias("raw"))
    frame = frame.withColumn(HEADERS, F.lit(None).cast("array<struct<key: string, value: binary>>"))
    for stage in (*read.stages, read.columns, {str(n): refusal.when for n, refusal in enumerate(read.refusals)}):
        frame = frame.withColumns(stage)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("invoke(io.lakeingest.AvroFunctions") + plan.count("from_avro(") == 1


SHARED = json.dumps({"type": "enum", "name": "Shared", "symbols": ["ONE", "TWO", "THREE"]})
OF_ALL_KINDS = {
    "boolean": ("boolean", True),
    "int": ("int", -(2**31)),
    "date": ({"type": "int", "logicalType": "date"}, 20_000),
    "old_date": ({"type": "int", "logicalType": "date"}, -500_000),
    "time": ({"type": "int", "logicalType": "time-millis"}, 86_399_999),
    "long": ("long", 2**63 - 1),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, 1_700_000_000_123),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, -1),
    "local_millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, -62_000_000_000_000),
    "local_micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, 1_700_000_000_123_456),
    "time_micros": ({"type": "long", "logicalType": "time-micros"}, 1),
    "float": ("float", 1.5),
    "double": ("double", -0.1),
    "string": ("string", "na\u00efve"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "123e4567-e89b-12d3-a456-426614174000"),
    "bytes": ("bytes", b"\x00\xff"),
    "small": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, b"\xff\x00"),
    "large": ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6}, b"\x01" * 12),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    "fixed_decimal": ({"type": "fixed", "name": "G", "size": 4, "logicalType": "decimal", "precision": 9}, b"\x00abc"),
    "enum": ("Shared", "TWO"),
    "record": ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}, {"a": 5}),
    "array": ({"type": "array", "items": ["null", {"type": "array", "items": "long"}]}, [[1, 2], None, []]),
    "records": (
        {"type": "array", "items": {"type": "record", "name": "S", "fields": [{"name": "b", "type": "string"}]}},
        [{"b": "x"}, {"b": "y"}],
    ),
    "map": ({"type": "map", "values": ["null", "double"]}, {"a": 1.0, "b": None}),
    "optional": (["string", "null"], None),
    "wider": (["null", "int", "long"], 2**40),
    "wider_float": (["float", "double"], 0.1),
    "either": (["null", "string", "int", "Shared"], ("Shared", "ONE")),
}
"""Name → a type, and a value of it."""


def test_both_ways_read_the_same(spark: SparkSession) -> None:
    """All of Avro's kinds, whole, cut short anywhere, with bytes too many, and damaged anywhere."""
    schema = {
        "type": "record",
        "name": "K",
        "fields": [{"name": name, "type": kind} for name, (kind, _) in OF_ALL_KINDS.items()],
    }
    named: dict[str, Any] = {}
    fastavro.parse_schema(json.loads(SHARED), named)
    out = io.BytesIO()
    # As they are stored: its own conversions are not what is looked at.
    bare = json.loads(json.dumps(schema).replace("logicalType", "ignored"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(bare, named), {n: v for n, (_, v) in OF_ALL_KINDS.items()})
    whole, chance = out.getvalue(), random.Random(7)
    payloads = [whole, whole + b"\x00", b"", None, *(whole[:end] for end in range(len(whole)))]
    for _ in range(600):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        payloads.append(bytes(damaged))
    frame = spark.createDataFrame([(i, p and bytearray(p)) for i, p in enumerate(payloads)], "n INT, raw BINARY")

    def read(functions: str) -> DataFrame:
        with session.setting(spark, {jvm.catalog("avro"): functions}):
            reader = avro.AvroReader(json.dumps(schema), (SHARED,))
            parsed = frame.withColumn("parsed", reader.parse(F.col("raw")))
            broken, value = reader.broken(F.col("parsed")), reader.value(F.col("parsed"))
            # A map has no order, and Python no year of five digits.
            named = F.when(~broken, value.withField("map", F.array_sort(F.map_entries(value["map"]))))
            text = F.to_json(F.struct(named.alias("value")), {"ignoreNullFields": "false"})
            return parsed.select("n", broken.alias("broken"), text.alias("value"), named["either"].alias("either"))

    one_step, by_from_avro = read(jvm.FUNCTIONS["avro"]), read("none")
    assert_df_equality(one_step, by_from_avro, ignore_nullable=True, allow_nan_equality=True)
    found = one_step.groupBy("broken").count().collect()
    # Of 600 damaged ones some are still whole: another number, another letter.
    assert {row["broken"]: row["count"] > 100 for row in found} == {True: True, False: True}
    assert one_step.where("n = 0").collect()[0]["either"].member_Shared == "ONE"


def bytes_decimal(precision: int) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


def fixed_decimal(size: int) -> Any:
    return {"type": "fixed", "name": "F", "size": size, "logicalType": "decimal", "precision": 10, "scale": 2}


DECIMALS = {
    "alone": (bytes_decimal(10), lambda d: d),
    "fixed": (fixed_decimal(16), lambda d: d.rjust(16, b"\xff" if d[0] > 127 else b"\0")),
    "optional": (["null", bytes_decimal(10)], lambda d: d),
    "in an array": ({"type": "array", "items": ["null", bytes_decimal(10)]}, lambda d: [None, b"\x05", d]),
    "in a map": ({"type": "map", "values": bytes_decimal(10)}, lambda d: {"a": b"\x05", "b": d}),
    "in a record": (
        {"type": "record", "name": "I", "fields": [{"name": "d", "type": bytes_decimal(10)}]},
        lambda d: {"d": d},
    ),
    "in a union": (["string", bytes_decimal(10)], lambda d: d),
    "of a reference": ("Money", lambda d: {"d": d}),
    "of more digits than a long": (bytes_decimal(19), lambda d: d),
}
"""Where a decimal stands: its type, and the value there of an unscaled one's bytes, as they are stored."""
MONEY = json.dumps({"type": "record", "name": "Money", "fields": [{"name": "d", "type": bytes_decimal(10)}]})


@pytest.mark.parametrize("where", DECIMALS)
def test_a_decimal_of_too_many_digits_is_no_other_number(spark: SparkSession, way: None, where: str) -> None:
    """An unscaled value beyond 64 bits was cut to them: 2^64 + 5 in DECIMAL(10,2) was read as 0.05."""
    kind, stored = DECIMALS[where]
    most = 10 ** (19 if "more" in where else 10) - 1
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    bare = json.loads(json.dumps(schema).replace("logicalType", "ignored"))
    named: dict[str, Any] = {}
    fastavro.parse_schema(json.loads(MONEY.replace("logicalType", "ignored")), named)
    numbers = [0, 5, -5, most, -most, most + 1, -most - 1, 2**63, 2**64 + 5, -(2**64) - 5, 2**120, 2**127, -(2**200)]
    rows = []
    for number in numbers:
        out = io.BytesIO()
        size = 16 if where == "fixed" and number.bit_length() < 127 else number.bit_length() // 8 + 1
        if where == "fixed" and size > 16:
            continue
        value = {"v": stored(number.to_bytes(size, "big", signed=True))}
        fastavro.schemaless_writer(out, fastavro.parse_schema(bare, named), value)
        rows.append((str(number), bytearray(out.getvalue())))
    reader = avro.AvroReader(json.dumps(schema), (MONEY,))
    parsed = spark.createDataFrame(rows, "n STRING, raw BINARY").withColumn("p", reader.parse(F.col("raw")))
    broken = reader.broken(F.col("p"))
    told = F.when(~broken, F.to_json(reader.value(F.col("p"))))
    found = {int(n): (no, text) for n, no, text in parsed.select("n", broken, told).collect()}

    assert {n for n, (no, _) in found.items() if no} == {n for n in found if abs(n) > most}
    assert all(str(Decimal(n).scaleb(-2)) in text for n, (no, text) in found.items() if not no)
    target = projection.data_type(avro_schema.read(json.dumps(schema), (MONEY,)))
    kinds = [
        spark.range(1).select(F.lit(None).cast(target).alias("v")),
        parsed.select(reader.value(F.col("p")).alias("v")),
    ]
    assert kinds[0].dtypes == kinds[1].dtypes
