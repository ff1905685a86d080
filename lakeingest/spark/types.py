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


def ddl_columns(there: StructType, *, required: bool = False) -> tuple[ddl.Column, ...]:
    """A table's columns as the rules of compatibility know columns.

    Args:
        required: whether NOT NULL is kept, too, which makes a struct another type.
    """
    return tuple(
        ddl.Column(f.name, _declared(f.dataType, required=required), f.nullable or not required) for f in there
    )


def _declared(kind: DataType, *, required: bool) -> ddl.Type:
    if isinstance(kind, T.StructType):
        return ddl.Struct(ddl_columns(kind, required=required))
    if isinstance(kind, T.ArrayType):
        return ddl.Array(_declared(kind.elementType, required=required))
    if isinstance(kind, T.MapType):
        return ddl.Map(_declared(kind.keyType, required=required), _declared(kind.valueType, required=required))
    return ddl.Atomic(kind.simpleString())


def fitted(there: StructType, wanted: StructType) -> StructType:
    """The columns to write: those that are wanted, as wide and with as many nested fields as the table has them.

    What is wanted NOT NULL stays so, because decoding refuses by it what Delta would stop the whole batch for.
    """
    held = {field.name.lower(): field.dataType for field in there}
    return T.StructType(
        [T.StructField(f.name, _fitted(held.get(f.name.lower(), f.dataType), f.dataType), f.nullable) for f in wanted]
    )


def _fitted(held: DataType, wanted: DataType) -> DataType:
    if isinstance(held, T.StructType) and isinstance(wanted, T.StructType):
        names = {f.name.lower() for f in wanted}
        kept = [T.StructField(f.name, f.dataType) for f in held if f.name.lower() not in names]
        return T.StructType([*fitted(held, wanted), *kept])
    if isinstance(held, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return T.ArrayType(_fitted(held.elementType, wanted.elementType))
    if isinstance(held, T.MapType) and isinstance(wanted, T.MapType):
        return T.MapType(_fitted(held.keyType, wanted.keyType), _fitted(held.valueType, wanted.valueType))
    return wanted if delta_widens(held.simpleString(), wanted.simpleString()) else held


def has_new_fields(there: DataType, wanted: DataType) -> bool:
    """Whether a field of `wanted`, a nested one perhaps, is not in the table."""
    if isinstance(there, T.StructType) and isinstance(wanted, T.StructType):
        held = {field.name.lower(): field.dataType for field in there}
        return any(f.name.lower() not in held or has_new_fields(held[f.name.lower()], f.dataType) for f in wanted)
    if isinstance(there, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return has_new_fields(there.elementType, wanted.elementType)
    if isinstance(there, T.MapType) and isinstance(wanted, T.MapType):
        return has_new_fields(there.keyType, wanted.keyType) or has_new_fields(there.valueType, wanted.valueType)
    return False


def demanded(wanted: StructType) -> StructType:
    """The columns with NOT NULL as a table can demand it: not within what may be null itself, or be empty.

    Delta demands a field of a struct that is null, too, and nothing of elements. There decoding alone refuses.
    """
    return T.StructType(
        [T.StructField(f.name, _demanded(f.dataType, f.nullable), f.nullable, f.metadata) for f in wanted]
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


def not_null_fields(there: StructType, path: str = "") -> Iterator[tuple[str, str | None]]:
    """The fields that are NOT NULL, through structs: a path as ALTER COLUMN takes it, and a column's name."""
    for field in there:
        name = f"{path}{ddl.quoted(field.name)}"
        if not field.nullable:
            yield name, None if path else field.name
        if isinstance(field.dataType, T.StructType):
            yield from not_null_fields(field.dataType, f"{name}.")


def sql_type(kind: DataType, *, not_null: bool = False) -> str:
    """A type as SQL takes it, with any names within it, and whether NOT NULL of its fields is said."""
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(sql_column(field, ': ', not_null=not_null) for field in kind)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{sql_type(kind.elementType, not_null=not_null)}>"
    if isinstance(kind, T.MapType):
        key, value = (sql_type(part, not_null=not_null) for part in (kind.keyType, kind.valueType))
        return f"MAP<{key}, {value}>"
    return kind.simpleString()


def sql_column(field: T.StructField, between: str = " ", *, not_null: bool = True) -> str:
    """A column, or a field of a struct, as SQL takes it."""
    constraint = " NOT NULL" if not_null and not field.nullable else ""
    return f"{ddl.quoted(field.name)}{between}{sql_type(field.dataType, not_null=not_null)}{constraint}"


def widened(there: StructType, wanted: StructType, *, adds: bool = False) -> StructType:
    """The columns of a table as they are once those that are wanted wider have become so.

    Args:
        adds: whether it gets the fields that it lacks, too, behind its own, as Delta adds them.
    """
    held = {field.name.lower(): field.dataType for field in wanted}
    own = [
        T.StructField(f.name, _widened(f.dataType, held[f.name.lower()], adds=adds), f.nullable, f.metadata)
        if f.name.lower() in held
        else f
        for f in there
    ]
    names = {field.name.lower() for field in there}
    return T.StructType([*own, *(f for f in wanted if adds and f.name.lower() not in names)])


def _widened(there: DataType, wanted: DataType, *, adds: bool) -> DataType:
    if isinstance(there, T.StructType) and isinstance(wanted, T.StructType):
        return widened(there, wanted, adds=adds)
    if isinstance(there, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return T.ArrayType(_widened(there.elementType, wanted.elementType, adds=adds), there.containsNull)
    if isinstance(there, T.MapType) and isinstance(wanted, T.MapType):
        key, value = (
            _widened(mine, other, adds=adds)
            for mine, other in ((there.keyType, wanted.keyType), (there.valueType, wanted.valueType))
        )
        return T.MapType(key, value, there.valueContainsNull)
    return wanted


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


def new_comments(there: StructType, wanted: StructType) -> dict[str, str]:
    """The fields of a table that are wanted with another comment: a path as ALTER COLUMN takes it, and the comment."""
    held = {path.lower(): (path, text) for path, text in comments(there)}
    found = ((*held.get(path.lower(), (None, None)), text) for path, text in comments(wanted) if text is not None)
    return {path: text for path, before, text in found if path is not None and text != before}


def widenings(there: DataType, wanted: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """The columns to be widened: a path as ALTER COLUMN takes it, and the type."""
    if isinstance(there, T.StructType) and isinstance(wanted, T.StructType):
        held = {field.name.lower(): field for field in there}
        for f in wanted:
            if (old := held.get(f.name.lower())) is not None:
                name = ddl.quoted(old.name)
                yield from widenings(old.dataType, f.dataType, f"{path}.{name}" if path else name)
    elif isinstance(there, T.ArrayType) and isinstance(wanted, T.ArrayType):
        yield from widenings(there.elementType, wanted.elementType, f"{path}.element")
    elif isinstance(there, T.MapType) and isinstance(wanted, T.MapType):
        yield from widenings(there.keyType, wanted.keyType, f"{path}.key")
        yield from widenings(there.valueType, wanted.valueType, f"{path}.value")
    elif there.simpleString() != wanted.simpleString():
        yield path, wanted.simpleString()
