"""Spark's types of numbers: those of literals, of arithmetic, and of values of several types. Pure.

A DECIMAL has 38 digits at most. Where a result needs more, Spark rounds what stands behind the point, in silence; that
is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeingest.schema import ddl

DOUBLE = ddl.Atomic("double")
LEAST = {"tinyint": -(2**7), "smallint": -(2**15), "int": -(2**31), "bigint": -(2**63)}
"""A whole number's type → its least one, whose absolute value it cannot hold."""
_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""The same → the digits of the DECIMAL that Spark makes of it."""
_MOST, _KEPT = 38, 6


class TooManyDigits(ValueError):
    """A result cannot be held without rounding; the message says how many digits it needs."""


def inexact(number: ddl.Type | None) -> bool:
    """Whether it is FLOAT or DOUBLE."""
    return isinstance(number, ddl.Atomic) and number.name in ("float", "double")


def literal(text: str, beside: ddl.Type | None = None) -> ddl.Atomic:
    """The type of a number as it is written; beside a DECIMAL Spark counts the digits of a whole one."""
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = text.lstrip("-").partition(".")
    exact = beside is not None and not _is_whole(beside) and not inexact(beside)
    if "." not in text and int(whole) < 2**63 and not exact:
        return ddl.Atomic("int" if int(whole) < 2**31 else "bigint")
    return _decimal(len(whole.lstrip("0")), len(fraction))


def arithmetic(kind: str, one: ddl.Type | None, other: ddl.Type | None) -> ddl.Type | None:
    """The type of one (Add, Sub, Mul, Div, Mod) other; None where a type is not known.

    Raises:
        TooManyDigits: Spark would round a sum, a difference or a product.
    """
    if one is None or other is None:
        return None
    if inexact(one) or inexact(other):
        return one if str(one) == str(other) == "float" and kind != "Div" else DOUBLE
    if _is_whole(one) and _is_whole(other):
        return DOUBLE if kind == "Div" else max(one, other, key=lambda each: _WHOLE[str(each)])
    (b, s), (c, t) = digits(one), digits(other)
    before, behind = {
        "Add": (max(b, c) + 1, max(s, t)),
        "Sub": (max(b, c) + 1, max(s, t)),
        "Mul": (b + c + 1, s + t),
        "Div": (b + t, max(_KEPT, s + c + t + 1)),
        "Mod": (min(b, c), max(s, t)),
    }[kind]
    scale = max(_MOST - before, min(behind, _KEPT)) if before + behind > _MOST else behind
    if scale < behind and kind != "Div":
        raise TooManyDigits(f"{before + behind} digits, {behind} of them behind the point")
    return _decimal(before, scale)


def common(numbers: Sequence[ddl.Type | None]) -> ddl.Type | None:
    """The type that values of these become together; None where one is not known.

    Raises:
        TooManyDigits: Spark would round some of them.
    """
    types = [number for number in numbers if number is not None]
    if len(types) < len(numbers) or not types:
        return None
    if any(map(inexact, types)):
        return types[0] if len(set(map(str, types))) == 1 else DOUBLE
    if all(map(_is_whole, types)):
        return max(types, key=lambda each: _WHOLE[str(each)])
    before, behind = (max(parts) for parts in zip(*map(digits, types), strict=True))
    if before + behind > _MOST:
        raise TooManyDigits(f"{before + behind} digits, {behind} of them behind the point")
    return _decimal(before, behind)


def minus(number: ddl.Type | None) -> ddl.Type | None:
    """The type of a number with the other sign: of a DECIMAL one with a digit more, if it can have one."""
    if number is None or inexact(number):
        return number
    if _is_whole(number):
        return max(ddl.Atomic("int"), number, key=lambda each: _WHOLE[str(each)])
    before, behind = digits(number)
    return _decimal(before + 1, behind)


def magnitude(number: ddl.Type | None) -> ddl.Type | None:
    """The type of a number's absolute value."""
    return number if number is None or _is_whole(number) else minus(number)


def rounded(number: ddl.Type | None, places: int, *, whole: str = "") -> ddl.Type | None:
    """The type of a number that is rounded to some places behind the point.

    Args:
        whole: what becomes of a number that is no DECIMAL; empty for the type that it has.
    """
    if number is None or inexact(number) or _is_whole(number):
        return ddl.Atomic(whole) if whole and number is not None else number
    before, behind = digits(number)
    return number if not behind else _decimal(min(before + 1, _MOST - min(behind, places)), min(behind, places))


def digits(number: ddl.Type) -> tuple[int, int]:
    """The number of an exact number's digits before the point, and behind it."""
    if _is_whole(number):
        return _WHOLE[str(number)], 0
    precision, scale = map(int, str(number).removeprefix("decimal(").rstrip(")").split(","))
    return precision - scale, scale


def _is_whole(number: ddl.Type) -> bool:
    return str(number) in _WHOLE


def _decimal(before: int, behind: int) -> ddl.Atomic:
    return ddl.Atomic(f"decimal({min(max(before + behind, 1), _MOST)},{behind})")
