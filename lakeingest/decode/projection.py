"""Projection: a value of its writer's schema becomes a value of the table's. Columns only, no Python per row.

As Kafka Connect's SchemaProjector does it: by name, driven by the target. A field that is missing becomes its default,
or null; an optional null that goes to a required field with a default becomes the default; numbers are promoted; what
only the writer has is dropped (and kept in _rescued).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.schema import ddl, model
from lakeingest.schema.model import Schema

_MOMENTS = {
    model.DATE: F.date_from_unix_date,
    model.TIMESTAMP: F.timestamp_millis,
    model.TIMESTAMP_MICROS: F.timestamp_micros,
    # Sessions run in UTC (see session.attach), where the wall clock shows the instant.
    model.LOCAL_TIMESTAMP_MILLIS: F.timestamp_millis,
    model.LOCAL_TIMESTAMP_MICROS: F.timestamp_micros,
}
"""Logical types whose default is a number → the time that it means; the target's type is cast to afterwards."""


def struct_type(schema: Schema) -> T.StructType:
    """The table's columns of such a value (see `model.value_columns`), as Spark's type.

    Raises:
        SchemaError: no table can hold it.
    """
    return T.StructType.fromJson(json.loads(ddl.to_json(model.value_columns(schema))))


def data_type(schema: Schema) -> T.DataType:
    """The type of one column that holds such values, as Spark's."""
    column = ddl.Column("c", model.column_type(schema))
    return T.StructType.fromJson(json.loads(ddl.to_json([column])))["c"].dataType


def project(value: Column, source: Schema, current: Schema, target: T.DataType) -> Column:
    """`value`, read with `source`, as `current` would have it, in the column type `target` (which may be wider)."""
    if isinstance(target, T.StructType):
        if _covers(source, current, target):
            return value
        fields = [_member(value, f, source, current).alias(f.name) for f in target]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(target, T.ArrayType):
        element, (theirs, ours) = target.elementType, _parts(source.value, current.value)
        if _covers(theirs, ours, element):
            return value
        return F.transform(value, lambda e: project(e, theirs, ours, element))
    if isinstance(target, T.MapType):
        return _project_map(value, source, current, target)
    return value if _simple(source) == target.simpleString() else value.cast(target)


def _project_map(value: Column, source: Schema, current: Schema, target: T.MapType) -> Column:
    (key, our_key), (inner, ours) = _parts(source.key, current.key), _parts(source.value, current.value)
    if not _covers(key, our_key, target.keyType):
        value = F.transform_keys(value, lambda k, _: project(k, key, our_key, target.keyType))
    if not _covers(inner, ours, target.valueType):
        value = F.transform_values(value, lambda _, v: project(v, inner, ours, target.valueType))
    return value


def member(value: Column, field: T.StructField, source: Schema, current: Schema) -> Column:
    """A column of the table out of a record: one field of a struct, or `value` for anything else."""
    if current.type == "struct":
        return _member(value, field, source, current)
    return project(value, source, current, field.dataType)


def _member(value: Column, field: T.StructField, source: Schema, current: Schema) -> Column:
    theirs, ours = source.field(field.name), current.field(field.name)
    if ours is None:
        return F.lit(None).cast(field.dataType)
    if theirs is None:
        return default(ours, field.dataType)
    projected = project(value[field.name], theirs, ours, field.dataType)
    if theirs.optional and not ours.optional and ours.default is not None:
        return F.coalesce(projected, default(ours, field.dataType))
    return projected


def dropped(source: Schema, current: Schema) -> tuple[str, ...]:
    """The fields of a record that projection drops, or drops something of."""
    if source.type != "struct" or current.type != "struct":
        return ()
    return tuple(f.name for f in source.fields if _drops(f.schema, current.field(f.name)))


def _drops(source: Schema, current: Schema | None) -> bool:
    if current is None:
        return True
    if source.type == "struct":
        return any(_drops(f.schema, current.field(f.name)) for f in source.fields)
    return any(
        theirs is not None and _drops(theirs, ours)
        for theirs, ours in ((source.key, current.key), (source.value, current.value))
    )


def rescued(value: Column, dropped: tuple[str, ...]) -> Column | None:
    """STRING, the dropped fields of a record as a JSON object, without those that are null; null where all are."""
    if not dropped:
        return None
    return F.nullif(F.to_json(F.struct(*(value[name].alias(name) for name in dropped))), F.lit("{}"))


def _covers(source: Schema, current: Schema, target: T.DataType) -> bool:
    """Whether a value needs nothing done to it."""
    return _simple(source) == target.simpleString() and not _fills(source, current)


def _fills(source: Schema, current: Schema) -> bool:
    """Whether somewhere within a null becomes a default, or a field is dropped that the column still has."""
    if source.type == "struct":
        for f in source.fields:
            ours = current.field(f.name)
            if ours is None or (f.schema.optional and not ours.optional and ours.default is not None):
                return True
            if _fills(f.schema, ours):
                return True
        return False
    return any(
        theirs is not None and ours is not None and _fills(theirs, ours)
        for theirs, ours in ((source.key, current.key), (source.value, current.value))
    )


def _simple(schema: Schema) -> str:
    return str(model.column_type(schema))


def _parts(*schemas: Schema | None) -> tuple[Schema, ...]:
    assert all(schema is not None for schema in schemas)
    return tuple(schema for schema in schemas if schema is not None)


def default(schema: Schema, target: T.DataType) -> Column:
    """The schema's default as a literal; null where it has none."""
    if schema.default is None:
        return F.lit(None).cast(target)
    return _literal(json.loads(schema.default), schema, target)


def _literal(value: Any, schema: Schema, target: T.DataType) -> Column:
    if value is None:
        return F.lit(None).cast(target)
    if isinstance(target, T.StructType):
        fields = []
        for f in target:
            inner = schema.field(f.name)
            if inner is None:
                fields.append(F.lit(None).cast(f.dataType).alias(f.name))
            else:
                literal = _literal(value[f.name], inner, f.dataType) if f.name in value else default(inner, f.dataType)
                fields.append(literal.alias(f.name))
        return F.struct(*fields)
    if isinstance(target, T.ArrayType):
        (element,) = _parts(schema.value)
        return F.array(*(_literal(v, element, target.elementType) for v in value)).cast(target)
    if isinstance(target, T.MapType):
        (inner,) = _parts(schema.value)
        pairs = [part for k, v in value.items() for part in (F.lit(k), _literal(v, inner, target.valueType))]
        return F.create_map(*pairs).cast(target)
    return _scalar(value, schema).cast(target)


def _scalar(value: Any, schema: Schema) -> Column:
    if schema.name == model.DECIMAL:
        unscaled = int.from_bytes(str(value).encode("latin-1"), "big", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        # By its digits: Decimal's own arithmetic keeps 28 of them.
        return F.lit(Decimal((int(unscaled < 0), digits, -int(schema.parameter(model.SCALE) or 0))))
    if schema.name in _MOMENTS:
        return _MOMENTS[schema.name](F.lit(value))
    return F.lit(bytearray(str(value).encode("latin-1")) if schema.type == "bytes" else value)
