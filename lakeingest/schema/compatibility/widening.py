"""Widening on a Delta table: which types can grow, and the union of two schemas. Pure.

Delta's type widening is narrower than Connect's promotion of numbers: it has no long → float or double, and no
int → float. That difference is kept here alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from lakeingest.schema import ddl
from lakeingest.schema.model import (
    JSON,
    PRECISION,
    SCALE,
    SYMBOLS,
    TIME,
    TIME_MICROS,
    Field,
    Schema,
    column_type,
    type_text,
)
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step

_WIDENS: Mapping[str, Set[str]] = {
    "tinyint": {"smallint", "int", "bigint", "double"},
    "smallint": {"int", "bigint", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
_ORDER = ("tinyint", "smallint", "int", "bigint", "float", "double")


class NotAdditive(ValueError):
    """Two schemas have no union that a Delta table can hold; the message says where and why."""


def delta_widens(old: str, new: str) -> bool:
    """Whether Delta can widen a column of the one type to the other; a type widens to itself. Spark's names."""
    if old == new or new in _WIDENS.get(old, ()):
        return True
    was, now = _decimal(old), _decimal(new)
    if was is None or now is None:
        return False
    # Neither the digits before the point nor those behind it may become fewer.
    return now[1] >= was[1] and now[0] - now[1] >= was[0] - was[1]


def misfit(
    table_columns: Sequence[ddl.Column],
    new: Sequence[ddl.Column],
    path: str = "",
    *,
    narrower: bool = True,
    wider: bool = True,
) -> str | None:
    """The reason why a table with `table_columns` cannot take rows of the columns `new`; None if it can.

    Columns that only one side has are no hindrance: Delta adds the one, and the other stays null. Names are compared
    as Spark does, upper and lower case as one.

    Args:
        narrower: whether a type may be narrower than the table's, which is only cast.
        wider: whether it may be wider, which the table's has to become.
    """
    clash = partial(_clash, narrower=narrower, wider=wider)
    if twice := _twice(new):
        return f"{step(path, twice)}: a table has one column for upper and lower case, this schema two"
    types_by_name = {column.name.lower(): column.type for column in table_columns}
    for column in new:
        kind = types_by_name.get(column.name.lower())
        if kind is not None and (why := clash(kind, column.type, step(path, column.name))):
            return why
    for column in new:
        # Against itself: what is new may still have two names that are one.
        if column.name.lower() not in types_by_name and (
            why := clash(column.type, column.type, step(path, column.name))
        ):
            return why
    return None


def _clash(table_type: ddl.Type, new: ddl.Type, path: str, *, narrower: bool, wider: bool) -> str | None:
    below = partial(_clash, narrower=narrower, wider=wider)
    match table_type, new:
        case ddl.Struct(old_fields), ddl.Struct(fields):
            return misfit(old_fields, fields, path, narrower=narrower, wider=wider)
        case ddl.Array(old_element), ddl.Array(element):
            return below(old_element, element, path + ELEMENT)
        case ddl.Map(old_key, old_value), ddl.Map(key, value):
            return below(old_key, key, path + KEY) or below(old_value, value, path + VALUE)
        case ddl.Atomic(old), ddl.Atomic(name) if (wider and delta_widens(old, name)) or (
            narrower and casts(name, old)
        ):
            return None
    if not wider:
        return f"{path}: {str(new).upper()} in the record, {str(table_type).upper()} in the table"
    decimal = least_decimal(str(table_type), str(new))
    return f"{path}: Delta cannot widen {str(table_type).upper()} to {str(new).upper()}" + (
        f", but to {decimal.upper()}" if decimal else ""
    )


def text_clash(table: Schema, record: Schema, path: str = "") -> str | None:
    """The reason why a column of text cannot take the record's text: one is JSON text, where "5" and 5 differ, and the
    other is not; None where there is no such column.
    """
    if table.type == record.type == "string":
        kinds = ["JSON text" if each.name == JSON else "plain text" for each in (record, table)]
        return f"{path}: {kinds[0]} in the record, {kinds[1]} in the table" if kinds[0] != kinds[1] else None
    columns = {column.name.lower(): column.schema for column in table.fields}
    pairs = [(columns.get(f.name.lower()), f.schema, step(path, f.name)) for f in record.fields]
    pairs += [(table.key, record.key, path + KEY)] if record.key else []
    pairs += [(table.value, record.value, path + (VALUE if record.key else ELEMENT))] if record.value else []
    return next((why for a, b, below in pairs if a and b and (why := text_clash(a, b, below))), None)


def casts(narrow: str, wide: str) -> bool:
    """Whether a value of the one type can be written to a column of the other, as Connect promotes it."""
    if narrow in _ORDER and wide in _ORDER:
        return _ORDER.index(narrow) <= _ORDER.index(wide)
    return delta_widens(narrow, wide)


def _twice(columns: Sequence[ddl.Column]) -> str | None:
    names: set[str] = set()
    for column in columns:
        if column.name.lower() in names:
            return column.name
        names.add(column.name.lower())
    return None


def merge(a: Schema, b: Schema, path: str = "", *, promotes: bool = False) -> Schema:
    """The union of two schemas: every field of either, each of a type to which Delta can widen both.

    For mode NONE, where the table holds what every record brought. A part may be null if either allows it, a field
    also if one side lacks it. Where the sides differ in what no column shows (documentation, a struct's name), `a` is
    kept; an enum that meets another one, or a plain string, is a plain string. The aliases are those of `a`.

    Args:
        promotes: whether a number of `b` may go to a wider one of `a`, as Connect promotes it, though Delta could not
            widen the one to the other.

    Raises:
        NotAdditive: with the path of the first part that has no such type.
    """
    return replace(
        _union(a, b, path, promotes=promotes),
        optional=a.optional or b.optional,
        default=a.default if a.default == b.default else None,
        version=max((v for v in (a.version, b.version) if v is not None), default=None),
        doc=a.doc,
    )


def _union(a: Schema, b: Schema, path: str, *, promotes: bool) -> Schema:
    if a.type != b.type or a.type not in ("struct", "array", "map"):
        return _atomic(a, b, path, promotes=promotes)
    if a.type == "struct":
        return replace(a, fields=_fields(a, b, path, promotes=promotes))
    key = merge(a.key, b.key, path + KEY, promotes=promotes) if a.key and b.key else None
    below = path + (VALUE if a.type == "map" else ELEMENT)
    value = merge(a.value, b.value, below, promotes=promotes) if a.value and b.value else None
    return replace(a, key=key, value=value)


def _fields(a: Schema, b: Schema, path: str, *, promotes: bool) -> tuple[Field, ...]:
    """The fields of a in their order, then those of b alone; upper and lower case are one, as in a table."""
    names = {field.name.lower(): field.name for field in reversed(a.fields)} | {f.name: f.name for f in a.fields}
    fields = {field.name: field for field in a.fields}
    required = set()
    for field in b.fields:
        name = names.get(field.name) or names.get(field.name.lower())
        if name is None:
            fields[field.name] = field
        else:
            merged = merge(fields[name].schema, field.schema, step(path, name), promotes=promotes)
            fields[name] = replace(fields[name], schema=merged)
            required.add(name)
    return tuple(
        f if f.name in required else replace(f, schema=replace(f.schema, optional=True)) for f in fields.values()
    )


def _atomic(a: Schema, b: Schema, path: str, *, promotes: bool) -> Schema:
    """The wider of the two."""
    if "struct" in (a.type, b.type) or "array" in (a.type, b.type) or "map" in (a.type, b.type):
        raise _not_additive(a, b, path)
    type_, other = str(column_type(a)), str(column_type(b))
    if a.name != b.name and {a.name, b.name} & {TIME, TIME_MICROS}:
        raise NotAdditive(
            f"{path or 'the record'}: a time of day ({a.name or type_}) and another unit ({b.name or other})"
        )
    if type_ == other:
        return _same_column(a, b)
    if delta_widens(other, type_):
        return a
    if delta_widens(type_, other):
        return b
    if promotes and casts(other, type_):
        return a
    one, two = _decimal(type_), _decimal(other)
    if one and two and (digits := _common_decimal(one, two)):
        return replace(a, parameters=((PRECISION, str(digits[0])), (SCALE, str(digits[1]))))
    raise _not_additive(a, b, path)


def _same_column(a: Schema, b: Schema) -> Schema:
    """Of one column type: two names of one column (timestamps) stay the first; two enums are one, or a string."""
    plain = replace(a, name=None, parameters=())
    if a.name != b.name:
        return plain if column_type(plain) == column_type(a) else a
    symbols_a, symbols_b = a.parameter(SYMBOLS), b.parameter(SYMBOLS)
    if symbols_a is None or symbols_b is None or symbols_a == symbols_b:
        return a if symbols_a == symbols_b else plain
    symbols = ",".join(dict.fromkeys([*symbols_a.split(","), *symbols_b.split(",")]))
    return replace(a, parameters=tuple(sorted({**dict(a.parameters), SYMBOLS: symbols}.items())))


def _not_additive(a: Schema, b: Schema, path: str) -> NotAdditive:
    where = f"{path}: " if path else ""
    return NotAdditive(f"{where}Delta can widen neither {type_text(a)} to {type_text(b)} nor the other way")


def _decimal(name: str) -> tuple[int, int] | None:
    """(precision, scale) of `decimal(p,s)`."""
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    return (int(match[1]), int(match[2])) if match else None


def least_decimal(one: str, two: str) -> str | None:
    """The smallest decimal type that holds both; None where one of them is no decimal, or there is none."""
    was, now = _decimal(one), _decimal(two)
    digits = _common_decimal(was, now) if was and now else None
    return f"decimal({digits[0]},{digits[1]})" if digits else None


def _common_decimal(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int] | None:
    """The smallest decimal that holds both; None beyond the 38 digits that Spark has."""
    scale = max(one[1], two[1])
    precision = max(one[0] - one[1], two[0] - two[1]) + scale
    return (precision, scale) if precision <= 38 else None
