"""The type of a JSON value by itself, in the words of Spark's `schema_of_variant`. Plain Python, sent by value.

For values with numbers that a VARIANT, or a DOUBLE, may change; Spark looks at all others itself.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

from lakeingest.schema.json_values import Object, comes_back, fits, read

Type: TypeAlias = "str | list[Type] | dict[str, Type]"
"""A name, the type of an array's elements in a list, or the fields of an object."""
VOID, NONE = "VOID", "VARIANT"
"""The type of null, and of values without one."""
WHOLE = "DECIMAL(38,0)"
LONG = "LONG"
"""A BIGINT that a DOUBLE would change."""
_DIGITS = 38
_WIDER = {
    frozenset({"BIGINT", LONG}): LONG,
    frozenset({"BIGINT", WHOLE}): WHOLE,
    frozenset({LONG, WHOLE}): WHOLE,
    frozenset({"BIGINT", "DOUBLE"}): "DOUBLE",
}
"""Two types of numbers → the one that has both."""


def of_fields(text: str | None) -> list[tuple[str, str]] | None:
    """The types of an object's fields, by name: VARIANT for each part of them that no column can hold exactly."""
    try:
        record = None if text is None else read(text.encode())
        return [(name, _written(_of(value))) for name, value in record.pairs] if isinstance(record, Object) else None
    except RecursionError:
        return None


def _of(value: Any) -> Type:
    match value:
        case None:
            return VOID
        case bool():
            return "BOOLEAN"
        case int() | Decimal():
            return _of_number(value)
        case Object():
            return {name: _of(within) for name, within in value.items()}
        case list():
            element: Type = VOID
            for each in value:
                element = _merged(element, _of(each))
            return [element]
    return "STRING"


def _of_number(number: int | Decimal) -> str:
    if isinstance(number, Decimal):
        return "DOUBLE" if fits(number, "double", exact=True) else NONE
    if fits(number, "long"):
        return "BIGINT" if comes_back(number) else LONG
    return WHOLE if len(str(abs(number))) <= _DIGITS else NONE


def _merged(one: Type, other: Type) -> Type:
    """The type that both have, as elements of one array."""
    if other in (one, VOID):
        return one
    if one == VOID:
        return other
    match one, other:
        case dict(), dict():
            return {name: _merged(one.get(name, VOID), other.get(name, VOID)) for name in one | other}
        case list(), list():
            return [_merged(one[0], other[0])]
        case str(), str():
            return _WIDER.get(frozenset({one, other}), NONE)
    return NONE


def _written(kind: Type) -> str:
    match kind:
        case dict():
            fields = (f"`{name.replace('`', '``')}`: {_written(kind[name])}" for name in sorted(kind))
            return f"OBJECT<{', '.join(fields)}>"
        case list():
            return f"ARRAY<{_written(kind[0])}>"
    return str(kind)
