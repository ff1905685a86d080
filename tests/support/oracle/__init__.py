"""An oracle that owes lakeingest nothing.

It reads with a plain consumer what a topic of Kafka holds, and asks both tables, with plain Spark, where each of these
records is.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.manifest import Manifest, balance, sha256


def topic_manifest(stack: Addresses, *topics: str) -> Manifest:
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
