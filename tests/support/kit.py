"""What tests of whole pipelines share: records, a pipeline over the stack, and an oracle that owes lakeingest nothing.

The oracle reads back from Kafka, with a plain consumer, what a topic really holds, and asks both tables, with plain
Spark, where each of these records is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import boto3
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from pyspark.sql import SparkSession

from lakeingest.config import PipelineConfig, file
from lakeingest.decode import Shape
from lakeingest.ingest.events import Event
from lakeingest.ingest.evolution import Evolution
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.testing.manifest import Manifest, balance, sha256

T = TypeVar("T")
DIRTY = b'{"n": "not a number"}'


@dataclass(frozen=True)
class Record:
    """A record to be produced; the partition is dealt out in turn, and the time is now, unless they are named."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    at: datetime | None = None


def clean(count: int, start: int = 0) -> list[bytes]:
    """Values that fit the columns `n INT NOT NULL, text STRING`."""
    return [json.dumps({"n": n, "text": f"text {n}"}).encode() for n in range(start, start + count)]


def mixed(count: int, every: int = 5) -> list[bytes]:
    """The same, but that each `every`-th one, the first included, is refused."""
    return [DIRTY if n % every == 0 else value for n, value in enumerate(clean(count))]


def only(kind: type[T], then: Callable[[T], object]) -> Callable[[Event], None]:
    """For `Pipeline.run(on_event=…)`: what hears of one kind of event alone."""

    def hear(event: Event) -> None:
        if isinstance(event, kind):
            then(event)

    return hear


def shape_of(config: PipelineConfig) -> Shape:
    """The columns that the pipeline file declares, before any record was seen."""
    return Evolution(config, SchemaLedger(), lambda: pytest.fail("no registry is asked")).shape(None, strict=False)


@cache
def admin(stack: Addresses) -> AdminClient:
    """One client for all: the answers of one that is thrown away are lost."""
    return AdminClient({"bootstrap.servers": stack.kafka, "log_level": 0})


def create(stack: Addresses, topic: str, partitions: int = 1) -> None:
    """Make the topic, also one whose namesake is still being deleted; one that is there stays."""
    for _ in range(50):
        try:
            admin(stack).create_topics([NewTopic(topic, partitions, -1)])[topic].result()
        except KafkaException as failed:
            if topic in admin(stack).list_topics(timeout=60).topics:
                return
            if not any(word in str(failed) for word in ("deletion", "exists")):
                raise
            time.sleep(0.1)
        else:
            for partition in range(partitions):
                _end(stack, topic, partition)
            return
    raise AssertionError(f"topic {topic} could not be made")


def recreate(stack: Addresses, topic: str) -> None:
    """Delete the topic and make it again."""
    admin(stack).delete_topics([topic])[topic].result()
    deadline = time.monotonic() + 20
    while topic in admin(stack).list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    create(stack, topic)


def expire(stack: Addresses, topic: str, before: int, partition: int = 0) -> None:
    """Delete the records before an offset, as retention does."""
    place = TopicPartition(topic, partition, before)
    admin(stack).delete_records([place])[place].result()


def widen(stack: Addresses, topic: str, partitions: int) -> None:
    """Give the topic more partitions, and wait until they have leaders."""
    admin(stack).create_partitions([NewPartitions(topic, partitions)])[topic].result()
    deadline = time.monotonic() + 20
    while len(admin(stack).list_topics(topic, timeout=60).topics[topic].partitions) < partitions:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def produce(stack: Addresses, topic: str, records: Iterable[bytes | Record | None], partitions: int = 1) -> Manifest:
    """Produce to the topic, made with `partitions` if it is not there, wait for all, and say what is where."""
    create(stack, topic, partitions)
    producer = Producer({"bootstrap.servers": stack.kafka, "log_level": 0, "linger.ms": 20})
    made = _send(producer, topic, records, partitions)
    assert producer.flush(60) == 0
    return made


def transaction(stack: Addresses, topic: str, values: Iterable[bytes | Record | None], *, commit: bool) -> None:
    """Produce within one transaction to a topic of one partition, and commit it or abort it."""
    create(stack, topic)
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
        asked = admin(stack).list_offsets({place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return int(asked[place].result(30).offset)
        except KafkaException as failed:
            if time.monotonic() > deadline:
                raise AssertionError(topic) from failed
            # librdkafka keeps "no leader yet" in its cache for minutes, and asks anew only when told to.
            admin(stack).list_topics(topic, timeout=60)
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


def values_of(stack: Addresses, name: str, /, **changes: Any) -> dict[str, Any]:
    """A pipeline file's values: topic, tables and pipeline all named `name`, the stack's addresses written out."""
    values: dict[str, Any] = {
        "name": name,
        "source": {"topics": [name], "bootstrap_servers": stack.kafka},
        "schema": {"columns": "n INT NOT NULL, text STRING"},
        "table": {"path": f"s3a://lake/{name}"},
        "trigger": {"every": "1 second"},
        "retry": {"wait": "0 seconds"},
        "storage": {
            "endpoint": stack.s3,
            "access_key": stack.s3_access_key,
            "secret_key": stack.s3_secret_key,
            "path_style": True,
        },
    }
    for part, change in changes.items():
        values[part] = {**values.get(part, {}), **change} if isinstance(change, Mapping) else change
    return values


def config_of(stack: Addresses, name: str, /, **changes: Any) -> PipelineConfig:
    """The checked pipeline file of `values_of`."""
    return file.from_mapping(values_of(stack, name, **changes))


def s3(stack: Addresses) -> Any:
    """A client for the stack's store; close it."""
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    return boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)


def manifest(stack: Addresses, *topics: str) -> Manifest:
    """What the topics hold now for a reader of committed records."""
    options = {
        "bootstrap.servers": stack.kafka,
        "group.id": "oracle",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # The end of a partition is told when a fetch that found nothing comes back.
        "fetch.wait.max.ms": 10,
        "log_level": 0,
    }
    consumer = Consumer(options)
    found: dict[tuple[str, int, int], str | None] = {}
    try:
        known = consumer.list_topics(timeout=20).topics
        assigned = [TopicPartition(topic, p, 0) for topic in topics for p in known[topic].partitions]
        consumer.assign(assigned)
        ended: set[tuple[str, int]] = set()
        deadline = time.monotonic() + 60
        while len(ended) < len(assigned):
            assert time.monotonic() < deadline, "the oracle could not read its topics to the end"
            for message in consumer.consume(2000, timeout=0.1):
                if message.error():
                    ended.add((message.topic(), message.partition()))
                else:
                    found[message.topic(), message.partition(), message.offset()] = sha256(message.value())
    finally:
        consumer.close()
    return found


def assert_exactly_once(spark: SparkSession, ingestion: Pipeline, wanted: Manifest) -> None:
    """Every record is once in the table or in quarantine, with its bytes there; tombstones may be dropped."""
    found = balance(spark, ingestion.config, wanted)
    assert found.exact, found
