"""The column for each field of a record: by its name, or by an alias. Pure.

A column keeps the name that came first. `table` is here the schema of all columns that a table has, removed fields
among them; the aliases of its fields are the other names by which records know the column. So a version that drops an
alias, or an older one that is met later, goes to the same column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakeingest.schema.model import Field, Schema
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step


class NameClash(ValueError):
    """Two fields of a record would go to one column; the message says which."""


def columns_of(schema: Schema) -> Schema:
    """The schema of a table's columns that holds such records: each may be null, and none has a default."""
    return remembering(_bare(with_column_names(schema, None)), schema, with_column_names(schema, None))


def _bare(schema: Schema) -> Schema:
    fields = tuple(Field(f.name, replace(_bare(f.schema), optional=True)) for f in schema.fields)
    key, value = (part and _bare(part) for part in (schema.key, schema.value))
    return replace(schema, default=None, version=None, fields=fields, key=key, value=value)


def with_column_names(record: Schema, table: Schema | None, path: str = "", *, rescued: Sequence[str] = ()) -> Schema:
    """The record's schema under the names of the columns that take its parts, in the same order and without aliases.

    A field goes to the column of its name, else to the one that is known by this name too, else to the one that is
    known by one of its aliases, unless another field of the record bears that name. What no column takes keeps its
    name.

    Args:
        rescued: fields, as paths of the record, for which it was decided that no column takes them. They have no name,
            and what is within them has its own: a column may be known by such a name since.

    Raises:
        NameClash: two fields would go to one column.
    """
    if table is None or record.type != table.type:
        table = None
    below = {"array": ELEMENT, "map": VALUE}.get(record.type, "")
    part = partial(_named_part, table=table, rescued=rescued)
    return replace(
        record,
        name=_type_name(record, table),
        aliases=(),
        fields=tuple(_named_fields(record.fields, table.fields if table else (), path, rescued)),
        key=part(record.key, "key", path + KEY),
        value=part(record.value, "value", path + below),
    )


def _named_part(
    part: Schema | None, which: str, path: str, *, table: Schema | None, rescued: Sequence[str]
) -> Schema | None:
    return part and with_column_names(part, getattr(table, which) if table else None, path, rescued=rescued)


def _type_name(record: Schema, table: Schema | None) -> str | None:
    if table is None or record.name is None or table.name is None:
        return record.name
    common = {record.name, *record.aliases} & {table.name, *table.aliases}
    return table.name if common else record.name


def _named_fields(
    fields: Sequence[Field], columns: Sequence[Field], path: str, rescued: Sequence[str]
) -> Iterator[Field]:
    # A table has one column for upper and lower case.
    columns_by_name = {alias.lower(): column for column in columns for alias in column.aliases}
    columns_by_name |= {column.name.lower(): column for column in columns}
    field_names, field_by_column = {field.name.lower() for field in fields}, dict[str, str]()
    for field in fields:
        below = step(path, field.name)
        if below in rescued:
            yield Field("", with_column_names(field.schema, None))
            continue
        names = [field.name, *(alias for alias in field.aliases if alias.lower() not in field_names)]
        column = next((columns_by_name[name.lower()] for name in names if name.lower() in columns_by_name), None)
        name = column.name if column else field.name
        other = field_by_column.setdefault(name.lower(), field.name)
        if other.lower() != field.name.lower():
            raise NameClash(f"{below} and {step(path, other)} would both go to the column {name}")
        inner = with_column_names(field.schema, column.schema if column else None, below, rescued=rescued)
        yield Field(name, inner)


def remembering(table: Schema, record: Schema, names: Schema) -> Schema:
    """The table's columns with the names by which a record knows them.

    Args:
        names: `named` of the record.
    """
    if record.type != table.type:
        return table
    fields = {name.name.lower(): (field, name) for field, name in zip(record.fields, names.fields, strict=True)}
    column_names = {name.lower() for column in table.fields for name in (column.name, *column.aliases)}
    field_names = {field.name.lower() for field in record.fields}
    columns = []
    for column in table.fields:
        if column.name.lower() not in fields:
            columns.append(column)
            continue
        field, name = fields[column.name.lower()]
        other_names = column_names | (field_names - {field.name.lower()})
        new = {n.lower(): n for n in (field.name, *field.aliases) if n.lower() not in other_names}
        column_names |= new.keys()
        within = remembering(column.schema, field.schema, name.schema)
        columns.append(Field(column.name, within, (*column.aliases, *new.values())))
    aliases = table.aliases
    if record.name is not None and table.name == names.name:
        aliases = tuple(dict.fromkeys(n for n in (*aliases, record.name, *record.aliases) if n != table.name))
    key, value = (
        remembering(part, inner, name) if part and inner and name else part
        for part, inner, name in ((table.key, record.key, names.key), (table.value, record.value, names.value))
    )
    return replace(table, fields=tuple(columns), aliases=aliases, key=key, value=value)


def documented(table: Schema, current: Schema) -> Schema:
    """The table's columns with the documentation of the schema that is current, where it has the field.

    Args:
        current: under the names of the columns.
    """
    docs = {field.name.lower(): field.schema for field in current.fields}
    fields = tuple(
        replace(f, schema=documented(f.schema, docs[f.name.lower()])) if f.name.lower() in docs else f
        for f in table.fields
    )
    key, value = (
        documented(part, inner) if part and inner else part
        for part, inner in ((table.key, current.key), (table.value, current.value))
    )
    return replace(table, doc=current.doc, fields=fields, key=key, value=value)


def renamed(record: Schema, names: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """(path of the column, name of the field) of each field that goes to a column of another name."""
    for field, name in zip(record.fields, names.fields, strict=True):
        below = step(path, name.name)
        if field.name.lower() != name.name.lower():
            yield below, field.name
        yield from renamed(field.schema, name.schema, below)
    if record.value and names.value:
        yield from renamed(record.value, names.value, path + (VALUE if record.type == "map" else ELEMENT))
    if record.key and names.key:
        yield from renamed(record.key, names.key, path + KEY)


def without_column(record: Schema, names: Schema, table: Schema, path: str = "") -> Iterator[str]:
    """The fields of a record that no column takes, as paths of the record."""
    columns = {column.name.lower(): column.schema for column in table.fields}
    for field, name in zip(record.fields, names.fields, strict=True):
        below, column = step(path, field.name), columns.get(name.name.lower())
        if column is None:
            yield below
        else:
            yield from without_column(field.schema, name.schema, column, below)
    if record.value and names.value and table.value:
        below = path + (VALUE if record.type == "map" else ELEMENT)
        yield from without_column(record.value, names.value, table.value, below)
    if record.key and names.key and table.key:
        yield from without_column(record.key, names.key, table.key, path + KEY)


def with_field_names(names: Schema, record: Schema) -> Schema:
    """`names` of a record, where a field without a column has its own name again."""
    fields = tuple(
        Field(name.name or field.name, with_field_names(name.schema, field.schema))
        for field, name in zip(record.fields, names.fields, strict=True)
    )
    key = names.key and record.key and with_field_names(names.key, record.key)
    value = names.value and record.value and with_field_names(names.value, record.value)
    return replace(names, fields=fields, key=key, value=value)
