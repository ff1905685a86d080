"""What may go wrong with what is said to be complete: transactions, times of fields, catalogs, two writers, RESTORE."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F
from support.pipelines import Crash, World
from support.pipelines.command_line import Command
from support.records import Record, add_partitions, create_topic, wait_for_end

from lakeingest.delta.completeness import CompletenessTable
from lakeingest.delta.table import Table
from lakeingest.local import Addresses

HOUR, LATE = timedelta(hours=1), timedelta(minutes=10)
NOW = datetime.now(UTC)
BEGIN = (NOW - LATE * 1.5).replace(minute=0, second=0, microsecond=0) - 4 * HOUR
HOURS = [BEGIN + number * HOUR for number in range(4)]
"""Those that are over when the tests begin, LATE included."""
CONTRACT = {"completeness": {"late": "10 minutes"}, "freshness": "5 minutes"}
OF_RECORDS = {"partition": [{"by": "time", "every": "hour"}], "contract": CONTRACT}
OF_FIELD = {
    "schema": {"columns": "n INT, at TIMESTAMP"},
    "partition": [{"by": "time", "field": "at", "every": "hour"}],
    "contract": CONTRACT,
}


def record(at: datetime, partition: int = 0, *, field: datetime | None = None) -> Record:
    more = {"text": ""} if field is None else {"at": field.isoformat()}
    return Record(json.dumps({"n": 1, **more}).encode(), partition=partition, at=at)


def said(world: World) -> dict[datetime, dict[str, Any]]:
    """The rows of the completeness table, by the hour's start; another hour may end while the test runs."""
    table = Table(world.spark, world.ingestion().config.completeness)
    if table.schema() is None:
        return {}
    times = F.unix_micros("period_start").alias("start"), F.unix_micros("complete_since").alias("since")
    rows = table.read().where(F.col("pipeline") == world.name).select(*times, "records", "sequence", "version")
    by_hour = {datetime.fromtimestamp(row["start"] / 1e6, UTC): row.asDict() for row in rows.collect()}
    assert len(by_hour) == rows.count(), "an hour is there twice"
    return {hour: row for hour, row in sorted(by_hour.items()) if hour in HOURS}


def waited(lakeingest: Command, folder: Path, world: World, hour: datetime) -> tuple[int, str]:
    """The exit code of `wait`, and what it says it waits for."""
    file = folder / "p.yaml"
    file.write_text(json.dumps(world.values()))
    done = lakeingest("wait", file, "--complete", f"{hour:%Y-%m-%dT%H}", "--timeout", "0", "--output", "json")
    return done.code, done.data.get("waits_for", "")


def promises(world: World) -> dict[str, dict[str, Any]]:
    return {row["promise"]: row for row in world.ingestion().status().contract}


# Transactions --------------------------------------------------------------------------------------------------------


def transactional(stack: Addresses, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": stack.kafka, "log_level": 0, "transactional.id": name, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(30)
    return producer


def send(producer: Producer, topic: str, *records: Record) -> None:
    for each in records:
        assert each.at is not None
        at = int(each.at.timestamp() * 1000)
        producer.produce(topic, each.value, partition=each.partition or 0, timestamp=at)
    producer.flush(30)


@pytest.mark.faults
@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_holds_back_what_it_may_still_bring(
    world: World, stack: Addresses, lakeingest: Command, tmp_path: Path, commit: bool
) -> None:
    """Later records that are committed prove nothing; when it ends, either way, the hours are complete. What was
    aborted holds no records, and is passed all the same.
    """
    world.changes = OF_RECORDS
    world.produce(record(HOURS[0]), record(HOURS[1] + 2 * LATE))
    first, second = transactional(stack, f"{world.name}_a"), transactional(stack, f"{world.name}_b")
    first.begin_transaction()
    send(first, world.name, record(HOURS[1]), record(HOURS[1]))
    second.begin_transaction()
    send(second, world.name, *(record(hour) for hour in HOURS[1:]), record(NOW))
    second.commit_transaction(30)
    world.run()
    # The first hour ends with the record before the transaction.
    assert [*said(world)] == HOURS[:1]
    code, why = waited(lakeingest, tmp_path, world, HOURS[1])
    assert (code, f"{world.name}-0 is committed up to 2 and has to come to 9" in why) == (1, True), why
    first.commit_transaction(30) if commit else first.abort_transaction(30)
    wait_for_end(stack, world.name, 10)
    world.run()
    rows = said(world)
    assert [*rows] == HOURS
    assert [row["records"] for row in rows.values()] == [1, 4 if commit else 2, 1, 1]
    assert waited(lakeingest, tmp_path, world, HOURS[1]) == (0, "")
    world.checked()


@pytest.mark.faults
def test_a_topic_that_ends_with_an_aborted_transaction(
    world: World, stack: Addresses, lakeingest: Command, tmp_path: Path
) -> None:
    """Its offsets are behind the last record, and are reached without one."""
    world.changes = OF_RECORDS
    world.produce(record(HOURS[0]))
    producer = transactional(stack, world.name)
    producer.begin_transaction()
    send(producer, world.name, *(record(hour) for hour in HOURS))
    world.run()
    assert [*said(world)] == []
    producer.abort_transaction(30)
    wait_for_end(stack, world.name, 6)
    world.run()
    rows = said(world)
    # Nothing was said before: of the hours without a record only the newest one has a row.
    assert [rows.pop(HOURS[0])["records"], *(row["records"] for row in rows.values())][:2] in ([1], [1, 0])
    assert waited(lakeingest, tmp_path, world, HOURS[3]) == (0, "")
    world.checked()


@pytest.mark.faults
def test_the_end_of_a_transaction_is_no_record_of_its_time(world: World, stack: Addresses) -> None:
    """Its marker bears the time at which it ended, and records behind it, by their own times, may be older: those of a
    stream that catches up, which keeps the times of what it read.
    """
    world.changes = {**OF_RECORDS, "trigger": {"max_records": 2}}
    create_topic(stack, world.name)
    producer = transactional(stack, world.name)
    for number, hour in enumerate((*HOURS, NOW)):
        producer.begin_transaction()
        send(producer, world.name, record(hour))
        producer.commit_transaction(30)
        wait_for_end(stack, world.name, 2 * number + 2)
    world.run()
    log = {c.receipt.sequence: c.receipt.ranges.frontier[world.name, 0] for c in world.commit_log().commits}
    for number, row in enumerate(said(world).values()):
        assert log[row["sequence"]] > 2 * number, (number, row, log)
        assert row["records"] == 1
    assert len(said(world)) == 4


# The time of a field -------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_the_time_of_a_field(world: World, stack: Addresses) -> None:
    """Partitions that are skewed, idle, and added while a run goes; records that are late, broken and of no time."""
    world.changes = {**OF_FIELD, "trigger": {"max_records": 40}}
    steady = [
        record(hour + n * HOUR / 20, 0, field=hour + n * HOUR / 20 - LATE / 2) for hour in HOURS for n in range(20)
    ]
    skewed = [record(hour + n * HOUR / 5, 1, field=hour + n * HOUR / 5) for hour in HOURS for n in range(5)]
    odd = [
        Record(b'{"n": 1}', partition=1, at=HOURS[1]),
        Record(b'{"n": 1, "at": "1970-01-01T00:30:00Z"}', partition=1, at=HOURS[1]),
        Record(b'{"n": 1, "at": "2999-01-01T00:30:00Z"}', partition=1, at=HOURS[1]),
        Record(b'{"n": "x"}', partition=1, at=HOURS[1]),
    ]
    idle = [record(HOURS[0], 2, field=HOURS[0])]
    world.produce(*steady, *skewed[:6], *odd, *skewed[6:], *idle, partitions=3)
    world.run()
    rows = said(world)
    assert [*rows] == HOURS
    check(world, [*steady, *skewed, *idle])
    # A partition more, with a record that is late, and one that an old partition gets late.
    add_partitions(stack, world.name, 4)
    late = [record(NOW, 3, field=HOURS[2]), record(NOW, 1, field=HOURS[1] + HOUR / 2)]
    world.produce(*late, partitions=4)
    world.run()
    assert said(world) == rows
    assert promises(world)["late records"]["late"] == 2
    world.checked()


def check(world: World, records: list[Record]) -> None:
    """Each hour had all its records, by the fields that were produced, in the version that says so."""
    for hour, row in said(world).items():
        table = world.spark.read.format("delta").option("versionAsOf", row["version"]).load(world.path())
        micros = F.unix_micros("at")
        begin, end = int(hour.timestamp() * 1e6), int((hour + HOUR).timestamp() * 1e6)
        there = table.where((micros >= begin) & (micros < end)).count()
        fields = [datetime.fromisoformat(json.loads(r.value or b"")["at"]) for r in records]
        assert there == row["records"] == sum(hour <= at < hour + HOUR for at in fields), hour


@pytest.mark.faults
def test_a_partition_that_comes_while_a_run_goes(world: World, stack: Addresses) -> None:
    """Its records count before an hour is said to be complete, when they were there before it was asked for."""
    world.changes = {**OF_RECORDS, "trigger": {"max_records": 2}}
    world.produce(*(record(HOURS[0]) for _ in range(5)), partitions=1)
    add_partitions(stack, world.name, 2)
    world.produce(*(record(HOURS[1], 1) for _ in range(5)), partitions=2)
    world.run()
    log = {c.receipt.sequence: c.receipt.ranges.frontier for c in world.commit_log().commits}
    rows = said(world)
    assert [rows[hour]["records"] for hour in HOURS[:2]] == [5, 5]
    assert all(log[row["sequence"]] == {(world.name, 0): 5, (world.name, 1): 5} for row in rows.values())


# RESTORE -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def told(world: World) -> World:
    """Four batches, the last three with an hour each that they complete."""
    world.changes = {**OF_RECORDS, "trigger": {"max_records": 1}}
    world.produce(*(record(hour + HOUR / 2) for hour in HOURS), record(NOW))
    world.run()
    assert [row["sequence"] for row in said(world).values()] == [1, 2, 3, 4]
    return world


@pytest.mark.faults
@pytest.mark.parametrize("to", ["version", "time"])
def test_after_a_restore_no_reader_relies_on_what_was_taken_back(
    told: World, lakeingest: Command, tmp_path: Path, to: str
) -> None:
    """Neither before a run, nor after it; and what stands is complete at any time."""
    world = told
    before = said(world)
    commits = {c.receipt.sequence: c for c in world.commit_log().commits}
    point = f"VERSION AS OF {commits[2].version}" if to == "version" else f"TIMESTAMP AS OF '{commits[2].time}'"
    world.sql(f"RESTORE TABLE {{table}} TO {point}")
    # The rows are there still.
    assert said(world) == before
    assert [waited(lakeingest, tmp_path, world, hour)[0] for hour in HOURS] == [0, 0, 1, 1]
    _, why = waited(lakeingest, tmp_path, world, HOURS[3])
    assert "is committed up to 2 and has to come to 4" in why, why
    assert f"complete up to {HOURS[1]:%Y-%m-%dT%H}," in promises(world)["completeness"]["found"]
    page = tmp_path / "report.json"
    done = lakeingest("report", tmp_path / "p.yaml", "--to", tmp_path / "r.html", "--no-audit", "--output", "json")
    assert done.code == 0, done.err
    assert f"complete up to {HOURS[1]:%Y-%m-%dT%H}," in done.out
    assert not page.exists()
    safe = safely(world)
    assert {*safe} == {*HOURS[:2]}
    # The next run takes up what stands.
    world.run()
    after = said(world)
    assert [after[hour] == before[hour] for hour in HOURS] == [True, True, False, False]
    assert [waited(lakeingest, tmp_path, world, hour)[0] for hour in HOURS] == [0] * 4
    assert {*safely(world)} == {*HOURS}
    world.checked()


def safely(world: World) -> set[datetime]:
    """The hours that the query of docs/how-to/contract.md gives."""
    completeness = world.ingestion().config.completeness
    rows = world.spark.sql(f"""
        SELECT unix_micros(c.period_start) AS start
        FROM delta.`{completeness}` c LEFT JOIN delta.`{world.path()}` f USING (hour)
        WHERE c.pipeline = '{world.name}'
        GROUP BY c.period_start, c.records HAVING count(f.hour) >= c.records
    """)
    found = {datetime.fromtimestamp(row["start"] / 1e6, UTC) for row in rows.collect()}
    return {hour for hour in HOURS if hour in found}


@pytest.mark.faults
@pytest.mark.parametrize("killed", [False, True])
def test_a_restore_while_it_is_said(
    world: World, lakeingest: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Between the look at the table and the row: it is taken away at once, or, if the process dies then, not relied on.

    The RESTORE takes back the one batch that the hours rest on.
    """
    world.changes = OF_RECORDS
    world.produce(record(HOURS[0]))
    world.run(contract={"freshness": "5 minutes"})
    (first,) = world.commit_log().commits
    world.produce(*(record(hour) for hour in HOURS), record(NOW))
    declare, dying = CompletenessTable.declare, [True]

    def declared(table: CompletenessTable, *args: Any, **named: Any) -> None:
        if dying.pop() if dying else False:
            world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {first.version}")
            declare(table, *args, **named)
            if killed:
                raise Crash
        else:
            declare(table, *args, **named)

    monkeypatch.setattr(CompletenessTable, "declare", declared)
    with pytest.raises((Crash, Exception)) as ended:
        world.run()
    assert isinstance(ended.value, Crash) or "restored" in str(ended.value)
    assert bool(said(world)) == killed
    assert [waited(lakeingest, tmp_path, world, hour)[0] for hour in HOURS] == [1] * 4
    assert promises(world)["completeness"]["found"] == "no period is complete yet"
    if killed:
        assert safely(world) == set()
    world.run()
    rows = said(world)
    assert [row["records"] for row in rows.values()] == [2, 1, 1, 1]
    assert {row["sequence"] for row in rows.values()} == {3}
    world.checked()


# Two writers ---------------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_two_runs_at_once_say_each_hour_once(told: World, stack: Addresses) -> None:
    """One fences the other; what either says, it has committed itself."""
    world = told
    world.spark.sql(f"DELETE FROM delta.`{world.path('_completeness')}`").collect()
    failures, begin = list[BaseException](), threading.Barrier(2)

    def run() -> None:
        try:
            begin.wait()
            world.ingestion().run(until_caught_up=True)
        except Exception as failed:
            failures.append(failed)

    world.produce(record(NOW), record(NOW), record(NOW))
    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(240)
    assert all(type(failed).__name__ == "Fenced" for failed in failures), failures
    rows = said(world)
    assert [*rows] == HOURS
    assert [row["records"] for row in rows.values()] == [1, 1, 1, 1]
    world.checked()


@pytest.mark.faults
def test_a_run_that_died_before_it_said_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one says it, though there is no record more."""
    world.changes = OF_RECORDS
    world.produce(*(record(hour) for hour in HOURS), record(NOW))

    def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as dying:
        dying.setattr(CompletenessTable, "declare", crash)
        with pytest.raises(Crash):
            world.run()
    assert said(world) == {}
    world.run()
    assert {hour: row["sequence"] for hour, row in said(world).items()} == dict.fromkeys(HOURS, 1)
    with monkeypatch.context() as dying:
        # Between the table of completeness and its rows.
        world.spark.sql(f"DELETE FROM delta.`{world.path('_completeness')}`").collect()
        dying.setattr(Table, "insert", crash)
        with pytest.raises(Crash):
            world.run()
    world.run()
    assert [*said(world)] == HOURS
