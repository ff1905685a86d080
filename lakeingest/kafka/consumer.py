"""Reads ranges of offsets by a consumer in Python, where Spark's own reader fails: it cannot hold a record's time.

Spark counts microseconds, Kafka milliseconds: the time of a producer that sent nanoseconds overflows in Spark's reader,
and no option, column or filter keeps it from that. This takes a few times as long: only such batches are read so.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import util
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from pyspark.cloudpickle import register_pickle_by_value

from lakeingest.errors import SetupError
from lakeingest.record import OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IN_A_TASK = 250_000
"""Offsets."""
_AT_ONCE, _BYTES_AT_ONCE = 2000, 2**24
"""Records, and bytes of them, that are handed over together."""
_SILENCE_S = 120
_YEARS = (-62_135_596_800_000, 253_402_300_799_999)
"""0001 to 9999, in milliseconds."""
_HEADERS = methodcaller("headers")
"""Called by C: where Python calls it often, it looks no more whether confluent-kafka has left an error behind."""


def frame(spark: SparkSession, options: Mapping[str, Any], ranges: OffsetRanges, columns: str) -> DataFrame:
    """Exactly the committed records of `ranges`, as bytes.

    Args:
        options: of librdkafka, with the servers and a group.
        columns: of the frame, as DDL: topic, partition, offset, timestamp, key, value, headers.

    Raises:
        SetupError: pyarrow is not installed.
    """
    if util.find_spec("pyarrow") is None:
        raise SetupError(
            "records have times that Spark's own reader cannot hold, and to read them otherwise needs pyarrow",
            cure="pip install 'pyarrow>=18'",
        )
    shares = [
        (s.topic, s.partition, begin, min(begin + _IN_A_TASK, s.end))
        for s in ranges
        for begin in range(s.start, s.end, _IN_A_TASK)
    ]
    share_rows = spark.createDataFrame(shares, "topic STRING, partition INT, begin BIGINT, end BIGINT")
    # Executors of a cluster need not have lakeingest installed.
    register_pickle_by_value(sys.modules[__name__])
    consumer_options = {
        **options,
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        # An offset that is gone is an error, and no other one is read for it.
        "auto.offset.reset": "error",
    }
    return share_rows.repartition(len(shares)).mapInArrow(lambda batches: _read(batches, consumer_options), columns)


def _read(batches: Iterable[Any], options: dict[str, Any]) -> Iterator[Any]:
    """Runs on executors."""
    from confluent_kafka import Consumer

    consumer = Consumer(options)
    try:
        for batch in batches:
            for share in batch.to_pylist():
                yield from _portions(_messages(consumer, **share))
    finally:
        consumer.close()


def _messages(consumer: Any, topic: str, partition: int, begin: int, end: int) -> Iterator[Any]:
    """The records begin ≤ offset < end.

    Raises:
        RuntimeError: the broker has not all of them, or does not answer.
    """
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(topic, partition, begin)])
    while True:
        message = consumer.poll(_SILENCE_S)
        if message is None:
            raise RuntimeError(f"{topic}-{partition}: no answer for {_SILENCE_S} s")
        error = message.error()
        if error and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            # librdkafka asks who coordinates the group, which nothing here needs to know.
            continue
        if error and error.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(f"{topic}-{partition}: {error.str()}")
        if message.offset() >= end:
            return
        if error:
            raise RuntimeError(f"{topic}-{partition} ends at {message.offset()}, before {end}")
        yield message


def _portions(messages: Iterator[Any]) -> Iterator[Any]:
    """Arrow's record batches."""
    rows, size = [], 0
    for message in messages:
        rows.append(_row(message))
        size += len(message)
        if len(rows) == _AT_ONCE or size >= _BYTES_AT_ONCE:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _row(message: Any) -> tuple[Any, ...]:
    _, millis = message.timestamp()
    micros = millis * 1000 if _YEARS[0] <= millis <= _YEARS[1] else None
    headers = [{"key": key, "value": value} for key, value in _headers(message)]
    place = (message.topic(), message.partition(), message.offset())
    return (*place, micros, message.key(), message.value(), headers or None)


def _headers(message: Any) -> list[tuple[str, bytes | None]]:
    """Keys and values, as Spark's reader gives them: what is no UTF-8 in a key is replaced.

    Of several such keys of one record the first alone is known; for each of the others stands one replacement
    character.
    """
    try:
        return _HEADERS(message) or []
    except SystemError as failed:
        cause = failed.__cause__
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if not isinstance(cause, UnicodeDecodeError):
            raise
        first = cause.object.decode(errors="replace")
    # confluent-kafka has them all the same, now without an error: such a key is a NULL in its tuple, and Python would
    # crash where it looks at that. The garbage collector sees what the tuple has besides.
    headers = _HEADERS(message)
    lacking = [at for at, each in enumerate(headers) if len(gc.get_referents(each)) < len(each)]
    keys = {**dict.fromkeys(lacking, "\ufffd"), lacking[0]: first}
    return [(keys[at] if at in keys else each[0], each[1]) for at, each in enumerate(headers)]


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    moment = pa.timestamp("us", tz="UTC")
    kinds = (pa.string(), pa.int32(), pa.int64(), moment, pa.binary(), pa.binary(), pa.list_(header))
    names = ("_topic", "_partition", "_offset", "_timestamp", "_raw_key", "_raw_value", "_headers")
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(names))
