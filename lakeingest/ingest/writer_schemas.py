"""Whose records are these? The schemas that a batch's headers name, fetched from the registry and made readable."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.config import (
    AvroFormat,
    ConnectJsonFormat,
    JsonSchemaFormat,
    PipelineConfig,
    ProtobufFormat,
    brings_schema,
    partition_format,
    uses_registry,
)
from lakeingest.decode import framing, sniff
from lakeingest.decode.headers import new_headers
from lakeingest.decode.order import Place, in_order
from lakeingest.decode.readers import Reading, SchemaRules, read
from lakeingest.ingest.embedded_schemas import EmbeddedSchemas
from lakeingest.kafka import registry
from lakeingest.kafka.glue_registry import GlueClient
from lakeingest.kafka.registry import RegistryClient
from lakeingest.record import COORDINATES, OFFSET, PARTITION, RAW_KEY, RAW_VALUE, TOPIC
from lakeingest.schema import model, transforms
from lakeingest.schema.debezium import RowlessEvent
from lakeingest.schema.formats import wire
from lakeingest.schema.ledger import SchemaId, SchemaLedger, Side
from lakeingest.schema.model import Schema, SchemaError
from lakeingest.schema.transforms import TransformError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AnyRegistry = RegistryClient | GlueClient
Header = tuple[Side, bytes]
SIDES: dict[Side, str] = {"key": RAW_KEY, "value": RAW_VALUE}
"""A side of a record → the column of its bytes."""
_LOOKED_AT = 20
"""Records whose first bytes are looked at, where none brings a schema."""
MOST_IDS = 1000
"""Ids that the registry is asked for in one batch, the frequent ones first: bytes that are no schema's id have any."""


@dataclass(frozen=True)
class WriterSchema:
    """A writer's schema that a record was met of: what it is, apart from what the table makes of it.

    Attributes:
        header: the bytes that its records begin with, or those of a header of the record.
        reading: how it is read; None where no table can hold it, for the reason in `problem`.
        rowless: what its records are, if they hold no row (see `debezium.ROWLESS`).
        elsewhere: where the registry has it, if in no version of the subject: "version 1 of other-value".
        first: where it was met.
    """

    side: Side
    header: bytes
    id: SchemaId | None
    subject: str | None
    version: int | None
    fingerprint: str
    first: Place | None
    reading: Reading | None = None
    problem: str | None = None
    elsewhere: tuple[str, ...] = ()
    rowless: str | None = None

    @property
    def schema(self) -> Schema | None:
        return replace(self.reading.schema, version=self.version) if self.reading else None

    @property
    def name(self) -> str | None:
        """The full name of its record or message."""
        return self.reading.name if self.reading else None

    @property
    def label(self) -> str:
        if self.id is None:
            return "the schema of decode.schema_file"
        if self.subject is None:
            # The strategy asks for a record's name, and the schema has none.
            return f"schema id {self.id}"
        version = f"version {self.version} of {self.subject}" if self.version else f"in no version of {self.subject}"
        elsewhere = f", but {' and '.join(self.elsewhere)}" if self.elsewhere else ""
        return f"schema id {self.id} ({version}{elsewhere})"


def discover(
    config: PipelineConfig,
    open_registry: Callable[[], AnyRegistry],
    ledger: SchemaLedger,
    kafka: DataFrame,
    planned: Collection[tuple[Side, bytes]],
) -> tuple[list[WriterSchema], bool]:
    """The schemas that a batch's headers name and that are not planned for, in the order of their first records; and
    whether some headers name none.

    Args:
        open_registry: gives the registry, where records name their schemas in one.

    Raises:
        RegistryUnreachable: the registry did not answer for as long as registry.wait says.
    """
    sides = {side: column for side, column in SIDES.items() if brings_schema(config.decode.side(side))}
    framings = {side: framing.of(config, side) for side in sides}
    headers = {side: [header for s, header in planned if s == side] for side in sides}
    indexed = {side for side in sides if isinstance(config.decode.side(side), ProtobufFormat)}
    schemas: list[tuple[int, WriterSchema]] = []
    unknown_ids, ids = False, set[SchemaId]()
    new = new_headers(kafka, framings, sides, headers, indexed)
    embedded = EmbeddedSchemas({framings[e.side].id(e.header): e.text for e in new if e.text is not None})
    places = in_order({(each.side, each.header): each.firsts for each in new})
    for each in new:
        side, header = each.side, each.header
        ids.add(framings[side].id(header))
        at, place = places[side, header]
        ask = open_registry() if uses_registry(config.decode.side(side)) else embedded
        writer_schema = (
            _writer_schema(config, ask, ledger, side=side, header=header, place=place) if len(ids) <= MOST_IDS else None
        )
        if writer_schema is None:
            unknown_ids = True
        else:
            schemas.append((at, writer_schema))
    return [writer_schema for _, writer_schema in sorted(schemas, key=itemgetter(0))], unknown_ids


def latest_of_subject(config: PipelineConfig, ask: AnyRegistry, ledger: SchemaLedger) -> WriterSchema | None:
    """The latest version of a topic's subject, before a record names it; None under other strategies."""
    format = config.decode.value
    if not isinstance(format, AvroFormat | ProtobufFormat | JsonSchemaFormat) or format.subject != "topic":
        return None
    for topic in config.source.topics:
        latest = ask.latest(ask.topic_subject(topic, "value"))
        if latest is not None:
            indexes = wire.prefix((0,)) if isinstance(format, ProtobufFormat) else b""
            header = framing.of(config, "value").header(latest[0].id) + indexes
            writer_schema = _writer_schema(config, ask, ledger, side="value", header=header, place=(topic, 0, 0))
            if writer_schema is not None and writer_schema.reading:
                return replace(writer_schema, first=None)
    return None


def appearance(config: PipelineConfig, kafka: DataFrame, kinds: Collection[str]) -> str:
    """What a batch looks like that brought no schema of rows: its first value; empty where that is not sure.

    Args:
        kinds: what its records are that hold no row, if there are some.
    """
    if kinds:
        return f"each is a {' or a '.join(sorted(kinds))} of Debezium; leave such a topic out of source.topics"
    start = F.substring(RAW_VALUE, 1, sniff.LENGTH).alias("start")
    bare = F.col(RAW_VALUE).isNotNull() & framing.in_record_header("value").isNull()
    hint = sniff.header_hint("value").alias("hint")
    for row in kafka.where(bare).select(*COORDINATES, start, hint).limit(_LOOKED_AT).collect():
        if kind := row["hint"] or sniff.of(bytes(row["start"]), framing.of(config, "value").format):
            return f"the value at {row[TOPIC]}-{row[PARTITION]} offset {row[OFFSET]} {kind}"
    return ""


def unpartitionable(config: PipelineConfig, schema: Schema) -> str | None:
    """Why a table that is partitioned as the file says cannot have the schema's fields."""
    try:
        names = [column.name for column in transforms.apply(config.steps, model.value_columns(schema))]
    except TransformError:
        # Under NONE the table has what this schema lacks: that is decided where both are known.
        return None
    problems = partition_format.mistakes(dict(enumerate(config.partition)), names)
    return next((text for _, text in problems), None)


def _writer_schema(
    config: PipelineConfig,
    ask: AnyRegistry | EmbeddedSchemas,
    ledger: SchemaLedger,
    *,
    side: Side,
    header: bytes,
    place: Place,
) -> WriterSchema | None:
    format, by = config.decode.side(side), framing.of(config, side)
    assert isinstance(format, AvroFormat | ProtobufFormat | JsonSchemaFormat | ConnectJsonFormat)
    registered = ask.writer(by.id(header))
    if registered is None:
        return None
    reading, problem, rowless = None, None, None
    try:
        reading = read(
            format,
            registered.type,
            registered.text,
            registered.references,
            header[framing.size(by, header) :],
            rules=SchemaRules.of(config, side),
            message_of=by.message,
        )
    except RowlessEvent as error:
        problem, rowless = str(error), error.kind
    except SchemaError as error:
        # Whatever message of it is meant: bytes that are no Protobuf have all kinds of indexes.
        header, problem = header[: framing.size(by, header)], str(error)
    if reading is None and problem is None:
        return None
    if reading and side == "value":
        problem = unpartitionable(config, reading.schema)
    version: int | None
    elsewhere: tuple[str, ...] = ()
    if reading and (entry := ledger.first_entry(side, registered.fingerprint, reading.name)) and entry.version:
        # As it was decided: another topic's subject may have it as another version.
        subject, version = entry.subject, entry.version
    elif isinstance(ask, EmbeddedSchemas) or isinstance(format, ConnectJsonFormat):
        subject, version = None, None
    else:
        name = reading.name if reading else None
        subject = registered.subject or registry.subject(format.subject, place[0], side, name) or None
        version = ask.version(subject, registered) if subject else None
        elsewhere = ask.elsewhere(registered) if subject and version is None else ()
    usable_reading = None if problem else reading
    written = (side, header, registered.id, subject, version, registered.fingerprint, place, usable_reading, problem)
    return WriterSchema(*written, elsewhere, rowless)
