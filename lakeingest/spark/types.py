"""Spark's types: from DDL text, as the rules of compatibility know them, and a table's held against a batch's. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructType

from lakeingest.schema import ddl
from lakeingest.schema.compatibility.widening import delta_widens


def struct(declared: str) -> T.StructType:
    """DDL text as Spark's type, without asking Spark."""
    return of_columns(ddl.parse(declared))


def of_columns(columns: Sequence[ddl.Column]) -> T.StructType:
    """Columns as Spark's type, with their comments."""
    return T.StructType.fromJson(json.loads(ddl.to_json(columns)))


def ddl_columns(table_schema: StructType, *, required: bool = False) -> tuple[ddl.Column, ...]:
    """A table's columns as the rules of compatibility know columns.

    Args:
        required: whether NOT NULL is kept, too, which makes a struct another type.
    """
    return tuple(
        ddl.Column(f.name, _declared(f.dataType, required=required), f.nullable or not required) for f in table_schema
    )


def _declared(kind: DataType, *, required: bool) -> ddl.Type:
    if isinstance(kind, T.StructType):
        return ddl.Struct(ddl_columns(kind, required=required))
    if isinstance(kind, T.ArrayType):
        return ddl.Array(_declared(kind.elementType, required=required))
    if isinstance(kind, T.MapType):
        return ddl.Map(_declared(kind.keyType, required=required), _declared(kind.valueType, required=required))
    return ddl.Atomic(kind.simpleString())


def fitted(table_schema: StructType, target_schema: StructType) -> StructType:
    """The columns to write: those that are wanted, as wide and with as many nested fields as the table has them.

    What is wanted NOT NULL stays so, because decoding refuses by it what Delta would stop the whole batch for.
    """
    types_by_name = {field.name.lower(): field.dataType for field in table_schema}
    return T.StructType(
        [
            T.StructField(f.name, _fitted(types_by_name.get(f.name.lower(), f.dataType), f.dataType), f.nullable)
            for f in target_schema
        ]
    )


def _fitted(old: DataType, target: DataType) -> DataType:
    if isinstance(old, T.StructType) and isinstance(target, T.StructType):
        names = {f.name.lower() for f in target}
        others_of_table = [T.StructField(f.name, f.dataType) for f in old if f.name.lower() not in names]
        return T.StructType([*fitted(old, target), *others_of_table])
    if isinstance(old, T.ArrayType) and isinstance(target, T.ArrayType):
        return T.ArrayType(_fitted(old.elementType, target.elementType))
    if isinstance(old, T.MapType) and isinstance(target, T.MapType):
        return T.MapType(_fitted(old.keyType, target.keyType), _fitted(old.valueType, target.valueType))
    return target if delta_widens(old.simpleString(), target.simpleString()) else old


def has_new_fields(table_type: DataType, target: DataType) -> bool:
    """Whether a field of `target`, a nested one perhaps, is not in the table."""
    if isinstance(table_type, T.StructType) and isinstance(target, T.StructType):
        types_by_name = {field.name.lower(): field.dataType for field in table_type}
        return any(
            f.name.lower() not in types_by_name or has_new_fields(types_by_name[f.name.lower()], f.dataType)
            for f in target
        )
    if isinstance(table_type, T.ArrayType) and isinstance(target, T.ArrayType):
        return has_new_fields(table_type.elementType, target.elementType)
    if isinstance(table_type, T.MapType) and isinstance(target, T.MapType):
        return has_new_fields(table_type.keyType, target.keyType) or has_new_fields(
            table_type.valueType, target.valueType
        )
    return False


def demanded(target_schema: StructType) -> StructType:
    """The columns with NOT NULL as a table can demand it: not within what may be null itself, or be empty.

    Delta demands a field of a struct that is null, too, and nothing of elements. There decoding alone refuses.
    """
    return T.StructType(
        [T.StructField(f.name, _demanded(f.dataType, f.nullable), f.nullable, f.metadata) for f in target_schema]
    )


def _demanded(kind: DataType, nullable: bool) -> DataType:
    if isinstance(kind, T.StructType):
        fields = (T.StructField(f.name, f.dataType, f.nullable or nullable, f.metadata) for f in kind)
        return demanded(T.StructType([*fields]))
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_demanded(kind.elementType, True), kind.containsNull)
    if isinstance(kind, T.MapType):
        key, value = (_demanded(part, True) for part in (kind.keyType, kind.valueType))
        return T.MapType(key, value, kind.valueContainsNull)
    return kind


def has_ntz(kind: DataType) -> bool:
    """Whether TIMESTAMP_NTZ is in it, of which a table's readers must know."""
    if isinstance(kind, T.StructType):
        return any(has_ntz(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return has_ntz(kind.elementType)
    if isinstance(kind, T.MapType):
        return has_ntz(kind.keyType) or has_ntz(kind.valueType)
    return isinstance(kind, T.TimestampNTZType)


def not_null_fields(table_schema: StructType, path: str = "") -> Iterator[tuple[str, str | None]]:
    """The fields that are NOT NULL, through structs: a path as ALTER COLUMN takes it, and a column's name."""
    for field in table_schema:
        name = f"{path}{ddl.quoted(field.name)}"
        if not field.nullable:
            yield name, None if path else field.name
        if isinstance(field.dataType, T.StructType):
            yield from not_null_fields(field.dataType, f"{name}.")


def sql_type(kind: DataType, *, not_null: bool = False, comments: bool = False) -> str:
    """A type as SQL takes it, with any names within it, and with its fields' NOT NULL and comments where asked for."""
    options = {"not_null": not_null, "comments": comments}
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(sql_column(field, ': ', **options) for field in kind)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{sql_type(kind.elementType, **options)}>"
    if isinstance(kind, T.MapType):
        key, value = (sql_type(part, **options) for part in (kind.keyType, kind.valueType))
        return f"MAP<{key}, {value}>"
    return kind.simpleString()


def sql_column(field: T.StructField, between: str = " ", *, not_null: bool = True, comments: bool = False) -> str:
    """A column, or a field of a struct, as SQL takes it."""
    kind = sql_type(field.dataType, not_null=not_null, comments=comments)
    constraint = " NOT NULL" if not_null and not field.nullable else ""
    comment = field.metadata.get("comment") if comments else None
    described = f" COMMENT {ddl.text(comment)}" if comment else ""
    return f"{ddl.quoted(field.name)}{between}{kind}{constraint}{described}"


def widened(table_schema: StructType, target_schema: StructType, *, adds: bool = False) -> StructType:
    """The columns of a table as they are once those that are wanted wider have become so.

    Args:
        adds: whether it gets the fields that it lacks, too, behind its own, as Delta adds them.
    """
    types_by_name = {field.name.lower(): field.dataType for field in target_schema}
    table_fields = [
        T.StructField(f.name, _widened(f.dataType, types_by_name[f.name.lower()], adds=adds), f.nullable, f.metadata)
        if f.name.lower() in types_by_name
        else f
        for f in table_schema
    ]
    names = {field.name.lower() for field in table_schema}
    return T.StructType([*table_fields, *(f for f in target_schema if adds and f.name.lower() not in names)])


def _widened(table_type: DataType, target: DataType, *, adds: bool) -> DataType:
    if isinstance(table_type, T.StructType) and isinstance(target, T.StructType):
        return widened(table_type, target, adds=adds)
    if isinstance(table_type, T.ArrayType) and isinstance(target, T.ArrayType):
        return T.ArrayType(_widened(table_type.elementType, target.elementType, adds=adds), table_type.containsNull)
    if isinstance(table_type, T.MapType) and isinstance(target, T.MapType):
        key, value = (
            _widened(old, other, adds=adds)
            for old, other in ((table_type.keyType, target.keyType), (table_type.valueType, target.valueType))
        )
        return T.MapType(key, value, table_type.valueContainsNull)
    return target


def comments(kind: DataType, path: str = "") -> Iterator[tuple[str, str | None]]:
    """Every field, nested ones too: a path as ALTER COLUMN takes it, and its comment."""
    match kind:
        case T.StructType():
            for field in kind:
                name = f"{path}.{ddl.quoted(field.name)}" if path else ddl.quoted(field.name)
                yield name, field.metadata.get("comment")
                yield from comments(field.dataType, name)
        case T.ArrayType():
            yield from comments(kind.elementType, f"{path}.element")
        case T.MapType():
            yield from comments(kind.keyType, f"{path}.key")
            yield from comments(kind.valueType, f"{path}.value")


def new_comments(table_schema: StructType, target_schema: StructType) -> dict[str, str]:
    """The fields of a table that are wanted with another comment: a path as ALTER COLUMN takes it, and the comment."""
    comments_by_path = {path.lower(): (path, text) for path, text in comments(table_schema)}
    comment_pairs = (
        (*comments_by_path.get(path.lower(), (None, None)), text)
        for path, text in comments(target_schema)
        if text is not None
    )
    return {path: text for path, before, text in comment_pairs if path is not None and text != before}


def widenings(table_type: DataType, target: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """The columns to be widened: a path as ALTER COLUMN takes it, and the type."""
    if isinstance(table_type, T.StructType) and isinstance(target, T.StructType):
        fields_by_name = {field.name.lower(): field for field in table_type}
        for f in target:
            if (old := fields_by_name.get(f.name.lower())) is not None:
                name = ddl.quoted(old.name)
                yield from widenings(old.dataType, f.dataType, f"{path}.{name}" if path else name)
    elif isinstance(table_type, T.ArrayType) and isinstance(target, T.ArrayType):
        yield from widenings(table_type.elementType, target.elementType, f"{path}.element")
    elif isinstance(table_type, T.MapType) and isinstance(target, T.MapType):
        yield from widenings(table_type.keyType, target.keyType, f"{path}.key")
        yield from widenings(table_type.valueType, target.valueType, f"{path}.value")
    elif table_type.simpleString() != target.simpleString():
        yield path, target.simpleString()
