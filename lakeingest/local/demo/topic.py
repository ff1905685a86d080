"""Fills a topic of the demo's with records whose partition and order are fixed, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakeingest.errors import SourceUnreachable

Value = bytes | Callable[[], bytes]
"""A record's value, or how it is made once it is about to be sent."""


def fill(bootstrap_servers: str, topic: str, partitions: int, records: Iterable[tuple[int, bytes, Value]]) -> int:
    """Make the topic if it is missing, and send every record that it does not hold yet.

    Args:
        bootstrap_servers: the broker.
        topic, partitions: its name, and how many partitions it is made with.
        records: (partition, key, value), always the same in the same order.

    Returns:
        How many records were sent.

    Raises:
        SourceUnreachable: the broker did not take them all within two minutes.
    """
    from confluent_kafka import Producer

    existing = _record_counts(bootstrap_servers, topic, partitions)
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 50,
            "log_level": 0,
        }
    )

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    produced, position = 0, [0] * partitions
    for number, (partition, key, value) in enumerate(records, start=1):
        position[partition] += 1
        if position[partition] > existing[partition]:
            payload = value if isinstance(value, bytes) else value()
            while True:
                try:
                    producer.produce(topic, payload, key, partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            produced += 1
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120) or failed:
        raise SourceUnreachable(
            f"Kafka at {bootstrap_servers} did not take every record: {failed[:1] or 'no answer'}",
            cure="look at the broker (`lakeingest stack status`), then run this again: it goes on where it stopped",
        )
    return produced


def _record_counts(bootstrap_servers: str, topic: str, partitions: int) -> list[int]:
    """The number of records in each partition; the topic is made if it is missing."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        return [0] * partitions
    specs = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    ends = {tp.partition: future.result(30).offset for tp, future in admin.list_offsets(specs).items()}
    return [ends[partition] for partition in range(partitions)]
