"""Changes of Spark's JSON parser, found in a record's text; `JsonFunctions.java` finds them by itself.

A number with an exponent of more than four digits Spark would write out digit by digit, which takes hours. A decimal it
rounds to as many places as its type has, and of a string it takes "1,50" for 150. Only a text that looks as if it held
such a number is looked at twice: its decimals are read as text then, all of their digits. So it is with numbers that
are too small for their column, or that a double changes where nobody has declared one (see `EXACT`). In a column of
text a number with a fraction is what a double has of it, and half of a character becomes a question mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.spark import maps
from lakeingest.spark.json_numbers import NUMBERS, marked, unmarked

_EXPONENT = r"\d\.?[eE][+-]?0*[1-9]\d{4}"
"""Of a number that no column holds, as `values` has it."""
_ODD = r'\\u|"[+-]?[\d.]+,|",[\d.]|(?<![\d.])[\d.]{1000}'
"""In the text of a string that may be a decimal which Spark takes too long for, or takes for another number."""
_SMALL = r"(?<![\w.-])[+-]?[\d.]+[eE]-\d"
_DECIMAL = r"\A(?=.{1,1000}\z)[^,eE]*+(?:[eE][+-]?0*\d{0,4})?\z"
_PARTS = r"\A[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\z"
"""The digits before the point, those behind it, and the exponent."""
_NUMERIC = (T.DecimalType, T.FloatType, T.DoubleType)
EXACT: Mapping[str, Any] = {"exact": True}
"""The metadata of a field whose doubles, somewhere within, must be the numbers that are written."""
_TINY = r"[eE]-0*[1-9]\d|\.0{30}"
"""In the text of a number that may be 0 as FLOAT or DOUBLE."""
_LONG = r"[\d.]{16}|[eE][+-]?0*[1-9]\d\d"
"""In that of one that a double may change: up to 15 digits come back."""
_FRACTION = r"[:\[,]\s*(?:-?\d+[.eE]|-0)"
"""In the text of a record that has a number which a column of text may change."""
_CHANGED = r'\A(?:-?\d+\.\d+(?:E-?\d+)?\z|0\z|"-?Infinity"\z|[\[{])'
"""The texts that such a number becomes, or the beginning of a text that has it within."""
_SURROGATE = r"\\u[dD][89a-fA-F]"
_ESCAPES = r"(?s)\\(?:[^u]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u(?![dD][89a-fA-F])....)"
"""All that are whole: a pair of surrogates is one."""


def lone_surrogate(text: Column) -> Column:
    """BOOLEAN: whether an escape is half of a character, which UTF-8 cannot write."""
    halves = F.regexp_replace(text, _ESCAPES, " ").rlike(_SURROGATE)
    return F.when(text.rlike(_SURROGATE), halves).otherwise(F.lit(False))


def unreadable(text: Column, schema: T.StructType, options: dict[str, str], *, rounds: bool) -> Column:
    """BOOLEAN: whether a number is within that no column holds, a decimal of more places than `schema` has, unless it
    `rounds` them, or a number that its FLOAT or DOUBLE would change; see `changes`.
    """
    bare = F.regexp_replace(F.regexp_replace(text, r"(?s)\\.", ""), '"[^"]*"', "")
    numbers = F.when(text.rlike(_EXPONENT), bare.rlike(_EXPONENT)).otherwise(F.lit(False))
    text_type = _as_text(schema, *_NUMERIC)
    if text_type is None:
        return numbers
    # Without quotes a number with a fraction would pass through a double on its way to a text.
    read = F.from_json(F.regexp_replace(text, NUMBERS, '$1"$2"'), text_type, options)
    suspect = "|".join(_suspects(list(_numbers(schema)), rounds))
    return numbers | F.coalesce(F.when(text.rlike(suspect), _within(read, schema, rounds)), F.lit(False))


def perhaps_changed(text: Column) -> Column:
    """BOOLEAN: whether a JSON text may have a number that a VARIANT or a DOUBLE changes."""
    return text.rlike(_LONG)


def changes(text: Column, kind: T.DataType, *, exact: bool) -> Column:
    """BOOLEAN, null where it is no number: whether a FLOAT or DOUBLE has another number than a text.

    Args:
        exact: any other; else only 0 in place of one that is none.
    """
    number = text.try_cast(kind)
    lost = (number == 0) & text.rlike(r"\A[^eE]*[1-9]")
    if not exact:
        return lost
    read = number.cast("string")
    # Java before 19 may write more digits than a double needs.
    shorter = F.length(_significant(text)) < F.length(_significant(read))
    same = (_significant(text) == _significant(read)) & (_places(text) == _places(read))
    return lost | ((number != 0) & ~(shorter | same))


def whole(text: Column) -> Column:
    """A JSON text in which whole numbers of at most 38 digits have neither a point nor an exponent: 2 for 2.0.

    Zeros lose their sign.
    """
    before, number = F.regexp_extract_all(text, F.lit(NUMBERS), 1), F.regexp_extract_all(text, F.lit(NUMBERS), 2)

    def written(before: Column, number: Column) -> Column:
        places = _places(number)
        digits = F.when(places.isNull(), F.lit("0")).when(places <= 0, number.try_cast("decimal(38,0)").cast("string"))
        return F.concat(before, F.coalesce(F.when(number.rlike("[.eE]"), digits), number))

    parts = F.zip_with(before, number, written)
    return F.concat(F.array_join(parts, ""), F.regexp_replace(text, NUMBERS, ""))


def has_integers(schema: T.StructType) -> bool:
    """Whether there is an integer, anywhere."""
    return _as_text(schema, T.IntegralType) is not None


def either(read: Column, whole: Column, corrupt: str, text: Column) -> Column:
    """What was read; where the record is corrupt, and has numbers with a point or an exponent, `whole` in its place."""

    def chosen(read: Column) -> Column:
        return F.when(read[corrupt].isNotNull() & text.rlike(_FRACTION), whole).otherwise(read)

    return F.transform(F.array(read), chosen)[0]


def in_text(
    read: Column,
    text: Column,
    schema: T.StructType,
    whole: T.StructType,
    options: dict[str, str],
    *,
    suspected: bool = False,
) -> Column:
    """The columns, with numbers as they are written in columns of text.

    Args:
        read: of type `whole`: the fields of `schema`, and more, as the parser has them.
        text: the record's.
        suspected: whether any text may be another one than the record's.
    """
    text_type = _as_text(schema, T.StringType)
    if text_type is None:
        return read
    again = F.from_json(marked(text), text_type, options)

    def exact(read: Column) -> Column:
        if suspected:
            return merged(read, again, text_type, whole)
        suspect = _any(read, text_type, lambda each: each.rlike(_CHANGED)) & text.rlike(_FRACTION)
        return F.when(suspect, merged(read, again, text_type, whole)).otherwise(read)

    # So that the record is parsed once.
    return F.transform(F.array(read), exact)[0]


def merged(read: Column, again: Column, text_type: T.DataType, kind: T.DataType) -> Column:
    """`read`, of type `kind`, with the texts out of `again`, which has `text_type` of them: of a map a map, or its
    values.
    """
    match text_type, kind:
        case T.StructType(), T.StructType():
            names = set(text_type.names)
            fields = (
                merged(read[f.name], again[f.name], text_type[f.name].dataType, f.dataType)
                if f.name in names
                else read[f.name]
                for f in kind
            )
            whole = F.struct(*(column.alias(f.name) for column, f in zip(fields, kind, strict=True)))
            return F.when(read.isNotNull(), whole)
        case T.ArrayType(), T.ArrayType():
            return F.zip_with(
                read, again, lambda one, other: merged(one, other, text_type.elementType, kind.elementType)
            )
        case T.MapType(), T.MapType():
            return _merged_map(read, F.map_values(again), text_type.valueType, kind.valueType)
        case T.ArrayType(), T.MapType():
            return _merged_map(read, again, text_type.elementType, kind.valueType)
    return unmarked(again)


def _merged_map(read: Column, texts: Column, text_type: T.DataType, kind: T.DataType) -> Column:
    """A map of values of type `kind`, with the texts out of an array in the map's order."""
    values = F.zip_with(F.map_values(read), texts, lambda one, other: merged(one, other, text_type, kind))
    return maps.of_entries(F.map_keys(read), values)


def _numbers(kind: T.DataType, exact: bool = False) -> Iterator[tuple[T.DataType, bool]]:
    """The types of the numbers in a type, and whether each is `EXACT`."""
    match kind:
        case T.StructType():
            for field in kind:
                yield from _numbers(field.dataType, exact or field.metadata == EXACT)
        case T.ArrayType():
            yield from _numbers(kind.elementType, exact)
        case T.MapType():
            yield from _numbers(kind.valueType, exact)
        case T.DecimalType() | T.FloatType() | T.DoubleType():
            yield kind, exact


def _suspects(numbers: list[tuple[T.DataType, bool]], rounds: bool) -> Iterator[str]:
    """Patterns, one of which is in each text that may not fit these types."""
    yield _EXPONENT
    if places := [kind.scale for kind, _ in numbers if isinstance(kind, T.DecimalType)]:
        yield _ODD
        if not rounds:
            yield rf"{_SMALL}|\.\d{{{min(places) + 1}}}"
    if len(places) < len(numbers):
        yield _TINY
    if any(exact for _, exact in numbers):
        yield _LONG


def _as_text(kind: T.DataType, *leaves: type[T.DataType]) -> Any:
    """The type that has nothing of another one but such leaves, as STRING; None where there are none."""
    match kind:
        case T.StructType():
            inner = {f.name: _as_text(f.dataType, *leaves) for f in kind}
            fields = [T.StructField(name, text_type) for name, text_type in inner.items() if text_type]
            return T.StructType(fields) if fields else None
        case T.ArrayType():
            return T.ArrayType(text_type) if (text_type := _as_text(kind.elementType, *leaves)) else None
        case T.MapType():
            return T.MapType(T.StringType(), text_type) if (text_type := _as_text(kind.valueType, *leaves)) else None
    return T.StringType() if isinstance(kind, leaves) else None


def _any(value: Column, kind: T.DataType, test: Callable[[Column], Column]) -> Column:
    """BOOLEAN, never null: whether the test is true of a leaf of a value that `_as_text` gave the type of."""
    match kind:
        case T.StructType():
            tests = [_any(value[f.name], f.dataType, test) for f in kind]
            return reduce(Column.__or__, tests)
        case T.ArrayType():
            return F.coalesce(F.exists(value, lambda each: _any(each, kind.elementType, test)), F.lit(False))
        case T.MapType():
            values = F.map_values(value)
            return F.coalesce(F.exists(values, lambda each: _any(each, kind.valueType, test)), F.lit(False))
    return F.coalesce(test(value), F.lit(False))


def _within(value: Column, kind: T.DataType, rounds: bool, exact: bool = False) -> Column:
    """BOOLEAN, never null: whether a text is within that must not become its number."""
    match kind:
        case T.StructType():
            fields = [f for f in kind if _as_text(f.dataType, *_NUMERIC)]
            tests = [_within(value[f.name], f.dataType, rounds, exact or f.metadata == EXACT) for f in fields]
            return reduce(Column.__or__, tests)
        case T.ArrayType():
            within = F.exists(value, lambda each: _within(each, kind.elementType, rounds, exact))
            return F.coalesce(within, F.lit(False))
        case T.MapType():
            within = F.exists(F.map_values(value), lambda each: _within(each, kind.valueType, rounds, exact))
            return F.coalesce(within, F.lit(False))
        case T.DecimalType():
            odd = ~value.rlike(_DECIMAL)
            return F.coalesce(odd if rounds else odd | (_places(value) > kind.scale), F.lit(False))
    return F.coalesce(changes(value, kind, exact=exact), F.lit(False))


def _significant(text: Column) -> Column:
    digits = F.concat(F.regexp_extract(text, _PARTS, 1), F.regexp_extract(text, _PARTS, 2))
    return F.ltrim(F.rtrim(digits, F.lit("0")), F.lit("0"))


def _places(text: Column) -> Column:
    """INT: the places of a number as it would be written without an exponent; null where there is none."""
    behind, exponent = F.regexp_extract(text, _PARTS, 2), F.regexp_extract(text, _PARTS, 3)
    digits = F.concat(F.regexp_extract(text, _PARTS, 1), behind)
    significant = F.rtrim(digits, F.lit("0"))
    lowest = (
        F.length(behind) - F.length(digits) + F.length(significant) - F.coalesce(exponent.try_cast("int"), F.lit(0))
    )
    return F.when(significant != "", lowest)
