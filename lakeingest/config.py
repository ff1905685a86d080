"""The pipeline file as frozen values: what each option means, its type and its default. No Spark, no network.

`pipeline_file.read` turns a YAML file into a `Pipeline`; `lakeingest describe` prints this module's options.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_DURATION = re.compile(r"\s*(\d+)\s*(second|minute|hour|day|week)s?\s*", re.IGNORECASE)


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value))
    if not match or int(match[1]) == 0:
        raise ValueError("write a duration as a positive number and a unit, as in '90 seconds', '15 minutes', '1 day'")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2].lower()])


def _timezone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("not an IANA time zone; write one such as 'UTC' or 'America/New_York'")
    return value


def _field_path(value: str) -> str:
    if not value.strip() or any(not part.strip() for part in value.split(".")):
        raise ValueError("a field is a name, or names joined by dots, without an empty part")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration, json_schema_input_type=str)]
Timezone = Annotated[str, AfterValidator(_timezone)]
FieldPath = Annotated[str, AfterValidator(_field_path)]
Secret = SecretStr


class _Part(BaseModel):
    """A part of the file: frozen, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Source(_Part):
    """Which Kafka topics are read, and from where."""

    topics: tuple[str, ...] = Field(min_length=1, description="The topics to read, all of them into the one table.")
    bootstrap_servers: str | None = Field(
        None, description="Brokers as host:port,host:port. Left out: those of the running embedded stack."
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a topic-partition begins that the table has never seen."
    )
    options: dict[str, Secret] = Field(
        default_factory=dict,
        description="Further Kafka client options (security.protocol, sasl.username, …), never printed.",
    )


class JsonValue(_Part):
    """The value is a JSON object, decoded against schema.columns."""

    format: Literal["json"]
    timezone: Timezone = Field("UTC", description="The zone of timestamps that are written without one.")


class JsonKey(JsonValue):
    """The key is a JSON object, decoded against columns of its own."""

    columns: str = Field(description="The key's fields as DDL text, as in 'id BIGINT NOT NULL'.")


class StringFormat(_Part):
    """UTF-8 text; bytes that are not UTF-8 are refused."""

    format: Literal["string"]


class BytesFormat(_Part):
    """Raw bytes, as they came."""

    format: Literal["bytes"]


ValueFormat = Annotated[JsonValue | StringFormat | BytesFormat, Field(discriminator="format")]
KeyFormat = Annotated[JsonKey | StringFormat | BytesFormat, Field(discriminator="format")]


class Decode(_Part):
    """How the bytes of a record become columns."""

    value: ValueFormat = Field(JsonValue(format="json"), description="Format of the record's value.")
    key: KeyFormat = Field(BytesFormat(format="bytes"), description="Format of the record's key (column _key).")
    headers: bool = Field(True, description="Whether the record's headers are kept (column _headers).")
    on_null: Literal["ignore", "write", "quarantine"] = Field(
        "quarantine",
        description="A record without a value (a tombstone): drop and count it, write its key alone, or set it aside.",
    )


class Schema(_Part):
    """The columns of the value, and how they may change."""

    columns: str | None = Field(
        None,
        description="The value's fields as DDL text, nested types and NOT NULL included: "
        "'flight INT, carrier STRING NOT NULL'. Required for JSON.",
    )


class Gate(_Part):
    """The Great Expectations suite that records must meet."""

    suite: str = Field(description="Path of a suite (JSON), relative to the pipeline file. Read and checked.")


class TimePartition(_Part):
    """Partition by a time, cut to a period in a time zone."""

    by: Literal["time"]
    field: FieldPath | None = Field(
        None, description="The field that holds the time (dotted for nested ones). Left out: see extract."
    )
    extract: Literal["record", "field", "wallclock"] | None = Field(
        None,
        description="Whose time: the Kafka record's timestamp, a field's, or the batch's own clock. "
        "Default: field if one is named, else record.",
    )
    every: Literal["hour", "day", "month", "year"] | Duration = Field(
        "day", description="The period: hour, day, month, year, or a duration such as '15 minutes'."
    )
    timezone: Timezone = Field("UTC", description="The IANA zone in which the period is cut.")
    format: str | None = Field(
        None,
        description="Names and patterns of the partition columns, as in \"'year'=yyyy/'month'=MM\". "
        "Default: one column named after the period.",
    )
    locale: str = Field("en_US", description="The locale of names of months and days in format.")


class FieldPartition(_Part):
    """Partition by the value of a field (integer, string or boolean)."""

    by: Literal["field"]
    field: FieldPath = Field(description="The field, dotted for nested ones.")
    name: str | None = Field(None, description="The partition column's name. Default: the field's, dots as _.")


class KafkaPartition(_Part):
    """Partition by the record's Kafka partition."""

    by: Literal["kafka_partition"]


Partition = Annotated[TimePartition | FieldPartition | KafkaPartition, Field(discriminator="by")]


class Table(_Part):
    """The Delta table that accepted records are written to."""

    path: str = Field(description="Where the table lies: s3a://bucket/path, or a local path.")
    name: str | None = Field(None, description="The name to register it under in Spark's catalog, as in lake.flights.")
    compression: Literal["zstd", "snappy", "gzip", "none"] = Field("zstd", description="Codec of the Parquet files.")


class Quarantine(_Part):
    """The Delta table for refused records: the dead-letter queue."""

    path: str = Field(description="Where the quarantine lies. Default: table.path with _quarantine behind it.")


class Storage(_Part):
    """How S3 is reached; left out: the embedded stack's, or what the platform provides."""

    endpoint: str | None = Field(None, description="URL of an S3 server that is not AWS.")
    region: str | None = Field(None, description="AWS region.")
    access_key: Secret | None = Field(None, description="Access key id. Left out: the platform's credential chain.")
    secret_key: Secret | None = Field(None, description="Secret access key.")
    session_token: Secret | None = Field(None, description="Token of temporary credentials.")
    path_style: bool = Field(False, description="Whether the bucket is part of the path instead of the host name.")
    options: dict[str, Secret] = Field(
        default_factory=dict,
        description="Further Hadoop options (fs.s3a.…: encryption, roles), never printed.",
    )


class Trigger(_Part):
    """When a micro-batch is cut."""

    every: Duration = Field(timedelta(minutes=1), description="Time between the starts of two batches.")
    max_records: int = Field(500_000, gt=0, description="Most records (offsets) in one batch, and so in one commit.")


class Pipeline(_Part):
    """A pipeline file: Kafka topics into one Delta table, refused records into quarantine."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="The pipeline's name. It is what commits are known by: keep it for the life of the table.",
    )
    source: Source
    table: Table
    decode: Decode = Field(default_factory=Decode)
    schema_: Schema = Field(default_factory=Schema, alias="schema")
    partition: tuple[Partition, ...] = ()
    quarantine: Quarantine
    gate: Gate | None = None
    trigger: Trigger = Field(default_factory=Trigger)
    storage: Storage = Field(default_factory=Storage)

    @model_validator(mode="before")
    @classmethod
    def _quarantine_beside_the_table(cls, data: Any) -> Any:
        if isinstance(data, dict) and not data.get("quarantine") and isinstance(data.get("table"), dict):
            path = data["table"].get("path")
            if isinstance(path, str):
                return {**data, "quarantine": {"path": path.rstrip("/") + "_quarantine"}}
        return data
