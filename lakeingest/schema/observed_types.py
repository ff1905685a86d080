"""The types of JSON values by themselves, and the one that several have. Plain Python, sent by value.

`of_fields` answers in the words of Spark's `schema_of_variant`, for values with numbers that a VARIANT, or a DOUBLE,
may change; Spark looks at all others itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from lakeingest.schema.json_values import Object, comes_back, fits, read

Scalar = TypeVar("Scalar")
Type: TypeAlias = "Scalar | str | list[Type[Scalar]] | dict[str, Type[Scalar]]"
"""A name, the type of an array's elements in a list, or the fields of an object."""
VOID, NONE = "VOID", "VARIANT"
"""The type of null, and of values without one."""
ANYTHING = "STRING"
"""The type of a column that takes any JSON."""
INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""With the digits of the longest number, in the order in which one takes another."""
_REALS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP")
WHOLE = "DECIMAL(38,0)"
LONG = "LONG"
"""A BIGINT that a DOUBLE would change."""
_DIGITS = 38
_WIDER = {frozenset({"BIGINT", LONG}): LONG, frozenset({LONG, WHOLE}): WHOLE}


def merged(one: Type[Scalar], other: Type[Scalar], scalars: Callable[[Any, Any], Type[Scalar]]) -> Type[Scalar]:
    """The type that both have, as elements of one array.

    Args:
        scalars: says it of two that are neither null, nor both objects, nor both arrays.
    """
    if VOID in (one, other):
        return other if one == VOID else one
    match one, other:
        case dict(), dict():
            return {name: merged(one.get(name, VOID), other.get(name, VOID), scalars) for name in one | other}
        case list(), list():
            return [merged(one[0], other[0], scalars)]
    return scalars(one, other)


def join(one: str, other: str) -> str:
    """The least type, as DDL, that takes all that two such types take; STRING where there is none.

    A whole number is a DOUBLE too, but no DECIMAL is: it would not be exact.
    """
    names = {one, other}
    if len(names) == 1:
        return one
    for chain in (tuple(INTEGERS), _TIMES):
        if names <= set(chain):
            return max(names, key=chain.index)
    if names <= {*INTEGERS, *_REALS}:
        return "DOUBLE"
    (whole, places), (more, smaller) = room(one), room(other)
    return decimal_of(max(whole, more), max(places, smaller))


def room(type: str) -> tuple[int, int]:
    """The digits before and behind the point that a type takes; too many of one that is for no exact numbers."""
    if sizes := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type):
        return int(sizes[1]) - int(sizes[2]), int(sizes[2])
    return INTEGERS.get(type, _DIGITS + 1), 0


def decimal_of(whole: int, places: int) -> str:
    """The DECIMAL with so many digits before the point and behind it; STRING where there is none."""
    return f"DECIMAL({max(1, whole + places)},{places})" if whole + places <= _DIGITS else ANYTHING


def of_fields(text: str | None) -> list[tuple[str, str]] | None:
    """The types of an object's fields, by name: VARIANT for each part of them that no column can hold exactly."""
    try:
        record = None if text is None else read(text.encode())
        return [(name, _written(_of(value))) for name, value in record.pairs] if isinstance(record, Object) else None
    except RecursionError:
        return None


def _of(value: Any) -> Type[str]:
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
            return [reduce(_merged, map(_of, value), VOID)]
    return "STRING"


def _of_number(number: int | Decimal) -> str:
    if isinstance(number, Decimal):
        return "DOUBLE" if fits(number, "double", exact=True) else NONE
    if fits(number, "long"):
        return "BIGINT" if comes_back(number) else LONG
    return WHOLE if len(str(abs(number))) <= _DIGITS else NONE


def _merged(one: Any, other: Any) -> Any:
    return merged(one, other, _wider)


def _wider(one: Type[str], other: Type[str]) -> str:
    """The type of numbers that has both."""
    if not isinstance(one, str) or not isinstance(other, str):
        return NONE
    wider = _WIDER.get(frozenset({one, other})) or join(one, other)
    return wider if one == other or wider != ANYTHING else NONE


def _written(kind: Type[str]) -> str:
    match kind:
        case dict():
            fields = (f"`{name.replace('`', '``')}`: {_written(kind[name])}" for name in sorted(kind))
            return f"OBJECT<{', '.join(fields)}>"
        case list():
            return f"ARRAY<{_written(kind[0])}>"
    return str(kind)
