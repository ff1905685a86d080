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
from lakeingest.decode import json, project
from lakeingest.record import OFFSET, PARTITION, RAW_VALUE, TIMESTAMP, TOPIC
from lakeingest.schema import ddl, model
from lakeingest.schema.model import Schema, SchemaError

MOST = 100
"""Fields that one batch may add: objects whose keys are data, as ids are, would make a column of each."""


def columns(declared: T.StructType, current: Schema | None) -> T.StructType:
    """The declared columns, and those that were observed beside them."""
    if current is None:
        return declared
    names = set(declared.fieldNames())
    return T.StructType([*declared, *(f for f in project.struct_type(current) if f.name not in names)])


def declared(text: str, before: Schema | None, version: int) -> Schema:
    """The schema of declared columns, and of those that were observed before the file said so."""
    schema = model.from_columns(ddl.parse(text), version=version)
    names = {f.name for f in schema.fields}
    more = tuple(f for f in before.fields if f.name not in names) if before else ()
    return replace(schema, fields=(*schema.fields, *more))


def with_fields(current: Schema, fields: Mapping[str, Schema], version: int) -> Schema:
    """The schema of records that have these fields too."""
    more = tuple(model.Field(name, schema) for name, schema in fields.items() if current.field(name) is None)
    return replace(current, fields=(*current.fields, *more), version=version)


def fields(
    kafka: DataFrame, pipeline: config.Pipeline, shape: T.StructType
) -> dict[str, tuple[Schema | None, tuple[str, int, int]]]:
    """The fields of a batch that no column takes: name → schema, and the first record that has it.

    The schema is None where the field has a name or a type that no column can have: it stays in _rescued.
    """
    parsed, raw = F.col("_parsed"), F.col(RAW_VALUE)
    zone = getattr(pipeline.decode.value, "timezone", "UTC")
    whole = kafka.withColumn("_parsed", json.parse(raw, shape)).where(~json.refused(raw, parsed, shape, zone))
    rescued = F.from_json(json.rescued(raw, parsed, shape), "MAP<STRING, VARIANT>")
    place = F.struct(TIMESTAMP, TOPIC, PARTITION, OFFSET)
    found = (
        whole.select(place.alias("place"), F.explode(rescued).alias("name", "value"))
        .groupBy("name")
        .agg(F.schema_of_variant_agg("value").alias("type"), F.min("place").alias("place"))
        .orderBy("place.offset" if False else "place", "name")
        .limit(MOST)
        .collect()
    )
    taken = {name.lower() for name in shape.fieldNames()}
    seen: dict[str, tuple[Schema | None, tuple[str, int, int]]] = {}
    for row in found:
        schema = None if row["name"].lower() in taken else _schema(row["name"], row["type"])
        taken.add(row["name"].lower())
        seen[row["name"]] = (schema, tuple(row["place"])[1:])
    return seen


def _schema(name: str, type: str) -> Schema | None:
    # A number's digits in this batch say nothing of the next one's.
    text = re.sub(r"DECIMAL\(\d+,\s*\d+\)", "DOUBLE", type.replace("OBJECT<", "STRUCT<"))
    try:
        (column,) = ddl.parse(f"`{name}` {text}")
        schema = model.from_columns([column])
        model.value_columns(schema)
    except (ddl.DdlError, SchemaError):
        return None
    return schema.fields[0].schema
