"""Records and topics of Kafka: what tests produce, and what happens to a topic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from lakeingest.local import Addresses
from lakeingest.testing.manifest import Manifest, sha256

DIRTY = b'{"n": "not a number"}'


@dataclass(frozen=True)
class Record:
    """A record to be produced; the partition is dealt out in turn, and the time is now, unless they are named."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    at: datetime | None = None


def clean_records(count: int, start: int = 0) -> list[bytes]:
    """Values that fit the columns `n INT NOT NULL, text STRING`."""
    return [json.dumps({"n": n, "text": f"text {n}"}).encode() for n in range(start, start + count)]


def mixed_records(count: int, every: int = 5) -> list[bytes]:
    """The same, but that each `every`-th one, the first included, is refused."""
    return [DIRTY if n % every == 0 else value for n, value in enumerate(clean_records(count))]


@cache
def admin_client(stack: Addresses) -> AdminClient:
    """One client for all: the answers of one that is thrown away are lost."""
    return AdminClient({"bootstrap.servers": stack.kafka, "log_level": 0})


def create_topic(stack: Addresses, topic: str, partitions: int = 1) -> None:
    """Make the topic, also one whose namesake is still being deleted; one that is there stays."""
    for _ in range(50):
        try:
            admin_client(stack).create_topics([NewTopic(topic, partitions, -1)])[topic].result()
        except KafkaException as failed:
            if topic in admin_client(stack).list_topics(timeout=60).topics:
                return
            if not any(word in str(failed) for word in ("deletion", "exists")):
                raise
            time.sleep(0.1)
        else:
            for partition in range(partitions):
                _end(stack, topic, partition)
            return
    raise AssertionError(f"topic {topic} could not be made")


def recreate_topic(stack: Addresses, topic: str) -> None:
    """Delete the topic and make it again."""
    admin_client(stack).delete_topics([topic])[topic].result()
    deadline = time.monotonic() + 20
    while topic in admin_client(stack).list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    create_topic(stack, topic)


def expire_records(stack: Addresses, topic: str, before: int, partition: int = 0) -> None:
    """Delete the records before an offset, as retention does."""
    place = TopicPartition(topic, partition, before)
    admin_client(stack).delete_records([place])[place].result()


def add_partitions(stack: Addresses, topic: str, partitions: int) -> None:
    """Give the topic more partitions, and wait until they have leaders."""
    admin_client(stack).create_partitions([NewPartitions(topic, partitions)])[topic].result()
    deadline = time.monotonic() + 20
    while len(admin_client(stack).list_topics(topic, timeout=60).topics[topic].partitions) < partitions:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def produce(stack: Addresses, topic: str, records: Iterable[bytes | Record | None], partitions: int = 1) -> Manifest:
    """Produce to the topic, made with `partitions` if it is not there, wait for all, and say what is where."""
    create_topic(stack, topic, partitions)
    # All of them may wait in the producer: a broker may be slow.
    options = {"log_level": 0, "linger.ms": 20, "queue.buffering.max.messages": 0}
    producer = Producer({"bootstrap.servers": stack.kafka, **options})
    made = _send(producer, topic, records, partitions)
    assert producer.flush(60) == 0
    return made


def transaction(stack: Addresses, topic: str, values: Iterable[bytes | Record | None], *, commit: bool) -> None:
    """Produce within one transaction to a topic of one partition, and commit it or abort it."""
    create_topic(stack, topic)
    records, begin = list(values), _end(stack, topic)
    producer = Producer({"bootstrap.servers": stack.kafka, "log_level": 0, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    _send(producer, topic, records, 1)
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    wait_for_end(stack, topic, begin + len(records) + 1)


def wait_for_end(stack: Addresses, topic: str, offset: int) -> None:
    """Wait until readers of committed records may read so far: the broker answers before it writes the marker of a
    transaction, and until then they see nothing.
    """
    deadline = time.monotonic() + 60
    while _end(stack, topic) < offset:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _end(stack: Addresses, topic: str, partition: int = 0) -> int:
    """One past the last offset that a reader of committed records may see; waits until the partition has a leader."""
    place = TopicPartition(topic, partition)
    deadline = time.monotonic() + 60
    while True:
        asked = admin_client(stack).list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        try:
            return int(asked[place].result(30).offset)
        except KafkaException as failed:
            if time.monotonic() > deadline:
                raise AssertionError(topic) from failed
            # librdkafka keeps "no leader yet" in its cache for minutes, and asks anew only when told to.
            admin_client(stack).list_topics(topic, timeout=60)
            time.sleep(0.1)


def _send(producer: Producer, topic: str, records: Iterable[bytes | Record | None], partitions: int) -> Manifest:
    failures: list[Any] = []
    made: dict[tuple[str, int, int], str | None] = {}

    def delivered(error: Any, message: Any) -> None:
        if error:
            failures.append(error)
        else:
            made[message.topic(), message.partition(), message.offset()] = sha256(message.value())

    for number, each in enumerate(records):
        record = each if isinstance(each, Record) else Record(each)
        partition = number % partitions if record.partition is None else record.partition
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            headers=list(record.headers),
            on_delivery=delivered,
            # 0 stands for now.
            timestamp=int(record.at.timestamp() * 1000) if record.at else 0,
        )
        producer.poll(0)
    producer.flush(60)
    assert not failures
    return made
