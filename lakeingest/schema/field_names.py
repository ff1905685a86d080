"""The column's name for each field of a record's schema, where the field's own name cannot be one, or should not. Pure.

A field under another name has its own as an alias. So a rule that changes later is a rename, and keeps the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from lakeingest.schema.model import Field, Schema, SchemaError
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step
from lakeingest.schema.safe_names import safe

Names: TypeAlias = Literal["exact", "safe"] | Mapping[str, str]
"""A rule: exact takes each name as it is, safe makes a readable one of what is no plain name, a mapping has the path of
a field (`stops[].Stop Name`) → its name."""


def renamed(schema: Schema, rule: Names) -> Schema:
    """A schema under the names of the columns.

    Raises:
        SchemaError: two fields would be one column.
    """
    return schema if rule == "exact" else _renamed(schema, _namer(rule), "")


def _namer(rule: Names) -> Callable[[str, str], str]:
    """The path of a field, and its name → the column's."""
    return rule.get if isinstance(rule, Mapping) else lambda _, name: safe(name)


def _renamed(schema: Schema, namer: Callable[[str, str], str], path: str) -> Schema:
    fields: list[Field] = []
    fields_by_column: dict[str, str] = {}
    for field in schema.fields:
        below = step(path, field.name)
        name = namer(below, field.name)
        other = fields_by_column.setdefault(name.lower(), field.name)
        if other != field.name:
            raise SchemaError(
                f"{path or 'the record'}: the fields {other!r} and {field.name!r} would both be the column {name}; "
                f'name one of them, as in schema.names: {{"{below}": {safe(field.name)}_2}}'
            )
        if name.lower() in {each.name.lower() for each in schema.fields} - {field.name.lower()}:
            raise SchemaError(
                f"{below}: the column {name} would have the name of another field, and a later change of schema.names "
                "would mix the two; choose another name"
            )
        fields.append(_field(field, name, _renamed(field.schema, namer, below)))
    value = schema.value and _renamed(schema.value, namer, path + (VALUE if schema.key else ELEMENT))
    key = schema.key and _renamed(schema.key, namer, path + KEY)
    return replace(schema, fields=tuple(fields), key=key, value=value)


def _field(field: Field, name: str, schema: Schema) -> Field:
    if name == field.name:
        return replace(field, schema=schema)
    original = f'field "{field.name}"'
    doc = f"{schema.doc} ({original})" if schema.doc else original
    return Field(name, replace(schema, doc=doc), (*field.aliases, field.name))
