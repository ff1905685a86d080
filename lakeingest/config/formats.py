"""The formats of a record's value and key, each a part with options of its own."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from lakeingest.config.base import Part
from lakeingest.config.time_format import ISO
from lakeingest.config.values import Columns, DateFormat, SchemaPath, TimestampFormat, Timezone

Strategy: TypeAlias = Literal["topic", "record", "topic_record"]
_SUBJECT = (
    "How the registry's subject is named: topic → <topic>-value (or -key), record → the record's full name, "
    "topic_record → <topic>-<full name>."
)
_PATTERNS = (
    "in Spark's datetime patterns: one, or a list that is tried in order. Nothing else is taken then; the word iso in "
    "the list stands for what is taken where the option is left out."
)
_ZONE = (
    "The zone of timestamps that are written without one. A time that the change to summer time skips is taken for the "
    "one an hour later, and of one that comes twice the first is taken."
)


class JsonValue(Part):
    """The value is a JSON object, decoded against schema.columns."""

    format: Literal["json"] = Field(description="Read as a JSON object.")
    timezone: Timezone = Field("UTC", description=_ZONE)
    decimals: Literal["exact", "round"] = Field(
        "exact",
        description="What becomes of a number with more places than its DECIMAL has: exact refuses the record, round "
        "rounds it half up (away from zero). Too many digits before the point are refused under both.",
    )
    numbers_in_quotes: bool = Field(
        False,
        description='Whether a number may stand in quotes where the column is an integer, FLOAT or DOUBLE, as in "42". '
        "A DECIMAL may come in quotes in any case.",
    )
    date_format: DateFormat | None = Field(
        None,
        description=f"How a DATE is written, {_PATTERNS} Left out: ISO 8601, as in 2013-01-31.",
        examples=["dd.MM.yyyy"],
    )
    timestamp_format: TimestampFormat | None = Field(
        None,
        description=f"How a TIMESTAMP or TIMESTAMP_NTZ is written, {_PATTERNS} Left out: ISO 8601, as in "
        "2013-01-31T10:00:00Z, or a number since 1970 (see epoch).",
        examples=["yyyy-MM-dd HH:mm:ss"],
    )
    epoch: Literal["seconds", "millis", "micros", "nanos"] = Field(
        "millis",
        description="What a number in a TIMESTAMP counts since 1970. Seconds may have a fraction; what is smaller than "
        "a microsecond is cut off. It holds for all of the record; declare a time of another unit as BIGINT, and "
        "derive it by timestamp_seconds, timestamp_millis, timestamp_micros or timestamp_nanos.",
    )

    @property
    def lost_epoch(self) -> str:
        """Why `epoch` says nothing, with the cure; empty where numbers may be times."""
        if self.epoch == "millis" or ISO in (self.timestamp_format or (ISO,)):
            return ""
        return "no number is a time where timestamp_format is given without iso; add iso to its list, or drop epoch"


class JsonKey(JsonValue):
    """The key is a JSON object, decoded against columns of its own."""

    columns: Columns = Field(
        description="The key's fields as DDL text, as in 'id BIGINT NOT NULL'.", examples=["id BIGINT NOT NULL"]
    )


class AvroFormat(Part):
    """Avro: with the registry's header before each record, or plain, with a schema file."""

    format: Literal["avro"] = Field(description="Read as Avro.")
    subject: Strategy = Field("topic", description=_SUBJECT)
    schema_file: SchemaPath | None = Field(
        None,
        description="Path of an Avro schema (.avsc), relative to the pipeline file. Given: the records are plain Avro "
        "of that schema, without the registry's header. Left out: each record names its schema in the registry.",
        examples=["../schemas/flight.avsc"],
    )


class ProtobufFormat(Part):
    """Protobuf with the registry's header before each record."""

    format: Literal["protobuf"] = Field(description="Read as Protobuf.")
    subject: Strategy = Field("topic", description=_SUBJECT)


class JsonSchemaFormat(Part):
    """JSON with the registry's header before each record, and a JSON Schema in the registry."""

    format: Literal["json_schema"] = Field(description="Read as JSON whose schema the registry holds.")
    subject: Strategy = Field("topic", description=_SUBJECT)
    timezone: Timezone = Field("UTC", description=_ZONE)


class ConnectJsonFormat(Part):
    """JSON of Kafka Connect's JsonConverter with schemas.enable: each record brings its schema."""

    format: Literal["connect_json"] = Field(
        description="Read as Kafka Connect's JSON, in which a schema stands beside the payload."
    )
    decimals: Literal["base64", "numeric"] = Field(
        "base64",
        description="How a decimal is written, as the converter's decimal.format has it: base64, the bytes of the "
        "number without its point, or numeric, a JSON number.",
    )


class StringFormat(Part):
    """UTF-8 text; bytes that are not UTF-8 are refused."""

    format: Literal["string"] = Field(description="Read as UTF-8 text.")


class BytesFormat(Part):
    """Raw bytes, as they came."""

    format: Literal["bytes"] = Field(description="Kept as raw bytes.")


ValueFormat = Annotated[
    JsonValue | AvroFormat | ProtobufFormat | JsonSchemaFormat | ConnectJsonFormat | StringFormat | BytesFormat,
    Field(discriminator="format"),
]
KeyFormat = Annotated[
    JsonKey | AvroFormat | ProtobufFormat | JsonSchemaFormat | ConnectJsonFormat | StringFormat | BytesFormat,
    Field(discriminator="format"),
]


def uses_registry(format: ValueFormat | KeyFormat) -> bool:
    """Whether records of this format name a schema in the registry."""
    if isinstance(format, AvroFormat):
        return format.schema_file is None
    return isinstance(format, ProtobufFormat | JsonSchemaFormat)


def brings_schema(format: ValueFormat | KeyFormat) -> bool:
    """Whether records of this format name their schema, or bring it along."""
    return uses_registry(format) or isinstance(format, ConnectJsonFormat)
