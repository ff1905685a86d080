"""What is said to be complete is, by a count that owes lakeingest nothing: idle, skewed, late and wrong clocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kit import Record
from world import World

from lakeingest.local import Addresses

HOUR, LATE = timedelta(hours=1), timedelta(minutes=10)
NOW = datetime.now(UTC)
BEGIN = NOW.replace(minute=0, second=0, microsecond=0) - 6 * HOUR
HOURS = [BEGIN + number * HOUR for number in range(6)]
"""Those that are over when the test begins."""
CONTRACT = {"completeness": {"late": "10 minutes"}}
PARTITION = [{"by": "time", "every": "hour", "timezone": "America/New_York"}]


def record(at: datetime, partition: int) -> Record:
    return Record(json.dumps({"n": 1, "text": at.isoformat()}).encode(), partition=partition, at=at)


@dataclass(frozen=True)
class Held:
    """A record as Kafka holds it."""

    partition: int
    offset: int
    at: datetime


def held(stack: Addresses, topic: str, partitions: int) -> list[Held]:
    """All records of a topic, read by a plain consumer."""
    consumer = Consumer({"bootstrap.servers": stack.kafka, "group.id": "count", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found, ended = list[Held](), 0
    while ended < partitions:
        for message in consumer.consume(1000, timeout=0.1):
            if message.error():
                ended += 1
            else:
                at = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
                found.append(Held(message.partition(), message.offset(), at))
    consumer.close()
    return found


def in_time(records: Sequence[Held], hour: datetime) -> list[Held]:
    """The records of an hour, without those that stand behind one that is later than the hour's end and LATE."""
    passed = {
        p: min((r.offset for r in records if r.partition == p and hour + HOUR + LATE <= r.at <= NOW), default=2**63)
        for p in {r.partition for r in records}
    }
    return [r for r in records if hour <= r.at < hour + HOUR and r.offset < passed[r.partition]]


def said(world: World) -> dict[datetime, dict[str, Any]]:
    """The rows of the completeness table, by the hour's start."""
    rows = world.spark.read.format("delta").load(world.path("_completeness"))
    times = ("period_start", "period_end", "complete_since")
    rows = rows.selectExpr(
        "* EXCEPT (period_start, period_end, complete_since)", *(f"unix_micros({t}) {t}" for t in times)
    )
    found = [row.asDict() for row in rows.collect()]
    for row in found:
        row.update({t: datetime.fromtimestamp(row[t] / 1e6, UTC) for t in times})
    by_hour = {row["period_start"]: row for row in found}
    assert len(by_hour) == len(found), "an hour is there twice"
    return by_hour


def check(world: World, records: Sequence[Held], rows: Mapping[datetime, Mapping[str, Any]]) -> None:
    """Each hour that is complete had all its records in the version that says so, and one batch before it had not."""
    log = {commit.receipt.sequence: commit.receipt for commit in world.commit_log().commits}
    for hour, row in rows.items():
        wanted = in_time(records, hour)
        frontier = log[row["sequence"]].ranges.frontier
        assert all(r.offset < frontier[world.name, r.partition] for r in wanted), hour
        table = world.spark.read.format("delta").option("versionAsOf", row["version"]).load(world.path())
        inside = table.where(f"unix_micros(_timestamp) >= {hour.timestamp() * 1e6:.0f}").where(
            f"unix_micros(_timestamp) < {(hour + HOUR).timestamp() * 1e6:.0f}"
        )
        count = inside.count()
        assert count == row["records"], hour
        assert count >= len(wanted), hour
        assert row["period_end"] - row["period_start"] == HOUR
        assert row["hour"] == hour.astimezone(world_zone()).strftime("%Y-%m-%d-%H")


def world_zone() -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo("America/New_York")


@pytest.fixture
def filled(world: World) -> World:
    """Three partitions: one in order, with a clock that is wrong by half an hour; one that fell idle; one that is far
    larger, and out of order by less than LATE.
    """
    world.changes = {"partition": PARTITION, "contract": CONTRACT, "trigger": {"max_records": 60}}
    steady = [record(hour + number * HOUR / 10, 0) for hour in HOURS for number in range(10)]
    steady.insert(5, record(NOW + HOUR / 2, 0))
    idle = [record(HOURS[0] + number * HOUR / 5, 1) for number in range(5)]
    skewed = [
        record(hour + number * HOUR / 40 + (LATE * 0.9 if number % 2 else -LATE * 0.05) * (number > 0), 2)
        for hour in HOURS
        for number in range(40)
    ]
    world.produce(*steady, *idle, *skewed, partitions=3)
    return world


def test_an_hour_is_complete_when_all_its_records_are_there(filled: World, stack: Addresses) -> None:
    """By a count over Kafka and over the version that each row names; in each batch as early as can be."""
    filled.run()
    rows = said(filled)
    records = held(stack, filled.name, 3)
    assert [*sorted(rows)] == HOURS
    check(filled, records, rows)
    # The steps in which it came: not all at the end, though the idle partition and the wrong clock prove nothing.
    log = {c.receipt.sequence: c.receipt.ranges.frontier for c in filled.commit_log().commits}
    for hour, row in rows.items():
        before = log.get(row["sequence"] - 1, {})
        reached = all(r.offset < before.get((filled.name, r.partition), 0) for r in records)
        assert not reached, hour
    assert filled.checked().conserved
