"""Bytes → columns. A format gives the columns of a record and the tests that refuse it; a bad record is a value here.

Contract of what this package returns: everything is a Column over the frame of `kafka.reader.frame`, nothing
runs yet, the tests are never null, and the columns of a refused record mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest import config
from lakeingest.decode import json, json_columns, json_events, json_names, limits, rowless, sniff, writers
from lakeingest.decode.early import SEGMENT, TypeSegment, segment
from lakeingest.decode.projection import project
from lakeingest.decode.rowless import KIND
from lakeingest.decode.writers import SchemaBranches
from lakeingest.record import HEADERS, KEY, RAW_KEY, RAW_VALUE, RESCUED, UNKNOWN_SCHEMA, Refusal, diagnosis
from lakeingest.schema import ddl, hidden, model
from lakeingest.schema.ledger import Side
from lakeingest.schema.transforms import Stage
from lakeingest.spark import types

PARSED_KEY = "_parsed_key"
PARSED_VALUE = "_parsed_value"


@dataclass(frozen=True)
class Shape:
    """The columns that a batch's records become.

    Attributes:
        value: the columns that the value is decoded into.
        key: the type of the column _key; None where no key has said yet what it is (it has no column then).
        writers: per side, who wrote the records, where they are read with their writers' schemas.
        strict: whether a JSON field that is not declared stops the batch, so that the table can follow it.
        stages: the transforms between decoding and the table, if there are any. They may make another type of the key,
            or leave it out (see `table_key`).
        table_value: the columns that they leave, as the table takes them.
        early: the records of a batch for which some columns of the value are not there yet, in their order.
    """

    value: T.StructType
    key: T.DataType | None
    writers: Mapping[Side, SchemaBranches] = field(default_factory=dict)
    strict: bool = False
    stages: tuple[Stage, ...] = ()
    table_value: T.StructType | None = None
    early: tuple[TypeSegment, ...] = ()

    @property
    def table(self) -> T.StructType:
        """The table's columns of the value."""
        return self.value if self.table_value is None else self.table_value

    @property
    def table_key(self) -> T.DataType | None:
        """The type of the table's column _key; None where it has none."""
        steps = [stage.step for stage in self.stages]
        if self.key is None or not hidden.paths(steps, KEY):
            return self.key
        (column,) = types.ddl_columns(T.StructType([T.StructField(KEY, self.key)]))
        key_type = hidden.key(steps, column.type)
        return types.of_columns([ddl.Column(KEY, key_type)])[KEY].dataType if key_type else None


@dataclass(frozen=True)
class Decoded:
    """The columns of a record.

    Attributes:
        parsed: intermediate columns by name, to be added to the frame first, stage by stage: a record is parsed once.
        columns: the table's columns by name, over the frame with `parsed`: _key, _headers, _schema_id, the value's,
            _rescued.
        refusals: why a record may be refused, in order.
        dropped: BOOLEAN, never null: a declared drop (a tombstone under `on_null: ignore`), or no row's record.
        rowless: what such records may be; `parsed` has the column `rowless.KIND` then.
    """

    parsed: tuple[dict[str, Column], ...]
    columns: dict[str, Column]
    refusals: tuple[Refusal, ...]
    dropped: Column
    rowless: tuple[str, ...] = ()


def decode(pipeline: config.PipelineConfig, shape: Shape) -> Decoded:
    """The way of key, headers and value into columns, as the pipeline file and the writers' schemas say."""
    most = pipeline.decode.max_bytes
    key, value = _key(pipeline.decode, shape), _value(pipeline, shape)
    headers = {HEADERS: F.col(HEADERS)} if pipeline.decode.headers else {}
    large = (limits.refusal("key", F.col(RAW_KEY), most), limits.refusal("value", F.col(RAW_VALUE), most))
    null = F.col(RAW_VALUE).isNull()

    def no_value() -> Column:
        return diagnosis("NULL_VALUE", F.lit("the record has no value"))

    nulls = (Refusal("value", null, no_value, withheld=no_value),)
    return Decoded(
        parsed=key.parsed + value.parsed,
        columns=key.columns | headers | value.columns,
        refusals=large + key.refusals + (nulls if pipeline.on_null == "quarantine" else ()) + value.refusals,
        dropped=value.dropped | null if pipeline.on_null == "ignore" else value.dropped,
        rowless=value.rowless,
    )


def _key(decode: config.Decode, shape: Shape) -> Decoded:
    raw, key = limits.within(F.col(RAW_KEY), decode.max_bytes), decode.key
    if "key" in shape.writers:
        kind = T.StructType([T.StructField(KEY, shape.key)] if shape.key else [])
        return _written("key", raw, shape.writers["key"], kind, decode.max_bytes)
    if not isinstance(key, config.JsonKey):
        return _scalar("key", KEY, raw, key.format)
    schema, parsed, texts = types.struct(key.columns), F.col(PARSED_KEY), json.texts_of(key)
    undeclared = json.rescued(raw, parsed, schema)
    extra = Refusal(
        "key",
        undeclared.isNotNull(),
        lambda: diagnosis("UNDECLARED_FIELD", F.concat(F.lit("decode.key.columns does not declare "), undeclared)),
        withheld=lambda: diagnosis("UNDECLARED_FIELD", F.lit("decode.key.columns does not declare all of its fields")),
    )
    fields = F.struct(*(c.alias(name) for name, c in json.columns(parsed, schema, texts).items()))
    return Decoded(
        parsed=({PARSED_KEY: json.parse(raw, schema, texts)},),
        columns={KEY: F.when(raw.isNotNull(), fields)},
        refusals=(sniff.with_hint(json.refusal("key", raw, parsed, schema, texts), raw, "json"), extra),
        dropped=F.lit(False),
    )


def _value(pipeline: config.PipelineConfig, shape: Shape) -> Decoded:
    raw, value = limits.within(F.col(RAW_VALUE), pipeline.decode.max_bytes), pipeline.decode.value
    if "value" in shape.writers:
        return _written("value", raw, shape.writers["value"], shape.value, pipeline.decode.max_bytes)
    if not isinstance(value, config.JsonValue):
        return _scalar("value", "value", raw, value.format)
    if pipeline.decode.envelope is not None:
        return _written("value", raw, json_events.branches(pipeline), shape.value, pipeline.decode.max_bytes)
    if not shape.early:
        return _json(pipeline, PARSED_VALUE, raw, shape.value, strict=shape.strict)
    segments = [*(each.columns for each in shape.early), shape.value]
    at = F.col(SEGMENT)
    parts = [
        _json(pipeline, f"{PARSED_VALUE}_{n}", F.when(at == n, raw), columns, strict=shape.strict)
        for n, columns in enumerate(segments)
    ]
    stages = {name: column for part in parts for stage in part.parsed for name, column in stage.items()}
    return Decoded(
        parsed=({SEGMENT: segment(shape.early)}, stages),
        columns={name: _of_segment(at, name, parts, segments, shape.value) for name in parts[-1].columns},
        refusals=tuple(refusal for part in parts for refusal in part.refusals),
        dropped=F.lit(False),
    )


def _of_segment(
    at: Column, name: str, parts: list[Decoded], segments: list[T.StructType], whole: T.StructType
) -> Column:
    """The column as the segment of the record has it; null where it is not there yet."""
    column = parts[-1].columns[name]
    for n, (part, columns) in enumerate(zip(parts[:-1], segments[:-1], strict=True)):
        if name not in part.columns:
            early = F.lit(None)
        elif name in columns.names:
            (schema,) = (f.schema for f in model.from_columns(types.ddl_columns(T.StructType([columns[name]]))).fields)
            early = project(part.columns[name], schema, schema, whole[name].dataType)
        else:
            early = part.columns[name]
        column = F.when(at == n, early).otherwise(column)
    return column


def _json(pipeline: config.PipelineConfig, name: str, raw: Column, columns: T.StructType, *, strict: bool) -> Decoded:
    """JSON without a registry.

    Args:
        name: of the intermediate column.
        strict: see `Shape`.
    """
    declared = ddl.parse(pipeline.schema_.columns) if pipeline.schema_.columns else ()
    schema = json_columns.marked(types.of_columns(declared), columns)
    parsed, texts = F.col(name), json.texts_of(pipeline.decode.value)
    # A null says nothing of a column that may be there already, or not.
    nulls = pipeline.compatibility == "FORWARD"
    if any(ddl.sources(declared)):
        fields = json_columns.under_field_names(schema, declared)
        parse = json.under_columns(json.parse(raw, fields, texts), schema, texts)
        rescued = json.rescued(raw, parsed, fields, nulls=nulls, everywhere=True)
        rescued = json_names.renamed(rescued, json_names.renamer(json_names.tree_of_columns(declared), {}))
    else:
        fields, parse = schema, json.parse(raw, schema, texts)
        rescued = json.rescued(raw, parsed, schema, nulls=nulls)
    refusal = sniff.with_hint(json.refusal("value", raw, parsed, schema, texts, fields=fields), raw, "json")
    if strict:
        rescued = F.when(rescued.isNotNull() & ~refusal.when, F.raise_error(F.lit(UNKNOWN_SCHEMA)).cast("string"))
    return Decoded(
        parsed=({name: parse},),
        columns=json.columns(parsed, schema, texts) | {RESCUED: rescued},
        refusals=(refusal,),
        dropped=F.lit(False),
    )


def _written(side: Side, raw: Column, by: SchemaBranches, target: T.StructType, most: int) -> Decoded:
    decoded = writers.read(side, raw, by, target, most)
    if not decoded.rowless:
        return Decoded(decoded.stages, decoded.columns, decoded.refusals, F.lit(False))
    stages, kinds = (*decoded.stages, {KIND: rowless.kind(decoded.rowless)}), tuple(decoded.rowless)
    return Decoded(stages, decoded.columns, decoded.refusals, F.col(KIND).isNotNull(), kinds)


def _scalar(stage: str, name: str, raw: Column, format: str) -> Decoded:
    if format == "bytes":
        return Decoded((), {name: raw}, (), F.lit(False))
    text = raw.cast("string")
    broken = raw.isNotNull() & ~F.is_valid_utf8(text)

    def why() -> Column:
        return diagnosis(
            "INVALID_UTF8", F.concat(F.lit("not UTF-8; begins with bytes 0x"), F.hex(F.substring(raw, 1, 32)))
        )

    def withheld() -> Column:
        return diagnosis("INVALID_UTF8", F.lit("not UTF-8"))

    refusal = sniff.with_hint(Refusal(stage, broken, why, withheld=withheld), raw, "string")
    return Decoded((), {name: text}, (refusal,), F.lit(False))
