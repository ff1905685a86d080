"""What is said to be complete is, by a count that owes lakeingest nothing: idle, skewed, late and wrong clocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import functions as F
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import Record

from lakeingest.local import Addresses

HOUR, LATE = timedelta(hours=1), timedelta(minutes=10)
NOW = datetime.now(UTC)
BEGIN = (NOW - LATE * 1.5).replace(minute=0, second=0, microsecond=0) - 6 * HOUR
HOURS = [BEGIN + number * HOUR for number in range(6)]
"""Those that are over when the test begins, LATE included."""
CONTRACT = {"completeness": {"late": "10 minutes"}, "owners": ["token-team", "a@b.de"], "description": "Hours"}
PARTITION = [{"by": "time", "every": "hour", "timezone": "Asia/Dubai"}]


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
    """The rows of the completeness table, by the hour's start; another hour may end while the test runs."""
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
    return {hour: row for hour, row in by_hour.items() if hour in HOURS}


def check(world: World, records: Sequence[Held], rows: Mapping[datetime, Mapping[str, Any]]) -> None:
    """Each hour that is complete had all its records in the version that says so, and not one batch before."""
    log = {commit.receipt.sequence: commit.receipt.ranges.frontier for commit in world.commit_log().commits}
    counts: dict[int, dict[str, int]] = {}
    for hour, row in rows.items():
        version = row["version"]
        if version not in counts:
            table = world.spark.read.format("delta").option("versionAsOf", version).load(world.path())
            # By the records' own times, and not by the partition.
            by_hour = table.groupBy(F.expr("unix_micros(_timestamp) div 3600000000")).count().collect()
            counts[version] = dict(map(tuple, by_hour))
        wanted = in_time(records, hour)
        assert all(r.offset < log[row["sequence"]][world.name, r.partition] for r in wanted), hour
        count = counts[version].get(int(hour.timestamp()) // 3600, 0)
        assert count == row["records"] >= len(wanted), hour
        assert row["period_end"] - row["period_start"] == HOUR
        assert row["hour"] == hour.astimezone(ZoneInfo("Asia/Dubai")).strftime("%Y-%m-%d-%H")


@pytest.fixture
def filled(world: World) -> World:
    """Three partitions: one in order, but for a clock that is wrong by half an hour in its last hour; one that is far
    larger, and out of order by less than LATE; and one that fell idle in the first hour.
    """
    world.changes = {"partition": PARTITION, "contract": CONTRACT, "trigger": {"max_records": 110}}
    steady = [record(hour + number * HOUR / 10, 0) for hour in HOURS for number in range(10)]
    steady.insert(52, record(NOW + HOUR / 2, 0))
    idle = [record(HOURS[0], 2)]
    skewed = [
        record(hour + number * HOUR / 40 + (LATE * 0.9 if number % 2 else -LATE * 0.05) * (number > 0), 1)
        for hour in HOURS
        for number in range(40)
    ]
    world.produce(*steady, *skewed, *idle, partitions=3)
    return world


def reached(records: Sequence[Held], name: str, hour: datetime, frontier: Mapping[tuple[str, int], int]) -> bool:
    """Whether all is committed that stands before the first record behind the hour, or that is there at all."""
    for partition in range(3):
        mine = [r for r in records if r.partition == partition]
        behind = [r.offset for r in mine if hour + HOUR + LATE <= r.at <= NOW]
        if frontier.get((name, partition), 0) < min(behind, default=len(mine)):
            return False
    return True


@pytest.mark.slow
def test_an_hour_is_complete_when_all_its_records_are_there(
    filled: World, stack: Addresses, tmp_path: Path, lakeingest: Command
) -> None:
    """By a count over Kafka and over the version that each row names, in the first batch that has them; records that
    come late are counted; what a RESTORE takes back is said anew, and nothing twice.
    """
    world = filled
    world.run()
    rows, records = said(world), held(stack, world.name, 3)
    assert [*sorted(rows)] == HOURS
    check(world, records, rows)
    log = {c.receipt.sequence: c.receipt.ranges.frontier for c in world.commit_log().commits}
    first = {h: min(s for s, f in log.items() if reached(records, world.name, h, f)) for h in HOURS}
    assert {hour: row["sequence"] for hour, row in rows.items()} == first
    assert len({*first.values()}) > 1, "all at the end: the test shows nothing"
    # The table says it, to whoever finds it.
    main = world.ingestion().tables.main
    properties, version = main.properties(), world.commit_log().version
    assert properties["lakeingest.contract.late"] == "10 minutes"
    assert main.details()["Comment"] == "Hours"
    # Waited for, without Spark.
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values()))
    done = lakeingest("wait", file, "--complete", "T".join(rows[HOURS[2]]["hour"].rsplit("-", 1)), "--timeout", "0")
    assert done.code == 0, done.err
    later = lakeingest("wait", file, "--complete", f"{datetime.now(UTC) + 24 * HOUR:%Y-%m-%dT%H}", "--timeout", "0")
    assert (later.code, "lakeingest explain NotComplete" in later.err) == (1, True), later
    # Late: the hour is complete, and has a record more.
    world.produce(record(HOURS[1] + HOUR / 2, 2), record(HOURS[1] + HOUR / 3, 1), partitions=3)
    world.run(contract={**CONTRACT, "owners": ["a@b.de"], "retention": "7 days", "description": "More"})
    properties = main.properties()
    assert (properties["lakeingest.contract.retention"], main.details()["Comment"]) == ("7 days", "More")
    # The properties, the comment, and the batch: a contract that is the same is not written again.
    assert world.commit_log().version == version + 3
    world.run(contract={"completeness": CONTRACT["completeness"]})
    # At once: of an hour that ends meanwhile the run has said nothing yet, which is late after two triggers.
    kept = {row["promise"]: row for row in world.ingestion().status().contract}
    assert "lakeingest.contract.retention" not in main.properties()
    assert "lakeingest.contract.late" in main.properties()
    assert said(world) == rows
    assert (kept["completeness"]["kept"], kept["late records"]["late"]) == (True, 2)
    # A RESTORE to the first batch.
    version = {c.receipt.sequence: c.version for c in world.commit_log().commits}[1]
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    world.run()
    again, records = said(world), held(stack, world.name, 3)
    # What the first batch said stands, though a record came late to the idle partition since.
    check(world, records, {hour: row for hour, row in again.items() if first[hour] > 1})
    assert [*sorted(again)] == HOURS
    assert all(again[hour]["sequence"] > max(log) for hour in HOURS if first[hour] > 1)
    world.checked()
