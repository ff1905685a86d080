"""The records of a micro-batch as a frame: exactly the offsets that it names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import functions as F

from lakeingest.config import Source
from lakeingest.kafka import consumer, options
from lakeingest.record import HEADERS, OFFSET, PARTITION, RAW_KEY, RAW_VALUE, TIMESTAMP, TOPIC, OffsetRanges
from lakeingest.spark import frames, jvm, timestamps
from lakeingest.spark.platforms import capabilities

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_IN_A_TASK = 250_000
"""Offsets of a Kafka partition that one task reads: where there are fewer partitions than cores, several read one."""
_LEAST_IN_A_TASK = 2_500
"""Offsets that are worth a task: where Kafka's partitions have fewer, one task reads several, and writes one file."""

READ_COMMITTED = "read_committed"
_COLUMNS = (
    f"{TOPIC} STRING, {PARTITION} INT, {OFFSET} BIGINT, {TIMESTAMP} TIMESTAMP, {RAW_KEY} BINARY, {RAW_VALUE} BINARY, "
    f"{HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


@dataclass(frozen=True)
class BatchFrames:
    """Frames of a run's batches, which Spark resolves once. Whenever one is computed, it reads the offsets that `frame`
    was called with last.

    Attributes:
        word: what the jar knows these offsets by.
        by_tasks: how many tasks read at most, None for as many as Kafka has partitions → the frame.
    """

    word: str = field(default_factory=lambda: uuid4().hex)
    by_tasks: dict[int | None, DataFrame] = field(default_factory=dict)


def frame(
    spark: SparkSession,
    source: Source,
    bootstrap_servers: str,
    pipeline: str,
    ranges: OffsetRanges,
    *,
    by_consumer: bool = False,
    batch_frames: BatchFrames | None = None,
) -> DataFrame:
    """Exactly the records of `ranges`, as bytes.

    Columns: _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP (null outside of the years 0001 to
    9999, which Python and other readers cannot hold), _raw_key BINARY, _raw_value BINARY, _headers ARRAY<STRUCT<key:
    STRING, value: BINARY>>.

    Args:
        by_consumer: whether they are read without Spark's reader, which fails where it cannot hold a record's time.
        batch_frames: those of earlier batches, of the same source; one of them may be the result.

    Raises:
        SetupError: see `consumer.frame`.
        UsageError, SourceUnreachable: see `options.for_java`.
    """
    spans: dict[str, dict[str, list[int]]] = {
        topic: {p: span for p, span in partitions.items() if span[1] > span[0]}
        for topic, partitions in ranges.to_json().items()
    }
    spans = {topic: partitions for topic, partitions in spans.items() if partitions}
    if not spans:
        return spark.createDataFrame([], _COLUMNS)
    if by_consumer:
        group_options = {"bootstrap.servers": bootstrap_servers, "isolation.level": READ_COMMITTED}
        group_options["group.id"] = options.group(pipeline, source)
        return consumer.frame(spark, options.for_executors(source, bootstrap_servers) | group_options, ranges, _COLUMNS)
    can = capabilities.of(spark)
    reader_options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.group.id": options.group(pipeline, source),
        "kafka.isolation.level": READ_COMMITTED,
        "assign": json.dumps({topic: sorted(map(int, ps)) for topic, ps in spans.items()}),
        "startingOffsets": json.dumps({t: {p: span[0] for p, span in ps.items()} for t, ps in spans.items()}),
        "endingOffsets": json.dumps({t: {p: span[1] for p, span in ps.items()} for t, ps in spans.items()}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        # The default of 500 costs a sixth of the time of reading; how much is held is bounded by bytes.
        "kafka.max.poll.records": "5000",
        # Having read the newest record, a consumer asks for the next, and the broker keeps that request waiting for so
        # long. Spark asks for the ends of the log behind it, on the same connection: half a second lost in each task.
        "kafka.fetch.max.wait.ms": "10",
        "maxRecordsPerPartition": str(_MOST_IN_A_TASK),
        **options.for_java(source, can.kafka_package, can.msk_package),
    }
    fewer = -(-ranges.offsets // _LEAST_IN_A_TASK)
    tasks = fewer if fewer < sum(map(len, spans.values())) else None
    if batch_frames is None or not frames.stay_resolved(spark):
        return _resolved(spark.read.format("kafka").options(**reader_options).load(), tasks)
    # Loaded also where there is a frame: that is how the jar hears of the options.
    read = spark.read.format(jvm.KAFKA_RANGES).options(**reader_options, **{jvm.KAFKA_PLAN: batch_frames.word}).load()
    if tasks not in batch_frames.by_tasks:
        batch_frames.by_tasks[tasks] = _resolved(read, tasks)
    return batch_frames.by_tasks[tasks]


def _resolved(read: DataFrame, tasks: int | None) -> DataFrame:
    """What Spark's source gives, under lakeingest's names.

    Args:
        tasks: how many read it at most.
    """
    names = {
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": OFFSET,
        "timestamp": TIMESTAMP,
        "key": RAW_KEY,
        "value": RAW_VALUE,
        "headers": HEADERS,
    }
    read = read.withColumn("timestamp", timestamps.within_years(F.col("timestamp")))
    records = read.select(*(F.col(column).alias(name) for column, name in names.items()))
    return records if tasks is None else records.coalesce(tasks)
