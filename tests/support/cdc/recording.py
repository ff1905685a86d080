"""What stands in topics, as text that can be kept in a file."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from support.records import admin_client

from lakeingest.local import Addresses

RecordTree = dict[str, Any]
"""A record: topic, partition, offset, key, value and headers; None for the value of a tombstone."""


def topics(stack: Addresses, prefix: str) -> list[str]:
    """The topics of a connector, that of its heartbeats included."""
    listed = admin_client(stack).list_topics(timeout=60).topics
    heartbeats = f"__debezium-heartbeat.{prefix}"
    return sorted(each for each in listed if each in (prefix, heartbeats) or each.startswith(f"{prefix}."))


def read_records(stack: Addresses, names: Iterable[str], *, binary: bool = False) -> list[RecordTree]:
    """The records of topics, by topic, partition and offset.

    Args:
        binary: whether keys and values are bytes: they are given as base64.
    """
    options = {"group.id": "recording", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": stack.kafka, "fetch.wait.max.ms": 10, **options})
    records: list[RecordTree] = []
    try:
        listing = consumer.list_topics(timeout=20).topics
        places = [TopicPartition(name, p, 0) for name in names if name in listing for p in listing[name].partitions]
        consumer.assign(places)
        ends, deadline = 0, time.monotonic() + 60
        while ends < len(places):
            assert time.monotonic() < deadline, "the topics could not be read to their ends"
            for message in consumer.consume(2000, timeout=0.1):
                if message.error():
                    ends += 1
                else:
                    records.append(_plain(message, binary))
    finally:
        consumer.close()
    return sorted(records, key=lambda each: (each["topic"], each["partition"], each["offset"]))


def wait_records(
    stack: Addresses, name: str, enough: Callable[[list[RecordTree]], bool], seconds: float = 90
) -> list[RecordTree]:
    """The records of a topic as soon as they are enough."""
    deadline = time.monotonic() + seconds
    while True:
        now = read_records(stack, [name])
        if enough(now):
            return now
        assert time.monotonic() < deadline, f"{name} has {len(now)} records only: {now[-1:]}"
        time.sleep(0.3)


def wait_count(stack: Addresses, name: str, count: int, seconds: float = 90) -> None:
    """Until a topic has as many records, of whatever converter."""
    deadline = time.monotonic() + seconds
    while (now := len(read_records(stack, [name], binary=True))) < count:
        assert time.monotonic() < deadline, f"{name} has {now} records only, and {count} were expected"
        time.sleep(0.3)


def payload(record: RecordTree, side: str = "value") -> Any:
    """The tree of a key or a value in JSON, out of the envelope of a schema if it has one; None for a tombstone."""
    tree = json.loads(record[side]) if record[side] is not None else None
    return tree["payload"] if isinstance(tree, dict) and set(tree) == {"schema", "payload"} else tree


def save(records: Iterable[RecordTree], file: Path) -> None:
    """One record a line."""
    file.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records), encoding="utf-8")


def load(file: Path) -> list[RecordTree]:
    """What `save` wrote."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _plain(message: Any, binary: bool) -> RecordTree:
    def text(data: bytes | None) -> str | None:
        if data is None:
            return None
        return base64.b64encode(data).decode() if binary else data.decode()

    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": text(message.key()),
        "value": text(message.value()),
        "headers": [[name, text(value)] for name, value in message.headers() or []],
    }
