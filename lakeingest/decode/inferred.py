"""JSON without a registry: the declared columns are a schema's version 1, and what is observed beyond them follows.

A field that no column takes gets the type of its first value; objects get the fields of later ones. What does not fit
it afterwards is refused. A value of which no type can be told stays in _rescued: an empty object or array, an array of
several types, and a number that no column would give back as it is written. A null says nothing, and is kept nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest import config
from lakeingest.decode import json, json_columns, limits, numbers, projection
from lakeingest.decode.order import Place, TopicPartition, in_order
from lakeingest.record import OFFSET, PARTITION, RAW_VALUE, TIMESTAMP, TOPIC
from lakeingest.schema import ddl, json_values, model, observed_types
from lakeingest.schema.model import Schema, SchemaError
from lakeingest.spark import python, types

MOST = 200
"""Fields that a table may get in this way."""
_MOST_TYPES = 10_000
"""Kinds of records in a batch; what only later ones have is looked at in the next one."""
_LONGEST_TYPE = 20_000
"""Characters of the type of one: objects whose keys are data, as ids are, would be as wide as one likes."""
_VOID, _EMPTY, _NONE, _EXACT = "binary", "date", "timestamp", "smallint"
"""In DDL, for what has no type: null, an object without fields, what no column holds exactly; and for a BIGINT that a
DOUBLE would change. No JSON has these types.
"""
_MARKS = {
    "OBJECT<": "STRUCT<",
    "OBJECT<>": _EMPTY,
    observed_types.VOID: _VOID,
    observed_types.NONE: _NONE,
    observed_types.LONG: _EXACT,
}
_PARTS = re.compile(r"`(?:[^`]|``)*`|OBJECT<>?|\b(?:VOID|VARIANT|LONG)\b(?!:)|\bDECIMAL\(\d+,\s*\d+\)")
_MOST_SPLITS = 16
"""Splits of a batch; fields that get a type behind the last one are looked at in the next batch."""
_EACH = "[]"
_Path = tuple[str, ...]
"""Of a field: its name, and the names within it; `_EACH` for the elements of an array."""
Types = tuple[tuple[str, str], ...]
"""The undeclared fields of a record, and what `schema_of_variant` says of each."""
OBSERVED = "observed"
"""The documentation of a column that no file declares."""


def columns(declared: T.StructType, current: Schema | None) -> T.StructType:
    """The declared columns, and what was observed beside and within them."""
    if current is None:
        return declared
    grown = _columns(declared, projection.struct_type(current))
    assert isinstance(grown, T.StructType)
    return grown


def _columns(columns: T.DataType, observed: T.DataType) -> T.DataType:
    match columns, observed:
        case T.StructType(), T.StructType():
            more, names = {f.name: f.dataType for f in observed}, {f.name.lower() for f in columns}
            fields = [
                T.StructField(f.name, _columns(f.dataType, more.get(f.name, f.dataType)), f.nullable) for f in columns
            ]
            return T.StructType([*fields, *(f for f in observed if f.name.lower() not in names)])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_columns(columns.elementType, observed.elementType), columns.containsNull)
        case T.MapType(), T.MapType():
            return T.MapType(
                columns.keyType, _columns(columns.valueType, observed.valueType), columns.valueContainsNull
            )
        case _:
            return columns


def declared(text: str, before: Schema | None, version: int, *, observes: bool) -> Schema:
    """The schema of declared columns, and of what was observed before the file said so.

    Args:
        observes: whether fields that are not declared become columns. A column that is declared no more is one of them
            then, with the type that it has; else it is gone.
    """
    schema = model.from_columns(ddl.parse(text))
    names, now_declared = {f.name for f in schema.fields}, []
    for field in before.fields if before else ():
        if field.name in names or field.schema.doc == OBSERVED:
            now_declared.append(field)
        elif observes:
            now_declared.append(replace(field, schema=replace(field.schema, optional=True, doc=OBSERVED)))
    return replace(_grown(schema, replace(schema, fields=tuple(now_declared))), version=version)


def with_fields(current: Schema, fields: Mapping[str, Schema], version: int) -> Schema:
    """The schema of records that have these fields too."""
    marked = {name: replace(schema, doc=OBSERVED) for name, schema in fields.items()}
    return replace(_grown(current, model.struct(marked)), version=version)


def _grown(schema: Schema, observed: Schema) -> Schema:
    """With the fields that only `observed` has; what both have, fitted when it was read, and keeps our type."""
    if schema.type != observed.type:
        return schema
    if schema.value and observed.value:
        return replace(schema, value=_grown(schema.value, observed.value))
    names = {f.name.lower() for f in schema.fields}
    fields = [replace(f, schema=_grown(f.schema, observed.field(f.name) or f.schema)) for f in schema.fields]
    return replace(schema, fields=(*fields, *(f for f in observed.fields if f.name.lower() not in names)))


@dataclass(frozen=True)
class Split:
    """The offsets at which a field gets a type, while earlier records of the batch have a value without one.

    Attributes:
        ends: of each partition, the first offset that does not come before it; none where all records do.
        fields: those that have a type before it.
    """

    ends: Mapping[TopicPartition, int]
    fields: Mapping[str, Schema]


@dataclass(frozen=True)
class Undeclared:
    """The fields of a batch that no column takes.

    Attributes:
        fields: name → schema, and the first record that has it. The schema is None where the field has a name or a type
            that no column can have: it stays in _rescued.
        splits: in their order (see `early`).
    """

    fields: Mapping[str, tuple[Schema | None, Place]]
    splits: Sequence[Split] = ()


def fields(kafka: DataFrame, pipeline: config.PipelineConfig, shape: T.StructType) -> Undeclared:
    """The fields of a batch that no column takes, as if each record were a batch of its own: the first value of a
    field says its type (see `order`).
    """
    shape = json_columns.marked(types.struct(pipeline.schema_.columns or ""), shape)
    raw, texts = limits.within(F.col(RAW_VALUE), pipeline.decode.max_bytes), json.texts_of(pipeline.decode.value)
    parsed = F.col("_parsed")
    whole = kafka.withColumn("_parsed", json.parse(raw, shape, texts)).where(~json.refused(raw, parsed, shape, texts))
    undeclared = json.rescued(raw, parsed, shape, nulls=False)
    return _folded(_types(whole.withColumn("_undeclared", undeclared)), shape)


def _types(rows: DataFrame) -> list[tuple[Types, Place, Mapping[TopicPartition, int]]]:
    """Of each kind of records the types of their undeclared fields, the first one, and the first offset in each
    partition; in their order.
    """
    kind = "ARRAY<STRUCT<name: STRING, type: STRING>>"
    in_python = python.by_value(observed_types.of_fields, kind, (json_values, observed_types))
    text = F.col("_undeclared")
    odd = numbers.perhaps_changed(text)
    fields = F.map_entries(F.from_json(text, "MAP<STRING, VARIANT>"))
    plain = F.transform(
        fields, lambda f: F.struct(f["key"].alias("name"), F.schema_of_variant(f["value"]).alias("type"))
    )
    kinds = F.when(odd, in_python(F.when(odd, text))).otherwise(plain).alias("types")
    time = F.coalesce(F.unix_micros(TIMESTAMP), F.lit(0))
    first = F.min(F.struct(OFFSET, time)).alias("first")
    firsts = rows.where(text.isNotNull()).groupBy(kinds, TOPIC, PARTITION).agg(first).where("types IS NOT NULL")
    places_by_types: dict[Types, dict[TopicPartition, tuple[int, int]]] = {}
    for row in firsts.orderBy("first").limit(_MOST_TYPES).collect():
        places = places_by_types.setdefault(tuple(map(tuple, row["types"])), {})
        places[row[TOPIC], row[PARTITION]] = tuple(row["first"])
    return [
        (kind, place, {p: offset for p, (offset, _) in places_by_types[kind].items()})
        for kind, (_, place) in in_order(places_by_types).items()
    ]


def _folded(kinds_met: Sequence[tuple[Types, Place, Mapping[TopicPartition, int]]], shape: T.StructType) -> Undeclared:
    """Each field's type after all records; a record that does not fit those before it is refused, and adds nothing."""
    names = shape.fieldNames()
    name_by_lower = {name.lower(): name for name in names}
    observed: dict[str, tuple[Schema | None, Place]] = {}
    wide = set[str]()
    typing, splits = _Typing(), list[Split]()

    def before(name: str) -> Schema | None:
        return observed[name][0] if name in observed else None

    for at, (types_of_fields, place, _) in enumerate(kinds_met):
        # A name that differs from another one's in upper and lower case alone can be no other column.
        kinds = {
            name: _kind(type)
            if name_by_lower.get(name.lower(), name) == name and (name in names or not name.startswith("_"))
            else None
            for name, type in types_of_fields
        }
        if not all(_takes(column, kind) for name, kind in kinds.items() if kind and (column := before(name))):
            continue
        schemas = {name: _schema(name, kind) if kind else None for name, kind in kinds.items()}
        grown = {n: _grown(before(n) or schema, schema) for n, schema in schemas.items() if schema is not None}
        if typing.follow(kinds, grown):
            if len(splits) == _MOST_SPLITS:
                break
            splits.append(Split(_ends(kinds_met[at:]), {n: schema for n, (schema, _) in observed.items() if schema}))
        for name, schema in schemas.items():
            if name in wide or (name not in observed and len(observed) == MOST):
                continue
            if name_by_lower.setdefault(name.lower(), name) != name:
                observed[name] = (None, place)
            elif (column := before(name)) is None:
                # Fields are in the order in which they have types.
                observed.pop(name, None)
                observed[name] = (schema, place)
            elif schema is not None:
                if len(model.type_text(grown[name])) > _LONGEST_TYPE:
                    wide.add(name)
                observed[name] = (None if name in wide else grown[name], observed[name][1])
    return Undeclared(observed, splits)


class _Typing:
    """Typed and untyped parts of the undeclared fields, record after record."""

    def __init__(self) -> None:
        self._typed = set[_Path]()
        self._untyped = set[_Path]()

    def follow(self, kinds: Mapping[str, ddl.Type | None], schemas: Mapping[str, Schema]) -> bool:
        """Take the next record; whether it gives a type to what had a value without one.

        Args:
            kinds: of its undeclared fields; None of one that cannot be a column.
            schemas: what those that have a type are from now on.
        """
        new = set[_Path]().union(*(_paths(schema, (name,)) for name, schema in schemas.items())) - self._typed
        splits = any(_related(path, other) for path in new for other in self._untyped)
        self._typed |= new
        self._untyped -= new
        for name, kind in kinds.items():
            self._untyped |= _untyped(kind, (name,), self._typed) if kind else {(name,)}
        return splits


def _paths(schema: Schema, path: _Path) -> set[_Path]:
    """Of all that has a type within a field."""
    within = [(f.schema, (*path, f.name)) for f in schema.fields]
    if schema.value:
        within.append((schema.value, (*path, _EACH)))
    return {path}.union(*(_paths(part, at) for part, at in within))


def _untyped(kind: ddl.Type, path: _Path, typed: Collection[_Path]) -> set[_Path]:
    """Of all that has no type within a field, and got none from an earlier record; null says nothing."""
    if str(kind) == _VOID:
        return set()
    untyped = {path} if path not in typed and _typed_part(kind) is None else set[_Path]()
    match kind:
        case ddl.Struct(fields):
            return untyped.union(*(_untyped(f.type, (*path, f.name), typed) for f in fields))
        case ddl.Array(element):
            return untyped | _untyped(element, (*path, _EACH), typed)
    return untyped


def _related(one: _Path, other: _Path) -> bool:
    """Whether one is within the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _ends(kinds_met: Sequence[tuple[Types, Place, Mapping[TopicPartition, int]]]) -> dict[TopicPartition, int]:
    """The first offset of these kinds of records in each partition."""
    ends: dict[TopicPartition, int] = {}
    for _, _, offsets in kinds_met:
        for partition, offset in offsets.items():
            ends[partition] = min(offset, ends.get(partition, offset))
    return ends


def _takes(column: Schema, kind: ddl.Type) -> bool:
    """Whether a value of the type that was seen fits a column of ours, but for its fields that we have not."""
    match kind:
        case ddl.Atomic(name) if name == _VOID or column.type == "string":
            # A STRING takes any JSON.
            return True
        case ddl.Atomic(name):
            return _takes_atomic(column, name)
        case ddl.Struct(fields) if column.type == "struct":
            pairs = [(column.field(f.name), f.type) for f in fields]
            return all(_takes(inner, other) for inner, other in pairs if inner)
        case ddl.Array(element) if column.type == "array" and column.value:
            return _takes(column.value, element)
    return column.type == "string"


def _takes_atomic(column: Schema, name: str) -> bool:
    if name == _EMPTY:
        return column.type == "struct"
    if name in ("bigint", _EXACT):
        return column.type in ("int64", "bytes") or (column.type == "float64" and name != _EXACT)
    return column.type not in ("struct", "array", "map") and str(model.column_type(column)) == name


@lru_cache(maxsize=10_000)
def _kind(type: str) -> ddl.Type | None:
    """The answer of `schema_of_variant`, with marks for untyped parts; None if it is no type, or far too long."""
    if len(type) > _LONGEST_TYPE:
        return None
    try:
        (column,) = ddl.parse(f"c {_PARTS.sub(_as_ddl, type)}")
    except ddl.DdlError:
        return None
    return column.type


@lru_cache(maxsize=10_000)
def _schema(name: str, kind: ddl.Type) -> Schema | None:
    type_ = _typed_part(kind)
    if type_ is None:
        return None
    try:
        schema = model.from_columns([ddl.Column(name, type_)])
        model.value_columns(schema)
    except SchemaError:
        return None
    return schema.fields[0].schema


def _as_ddl(part: re.Match[str]) -> str:
    """A part of what `schema_of_variant` says as DDL; a name stays."""
    text = part[0]
    if text.startswith("DECIMAL") and text.replace(" ", "") != observed_types.WHOLE:
        # Its digits say nothing of the next one's, and a DOUBLE gives it back.
        return "DOUBLE"
    return _MARKS.get(text, text)


def _typed_part(kind: ddl.Type) -> ddl.Type | None:
    """A type without the parts of which nothing is known yet."""
    match kind:
        case ddl.Struct(fields):
            typed_fields = [replace(f, type=part) for f in fields if (part := _typed_part(f.type)) is not None]
            return ddl.Struct(tuple(typed_fields)) if typed_fields else None
        case ddl.Array(element):
            part = _typed_part(element)
            return None if part is None else ddl.Array(part)
    if str(kind) == _EXACT:
        return ddl.Atomic("bigint")
    return None if str(kind) in (_VOID, _EMPTY, _NONE) else kind
