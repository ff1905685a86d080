"""A writer's schema as its text → how its records are read, for the three formats that bring one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pyspark.sql import types as T

from lakeingest import config
from lakeingest.decode import avro, json, json_names, json_parts, projection
from lakeingest.decode.connect_json import ConnectJsonReader
from lakeingest.decode.debezium import EventReader
from lakeingest.decode.writers import PayloadReader
from lakeingest.record import is_reserved
from lakeingest.schema import debezium, field_names, model
from lakeingest.schema.formats import avro as avro_schema
from lakeingest.schema.formats import connect, defaults, json_schema, wire
from lakeingest.schema.json_values import Texts
from lakeingest.schema.ledger import Side
from lakeingest.schema.model import JSON, Schema, SchemaError

CONNECT = "CONNECT"
_TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON", "connect_json": CONNECT}
"""A format in a pipeline file → what the registry calls such schemas, or `CONNECT`, which no registry has."""
_LARGEST = 1 << 21
"""Characters of a schema and of all that it refers to."""


@dataclass(frozen=True)
class SchemaRules:
    """What the pipeline file says of the schemas of a side's records.

    Attributes:
        names, unsupported: see `config.Schema`.
        envelope: what stands around the row, if anything does; the reading is the row's then.
    """

    names: field_names.Names = "exact"
    unsupported: Literal["json", "refuse"] = "json"
    envelope: config.DebeziumEnvelope | None = None

    @classmethod
    def of(cls, pipeline: config.PipelineConfig, side: Side) -> SchemaRules:
        schema, envelope = pipeline.schema_, pipeline.decode.envelope
        if side == "value" and isinstance(envelope, config.DebeziumEnvelope):
            return cls(schema.names, schema.unsupported, envelope)
        return cls(schema.names, schema.unsupported)


_NO_RULES = SchemaRules()


@dataclass(frozen=True)
class Reading:
    """A schema, how it is read, and its record's full name (None for what is no record)."""

    schema: Schema
    reader: PayloadReader
    name: str | None


def read(
    format: config.ValueFormat | config.KeyFormat,
    type: str,
    text: str,
    references: Sequence[tuple[str, str]],
    indexes: bytes,
    *,
    rules: SchemaRules = _NO_RULES,
    message_of: Callable[[bytes, Mapping[tuple[int, ...], str]], str | None] = wire.message,
) -> Reading | None:
    """The reading of a schema's records; None where it has no message of these indexes.

    Args:
        type: AVRO, PROTOBUF, JSON or CONNECT.
        text: the schema.
        references: (name, text) of the schemas that it refers to, dependencies first.
        indexes: Protobuf's message indexes, as in the wire format.
        rules: what the pipeline file says of them.
        message_of: see `framing.Framing.message`.

    Raises:
        SchemaError: it does not parse, is of another type than the format, too large, or no table can hold it.
    """
    if (size := len(text) + sum(len(other) for _, other in references)) > _LARGEST:
        raise SchemaError(f"it has {size:,} characters, with all that it refers to; {_LARGEST:,} are read at most")
    if type != _TYPES[format.format]:
        raise SchemaError(f"it is a schema of type {type}, but the format is {format.format}")
    # They are those of the row, where an envelope is around it.
    envelope, names = rules.envelope, "exact" if rules.envelope else rules.names
    match format:
        case config.AvroFormat():
            texts = [reference for _, reference in references]
            text = avro_schema.with_decimals_of_spark(text) if envelope else text
            schema = field_names.renamed(avro_schema.read(text, texts, semantic=envelope is not None), names)
            reading = Reading(schema, avro.AvroReader(text, tuple(texts), schema), schema.name)
        case config.ConnectJsonFormat():
            reading = _connect(connect.read(text), names, format, is_event=envelope is not None)
        case config.JsonSchemaFormat():
            schema = json_schema.read(text, references)
            if schema.type != "struct":
                raise SchemaError(f"its root is no object, but {schema.type}; a record's fields become columns")
            reading = _json(schema, names, json.texts_of(format))
        case _:
            descriptors = _descriptors(text, tuple(references))
            message = message_of(indexes, _messages(descriptors))
            if message is None:
                return None
            reading = _message(descriptors, message, names)
    if envelope is not None:
        reading = _row(reading, rules.names, envelope.unavailable)
    if rules.unsupported == "refuse" and (why := refusal(reading.schema)):
        raise SchemaError(why)
    defaults.check(reading.schema)
    reserved = [name for name in projection.struct_type(reading.schema).fieldNames() if is_reserved(name)]
    if reserved:
        raise SchemaError(f"{', '.join(reserved)}: a column of lakeingest's own has that name; name it in schema.names")
    return reading


def _connect(schema: Schema, names: field_names.Names, format: config.ConnectJsonFormat, *, is_event: bool) -> Reading:
    if schema.type != "struct":
        raise SchemaError(f"its root is no struct, but {schema.type}; a record's fields become columns")
    part = debezium.needed(schema) if is_event else schema
    columns = field_names.renamed(part, names)
    return Reading(columns, ConnectJsonReader(part, columns, format.decimals == "numeric"), schema.name)


def _row(event: Reading, names: field_names.Names, placeholder: str) -> Reading:
    """The reading of the rows that change events are about."""
    row, fields = field_names.renamed(debezium.row_schema(event.schema), names), debezium.row_fields(event.schema)
    reader = EventReader(reader=event.reader, event=event.schema, fields=fields, row=row, placeholder=placeholder)
    return Reading(row, reader, row.name)


def _json(schema: Schema, names: field_names.Names, texts: Texts) -> Reading:
    columns = field_names.renamed(schema, names)
    kind = _required(columns, projection.struct_type(columns))
    is_renamed = columns != schema
    reader = json.JsonReader(
        kind,
        texts,
        projection.under_field_names(kind, schema) if is_renamed else None,
        json_names.renamer(json_names.tree_of(schema, columns), names) if is_renamed else None,
    )
    return Reading(columns, reader, columns.name)


def refusal(schema: Schema) -> str | None:
    """The reason why a schema is refused under `schema.unsupported: refuse`; None for one that is not."""
    parts = (f"{place or 'the value'} {reason}" for place, reason in model.json_parts(schema))
    return next((f"{part}, and schema.unsupported is refuse" for part in parts), None)


def _required(schema: Schema, kind: T.StructType) -> T.StructType:
    """The type with what JSON's own parser does not know: NOT NULL where the schema demands a value, and JSON text."""
    return T.StructType(
        [
            T.StructField(
                f.name,
                _demanded(f.schema, kind[f.name].dataType),
                f.schema.optional or bool(f.schema.default),
                dict(json_parts.MARK) if _is_json_text(f.schema) else None,
            )
            for f in schema.fields
        ]
    )


def _is_json_text(schema: Schema) -> bool:
    """Whether its values, or those in an array or map, are JSON text."""
    return schema.name == JSON or (schema.value is not None and _is_json_text(schema.value))


def _demanded(schema: Schema, kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return _required(schema, kind)
    if isinstance(kind, T.ArrayType) and schema.value:
        return T.ArrayType(_demanded(schema.value, kind.elementType))
    if isinstance(kind, T.MapType) and schema.value:
        return T.MapType(kind.keyType, _demanded(schema.value, kind.valueType))
    return kind


@lru_cache(maxsize=256)
def _descriptors(text: str, references: tuple[tuple[str, str], ...]) -> bytes:
    """A file has many messages, and protoc is a process of its own."""
    from lakeingest.schema.formats import protobuf as protobuf_schema

    return protobuf_schema.compile(text, references)


def _messages(descriptors: bytes) -> Mapping[tuple[int, ...], str]:
    from lakeingest.schema.formats import protobuf as protobuf_schema

    return protobuf_schema.messages(descriptors)


def _message(descriptors: bytes, message: str, names: field_names.Names) -> Reading:
    # What it needs is an extra: lakeingest[protobuf].
    from lakeingest.decode import protobuf
    from lakeingest.schema.formats import protobuf as protobuf_schema

    schema = field_names.renamed(protobuf_schema.read_message(descriptors, message), names)
    return Reading(schema, protobuf.ProtobufReader(descriptors, message, schema), message)
