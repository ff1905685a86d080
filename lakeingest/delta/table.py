"""The two Delta tables of a pipeline: made if they are not there, and held to what the pipeline file says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig, uses_registry
from lakeingest.decode import Shape
from lakeingest.delta import commit, quarantine, table_properties
from lakeingest.delta.commit import CommitLog
from lakeingest.delta.partitioning import PartitionColumn
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.record import (
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RESCUED,
    RESERVED,
    SCHEMA_ID,
    TIMESTAMP,
    TOPIC,
    Frontier,
    OffsetRanges,
)
from lakeingest.schema import ddl
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark import types
from lakeingest.spark.failures import spark_failures, storage_failures, translate
from lakeingest.spark.types import struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

PROPERTIES = {
    # A log checkpoint costs two to four commits, and each commit reads the log's files since the last one.
    "delta.checkpointInterval": "20",
}

ANEW = (
    "make the table anew: with another name, table.path and quarantine.path the pipeline reads all that Kafka still has"
)
"""The cure that is always left."""
_PLAIN = ("json", "string", "bytes")
"""Formats of a key whose type the file alone says."""
_RETENTION = "delta.setTransactionRetentionDuration"


def columns(config: PipelineConfig, shape: Shape) -> StructType:
    """The table's columns but for partition columns: coordinates, timestamp, key, headers, value, rescued.

    _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key (as decode.key says),
    _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _schema_id INT (where the registry holds the schema), the
    value's columns, _rescued STRING (not for text and bytes). The coordinates come first: Delta keeps statistics of the
    first 32 columns.
    """
    from pyspark.sql import types as T

    found = T.StructType(
        [
            T.StructField(TOPIC, T.StringType()),
            T.StructField(PARTITION, T.IntegerType()),
            T.StructField(OFFSET, T.LongType()),
            T.StructField(TIMESTAMP, T.TimestampType()),
        ]
    )
    if shape.key is not None:
        found.add(KEY, shape.key)
    if config.decode.headers:
        found.add(HEADERS, struct("h ARRAY<STRUCT<key: STRING, value: BINARY>>")["h"].dataType)
    if uses_registry(config.decode.value):
        found.add(SCHEMA_ID, T.IntegerType())
    for declared in shape.value:
        found.add(declared)
    if config.decode.value.format not in ("string", "bytes"):
        found.add(RESCUED, T.StringType())
    return found


def ensure_quarantine(spark: SparkSession, config: PipelineConfig) -> bool:
    """Make the quarantine if it is missing, and add columns that it lacks since an older version made it.

    Returns:
        Whether it was missing.

    Raises:
        StorageUnreachable, UnsafeStore: the object store.
    """
    path, wanted = config.quarantine.path, struct(quarantine.COLUMNS)
    with storage_failures(path):
        there = schema(spark, path)
        if there is None:
            _make(spark, path, wanted, (), {})
            return True
        for column in wanted:
            if column.name not in there.names:
                named = f"{ddl.quoted(column.name)} {types.sql_type(column.dataType)}"
                spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({named})")
        return False


def ensure(
    spark: SparkSession,
    config: PipelineConfig,
    shape: Shape,
    partitions: Sequence[PartitionColumn],
    *,
    there: StructType | None,
    history: SchemaLedger = SchemaLedger(),  # noqa: B008
) -> StructType:
    """Make the table if it is missing, and register its name.

    Args:
        there: the table's columns; None where it is missing.
        history: the ledger of schemas that a new table keeps.

    Returns:
        The table's columns now.

    Raises:
        StorageUnreachable, UnsafeStore: the object store.
    """
    with storage_failures(config.table.path):
        if there is None:
            wanted, properties = columns(config, shape), table_properties.properties(config, history)
            there = _make(spark, config.table.path, wanted, partitions, properties)
        if config.table.name:
            _register(spark, config.table.name, config.table.path)
        return there


def _make(
    spark: SparkSession,
    path: str,
    shape: StructType,
    partitions: Sequence[PartitionColumn],
    properties: Mapping[str, str],
) -> StructType:
    """Make a table that was not there a moment ago; its columns."""
    from delta.tables import DeltaTable

    builder = DeltaTable.createIfNotExists(spark).location(path)
    for column in shape:
        builder = builder.addColumn(column.name, column.dataType, nullable=column.nullable)
    for partition in partitions:
        if partition.name not in shape.fieldNames():
            builder = builder.addColumn(partition.name, partition.type, generatedAlwaysAs=partition.generated)
    if partitions:
        builder = builder.partitionedBy(*(partition.name for partition in partitions))
    for name, value in {**PROPERTIES, **properties}.items():
        builder = builder.property(name, value)
    # Another run of the pipeline may have made it meanwhile.
    with suppress(*spark_failures()):
        builder.execute()
    there = schema(spark, path)
    if there is None:
        _make_by_writing(spark, path, shape, partitions, {**PROPERTIES, **properties})
    return there or read(spark, path).schema


def _make_by_writing(
    spark: SparkSession,
    path: str,
    shape: StructType,
    partitions: Sequence[PartitionColumn],
    properties: Mapping[str, str],
) -> None:
    """Make a table where a log folder without a version is, as a run leaves it that is killed while it makes one.

    There Delta creates no table (DELTA_TABLE_NOT_FOUND), but lets an empty frame be written as one. NOT NULL gets lost
    on that way; decoding refuses such nulls in any case.
    """
    from pyspark.sql import types as T

    known = shape.fieldNames()
    more = [
        T.StructField(p.name, p.type, metadata={"delta.generationExpression": p.generated} if p.generated else None)
        for p in partitions
        if p.name not in known
    ]
    empty = spark.createDataFrame([], T.StructType([*shape, *more]))
    empty.write.format("delta").mode("append").partitionBy(*(p.name for p in partitions)).save(path)
    for name, value in properties.items():
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def schema(spark: SparkSession, path: str) -> StructType | None:
    """The columns of the Delta table at `path`; None if there is none.

    Delta calls a mere log folder a table, which is how making one begins; it has no columns, and is none here.

    Raises:
        StorageUnreachable, UnsafeStore: the object store.
    """
    from pyspark.errors import AnalysisException

    try:
        return read(spark, path).schema or None
    except AnalysisException:
        return None
    except spark_failures() as failed:
        raise translate(path, failed) from failed


def check(
    spark: SparkSession,
    config: PipelineConfig,
    there: StructType,
    properties: Mapping[str, str],
    *,
    shape: Shape,
    partitions: Sequence[PartitionColumn],
) -> None:
    """Hold a table to the file: its partitions, and the types of the columns that are not the value's.

    What the value's columns may become is decided where schemas are (see `Evolution`).

    Args:
        there, properties: the table's columns, and its properties.
        shape, partitions: the columns that a batch has, and those that it is partitioned by.

    Raises:
        TableMismatch: with what to do about it.
    """
    path = config.table.path
    with storage_failures(path):
        laid, wanted = _partition_columns(spark, path), [partition.name for partition in partitions]
    if laid != wanted:
        raise _otherwise(path, f"partitioned by {', '.join(laid) or 'nothing'}", ", ".join(wanted) or "nothing")
    was = table_properties.partitions(properties, config.known_as) or ()
    for before, now in zip(was, table_properties.options(config), strict=False):
        for name in (name for name in now if now[name] != before.get(name, now[name])):
            had, has = (f"{name} {'left out' if value is None else value}" for value in (before[name], now[name]))
            raise _otherwise(path, f"partitioned by {before['by']} with {had}", has)
    # A key's column takes whatever its schemas say.
    fixed = RESERVED if config.decode.key.format in _PLAIN else RESERVED - {KEY}
    for column in columns(config, shape):
        if column.name in fixed and column.name in there.names:
            kind = there[column.name].dataType.simpleString()
            if kind != column.dataType.simpleString():
                raise _otherwise(path, f"made with {column.name} {kind}", column.dataType.simpleString())


def _otherwise(path: str, held: str, wanted: str) -> TableMismatch:
    return TableMismatch(f"{path} is {held}, the pipeline file says {wanted}", cure=f"put it back as it was, or {ANEW}")


def _partition_columns(spark: SparkSession, path: str) -> list[str]:
    """From DESCRIBE TABLE, which needs the table's metadata alone; DESCRIBE DETAIL adds up its files, for seconds."""
    names = [row["col_name"] for row in spark.sql(f"DESCRIBE TABLE delta.`{path}`").collect()]
    header = "# Partition Information"
    return names[names.index(header) + 2 :] if header in names else []


def widen(spark: SparkSession, path: str, there: StructType, wanted: StructType) -> bool:
    """Widen the table's columns to the types that are wanted, if any; metadata alone, no file is written anew.

    Delta's type widening is a feature of the table that its readers must know, so it is enabled only when a column
    needs it. (Delta's own automatic widening, in a write that merges schemas, leaves out INT → DOUBLE.)

    Raises:
        StorageUnreachable: Delta refused, or the store failed.
    """
    wider = list(types.widenings(there, wanted))
    if not wider:
        return False
    with storage_failures(path):
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for name, kind in wider:
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {name} TYPE {kind}")
    return True


def loosen(spark: SparkSession, path: str, columns: Sequence[str]) -> bool:
    """Let these columns, paths as SQL has them, be null; whether there are any. Metadata alone.

    Raises:
        StorageUnreachable: Delta refused, or the store failed.
    """
    with storage_failures(path):
        for name in columns:
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {name} DROP NOT NULL")
    return bool(columns)


def _register(spark: SparkSession, name: str, path: str) -> None:
    if "." in name:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{path}'")


def read(spark: SparkSession, path: str) -> DataFrame:
    """The table's rows as they stand now."""
    return spark.read.format("delta").load(path)


def existing(spark: SparkSession, path: str) -> DataFrame:
    """The same, of a table that need not be there.

    Raises:
        UsageError: there is none yet.
        StorageUnreachable, UnsafeStore: the object store.
    """
    if schema(spark, path) is None:
        raise UsageError(f"there is no Delta table at {path} yet", cure="run the pipeline first: it makes the table")
    return read(spark, path)


def ledgers(
    spark: SparkSession, config: PipelineConfig, *, back: int | None = 1, new: Collection[str] = ()
) -> tuple[CommitLog, CommitLog]:
    """The ledgers of table and quarantine (see `commit.read`).

    Where the log does not say how far the pipeline has come (clean-up took its receipts, after 30 days by default; or
    the table is a copy or a clone of one that had them), but the table has rows of its topics, the frontier is taken
    from the rows of both tables. The ledger of schemas is the newest commit's, or the table property's.

    Args:
        back: how many commits at least (see `commit.read`).
        new: paths of tables that are missing or were just made, and are not asked: their ledgers are empty.

    Raises:
        TableMismatch: the table forgets which commits were made (see `_RETENTION`).
    """
    path = config.table.path
    mine, refused = (
        CommitLog(at, config.known_as)
        if at in new
        else commit.numbered(spark, commit.read(spark, at, config.known_as, back=back))
        for at in (path, config.quarantine.path)
    )
    if config.quarantine.path not in new:
        _check_retention(config.quarantine.path, table_properties.read(spark, config.quarantine.path))
    if path not in new:
        properties = table_properties.read(spark, path)
        _check_retention(path, properties)
        mine = replace(mine, kept=table_properties.ledger(properties, config.known_as), properties=properties)
        if mine.newest is None and not (mine.begun and mine.complete):
            mine = replace(mine, recovered=_frontier_of_rows(spark, config))
    known = mine.newest is not None or mine.recovered
    return replace(mine, schemas=_schemas(spark, mine)) if known else mine, refused


def _check_retention(path: str, properties: Mapping[str, str]) -> None:
    if _RETENTION in properties:
        raise TableMismatch(
            f"{path} has {_RETENTION} = {properties[_RETENTION]}: Delta then forgets which commits were made, and lets "
            "a writer that was overtaken commit again",
            cure=f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{_RETENTION}')",
        )


def _schemas(spark: SparkSession, mine: CommitLog) -> SchemaLedger:
    """The ledger of schemas: the newest commit's own, or the one whose digest it bears."""
    newest = mine.newest.receipt if mine.newest else None
    if newest is not None and (newest.schemas.entries or not newest.ledger):
        return newest.schemas
    if newest is None or mine.kept.digest == newest.ledger:
        return mine.kept
    # A writer that was overtaken may have kept an older one.
    every = commit.read(spark, mine.path, mine.pipeline, back=None).commits
    return next((c.receipt.schemas for c in every if c.receipt.schemas.digest == newest.ledger), mine.kept)


def _frontier_of_rows(spark: SparkSession, config: PipelineConfig) -> dict[tuple[str, int], int]:
    """The first offset behind the table's rows, and behind quarantine's that follow them without a gap.

    What lies further on in quarantine is left out by its coordinates when it is read again.
    """
    from pyspark.sql import functions as F

    ours = F.col(TOPIC).isin(*config.source.topics)
    with storage_failures(config.table.path):
        rows = read(spark, config.table.path).where(ours).groupBy(TOPIC, PARTITION).agg(F.max(OFFSET) + 1)
        ends = {(topic, partition): end for topic, partition, end in rows.collect()}
    if schema(spark, config.quarantine.path) is None:
        return ends
    reached = F.coalesce(
        *(F.when((F.col(TOPIC) == topic) & (F.col(PARTITION) == p), F.lit(end)) for (topic, p), end in ends.items()),
        F.lit(0),
    )
    with storage_failures(config.quarantine.path):
        behind = _refused(spark, config).where(ours).where(F.col(OFFSET) >= reached)
        extents = behind.groupBy(TOPIC, PARTITION).agg(F.min(OFFSET), F.max(OFFSET) + 1, F.count_distinct(OFFSET))
        for topic, partition, start, end, count in extents.collect():
            begin = ends.setdefault((topic, partition), start)
            if begin == start and count == end - start:
                ends[topic, partition] = end
    return ends


def beyond(spark: SparkSession, config: PipelineConfig, frontier: Frontier) -> dict[tuple[str, int], int]:
    """How far quarantine's rows reach beyond the frontier, where they do: (topic, partition) → last offset + 1.

    Delta's statistics leave out the files that end before it: as a rule all of them.
    """
    from pyspark.sql import functions as F

    ahead = F.lit(False)
    for (topic, partition), end in frontier.items():
        ahead = ahead | ((F.col(TOPIC) == topic) & (F.col(PARTITION) == partition) & (F.col(OFFSET) >= end))
    with storage_failures(config.quarantine.path):
        ends = _refused(spark, config).where(ahead).groupBy(TOPIC, PARTITION).agg(F.max(OFFSET) + 1)
        return {(topic, partition): end for topic, partition, end in ends.collect()}


def refused(spark: SparkSession, config: PipelineConfig, spans: OffsetRanges) -> DataFrame:
    """The coordinates of records within `spans` that are in quarantine, and not moved into the table."""
    return within(quarantine.here(_refused(spark, config)), spans).select(TOPIC, PARTITION, OFFSET)


def _refused(spark: SparkSession, config: PipelineConfig) -> DataFrame:
    """The pipeline's own rows of quarantine: several pipelines may have one."""
    return quarantine.of(read(spark, config.quarantine.path), config.known_as)


def coordinates(spark: SparkSession, path: str, spans: OffsetRanges) -> DataFrame:
    """The coordinates of the table's rows within `spans`: _topic STRING, _partition INT, _offset BIGINT."""
    return within(read(spark, path), spans).select(TOPIC, PARTITION, OFFSET)


def within(rows: DataFrame, spans: OffsetRanges) -> DataFrame:
    """The rows whose coordinates lie within `spans`."""
    return rows.where(inside(spans))


def inside(spans: OffsetRanges) -> Column:
    """BOOLEAN: whether a row's coordinates lie within `spans`."""
    from pyspark.sql import functions as F

    found = F.lit(False)
    for s in spans:
        if s.end > s.start:
            offsets = (F.col(OFFSET) >= s.start) & (F.col(OFFSET) < s.end)
            found = found | ((F.col(TOPIC) == s.topic) & (F.col(PARTITION) == s.partition) & offsets)
    return found
