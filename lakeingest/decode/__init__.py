"""Bytes → columns. A format gives the columns of a record and the tests that refuse it; a bad record is a value here.

Contract of what this room returns: everything is a Column over the frame of `source.frame`, nothing runs yet, the
tests are never null, and the columns of a refused record mean nothing.
"""

from __future__ import annotations

import json as _json
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest import config
from lakeingest.decode import json
from lakeingest.record import HEADERS, KEY, RAW_KEY, RAW_VALUE, RESCUED, Refusal
from lakeingest.schema import ddl

PARSED_KEY = "_parsed_key"
PARSED_VALUE = "_parsed_value"


@dataclass(frozen=True)
class Decoded:
    """What a record becomes.

    Attributes:
        parsed: intermediate columns by name, to be added to the frame first: each record is parsed once.
        columns: the table's columns by name, over the frame with `parsed`: _key, _headers, the value's, _rescued.
        refusals: why a record may be refused, in order.
        dropped: BOOLEAN, never null: a declared drop (a tombstone under `on_null: ignore`).
    """

    parsed: dict[str, Column]
    columns: dict[str, Column]
    refusals: tuple[Refusal, ...]
    dropped: Column


def value_schema(pipeline: config.Pipeline) -> T.StructType:
    """The columns of the value: the declared ones, or `value` for a string or bytes."""
    match pipeline.decode.value.format:
        case "json":
            return struct(pipeline.schema_.columns or "")
        case "string":
            return T.StructType([T.StructField("value", T.StringType())])
        case _:
            return T.StructType([T.StructField("value", T.BinaryType())])


def key_type(key: config.KeyFormat) -> T.DataType:
    """The type of the column _key."""
    if isinstance(key, config.JsonKey):
        return struct(key.columns)
    return T.StringType() if key.format == "string" else T.BinaryType()


def struct(declared: str) -> T.StructType:
    """DDL text as Spark's type, without asking Spark."""
    return T.StructType.fromJson(_json.loads(ddl.to_json(ddl.parse(declared))))


def decode(pipeline: config.Pipeline) -> Decoded:
    """The way of key, headers and value into columns, as the pipeline file says."""
    key, value = _key(pipeline.decode.key), _value(pipeline)
    headers = {HEADERS: F.col(HEADERS)} if pipeline.decode.headers else {}
    null = F.col(RAW_VALUE).isNull()
    nulls = (Refusal("value", null, _says("NULL_VALUE", F.lit("the record has no value"))),)
    return Decoded(
        parsed=key.parsed | value.parsed,
        columns=key.columns | headers | value.columns,
        refusals=key.refusals + (nulls if pipeline.decode.on_null == "quarantine" else ()) + value.refusals,
        dropped=null if pipeline.decode.on_null == "ignore" else F.lit(False),
    )


def _key(key: config.KeyFormat) -> Decoded:
    raw = F.col(RAW_KEY)
    if not isinstance(key, config.JsonKey):
        return _scalar("key", KEY, raw, key.format)
    schema, parsed = struct(key.columns), F.col(PARSED_KEY)
    undeclared = json.rescued(raw, parsed, schema)
    extra = Refusal(
        "key",
        undeclared.isNotNull(),
        _says("UNDECLARED_FIELD", F.concat(F.lit("decode.key.columns does not declare "), undeclared)),
    )
    fields = F.struct(*(c.alias(name) for name, c in json.columns(parsed, schema, key.timezone).items()))
    return Decoded(
        parsed={PARSED_KEY: json.parse(raw, schema)},
        columns={KEY: F.when(raw.isNotNull(), fields)},
        refusals=(json.refusal("key", raw, parsed, schema, key.timezone), extra),
        dropped=F.lit(False),
    )


def _value(pipeline: config.Pipeline) -> Decoded:
    raw, value = F.col(RAW_VALUE), pipeline.decode.value
    if not isinstance(value, config.JsonValue):
        return _scalar("value", "value", raw, value.format)
    schema, parsed = value_schema(pipeline), F.col(PARSED_VALUE)
    return Decoded(
        parsed={PARSED_VALUE: json.parse(raw, schema)},
        columns=json.columns(parsed, schema, value.timezone) | {RESCUED: json.rescued(raw, parsed, schema)},
        refusals=(json.refusal("value", raw, parsed, schema, value.timezone),),
        dropped=F.lit(False),
    )


def _scalar(stage: str, name: str, raw: Column, format: str) -> Decoded:
    if format == "bytes":
        return Decoded({}, {name: raw}, (), F.lit(False))
    text = raw.cast("string")
    message = F.concat(F.lit("not UTF-8; begins with bytes 0x"), F.hex(F.substring(raw, 1, 32)))
    broken = raw.isNotNull() & ~F.is_valid_utf8(text)
    return Decoded({}, {name: text}, (Refusal(stage, broken, _says("INVALID_UTF8", message)),), F.lit(False))


def _says(reason: str, message: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), message.alias("message"))
