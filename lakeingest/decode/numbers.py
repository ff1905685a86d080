"""Numbers that must not reach Spark's JSON parser, found in a record's text; `JsonFunctions.java` sees them by itself.

A number with an exponent of more than four digits Spark would write out digit by digit, which takes hours. A decimal it
rounds to as many places as its type has, and of a string it takes "1,50" for 150. Only a text that looks as if it held
such a number is looked at twice: its decimals are read as text then, all of their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_EXPONENT = r"\d\.?[eE][+-]?0*[1-9]\d{4}"
"""Of a number that no column holds, as `values` has it."""
_ODD = r'\\u|"[+-]?[\d.]+,|",[\d.]|(?<![\d.])[\d.]{1000}'
"""In the text of a string that may be a decimal which Spark takes too long for, or takes for another number."""
_SMALL = r"(?<![\w.-])[+-]?[\d.]+[eE]-\d"
_DECIMAL = r"\A(?=.{1,1000}\z)[^,eE]*+(?:[eE][+-]?0*\d{0,4})?\z"
_PARTS = r"\A[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\z"
"""The digits before the point, those behind it, and the exponent."""
_NUMBERS = r'\G((?:[^"\d-]|"(?:[^"\\]++|\\.)*+")*+)(-?\d[\d.eE+-]*+)'
"""All before a number that is in no quotes, and the number. The signs behind each + keep it off Java's stack."""


def unreadable(text: Column, schema: T.StructType, options: dict[str, str], *, rounds: bool) -> Column:
    """BOOLEAN: whether a number is within that no column holds, or a decimal of more places than `schema` has, unless
    it `rounds` them.
    """
    bare = F.regexp_replace(F.regexp_replace(text, r"(?s)\\.", ""), '"[^"]*"', "")
    numbers = F.when(text.rlike(_EXPONENT), bare.rlike(_EXPONENT)).otherwise(F.lit(False))
    asked = _as_text(schema)
    if asked is None:
        return numbers
    fewest = min(kind.scale for kind in _decimals(schema))
    # Without quotes a number with a fraction would pass through a double on its way to a text.
    read = F.from_json(F.regexp_replace(text, f"(?s){_NUMBERS}", '$1"$2"'), asked, options)
    suspect = f"{_EXPONENT}|{_ODD}" if rounds else rf"{_EXPONENT}|{_ODD}|{_SMALL}|\.\d{{{fewest + 1}}}"
    return numbers | F.coalesce(F.when(text.rlike(suspect), _within(read, schema, rounds)), F.lit(False))


def _decimals(kind: T.DataType) -> Iterator[T.DecimalType]:
    match kind:
        case T.StructType():
            for field in kind:
                yield from _decimals(field.dataType)
        case T.ArrayType():
            yield from _decimals(kind.elementType)
        case T.MapType():
            yield from _decimals(kind.valueType)
        case T.DecimalType():
            yield kind


def _as_text(kind: T.DataType) -> Any:
    """The type that has nothing but the decimals of another one, as STRING; None where there are none."""
    match kind:
        case T.StructType():
            inner = {f.name: _as_text(f.dataType) for f in kind}
            fields = [T.StructField(name, found) for name, found in inner.items() if found]
            return T.StructType(fields) if fields else None
        case T.ArrayType():
            return T.ArrayType(found) if (found := _as_text(kind.elementType)) else None
        case T.MapType():
            return T.MapType(T.StringType(), found) if (found := _as_text(kind.valueType)) else None
    return T.StringType() if isinstance(kind, T.DecimalType) else None


def _within(value: Column, kind: T.DataType, rounds: bool) -> Column:
    """BOOLEAN, never null: whether a text is within that must not become a decimal."""
    match kind:
        case T.StructType():
            found = [_within(value[f.name], f.dataType, rounds) for f in kind if _as_text(f.dataType)]
            return F.coalesce(F.greatest(F.lit(False), *found), F.lit(False))
        case T.ArrayType():
            return F.coalesce(F.exists(value, lambda each: _within(each, kind.elementType, rounds)), F.lit(False))
        case T.MapType():
            values = F.map_values(value)
            return F.coalesce(F.exists(values, lambda each: _within(each, kind.valueType, rounds)), F.lit(False))
    assert isinstance(kind, T.DecimalType)
    odd = ~value.rlike(_DECIMAL)
    return F.coalesce(odd if rounds else odd | (_places(value) > kind.scale), F.lit(False))


def _places(text: Column) -> Column:
    """INT: the places of a number as it would be written without an exponent; null where there is none."""
    behind, exponent = F.regexp_extract(text, _PARTS, 2), F.regexp_extract(text, _PARTS, 3)
    digits = F.concat(F.regexp_extract(text, _PARTS, 1), behind)
    significant = F.rtrim(digits, F.lit("0"))
    lowest = (
        F.length(behind) - F.length(digits) + F.length(significant) - F.coalesce(exponent.try_cast("int"), F.lit(0))
    )
    return F.when(significant != "", lowest)
