"""Avro bytes into the table's columns, against an oracle in plain Python that knows Connect's rules of projection."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.decode import avro, project, writers
from lakeingest.decode.writers import Writer, Writers
from lakeingest.schema import avro as avro_schema
from lakeingest.schema.model import DATE, DECIMAL, Schema
from lakeingest.schema.verdict import structural

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
    """Connect's projection, said once more: by name, with defaults, nulls for what is optional and missing."""
    if value is None:
        return None if current.default is None or current.optional else default(current)
    if current.type == "struct":
        return {
            f.name: projected(value[f.name], source.field(f.name) or f.schema, f.schema)
            if source.field(f.name)
            else default(f.schema)
            for f in current.fields
        }
    if current.type == "array" and source.value and current.value:
        return [projected(v, source.value, current.value) for v in value]
    if current.type == "map" and source.value and current.value:
        return {k: projected(v, source.value, current.value) for k, v in value.items()}
    return float(value) if current.type in ("float32", "float64") else value


def default(schema: Schema) -> Any:
    assert schema.name not in (DATE, DECIMAL) or schema.default is None
    value = None if schema.default is None else json.loads(schema.default)
    return value.encode("latin-1") if schema.type == "bytes" and value is not None else value


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


@given(versions())
@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_read_is_what_the_oracle_projects(spark: SparkSession, found: tuple[Any, Any, list[Any]]) -> None:
    """Values of random schemas, read with their writer's and projected to another version's, as Connect would."""
    writer, current, records = found
    source = replace(avro_schema.read(json.dumps(writer)), version=1)
    target = avro_schema.read(json.dumps(current))
    assume(structural(source, target) is None)
    read = writers.read(
        "value",
        F.col("raw"),
        Writers((Writer(b"", None, "it", source, avro.Reader(json.dumps(writer))),), target, framed=False),
        project.struct_type(target),
    )
    frame = spark.createDataFrame(
        [(i, bytearray(encoded(writer, r))) for i, r in enumerate(records)], "n INT, raw BINARY"
    )
    for stage in read.stages:
        frame = frame.withColumns(stage)
    refused = F.lit(False)
    for refusal in read.refusals:
        refused = refused | refusal.when
    columns = [read.columns[f.name].alias(f.name) for f in target.fields]
    rows = frame.select("n", refused.alias("_refused"), *columns).orderBy("n").collect()
    got = [plain(row.asDict(recursive=True)) for row in rows]
    assert got == [{"n": i, "_refused": False, **projected(record, source, target)} for i, record in enumerate(records)]
