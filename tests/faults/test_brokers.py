"""The Kafka that can be hurt is a real one: what it acknowledged survives its leaders."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.servers.brokers import Cluster, issue

TOPIC = "survives"


def topic(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.direct, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)


def produce(producer: Producer, numbers: range) -> None:
    """Send the numbers, and wait until all are acknowledged."""
    failures: list[object] = []
    for number in numbers:
        producer.produce(TOPIC, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failures == []


def held(addresses: str, count: int, **options: str) -> list[int]:
    """The first `count` numbers that the topic holds, in its order."""
    consumer = Consumer({"bootstrap.servers": addresses, "group.id": "reader", "log_level": 0, **options})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        messages: list[bytes | None] = []
        while len(messages) < count:
            got = consumer.consume(count - len(messages), timeout=30)
            assert got, f"only {len(messages)} of {count} are there"
            messages += [message.value() for message in got if not message.error()]
    finally:
        consumer.close()
    return [int(value or b"-1") for value in messages]


@pytest.mark.slow
@pytest.mark.faults
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    """Three brokers: the leader is killed, started again, and asked to move, and all the while records are taken."""
    with Cluster(tmp_path, brokers=3) as cluster:
        topic(cluster)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        produce(producer, range(1000))
        first = cluster.leader(TOPIC)
        cluster.kill(first)
        produce(producer, range(1000, 2000))
        assert cluster.leader(TOPIC) != first
        cluster.start(first)
        second = cluster.leader(TOPIC)
        assert cluster.move_leader(TOPIC) != second
        produce(producer, range(2000, 3000))
        assert held(cluster.bootstrap, 3000) == list(range(3000))


@pytest.mark.faults
@pytest.mark.slow
def test_it_keeps_its_data_and_lets_in_who_may(tmp_path: Path) -> None:
    """One broker behind SASL_SSL, stopped and started: the same address, the same records, by both mechanisms."""
    sasl_ssl = issue(tmp_path / "tls", {"reader": "word"})
    with Cluster(tmp_path / "kafka", sasl_ssl=sasl_ssl, properties={"log.segment.bytes": "1048576"}) as cluster:
        topic(cluster)
        plain, scram = (cluster.client_options("reader", mechanism) for mechanism in ("PLAIN", "SCRAM-SHA-512"))
        produce(Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **plain}), range(10))
        cluster.restart(1)
        assert held(cluster.bootstrap, 10, **scram) == held(cluster.direct, 10) == list(range(10))


def test_one_address_cannot_stand_for_three(tmp_path: Path) -> None:
    """A proxy stands before a single broker."""
    with pytest.raises(ValueError, match="several brokers"):
        Cluster(tmp_path, brokers=3, advertised="127.0.0.1:1")
