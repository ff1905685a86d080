"""The schema for the JSON parser, and its result under the declared types, or the reason why it does not fit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import decimals, numbers
from lakeingest.schema import ddl
from lakeingest.schema.json_values import Pattern, Texts
from lakeingest.schema.time_patterns import DAY, DAYS
from lakeingest.spark import maps, timestamps

_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_REALS = (T.FloatType, T.DoubleType)
_DATE = rf"\A(?!0000){DAY}\z"
_DAYS = rf"\A{DAYS}\z"
_INTEGER = r"\A(?=.{1,1000}\z)[+-]?\d+\z"
_REAL = r"\A(?=.{1,1000}\z)[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?0*\d{1,4})?\z"
"""As `values` has them: a number of a column that may be in quotes comes as text."""


@dataclass(frozen=True)
class Fitted:
    """A value under its declared type, and the tests that are true where the original does not fit it."""

    value: Column
    misfits: tuple[Column, ...] = ()


def parsed_type(kind: T.DataType, texts: Texts, *, marked: bool = False) -> T.DataType:
    """The type to ask the parser for: the declared one, with times and numbers that may be in quotes as text.

    Args:
        marked: with the metadata of fields (see `numbers.EXACT`); else without.
    """
    if isinstance(kind, T.StructType):
        fields = ((f, parsed_type(f.dataType, texts, marked=marked)) for f in kind)
        return T.StructType([T.StructField(f.name, t, metadata=f.metadata if marked else None) for f, t in fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(parsed_type(kind.elementType, texts, marked=marked))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, parsed_type(kind.valueType, texts, marked=marked))
    if isinstance(kind, T.DecimalType):
        if texts.base64:
            return T.StringType()
        # Not as text: a number with a fraction would pass through a double on its way there. To be rounded once, half
        # up, it is the parser that rounds it.
        return kind if texts.rounds else T.DecimalType(38, 38 - (kind.precision - kind.scale))
    quoted = texts.quotes and isinstance(kind, (*_INTEGERS, *_REALS))
    return T.StringType() if quoted or isinstance(kind, _TIMES) else kind


def marked(declared: T.StructType, whole: T.StructType) -> T.StructType:
    """All of a record's columns, those that no file declares as `numbers.EXACT`."""
    struct = _marked(declared, whole)
    assert isinstance(struct, T.StructType)
    return struct


def _marked(declared: T.DataType, whole: T.DataType) -> T.DataType:
    match declared, whole:
        case T.StructType(), T.StructType():
            names = set(declared.names)
            return T.StructType(
                [
                    T.StructField(f.name, _marked(declared[f.name].dataType, f.dataType), f.nullable, f.metadata)
                    if f.name in names
                    else T.StructField(f.name, f.dataType, f.nullable, dict(numbers.EXACT))
                    for f in whole
                ]
            )
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_marked(declared.elementType, whole.elementType), whole.containsNull)
        case T.MapType(), T.MapType():
            return T.MapType(whole.keyType, _marked(declared.valueType, whole.valueType), whole.valueContainsNull)
    return whole


def under_field_names(kind: T.StructType, columns: Sequence[ddl.Column]) -> T.StructType:
    """The type under the names of the fields that fill declared columns; others have their own names."""
    declared = {column.name: column for column in columns}
    fields = []
    for f in kind:
        column = declared.get(f.name)
        name, part = (column.field_name, _under(f.dataType, column.type)) if column else (f.name, f.dataType)
        fields.append(T.StructField(name, part, f.nullable, f.metadata))
    return T.StructType(fields)


def _under(kind: T.DataType, declared: ddl.Type) -> T.DataType:
    match kind, declared:
        case T.StructType(), ddl.Struct(fields):
            return under_field_names(kind, fields)
        case T.ArrayType(), ddl.Array(inner):
            return T.ArrayType(_under(kind.elementType, inner), kind.containsNull)
        case T.MapType(), ddl.Map(_, inner):
            return T.MapType(kind.keyType, _under(kind.valueType, inner), kind.valueContainsNull)
    return kind


def fit(value: Column, kind: T.DataType, texts: Texts, *, exact: bool = False) -> Fitted:
    """A parsed value under its declared type; see `numbers.EXACT`."""
    if isinstance(kind, T.StructType):
        return _fit_struct(value, kind, texts, exact)
    if isinstance(kind, T.ArrayType):
        element = kind.elementType
        fitted = F.transform(value, lambda e: fit(e, element, texts).value) if _converts(element, texts) else value
        misfit = F.exists(value, lambda e: any_of(fit(e, element, texts, exact=exact).misfits))
        return Fitted(fitted, (misfit,) if _checked(element, texts) else ())
    if isinstance(kind, T.MapType):
        inner = kind.valueType
        converts, values = _converts(inner, texts), F.map_values(value)
        fitted = F.transform_values(value, lambda _, v: fit(v, inner, texts).value) if converts else value
        fitted = maps.last_of_each(fitted, T.MapType(kind.keyType, T.NullType()))
        misfit = F.exists(values, lambda v: any_of(fit(v, inner, texts, exact=exact).misfits))
        return Fitted(fitted, (misfit,) if _checked(inner, texts) else ())
    return _fit_scalar(value, kind, texts, exact)


def any_of(tests: Sequence[Column]) -> Column:
    """True where any test is; a test that is null counts as false."""
    answer = F.lit(False)
    for test in tests:
        answer = answer | F.coalesce(test, F.lit(False))
    return answer


def _fit_scalar(value: Column, kind: T.DataType, texts: Texts, exact: bool) -> Fitted:
    if isinstance(kind, T.DecimalType) and not texts.base64:
        if texts.rounds:
            return Fitted(value)
        # Rounding may carry into a digit too many: null then, which is another value too.
        fitted = value.try_cast(kind)
        return Fitted(fitted, (~value.eqNullSafe(fitted),))
    if parsed_type(kind, texts) == kind:
        return Fitted(value, (F.abs(value) == float("inf"),) if isinstance(kind, _REALS) else ())
    fitted = _from_text(value, kind, texts, exact)
    return Fitted(fitted, (value.isNotNull() & fitted.isNull(),))


def _fit_struct(value: Column, kind: T.StructType, texts: Texts, exact: bool) -> Fitted:
    misfits: list[Column] = []
    fields = []
    for field in kind:
        fitted = fit(value[field.name], field.dataType, texts, exact=exact or field.metadata == numbers.EXACT)
        fields.append(fitted.value.alias(field.name))
        misfits += fitted.misfits
        if not field.nullable:
            misfits.append(value.isNotNull() & value[field.name].isNull())
    whole = F.when(value.isNotNull(), F.struct(*fields)) if _converts(kind, texts) else value
    return Fitted(whole, tuple(misfits))


def _from_text(text: Column, kind: T.DataType, texts: Texts, exact: bool) -> Column:
    """Null where the text is no such value."""
    if isinstance(kind, T.DecimalType):
        number = F.try_to_binary(text, F.lit("base64"))
        return decimals.of_unscaled(number, kind.simpleString(), str(kind.scale))
    if isinstance(kind, _INTEGERS):
        return F.when(text.rlike(_INTEGER), text.try_cast(kind))
    if isinstance(kind, _REALS):
        number = F.when(text.rlike(_REAL), text.try_cast(kind))
        return F.when((F.abs(number) != float("inf")) & ~numbers.changes(text, kind, exact=exact), number)
    read = [_in_pattern(text, p, kind, texts) for p in texts.patterns(kind.typeName())]
    return F.coalesce(*read) if len(read) > 1 else read[0]


def _in_pattern(text: Column, pattern: Pattern, kind: T.DataType, texts: Texts) -> Column:
    """Null where the text is no such time in the pattern."""
    if not pattern.sought:
        return _in_iso(text, kind, texts)
    if pattern.zoned and isinstance(kind, T.TimestampNTZType):
        return F.lit(None).cast(kind)
    text = F.concat(text, F.lit(pattern.table)) if pattern.table else text
    written = F.when(text.rlike(pattern.sought), F.regexp_replace(text, pattern.sought, pattern.instead))
    if isinstance(kind, T.TimestampType):
        return timestamps.from_iso(written, texts.zone, zoned=pattern.zoned)
    return written.try_cast(kind)


def _in_iso(text: Column, kind: T.DataType, texts: Texts) -> Column:
    if isinstance(kind, T.TimestampType):
        return timestamps.from_text(text, texts.zone, texts.epoch)
    iso = F.rtrim(text, F.lit("Z")) if texts.debezium else text
    if isinstance(kind, T.DateType):
        day = F.when(iso.rlike(_DATE), iso.try_cast("date"))
        count = timestamps.day_of_count(F.when(text.rlike(_DAYS), text.try_cast("int")))
        return F.coalesce(day, count) if texts.debezium else day
    time = timestamps.local_from_text(iso)
    return F.coalesce(time, timestamps.local_from_count(text, texts.epoch)) if texts.debezium else time


def _converts(kind: T.DataType, texts: Texts) -> bool:
    return maps.has_map(kind) or parsed_type(kind, texts) != _nullable(kind)


def _nullable(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_nullable(kind.elementType))
    return T.MapType(kind.keyType, _nullable(kind.valueType)) if isinstance(kind, T.MapType) else kind


def _checked(kind: T.DataType, texts: Texts) -> bool:
    return bool(fit(F.lit(None), kind, texts).misfits) if not isinstance(kind, T.StructType) else True
