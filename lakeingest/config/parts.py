"""The parts of the pipeline file as frozen values: what each option means, its type and its default."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from lakeingest.config.base import Part
from lakeingest.config.envelope import Envelope
from lakeingest.config.formats import BytesFormat, JsonValue, KeyFormat, ValueFormat
from lakeingest.config.row_mode import RowMode
from lakeingest.config.values import (
    WHOLE,
    Budget,
    Duration,
    FieldNames,
    FieldPath,
    Location,
    Period,
    Secret,
    TableName,
    TablePlace,
    Timezone,
    ValueColumns,
    Wait,
)

Widening: TypeAlias = Literal["metadata", "rewrite", "refuse"]
Unsupported: TypeAlias = Literal["json", "refuse"]
Compatibility: TypeAlias = Literal["NONE", "BACKWARD", "FORWARD", "FULL"]


class Decode(Part):
    """How the bytes of a record become columns."""

    value: ValueFormat = Field(JsonValue(format="json"), description="Format of the record's value.")
    key: KeyFormat = Field(BytesFormat(format="bytes"), description="Format of the record's key (column _key).")
    envelope: Annotated[Envelope, Field(discriminator="format")] | None = Field(
        None,
        description="What stands around the row in the value, where records are changes of a database. Default: "
        "nothing; the value is the row.",
        examples=[{"format": "debezium"}],
    )
    headers: bool = Field(True, description="Whether the record's headers are kept (column _headers).")
    on_null: Literal["ignore", "write", "quarantine"] = Field(
        "quarantine",
        description="A record without a value (a tombstone): drop and count it, write its key alone, or set it aside.",
    )
    max_bytes: Annotated[int, Field(gt=0, le=100 * 2**20), WHOLE] = Field(
        2**24,
        description="Most bytes of a value, or of a key. A larger one is refused by its size, and never parsed.",
    )

    def side(self, side: Literal["key", "value"]) -> KeyFormat | ValueFormat:
        """The format of the record's key, or of its value."""
        return self.key if side == "key" else self.value


class Schema(Part):
    """The columns of the value, and how they may change."""

    columns: ValueColumns | None = Field(
        None,
        description="The value's fields as DDL text, nested types and NOT NULL included: "
        "'flight INT, carrier STRING NOT NULL'. FROM names the field of a column that has another name: \"placed "
        "TIMESTAMP FROM 'Date Time'\". Required for format json, and only for it: other formats bring their schema.",
        examples=["flight INT, carrier STRING NOT NULL, time_hour TIMESTAMP FROM 'Time Hour'"],
    )
    widening: Widening | None = Field(
        None,
        description="What becomes of the table when a column's type must grow: metadata lets Delta's type widening do "
        "it, and no file is touched; rewrite writes all rows anew under the new type, in one commit; refuse leaves the "
        "column, and such records go to quarantine. Default: metadata where each of readers can read it, else rewrite.",
        examples=["rewrite"],
    )
    compatibility: Compatibility | None = Field(
        None,
        description="When a record with another schema than the table's is written. Default: BACKWARD where records "
        "bring their schema (avro, protobuf, json_schema); FORWARD for json: the declared columns stay, and what is "
        "not declared goes to _rescued.",
        examples=["FORWARD"],
    )
    names: FieldNames = Field(
        "exact",
        description="The columns' names for fields of a record's schema: exact takes them as they are; safe makes a "
        "plain name of one with blanks, dots or other signs; or a mapping of fields to names, where the others stay as "
        "they are. For the formats that bring their schema.",
        examples=["safe", {"Date Time": "date_time", "stops[].Stop Name": "name"}],
    )
    unsupported: Unsupported = Field(
        "json",
        description="What becomes of a field that no typed column can hold: one of several types, a record within "
        "itself, google.protobuf.Struct. json makes a column of JSON text of it, and the others stay typed; refuse "
        "sends all records of such a schema to quarantine. For the formats that bring their schema.",
        examples=["refuse"],
    )


OnFailure = Literal["warn", "quarantine", "hold", "fail"]


class Gate(Part):
    """The Great Expectations suite that records must meet."""

    suite: str = Field(
        min_length=1,
        description="Path of a suite (JSON), relative to the pipeline file.",
        examples=["../expectations/flights.json"],
    )
    on_row_failure: OnFailure = Field(
        "quarantine",
        description="What becomes of a record that breaks an expectation of single rows: quarantine sets it aside, "
        "warn notes it, hold and fail keep back the whole batch. An expectation's meta.lakeingest.on_failure "
        "goes before it, and else its severity: warning and info mean warn.",
    )
    on_batch_failure: OnFailure = Field(
        "hold",
        description="What becomes of a batch that breaks any other expectation, one with mostly too: hold stops before "
        "the commit until somebody accepts the batch, fail until the data or the suite has changed, quarantine sets "
        "the whole batch aside, warn notes it. meta.lakeingest.on_failure and severity go before it too.",
    )
    results: TablePlace | None = Field(
        None,
        description="The Delta table for what the expectations found in each batch: a path, or a name as in "
        "lake.results. Default: beside the table, at table.path (or table.name) with _expectations.",
        examples=["s3a://lake/flights_expectations"],
    )


class TimePartition(Part):
    """Partition by a time, cut to a period in a time zone."""

    by: Literal["time"] = Field(description="Partition by a time.")
    field: FieldPath | None = Field(
        None,
        description="The field that holds the time (dotted for nested ones). Left out: see extract.",
        examples=["time_hour"],
    )
    extract: Literal["record", "field", "wallclock"] | None = Field(
        None,
        description="Whose time: the Kafka record's timestamp, a field's, or the batch's own clock. "
        "Default: field if one is named, else record.",
        examples=["field"],
    )
    every: Period = Field("day", description="The period: hour, day, month, year, or a duration such as '15 minutes'.")
    timezone: Timezone = Field("UTC", description="The IANA zone in which the period is cut.")
    format: str | None = Field(
        None,
        description="Names and patterns of the partition columns, as in \"'year'=yyyy/'month'=MM\". "
        "Default: one column named after the period.",
        examples=["'year'=yyyy/'month'=MM/'day'=dd"],
    )
    locale: str = Field("en_US", description="The locale of names of months and days in format.")


class FieldPartition(Part):
    """Partition by the value of a field (integer, string or boolean)."""

    by: Literal["field"] = Field(description="Partition by the value of a field.")
    field: FieldPath = Field(description="The field, dotted for nested ones.", examples=["carrier"])
    name: str | None = Field(
        None, description="The partition column's name. Default: the field's, dots as _.", examples=["airline"]
    )


class KafkaPartition(Part):
    """Partition by the record's Kafka partition."""

    by: Literal["kafka_partition"] = Field(description="Partition by the record's Kafka partition.")


Partition = Annotated[TimePartition | FieldPartition | KafkaPartition, Field(discriminator="by")]


class _TableIdentity(Part):
    """A table that is known by its path or, without one, by its name."""

    path: Location | None
    name: TableName | None

    @property
    def identifier(self) -> str:
        """The table's path or name; empty where the file says neither."""
        return self.path or self.name or ""


class Table(RowMode, _TableIdentity):
    """The Delta table that accepted records are written to."""

    path: Location | None = Field(
        None,
        description="Where the table lies: s3a://bucket/path, or a local path. Left out: where the catalog of "
        "table.name puts it.",
        examples=["s3a://lake/flights"],
    )
    name: TableName | None = Field(
        None,
        description="Its name in Spark's catalog, as in lake.flights or main.bronze.flights. Beside table.path the "
        "table is registered under it; without table.path it is the catalog's own table.",
        examples=["lake.flights"],
    )
    catalog: Literal["spark", "glue"] = Field(
        "spark",
        description="The catalog that knows it by table.name: the Spark session's, or AWS Glue's, as database.table.",
        examples=["glue"],
    )
    comment: str | None = Field(
        None,
        description="What the table holds, for whoever finds it: its comment in Delta, its description in Glue.",
        examples=["Departures from New York"],
    )
    compression: Literal["zstd", "snappy", "gzip", "none"] = Field("zstd", description="Codec of the Parquet files.")


class Quarantine(_TableIdentity):
    """The Delta table for refused records: the dead-letter queue."""

    # The pipeline, which knows the table, fills in one of the two.
    path: Location | None = Field(
        None,
        description="Where the quarantine lies: outside the table's own path. Default: beside the table, at "
        "table.path with _quarantine.",
        examples=["s3a://lake/flights_quarantine"],
    )
    name: TableName | None = Field(
        None,
        description="Its name in Spark's catalog, as table.name is the table's. Default: where the table has no path, "
        "table.name with _quarantine.",
        examples=["lake.flights_quarantine"],
    )
    max_refused: Budget | None = Field(
        None,
        description="The failure budget: a batch with more refused records is kept back, as by on_failure: hold. A "
        "number, or a share such as 1% (of at least 100 records: smaller batches count as that many). It costs each "
        "batch a pass before its commit. Default: any number.",
        examples=["1%"],
    )

    keep_bytes: Literal["plain", "encrypted", "never"] | None = Field(
        None,
        description="What becomes of the bytes of refused values: kept as they came; encrypted (AES-256-GCM, by "
        "encryption_key; a replay reads them); or never kept: such records cannot be replayed. The same becomes of key "
        "and headers where transform hides something of them. Has to be written where transform masks fields. "
        "Default: plain.",
        examples=["encrypted"],
    )
    encryption_key: Secret | None = Field(
        None,
        description="What the bytes are encrypted with. Whoever loses it cannot replay them.",
        examples=["${QUARANTINE_KEY}"],
    )

    @property
    def secret(self) -> str:
        """The secret that encrypts the bytes. Never print it."""
        assert self.encryption_key is not None
        return self.encryption_key.get_secret_value()

    def allows(self, refused: int, consumed: int) -> bool:
        """Whether a batch of so many records may have so many refused ones."""
        most = self.max_refused
        if most is None:
            return True
        if isinstance(most, int):
            return refused <= most
        return refused <= float(most.rstrip("%")) / 100 * max(consumed, 100)


class Retry(Part):
    """What a run does when Kafka, the registry or the object store fails while it goes."""

    wait: Wait = Field(
        timedelta(minutes=10),
        description="How long a run that is under way tries again, after pauses that grow from 1 second to 1 minute, "
        "before it ends with exit code 4. Each commit begins that time anew. 0 seconds: it ends at once.",
        json_schema_extra={"default": "10 minutes"},
    )


class Trigger(Part):
    """When a micro-batch is cut."""

    every: Duration = Field(
        timedelta(minutes=1),
        description="Time between the starts of two batches.",
        json_schema_extra={"default": "1 minute"},
    )
    max_records: Annotated[int, Field(gt=0, le=2**31 - 1), WHOLE] = Field(
        500_000, description="Most records (offsets) in one batch, and so in one commit."
    )
