"""Reads some committed records of given offsets on, for whoever asks what or how old they are. Commits no offset."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from lakeingest.config import Source
from lakeingest.errors import SourceUnreachable
from lakeingest.kafka import options
from lakeingest.record import Frontier

_MOST_BYTES = 2**25
_OF_ONE_BYTES = 2**16
"""Bytes fetched of a partition for one record."""
_PATIENCE_S = 20.0
_FAR = 253_402_300_800_000
"""The year 10000, in milliseconds."""


def times(source: Source, servers: str, starts: Frontier, ends: Frontier) -> dict[tuple[str, int], datetime]:
    """The timestamps of the first committed records from these offsets on: (topic, partition) → in UTC.

    Partitions that have none before `ends`, and those whose record has no time that Python holds, are left out.

    Raises:
        SourceUnreachable: Kafka gives no records.
    """
    messages = read(source, servers, dict(starts), dict(ends), len(starts), each=1)
    millis = {(m.topic(), m.partition()): m.timestamp()[1] for m in messages}
    return {tp: datetime.fromtimestamp(at / 1000, UTC) for tp, at in millis.items() if 0 <= at < _FAR}


def read(
    source: Source,
    servers: str,
    starts: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
    most: int,
    *,
    each: int | None = None,
) -> list[Any]:
    """Messages from `starts` on: at most so many, and so many of each partition.

    Raises:
        SourceUnreachable: Kafka gives no records.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer_options = {
        "bootstrap.servers": servers,
        # The client wants a name; a group is neither joined nor committed to.
        "group.id": "lakeingest-init",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        # What it would write to stderr, the error that is raised says.
        "log_level": 0,
        # A batch that is larger is given all the same.
        **({"fetch.message.max.bytes": _OF_ONE_BYTES, "queued.min.messages": 1} if each == 1 else {}),
    }
    consumer: Any = Consumer({**options.librdkafka(source, servers), **consumer_options})
    messages, size, waiting, remaining = list[Any](), 0, set(starts), dict.fromkeys(starts, each or most)
    until = time.monotonic() + _PATIENCE_S
    try:
        consumer.assign([TopicPartition(*tp, offset) for tp, offset in starts.items()])
        while waiting and len(messages) < most and size < _MOST_BYTES and time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is None:
                continue
            place = (message.topic(), message.partition())
            if (error := message.error()) is not None:
                if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    # librdkafka asks who coordinates the group; nothing that is read here needs to know.
                    continue
                if error.code() != KafkaError._PARTITION_EOF:
                    raise SourceUnreachable(
                        f"Kafka at {servers} gives no records of {place[0]}: {error.str()}", cure="run again"
                    )
                waiting.discard(place)
                continue
            if place not in waiting:
                continue
            messages.append(message)
            size += len(message)
            remaining[place] -= 1
            if message.offset() + 1 >= ends[place] or not remaining[place]:
                waiting.discard(place)
    finally:
        consumer.close()
    return messages
