"""What the change events of a sample do not tell, because the database did not log it, and what follows for the table.

PostgreSQL logs of an update or a delete what the table's REPLICA IDENTITY says: DEFAULT the key of the row as it was,
FULL all of it, NOTHING nothing. A table without a primary key has no key to log, and its records have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeingest.config import DebeziumEnvelope, JsonValue, PipelineConfig
from lakeingest.decode import Shape, writers
from lakeingest.decode.debezium import EventReader
from lakeingest.decode.writers import SchemaBranch
from lakeingest.errors import number_of
from lakeingest.record import RAW_KEY, RAW_VALUE, count_where
from lakeingest.schema import debezium
from lakeingest.schema.debezium import AFTER, BEFORE, OP, SOURCE, UNAVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FULL = "ALTER TABLE … REPLICA IDENTITY FULL lets the database log all of a row"


@dataclass(frozen=True)
class EventCounts:
    """How many events of a sample lack what.

    Attributes:
        bare_updates, bare_deletes: PostgreSQL's, whose `before` is null.
        keyless: those of rows, whose records have no key.
        key_fields: of the records' keys, as far as these are JSON.
    """

    bare_updates: int = 0
    bare_deletes: int = 0
    keyless: int = 0
    key_fields: frozenset[str] = frozenset()

    def __add__(self, other: EventCounts) -> EventCounts:
        return EventCounts(
            self.bare_updates + other.bare_updates,
            self.bare_deletes + other.bare_deletes,
            self.keyless + other.keyless,
            self.key_fields | other.key_fields,
        )


def warnings(config: PipelineConfig, shape: Shape, kafka: DataFrame, rows: DataFrame) -> Iterator[str]:
    """About what the table cannot have.

    Args:
        shape: of the sample.
        kafka: the sample as Kafka holds it.
        rows: the rows that its accepted records become.
    """
    if not isinstance(config.decode.envelope, DebeziumEnvelope):
        return
    counts = sum(map(_counts, _events(config, shape, kafka)), EventCounts())
    yield from sentences(config, counts, _unavailable(rows) if UNAVAILABLE in rows.columns else {})


def sentences(config: PipelineConfig, counts: EventCounts, unavailable: dict[str, int]) -> Iterator[str]:
    """See `warnings`.

    Args:
        unavailable: columns whose values some events do not have → how many.
    """
    table, key = config.table, ", ".join(sorted(counts.key_fields))
    beyond = [path for path in table.key_paths if counts.key_fields and path not in {*counts.key_fields, "_key"}]
    if counts.bare_updates:
        updates = f"{number_of(counts.bare_updates, 'update')} without `before`, as by REPLICA IDENTITY DEFAULT"
        if not table.upserts:
            yield (
                f"{updates}: a delete has the values of its key{f' ({key})' if key else ''}; the others are null, "
                f"or invented where they may not be null; {_FULL}"
            )
        elif beyond:
            yield (
                f"{updates}: a delete has the values of its key ({key}), and table.keys asks for "
                f"{', '.join(beyond)}: deletes will not find their rows; let table.keys be {key}, or {_FULL}"
            )
    if unavailable:
        columns = ", ".join(f"{name} ({count:,})" for name, count in unavailable.items())
        effect = (
            "the column keeps what its row has, and is null until an event has it" if table.upserts else "it is null"
        )
        yield f"values that the database did not log: {columns}; {effect}; {_FULL}"
    if counts.bare_deletes:
        yield (
            f"{number_of(counts.bare_deletes, 'delete')} without `before`, as by REPLICA IDENTITY NOTHING: nobody can "
            "tell the row, so that they are refused, and what the database deletes stays in the table; give the "
            f"database's table a primary key and REPLICA IDENTITY DEFAULT, or {_FULL}"
        )
    if counts.keyless and table.keyed:
        yield (
            f"{number_of(counts.keyless, 'event')} of rows without a key, as of a table that has no primary key: mode "
            f"{table.mode} takes rows that are equal in {', '.join(table.key_paths)} for one; give the database's "
            "table a primary key, let message.key.columns of the connector name one, or write table.mode: append"
        )


def _events(config: PipelineConfig, shape: Shape, kafka: DataFrame) -> Iterator[DataFrame]:
    """The events of one schema after another: op, has_before, is_postgres, key (BINARY). Not those that were
    flattened, which have nothing of a row as it was.
    """
    from pyspark.sql import functions as F

    from lakeingest.decode import projection

    names = ("op", "has_before", "is_postgres", "key")

    def frame_of(frame: DataFrame, *columns: Column) -> DataFrame:
        return frame.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))

    if isinstance(config.decode.value, JsonValue):
        op, before, lsn = (
            F.get_json_object(F.col(RAW_VALUE).cast("string"), f"$.{path}") for path in (OP, BEFORE, f"{SOURCE}.lsn")
        )
        yield frame_of(kafka, op, before.isNotNull(), lsn.isNotNull(), F.col(RAW_KEY))
        return
    by = shape.writers["value"]
    for branch in by.branches:
        if not isinstance(branch, SchemaBranch) or not isinstance(branch.reader, EventReader):
            continue
        event = branch.reader.event
        if event.field(AFTER) is None:
            continue
        whole = replace(branch, reader=branch.reader.reader, schema=event, names=event)
        alone = replace(by, branches=(whole,), strict=False)
        target = projection.struct_type(replace(event, fields=tuple(f for f in event.fields if f.name in (OP, BEFORE))))
        read = writers.read("value", F.col(RAW_VALUE), alone, target, config.decode.max_bytes)
        frame = kafka
        for stage in read.stages:
            frame = frame.withColumns(stage)
        is_postgres = debezium.connector(debezium.source_fields(event)) == "postgresql"
        yield frame_of(frame, read.columns[OP], read.columns[BEFORE].isNotNull(), F.lit(is_postgres), F.col(RAW_KEY))


def _counts(events: DataFrame) -> EventCounts:
    from pyspark.sql import functions as F

    op, bare = F.col("op"), F.col("is_postgres") & ~F.col("has_before")
    text = F.col("key").cast("string")
    fields = F.json_object_keys(F.coalesce(F.get_json_object(text, "$.payload"), text))
    bare_updates, bare_deletes, keyless, names = events.agg(
        count_where(bare & (op == "u")),
        count_where(bare & (op == "d")),
        count_where(op.isin("r", "c", "u", "d") & F.col("key").isNull()),
        F.flatten(F.collect_set(F.when(op.isNotNull(), fields))),
    ).collect()[0]
    return EventCounts(bare_updates, bare_deletes, keyless, frozenset(names))


def _unavailable(rows: DataFrame) -> dict[str, int]:
    from pyspark.sql import functions as F

    names = rows.select(F.explode(F.map_keys(UNAVAILABLE)).alias("name"))
    return {row["name"]: row["count"] for row in names.groupBy("name").count().orderBy("name").collect()}
