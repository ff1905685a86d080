"""In which partition a record lies: the table's partition columns, and the records that have no partition.

Delta generates a column only where its expression is a bare field (a, a.b, _partition): a filter on the field then
becomes a filter on the partition. A generated CAST(ts AS DATE), DATE_FORMAT(ts, …) or DATE_TRUNC(…, ts) would do so
too, but is not safe: Delta evaluates it in the *reader's* session time zone. Seen with Delta 4.4.0, days of UTC: of
26 rows before a time New York found 24, of 28 rows after a time Kolkata found 24, in silence.

So times are computed here, in the partition's zone, into plain columns, and a filter on the time itself is answered by
the files' own statistics: within a partition they are as narrow as the partition is, and hold in every zone (seen: a
day across two partitions of ten opens two files). Delta collects them for the first 32 leaf columns, or for those of
delta.dataSkippingStatsColumns.

A null field lies in the partition null. Delta stores '' as null in a partition column: in the value's column itself
it becomes null too, and where that is NOT NULL the record is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import location, partition_format
from lakeingest.config.parts import FieldPartition, KafkaPartition, Partition, TimePartition
from lakeingest.errors import PipelineFileError
from lakeingest.record import PARTITION, TIMESTAMP, Refusal, diagnosis
from lakeingest.schema import ddl
from lakeingest.spark import timestamps

STAGE = "partition"
NO_TIME = "NO_PARTITION_TIME"
UNSTORABLE = "UNSTORABLE_PARTITION_VALUE"
NULL = "__HIVE_DEFAULT_PARTITION__"
"""What the directory of the partition null is called, so that Delta takes this text for null."""
MAX_NAME = 255
"""Bytes of a directory's name, `column=value` after escaping: what local file systems take."""
_OF_A_FILE = 120
"""Bytes of a key behind its directory: a data file's name, or one of a change feed with its folder."""
_OTHERWISE = 64
"""Bytes, at most, of the value of a partition column that is no text of a record: a number, a boolean, a period."""

_FIELDS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType, T.BooleanType)
_ESCAPED = r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]"
"""What Spark's ExternalCatalogUtils.escapePathName writes as %XX."""


@dataclass(frozen=True)
class PartitionColumn:
    """A partition column of the table.

    Attributes:
        name: its name.
        type: its type.
        generated: SQL expression by which Delta generates it; the frame that is written must lack it.
        value: else its value over the decoded frame; None too where it is a column of the value itself.
    """

    name: str
    type: T.DataType
    generated: str | None = None
    value: Column | None = None


@dataclass(frozen=True)
class Layout:
    """The partition columns in their order, and the records that have no partition."""

    columns: tuple[PartitionColumn, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class _FrameValue:
    """A value within the frame: as an expression, its type, and as SQL unless the way leads through a map."""

    path: str
    column: Column
    type: T.DataType
    sql: str | None
    nullable: bool = True

    @property
    def top_level(self) -> bool:
        return self.sql == ddl.quoted(self.path)


def directory_bytes(name: str, value: Column) -> Column:
    """Bytes of the directory of a partition, `column=value` after escaping, as Spark and Delta call it.

    Args:
        value: STRING.
    """
    escaped = F.regexp_replace(F.coalesce(value, F.lit(NULL)), _ESCAPED, "%00")
    return F.octet_length(escaped) + F.lit(len(f"{name}=".encode()))


def layout(partitions: Sequence[Partition], schema: T.StructType, now: datetime, path: str = "") -> Layout:
    """The partitions of a table. Called once a batch, with an active session (in UTC); touches no data.

    Args:
        partitions: the pipeline file's list.
        schema: the columns of the decoded value.
        now: the batch's own clock (aware), for extract: wallclock.
        path: where the table lies, or its name: S3 bounds what a path is with its partitions.

    Raises:
        PipelineFileError: names, formats or types that no table can have (`partition_format.mistakes` and here).
    """
    mistakes = partition_format.mistakes(dict(enumerate(partitions)), schema.fieldNames())
    problems = [f"{'.'.join(map(str, where))}: {text}" for where, text in mistakes]
    parts: list[Layout] = []
    for position, part in enumerate(partitions if not problems else ()):
        try:
            parts.append(_layout(part, schema, now))
        except ValueError as error:
            problems.append(f"partition.{position}.field: {error}")
    if problems:
        raise PipelineFileError(
            f"no table can be partitioned like this: {'; '.join(problems)}",
            cure="Correct partition in the pipeline file.",
            problems=tuple(problems),
        )
    columns = tuple(c for p in parts for c in p.columns)
    texts = {
        partition_format.field_name(p): _find(schema, p.field) for p in partitions if isinstance(p, FieldPartition)
    }
    return Layout(columns, (*(r for p in parts for r in p.refusals), *_too_long(columns, texts, path)))


def _layout(part: Partition, schema: T.StructType, now: datetime) -> Layout:
    if isinstance(part, KafkaPartition):
        return Layout((PartitionColumn(partition_format.KAFKA_PARTITION, T.IntegerType(), generated=PARTITION),))
    if isinstance(part, FieldPartition):
        return _by_field(part, _find(schema, part.field))
    return _by_time(part, schema, now)


def _by_field(part: FieldPartition, field: _FrameValue) -> Layout:
    if not isinstance(field.type, _FIELDS):
        raise ValueError(f"{part.field!r} is {field.type.simpleString()}; choose an integer, a string or a boolean")
    name = partition_format.field_name(part)
    itself = field.top_level and name == part.field
    is_text = isinstance(field.type, T.StringType)
    refusals = (_unstorable(field, name, required=itself and not field.nullable),) if is_text else ()
    if itself:
        return Layout((PartitionColumn(name, field.type),), refusals)
    value = None if field.sql else field.column
    return Layout((PartitionColumn(name, field.type, generated=field.sql, value=value),), refusals)


def _by_time(part: TimePartition, schema: T.StructType, now: datetime) -> Layout:
    segments = partition_format.segments(part)
    if part.extract == "wallclock":
        local = timestamps.local(timestamps.literal(now), T.TimestampType(), part.timezone)
        return Layout(_periods(part, segments, local))
    field = _find(schema, part.field) if part.field else _kafka_time()
    if not isinstance(field.type, timestamps.TIMES):
        kind = field.type.simpleString()
        raise ValueError(f"{part.field!r} is {kind}; choose TIMESTAMP, TIMESTAMP_NTZ, DATE, INT, BIGINT or STRING")
    local = timestamps.local(field.column, field.type, part.timezone)
    refusal = Refusal(STAGE, local.isNull(), lambda: _no_time(field))
    if isinstance(field.type, T.DateType) and field.sql and segments[0].pattern is None:
        return Layout((PartitionColumn(segments[0].name, T.DateType(), generated=field.sql),), (refusal,))
    return Layout(_periods(part, segments, local), (refusal,))


def _no_time(field: _FrameValue) -> Column:
    return diagnosis(NO_TIME, F.concat(F.lit(f"{field.path} "), timestamps.why_not(field.column, field.type)))


def _periods(
    part: TimePartition, segments: tuple[partition_format.Segment, ...], local: Column
) -> tuple[PartitionColumn, ...]:
    start = timestamps.start(local, part.every)
    date = (local if part.every == "day" else start).cast("date")
    return tuple(
        PartitionColumn(s.name, T.DateType(), value=date)
        if s.pattern is None
        else PartitionColumn(s.name, T.StringType(), value=F.date_format(start, s.pattern))
        for s in segments
    )


def _unstorable(field: _FrameValue, name: str, *, required: bool) -> Refusal:
    """A string that no directory can bear would fail the whole batch in the middle of its write; one that a directory
    bears as another text would be that one in the table.
    """
    value = field.column
    length = directory_bytes(name, value)
    empty = value == "" if required else F.lit(False)
    changed = (value == NULL) | ~F.is_valid_utf8(value)
    when = F.coalesce((length > MAX_NAME) | value.contains("\0") | empty | changed, F.lit(False))

    def why() -> Column:
        too_long = F.concat(
            F.lit("'"), F.substring(value, 1, 100), F.lit("…', for which a directory's name would take "),
            length.cast("string"), F.lit(f" bytes; at most {MAX_NAME}"),
        )  # fmt: skip
        message = (
            F.when(value.contains("\0"), F.lit("a text with a NUL character, which no directory's name can hold"))
            .when(value == "", F.lit("'', which Delta stores as null, but the column is NOT NULL"))
            .when(value == NULL, F.lit(f"'{NULL}', which Delta stores as null"))
            .when(~F.is_valid_utf8(value), F.lit("a text that is not UTF-8, which Delta stores as another one"))
            .otherwise(too_long)
        )
        return diagnosis(UNSTORABLE, F.concat(F.lit(f"{field.path} is "), message))

    return Refusal(STAGE, when, why)


def _too_long(columns: Sequence[PartitionColumn], fields: Mapping[str, _FrameValue], path: str) -> tuple[Refusal, ...]:
    """Records of which the partitions together make a key that S3 does not take; none where that cannot be.

    Args:
        fields: the name of a partition column → the field that it has.
    """
    place = location.place(path)
    if not (location.is_path(path) and place.on_s3):
        return ()
    room = location.MAX_KEY - len("/".join((*place.steps, "")).encode()) - _OF_A_FILE
    texts = {name: field for name, field in fields.items() if isinstance(field.type, T.StringType)}
    other_bytes = sum(len(c.name.encode()) + 2 + _OTHERWISE for c in columns if c.name not in texts)
    if other_bytes + len(texts) * (MAX_NAME + 1) <= room or not texts:
        return ()
    lengths = [directory_bytes(name, field.column) + 1 for name, field in texts.items()]
    length = sum(lengths[1:], lengths[0]) + other_bytes
    fields_text = " and ".join(field.path for field in texts.values())

    def why() -> Column:
        message = F.concat(
            F.lit(f"{fields_text}: folders of "), length.cast("string"), F.lit(f" bytes; {room} fit into a key of S3")
        )
        return diagnosis(UNSTORABLE, message)

    return (Refusal(STAGE, length > room, why, withheld=why),)


def _kafka_time() -> _FrameValue:
    return _FrameValue(TIMESTAMP, F.col(TIMESTAMP), T.TimestampType(), TIMESTAMP)


def _find(schema: T.StructType, path: str) -> _FrameValue:
    """The field at a dotted path through structs and maps.

    Raises:
        ValueError: there is none.
    """
    top = next((f for f in schema if path == f.name or path.startswith(f.name + ".")), None)
    if top is None:
        raise ValueError(f"{path!r} is not among the columns {', '.join(schema.fieldNames())}; choose one of them")
    column, kind, sql = F.col(ddl.quoted(top.name)), top.dataType, ddl.quoted(top.name)
    rest = path[len(top.name) + 1 :]
    through_map = False
    while rest:
        step, _, rest = rest.partition(".")
        column = column[_key(kind, step, path)]
        if isinstance(kind, T.StructType):
            kind, sql = kind[step].dataType, f"{sql}.{ddl.quoted(step)}"
        elif isinstance(kind, T.MapType):
            kind, through_map = kind.valueType, True
    return _FrameValue(path, column, kind, None if through_map else sql, top.nullable)


def _key(kind: T.DataType, step: str, path: str) -> str | int:
    if isinstance(kind, T.StructType) and step in kind.fieldNames():
        return step
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return step
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.IntegerType | T.LongType) and step.isdecimal():
        return int(step)
    raise ValueError(f"{path!r} leads to no {step!r} in {kind.simpleString()}; name a field or a key that it has")
