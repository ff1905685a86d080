"""JSON without a registry: the declared columns are a schema's version 1, and what is observed beyond them follows.

A field that no column takes gets the type that all of its values in the batch have: what `schema_of_variant_agg` finds.
A field of which no type can be told (only nulls, values of several types) stays in _rescued.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest import config
from lakeingest.decode import json, limits, projection
from lakeingest.record import OFFSET, PARTITION, RAW_VALUE, TIMESTAMP, TOPIC
from lakeingest.schema import ddl, model
from lakeingest.schema.model import Schema, SchemaError

MOST = 200
"""Fields that a table may get in this way."""
_LONGEST_TYPE = 20_000
"""Characters of the type of one: objects whose keys are data, as ids are, would be as wide as one likes."""
OBSERVED = "observed"
"""The documentation of a column that no file declares."""


def columns(declared: T.StructType, current: Schema | None) -> T.StructType:
    """The declared columns, and what was observed beside and within them."""
    if current is None:
        return declared
    grown = _columns(declared, projection.struct_type(current))
    assert isinstance(grown, T.StructType)
    return grown


def _columns(ours: T.DataType, seen: T.DataType) -> T.DataType:
    match ours, seen:
        case T.StructType(), T.StructType():
            more, taken = {f.name: f.dataType for f in seen}, {f.name.lower() for f in ours}
            fields = [
                T.StructField(f.name, _columns(f.dataType, more.get(f.name, f.dataType)), f.nullable) for f in ours
            ]
            return T.StructType([*fields, *(f for f in seen if f.name.lower() not in taken)])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_columns(ours.elementType, seen.elementType), ours.containsNull)
        case T.MapType(), T.MapType():
            return T.MapType(ours.keyType, _columns(ours.valueType, seen.valueType), ours.valueContainsNull)
        case _:
            return ours


def declared(text: str, before: Schema | None, version: int, *, observes: bool) -> Schema:
    """The schema of declared columns, and of what was observed before the file said so.

    Args:
        observes: whether fields that are not declared become columns. A column that is declared no more is one of them
            then, with the type that it has; else it is gone.
    """
    schema = model.from_columns(ddl.parse(text))
    names, kept = {f.name for f in schema.fields}, []
    for field in before.fields if before else ():
        if field.name in names or field.schema.doc == OBSERVED:
            kept.append(field)
        elif observes:
            kept.append(replace(field, schema=replace(field.schema, optional=True, doc=OBSERVED)))
    return replace(_grown(schema, replace(schema, fields=tuple(kept))), version=version)


def with_fields(current: Schema, fields: Mapping[str, Schema], version: int) -> Schema:
    """The schema of records that have these fields too."""
    marked = {name: replace(schema, doc=OBSERVED) for name, schema in fields.items()}
    return replace(_grown(current, model.struct(marked)), version=version)


def _grown(ours: Schema, seen: Schema) -> Schema:
    """With the fields that only `seen` has; what both have, fitted when it was read, and keeps our type."""
    if ours.type != seen.type:
        return ours
    if ours.value and seen.value:
        return replace(ours, value=_grown(ours.value, seen.value))
    taken = {f.name.lower() for f in ours.fields}
    fields = [replace(f, schema=_grown(f.schema, seen.field(f.name) or f.schema)) for f in ours.fields]
    return replace(ours, fields=(*fields, *(f for f in seen.fields if f.name.lower() not in taken)))


def fields(
    kafka: DataFrame, pipeline: config.PipelineConfig, shape: T.StructType
) -> dict[str, tuple[Schema | None, tuple[str, int, int]]]:
    """The fields of a batch that no column takes: name → schema, and the first record that has it.

    The schema is None where the field has a name or a type that no column can have: it stays in _rescued.
    """
    parsed, raw = F.col("_parsed"), limits.within(F.col(RAW_VALUE), pipeline.decode.max_bytes)
    texts = json.texts_of(pipeline.decode.value)
    whole = kafka.withColumn("_parsed", json.parse(raw, shape, texts)).where(~json.refused(raw, parsed, shape, texts))
    rescued = F.from_json(json.rescued(raw, parsed, shape), "MAP<STRING, VARIANT>")
    place = F.struct(TIMESTAMP, TOPIC, PARTITION, OFFSET)
    found = (
        whole.select(place.alias("place"), F.explode(rescued).alias("name", "value"))
        .groupBy("name")
        .agg(F.schema_of_variant_agg("value").alias("type"), F.min("place").alias("place"))
        .orderBy("place", "name")
        .limit(MOST)
        .collect()
    )
    names = shape.fieldNames()
    taken = {name.lower() for name in names}
    seen: dict[str, tuple[Schema | None, tuple[str, int, int]]] = {}
    for row in found:
        # A name that differs from a column's in upper and lower case alone can be no other column.
        fits = row["name"] in names or not (row["name"].lower() in taken or row["name"].startswith("_"))
        schema = _schema(row["name"], row["type"]) if fits else None
        taken.add(row["name"].lower())
        seen[row["name"]] = (schema, tuple(row["place"])[1:])
    return seen


def _schema(name: str, type: str) -> Schema | None:
    if len(type) > _LONGEST_TYPE:
        return None
    # A number's digits in this batch say nothing of the next one's.
    text = re.sub(r"DECIMAL\(\d+,\s*\d+\)", "DOUBLE", type.replace("OBJECT<", "STRUCT<"))
    try:
        (column,) = ddl.parse(f"c {text}")
        schema = model.from_columns([replace(column, name=name)])
        model.value_columns(schema)
    except (ddl.DdlError, SchemaError):
        return None
    return schema.fields[0].schema
