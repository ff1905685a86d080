"""Decimals as Kafka Connect writes them: the bytes of the unscaled number, in two's complement, the highest first."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.schema import model
from lakeingest.schema.model import Schema

_DIGITS, _TURNED = "0123456789ABCDEF", "FEDCBA9876543210"
_SIGN = "^(00)+(?=[0-7])|^(FF)+(?=[89A-F])"
"""Bytes that only repeat the sign, as hexadecimal digits."""
_HALF = 16
"""Hexadecimal digits that `conv` can take."""


def of_bytes(value: Column, schema: Schema) -> Column:
    """BINARY → DECIMAL; null where the bytes are none, or hold more digits than it has."""
    return of_unscaled(value, str(model.column_type(schema)), schema.parameter(model.SCALE) or "0")


def of_unscaled(value: Column, kind: str, scale: str) -> Column:
    """The same, of a column's type and its scale."""
    return _let(unscaled(value), lambda number: F.concat(number, F.lit(f"E-{scale}")).try_cast(kind))


def unscaled(value: Column) -> Column:
    """BINARY → STRING, the whole number in decimal digits; null where the bytes are none, or are more than sixteen."""
    digits = F.regexp_replace(F.hex(value), _SIGN, "")
    return _let(digits, lambda h: F.when(F.length(h).between(2, 2 * _HALF), _signed(h)))


def with_point(number: Column, scale: Column) -> Column:
    """A whole number in digits, and its scale → STRING, the number with its point; null where one of them is."""
    sign = F.when(F.startswith(number, F.lit("-")), F.lit("-")).otherwise(F.lit(""))
    digits = F.ltrim(number, F.lit("-"))
    padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
    whole = F.substring(padded, F.lit(1), F.length(padded) - scale)
    fraction = F.substring(padded, F.length(padded) - scale + 1, scale)
    return (
        F.when(scale > 0, F.concat(sign, whole, F.lit("."), fraction))
        .when((scale < 0) & (digits != "0"), F.concat(number, F.repeat(F.lit("0"), -scale)))
        .when(scale.isNotNull(), number)
    )


def _signed(digits: Column) -> Column:
    """The number of hexadecimal digits whose first one has the sign: of a negative one they are turned round."""
    negative = digits >= F.lit("8")
    positive = F.when(negative, F.translate(digits, _DIGITS, _TURNED)).otherwise(digits)
    return _let(
        F.lpad(positive, 2 * _HALF, "0"),
        lambda padded: F.concat(F.when(negative, F.lit("-")).otherwise(F.lit("")), _sum(padded, negative)),
    )


def _sum(padded: Column, negative: Column) -> Column:
    high, low = (
        F.conv(half, 16, 10).cast("decimal(20,0)")
        for half in (F.substring(padded, 1, _HALF), F.substring(padded, _HALF + 1, _HALF))
    )
    number = F.try_add(F.try_multiply(high, F.lit(Decimal(2**64))), low)
    return F.try_add(number, F.when(negative, F.lit(1)).otherwise(F.lit(0))).cast("string")


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """What is made of a value that is computed once."""
    return F.get(F.transform(F.array(value), use), F.lit(0))
