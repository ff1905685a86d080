"""Projection: a value of its writer's schema becomes a value of the table's columns. Columns only, no Python per row.

A column takes the field that `schema.compatibility.naming` gives it, whatever the version that is current: a field that
the writer's schema lacks is null, and no default of another schema is written. Numbers are promoted. What only the
writer has is kept in _rescued.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.schema import ddl, model
from lakeingest.schema.compatibility import naming
from lakeingest.schema.compatibility.widening import casts
from lakeingest.schema.functions import JSON_TIMES
from lakeingest.schema.model import Schema

Parsed: TypeAlias = Column | Mapping[str, Column]
"""A value of a struct; or the columns that its fields are, by their names."""


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


def under_field_names(kind: T.StructType, schema: Schema) -> T.StructType:
    """The type under the names of a schema's fields, which have the same order."""
    fields = zip(kind, schema.fields, strict=True)
    return T.StructType(
        [T.StructField(f.name, _field_type(k.dataType, f.schema), k.nullable, k.metadata) for k, f in fields]
    )


def _field_type(kind: T.DataType, schema: Schema) -> T.DataType:
    match kind:
        case T.StructType() if schema.type == "struct":
            return under_field_names(kind, schema)
        case T.ArrayType() if schema.value:
            return T.ArrayType(_field_type(kind.elementType, schema.value))
        case T.MapType() if schema.value:
            return T.MapType(kind.keyType, _field_type(kind.valueType, schema.value))
    return kind


def project(value: Column, source: Schema, names: Schema, target: T.DataType) -> Column:
    """`value`, read with `source`, in the column type `target`; null where that cannot hold it.

    Args:
        names: the same schema under the names of the columns (see `naming.named`).
    """
    if _as_it_is(source, names, target):
        return value
    if isinstance(target, T.StructType) and source.type == "struct":
        fields = [_member(value, f, source, names).alias(f.name) for f in target]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(target, T.ArrayType) and source.type == "array":
        element, (inner, inner_names) = target.elementType, _parts(source.value, names.value)
        # An array that is no column as it is has elements that are none.
        return F.transform(value, lambda e: project(e, inner, inner_names, element))
    if isinstance(target, T.MapType) and source.type == "map":
        return _project_map(value, source, names, target)
    return _atomic(value, source, target)


def _atomic(value: Column, source: Schema, target: T.DataType) -> Column:
    if not _holds(target, source):
        return F.lit(None).cast(target)
    text = _is_bytes_of_uuid(source) and not isinstance(target, T.BinaryType)
    return _uuid_text(value) if text else value.cast(target)


def _uuid_text(value: Column) -> Column:
    """STRING, as RFC 9562 writes the 16 bytes of a UUID: five groups of lower-case digits."""
    groups = r"^(.{8})(.{4})(.{4})(.{4})(.{12})$"
    return F.regexp_replace(F.lower(F.hex(value)), groups, "$1-$2-$3-$4-$5")


def _is_bytes_of_uuid(schema: Schema) -> bool:
    return schema.type == "bytes" and schema.name == model.UUID


def _project_map(value: Column, source: Schema, names: Schema, target: T.MapType) -> Column:
    (key, key_names), (inner, inner_names) = _parts(source.key, names.key), _parts(source.value, names.value)
    if not _as_it_is(key, key_names, target.keyType):
        value = F.transform_keys(value, lambda k, _: project(k, key, key_names, target.keyType))
    if not _as_it_is(inner, inner_names, target.valueType):
        value = F.transform_values(value, lambda _, v: project(v, inner, inner_names, target.valueType))
    return value


def member(value: Parsed, column: T.StructField, source: Schema, names: Schema) -> Column:
    """A column of the table out of a record: one field of a struct, or `value` for anything else."""
    if source.type == "struct":
        return _member(value, column, source, names)
    if column.name != model.WHOLE:
        return F.lit(None).cast(column.dataType)
    assert isinstance(value, Column)
    return project(value, source, names, column.dataType)


def _member(value: Parsed, column: T.StructField, source: Schema, names: Schema) -> Column:
    for field, name in zip(source.fields, names.fields, strict=True):
        if name.name.lower() == column.name.lower():
            return project(value[field.name], field.schema, name.schema, column.dataType)
    return F.lit(None).cast(column.dataType)


def dropped(source: Schema, names: Schema, target: T.StructType) -> tuple[str, ...]:
    """The fields of a record that no column takes, or something of them."""
    if source.type != "struct":
        return ()
    columns = {f.name.lower(): f.dataType for f in target}
    pairs = zip(source.fields, names.fields, strict=True)
    return tuple(f.name for f, name in pairs if _drops(f.schema, name.schema, columns.get(name.name.lower())))


def _drops(source: Schema, names: Schema, target: T.DataType | None) -> bool:
    if target is None or not _holds(target, source):
        return True
    if isinstance(target, T.StructType):
        return bool(dropped(source, names, target))
    if isinstance(target, T.ArrayType):
        item_source, item_names = _parts(source.value, names.value)
        return _drops(item_source, item_names, target.elementType)
    if isinstance(target, T.MapType):
        (key, key_names), (inner, inner_names) = _parts(source.key, names.key), _parts(source.value, names.value)
        return _drops(key, key_names, target.keyType) or _drops(inner, inner_names, target.valueType)
    return False


def rescued(value: Parsed, dropped: tuple[str, ...], source: Schema, names: Schema) -> Column | None:
    """STRING, the dropped fields of a record as a JSON object, without those that are null; null where all are.

    They have the names of their columns, where they have some: what is masked there is hidden here too.
    """
    if not dropped:
        return None
    fields = []
    for field, name in zip(source.fields, naming.with_field_names(names, source).fields, strict=True):
        if field.name in dropped:
            part = project(value[field.name], field.schema, name.schema, data_type(name.schema))
            fields.append(part.alias(name.name))
    return F.nullif(F.to_json(F.struct(*fields), dict(JSON_TIMES)), F.lit("{}"))


def _holds(target: T.DataType, source: Schema) -> bool:
    """Whether a column can hold such a value: a column that somebody else made may be of any type."""
    if isinstance(target, T.StructType | T.ArrayType | T.MapType):
        return target.typeName() == source.type
    if _is_bytes_of_uuid(source) and isinstance(target, T.BinaryType):
        # Older versions made such a column of it.
        return True
    return source.type not in ("struct", "array", "map") and casts(_simple(source), target.simpleString())


def _as_it_is(source: Schema, names: Schema, target: T.DataType) -> bool:
    """Whether a value needs nothing done to it."""
    return _simple(source) == target.simpleString() and _same_names(source, names) and not _has_bytes_of_uuid(source)


def _has_bytes_of_uuid(schema: Schema) -> bool:
    parts = (*(field.schema for field in schema.fields), schema.key, schema.value)
    return _is_bytes_of_uuid(schema) or any(part is not None and _has_bytes_of_uuid(part) for part in parts)


def _same_names(source: Schema, names: Schema) -> bool:
    pairs = [*zip(source.fields, names.fields, strict=True)]
    parts = [(source.key, names.key), (source.value, names.value)]
    within = [(f.schema, name.schema) for f, name in pairs] + [(a, b) for a, b in parts if a and b]
    return all(f.name == name.name for f, name in pairs) and all(_same_names(a, b) for a, b in within)


def _simple(schema: Schema) -> str:
    return str(model.column_type(schema))


def _parts(*schemas: Schema | None) -> tuple[Schema, ...]:
    assert all(schema is not None for schema in schemas)
    return tuple(schema for schema in schemas if schema is not None)
