"""The objects that Connect's S3 sink wrote, held against the pipeline's tables by the coordinates of their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.errors import UsageError
from lakeingest.ingest import preflight
from lakeingest.operations.audit import ConsumedRanges
from lakeingest.operations.results.compare import Comparison, Window
from lakeingest.record import OFFSET, PARTITION, TOPIC, OffsetRange, OffsetRanges
from lakeingest.spark import listing
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+(?P<offset>\d+)"
    r"\.(?P<format>avro|json|parquet|snappy\.parquet|gz\.parquet|zstd\.parquet)(?:\.gz)?"
)
"""topic+partition+first offset, as the sink names an object with its default delimiter; keys and headers that it stores
beside (….keys.avro) are none."""
_FORMATS = {"avro": "avro", "json": "text", "parquet": "parquet"}


def compare(tables: PipelineTables, prefix: str) -> Comparison:
    """Count the records of the objects below a prefix, and those of the tables at the same offsets.

    An object's name tells its first offset alone. Where objects lie one behind the other each is compared by itself;
    those that the sink had open at once (for several time or field partitions) are compared together.

    Args:
        prefix: s3a://bucket/folder, s3:// too, or a local path.

    Raises:
        UsageError: there is nothing at the prefix that the sink wrote of these topics.
        StorageUnreachable: a table, or an object, cannot be read.
    """
    preflight.check_exists(tables)
    place = re.sub(r"^s3n?://", "s3a://", prefix).rstrip("/")
    topics, counted = set(tables.config.source.topics), dict[tuple[str, int], list[tuple[int, int, str]]]()
    paths = list(_objects(tables.spark, place))
    for path, records in paths:
        name = _NAME.fullmatch(path.rpartition("/")[2])
        if name is not None and name["topic"] in topics:
            counted.setdefault((name["topic"], int(name["partition"])), []).append((int(name["offset"]), records, path))
    objects = sum(map(len, counted.values()))
    if not objects:
        raise UsageError(
            f"there is no object TOPIC+PARTITION+OFFSET of {', '.join(sorted(topics))} at {prefix}, but {len(paths):,} "
            "others",
            cure="name the prefix that holds the sink's objects (its topics.dir), and the pipeline of their topics",
        )
    windows = [window for each in sorted(counted.items()) for window in _windows(*each)]
    log, _ = tables.commit_logs(back=None)
    consumed = ConsumedRanges.of(log).whole
    shared, outside = list[Window](), list[Window]()
    for window in windows:
        (shared if _inside(window, consumed) else outside).append(window)
    counts = _counted(tables, shared)
    return Comparison(
        pipeline=tables.config.name,
        prefix=prefix,
        objects=objects,
        strange=len(paths) - objects,
        windows=tuple(replace(w, here=counts.get((w.topic, w.partition, w.start), 0)) for w in shared),
        outside=tuple(outside),
    )


def _objects(spark: SparkSession, place: str) -> Iterator[tuple[str, int]]:
    """The path of each object, and how many records it has."""
    from pyspark.sql import functions as F

    with storage_failures(place):
        paths = [row.path for row in listing.below(spark, place).select("path").collect()]
        by_format: dict[str, list[str]] = {}
        for path in paths:
            name = _NAME.fullmatch(path.rpartition("/")[2])
            if name is None:
                yield path, 0
            else:
                by_format.setdefault(_FORMATS[name["format"].rpartition(".")[2]], []).append(path)
        for kind, of_kind in by_format.items():
            rows = spark.read.format(kind).load(of_kind).select(F.col("_metadata.file_path").alias("path"))
            records = {_plain(row.path): row["count"] for row in rows.groupBy("path").count().collect()}
            yield from ((path, records.get(_plain(path), 0)) for path in of_kind)


def _plain(path: str) -> str:
    """A path as both of Spark's columns have it."""
    from urllib.parse import unquote

    return listing.without_scheme(unquote(path))


def _windows(of: tuple[str, int], objects: Iterable[tuple[int, int, str]]) -> Iterator[Window]:
    """Cut a partition's objects where those before can have ended."""
    topic, partition = of
    within: list[tuple[int, int, str]] = []
    total = 0
    for offset, records, path in sorted(objects):
        if within and within[0][0] + total <= offset and offset > within[-1][0]:
            yield Window(topic, partition, within[0][0], offset, len(within), within[0][2], total, 0)
            within, total = [], 0
        within.append((offset, records, path))
        total += records
    yield Window(topic, partition, within[0][0], within[0][0] + total, len(within), within[0][2], total, 0)


def _inside(window: Window, consumed: OffsetRanges) -> bool:
    of = window.topic, window.partition
    return any((r.topic, r.partition) == of and r.start <= window.start and window.end <= r.end for r in consumed)


def _counted(tables: PipelineTables, windows: list[Window]) -> dict[tuple[str, int, int], int]:
    """How many records the tables have in each window: topic, partition, first offset → records."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    if not windows:
        return {}
    ends: dict[tuple[str, int], list[int]] = {}
    for w in windows:
        ends.setdefault((w.topic, w.partition), []).extend((w.start, w.end))
    ranges = OffsetRanges(tuple(OffsetRange(*of, min(each), max(each)) for of, each in sorted(ends.items())))
    schema = f"{TOPIC} STRING, {PARTITION} INT, {OFFSET} BIGINT, start BIGINT"
    starts = tables.spark.createDataFrame([(w.topic, w.partition, w.start, w.start) for w in windows], schema)
    with storage_failures(tables.main.identifier):
        rows: DataFrame = tables.coordinates(ranges).withColumn("start", F.lit(None).cast("bigint"))
        order = Over.partitionBy(TOPIC, PARTITION).orderBy(OFFSET, F.col("start").asc_nulls_last())
        in_windows = rows.unionByName(starts).select(
            TOPIC, PARTITION, "start", F.last("start", ignorenulls=True).over(order).alias("of")
        )
        counted = in_windows.where("start IS NULL AND of IS NOT NULL").groupBy(TOPIC, PARTITION, "of").count()
        return {(row[TOPIC], row[PARTITION], row["of"]): row["count"] for row in counted.collect()}
