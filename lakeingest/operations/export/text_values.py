"""Values of any type in the words of JSON and of CSV: Columns only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.schema import ddl
from lakeingest.spark import maps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


def json_line(columns: StructType, names: Sequence[str]) -> Column:
    """These columns as one JSON object, as `operations.read` writes a record: nulls are told.

    Bytes are text where they are UTF-8, else {"base64": …}. What JSON has no number for is text: decimals, NaN, times
    (ISO 8601, in UTC).
    """
    plain = [_plain(F.col(ddl.quoted(name)), columns[name].dataType).alias(name) for name in names]
    return _json(F.struct(*plain))


def csv_cell(value: Column, kind: DataType) -> Column:
    """A value as one cell of CSV: bytes in base64, what is nested as JSON, times as in JSON."""
    match kind:
        case T.StructType() | T.ArrayType() | T.MapType():
            return _json(_plain(value, kind))
        case T.VariantType():
            return _json(value)
        case T.BinaryType():
            return F.base64(value)
        case _:
            return _plain(value, kind)


def named_in_avro(value: Column, kind: DataType) -> Column:
    """A value of a type that Avro has: keys of maps are text, and a VARIANT is its JSON."""
    match kind:
        case T.VariantType():
            return _json(value)
        case T.StructType():
            fields = [named_in_avro(value.getField(f.name), f.dataType).alias(f.name) for f in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(value, lambda item: named_in_avro(item, kind.elementType))
        case T.MapType():
            texts = F.transform_keys(_single(value, kind), lambda key, _: key.cast("string"))
            return F.transform_values(texts, lambda _, item: named_in_avro(item, kind.valueType))
        case _:
            return value


def _single(value: Column, kind: T.MapType) -> Column:
    """A map with each key once: an older table may have one twice, at which Spark's functions fail."""
    return maps.last_of_each(value, T.MapType(kind.keyType, T.NullType()))


def _json(value: Column) -> Column:
    return F.to_json(value, {"ignoreNullFields": "false"})


def _plain(value: Column, kind: DataType) -> Column:
    """The value as a type that Spark's JSON writes as it is to be read."""
    match kind:
        case T.StructType():
            fields = [_plain(value.getField(f.name), f.dataType).alias(f.name) for f in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(value, lambda item: _plain(item, kind.elementType))
        case T.MapType():
            texts = F.transform_keys(_single(value, kind), lambda key, _: _plain(key, kind.keyType).cast("string"))
            return F.transform_values(texts, lambda _, item: _plain(item, kind.valueType))
        case _:
            return _scalar(value, kind)


def _scalar(value: Column, kind: DataType) -> Column:
    match kind:
        case T.BinaryType():
            text = value.cast("string")
            encoded = F.to_variant_object(F.struct(F.base64(value).alias("base64")))
            return F.when(F.is_valid_utf8(text), text.cast("variant")).when(value.isNotNull(), encoded)
        case T.TimestampType():
            return F.concat(_time(value), F.lit("Z"))
        case T.TimestampNTZType():
            return _time(value)
        case T.DecimalType() | T.DateType():
            return value.cast("string")
        case _:
            return value


def _time(value: Column) -> Column:
    """To the microsecond: Spark's JSON has three digits of a second, and a table six."""
    return F.replace(F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"), F.lit(".000000"), F.lit(""))
