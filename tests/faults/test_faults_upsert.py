"""A pipeline of mode upsert, cut off at each step of a batch: its table is what the records make of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, OF_A_DIRTY_BATCH, QUICK, first_tries
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, encoded
from support.pipelines.changes import check as check_rows
from support.records import Record

from lakeingest.errors import Fenced, StorageUnreachable
from lakeingest.local import Addresses
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import S3Proxy, call_before, lose_answer
from lakeingest.testing.steps import OF_REPLAY, OF_UPSERT, Step, cut_off_at, end_at, reached

STEPS = (*OF_A_DIRTY_BATCH, *OF_UPSERT)


def change(key: int | None, at: int, op: str = "U") -> Record:
    return Record(json.dumps({"id": key, "at": at, "status": f"{key} at {at}", "op": op}).encode(), partition=0)


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    table = {**UPSERT, "path": f"s3a://{BUCKET}/{named}"}
    return World(stack, spark, named, schema={"columns": CHANGES}, table=table)


def check(world: World) -> None:
    """After both batches, and what comes too late."""
    world.produce(change(2, 2), change(3, 3), change(5, 1))
    world.run()
    assert [(row["id"], row["at"]) for row in world.rows()] == [(1, 5), (4, 1), (5, 1)]
    assert [row["_offset"] for row in world.refused] == [1, 6]
    report = world.ingestion().audit()
    assert report.conserved, report
    assert (report.table, report.quarantine, report.superseded) == (3, 2, 7)


@pytest.mark.faults
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.lower())
def test_cut_off(world: World, s3: S3Proxy, step: Step, batch: int) -> None:
    """The store answers nothing from a step of the first or the second batch on; the next run completes the tables."""
    world.produce(change(1, 1), change(None, 1), change(2, 1), change(2, 3, "D"))
    world.produce(change(1, 5), change(3, 9, "D"), change(None, 2), change(4, 1), change(1, 4))
    path = world.path()
    at_step = cut_off_at(s3, step, path, f"{path}_quarantine", batch=1 if step is Step.MAKING else batch)
    with pytest.raises(StorageUnreachable):
        world.run(trigger={"max_records": 4})
    assert at_step.is_set()
    s3.clear()
    world.run(trigger={"max_records": 4})
    check(world)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.lower())
def test_killed(world: World, s3: S3Proxy, tmp_path: Path, step: Step) -> None:
    """SIGKILL to a process at a step of its second batch, with deletion vectors; another one completes the tables."""
    world.changes["readers"] = ["spark"]
    world.produce(change(1, 1), change(None, 1), change(2, 1), change(2, 3, "D"))
    world.produce(change(1, 5), change(3, 9, "D"), change(None, 2), change(4, 1), change(1, 4))
    limits, at = {"max_records": 4}, tmp_path / "p.yaml"
    at.write_text(json.dumps(world.values(trigger=limits, storage={"endpoint": s3.endpoint})))
    environment = {"LAKEINGEST_STATE": str(tmp_path / "state"), "LAKEINGEST_DRIVER_MEMORY": "1g", **QUICK}
    path = world.path()
    with Process(at, "--until-caught-up", command=("run",), env=environment) as process:
        batch = 1 if step is Step.MAKING else 2
        at_step = end_at(s3, step, path, f"{path}_quarantine", process.kill, batch=batch)
        assert at_step.wait(240), process.out + process.err
        assert process.wait(60) == -signal.SIGKILL
    world.run(trigger=limits)
    check(world)
    assert world.ingestion().audit("source").conserved


@pytest.mark.faults
def test_compaction_beside_it(world: World, s3: S3Proxy) -> None:
    """A compaction that commits while a batch is merged makes it begin anew, and the run goes on."""
    world.produce(change(1, 1), change(2, 1))
    world.run()
    world.produce(change(3, 1))
    world.run()
    world.produce(change(1, 5), change(3, 9, "D"))
    path = world.path()
    s3.fault(
        lambda request: reached(Step.COMMITTING, request, path, f"{path}_quarantine"),
        call_before(lambda: world.sql("OPTIMIZE {table}")),
        times=1,
    )
    world.run(retry={"wait": "1 minute"})
    operations = [row["operation"] for row in world.ingestion().history().collect()]
    assert operations[:2] == ["MERGE", "OPTIMIZE"]
    assert [(row["id"], row["at"]) for row in world.rows()] == [(2, 1), (1, 5)]
    assert world.ingestion().audit().conserved


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [Step.COMMITTING, *(pytest.param(step, marks=pytest.mark.faults) for step in (Step.WRITING, *OF_UPSERT))],
    ids=lambda step: step.name.lower(),
)
def test_two_runs_at_once(world: World, s3: S3Proxy, step: Step) -> None:
    """While one is at a step of its batch another one commits it: the first is fenced, and has changed nothing."""
    world.produce(change(1, 1), change(None, 1), change(2, 1), change(2, 3, "D"))
    world.run(trigger={"max_records": 4})
    world.produce(change(1, 5), change(3, 9, "D"), change(None, 2), change(4, 1), change(1, 4))
    path = world.path()
    other = s3.fault(
        lambda request: reached(step, request, path, f"{path}_quarantine"),
        call_before(lambda: world.run(trigger={"max_records": 4})),
        times=1,
    )
    with pytest.raises(Fenced):
        world.run(trigger={"max_records": 3})
    assert other.hits
    check(world)


@pytest.mark.faults
@pytest.mark.parametrize(
    "step", [Step.COMMITTING, Step.REMEMBERING, Step.ACCOUNTING], ids=lambda step: step.name.lower()
)
def test_every_commit_loses_its_answer(world: World, s3: S3Proxy, step: Step) -> None:
    """The store has what it was asked for, and nobody hears of it: the batch is committed once."""
    path = world.path()
    commits = first_tries(lambda request: reached(step, request, path, f"{path}_quarantine"))
    lost = s3.fault(commits, lose_answer())
    world.produce(change(1, 1), change(None, 1), change(2, 1), change(2, 3, "D"))
    world.produce(change(1, 5), change(3, 9, "D"), change(None, 2), change(4, 1), change(1, 4))
    world.run(trigger={"max_records": 4}, retry={"wait": "1 minute"})
    assert lost.hits > 1
    s3.clear()
    check(world)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS[1:], ids=lambda step: step.name.lower())
def test_a_backfill_is_cut_off(world: World, s3: S3Proxy, step: Step) -> None:
    """At a step of its second batch; a run takes newer records before the next backfill goes on."""
    history: list[Change] = [(1, 1, "a", "U"), (None, 1, "b", "U"), (2, 1, "c", "U"), (3, 4, "", "D")]
    history += [(1, 6, "d", "U"), (4, 8, "", "D"), (None, 2, "e", "U"), (5, 1, "f", "U")]
    world.changes["source"] = {"start": "latest"}
    world.produce(*map(encoded, history))
    world.run()
    newer: list[Change] = [(4, 2, "g", "U"), (1, 5, "h", "U"), (3, 3, "i", "U")]
    world.produce(*map(encoded, newer))
    world.run()
    path = world.path()
    at_step = cut_off_at(s3, step, path, f"{path}_quarantine", batch=2)
    with pytest.raises(StorageUnreachable):
        world.ingestion().backfill("earliest", max_records=4)
    assert at_step.is_set()
    s3.clear()
    last: list[Change] = [(5, 3, "", "D"), (6, 1, "j", "U"), (4, 9, "k", "U")]
    world.produce(*map(encoded, last))
    world.run()
    world.ingestion().backfill("earliest", max_records=4)
    check_rows(world, [*history, *newer, *last])


@pytest.mark.faults
@pytest.mark.parametrize("step", [*OF_REPLAY, *OF_UPSERT], ids=lambda step: step.name.lower())
def test_a_replay_is_cut_off(world: World, s3: S3Proxy, step: Step) -> None:
    """At one of its steps; a run takes newer records before the next replay goes on. What was too long, deletes too, is
    replayed.
    """
    long = "too long " * 9
    first: list[Change] = [
        (1, 50, long, "U"),
        (2, 50, long, "U"),
        (3, 60, long, "D"),
        (4, 1, "a", "U"),
        (5, 9, "b", "U"),
    ]
    first += [(None, 1, long, "U"), (5, 10, long, "D")]
    world.produce(*map(encoded, first))
    world.run(decode={"max_bytes": 100})
    second: list[Change] = [(2, 19, "c", "U"), (3, 15, "d", "U")]
    world.produce(*map(encoded, second))
    world.run()
    path = world.path()
    at_step = cut_off_at(s3, step, path, f"{path}_quarantine")
    with pytest.raises(StorageUnreachable):
        world.ingestion().replay("corrected")
    assert at_step.is_set()
    s3.clear()
    third: list[Change] = [(1, 49, "e", "U"), (2, 55, "f", "U"), (3, 70, "g", "U")]
    world.produce(*map(encoded, third))
    world.run()
    world.ingestion().replay("again")
    assert world.ingestion().replay("and again").moved == 0
    check_rows(world, [*first, *second, *third])


@pytest.mark.faults
@pytest.mark.parametrize("cut_off", [False, True], ids=["goes on", "is cut off"])
def test_deleted_while_a_backfill_brings_it(world: World, s3: S3Proxy, cut_off: bool) -> None:
    """A run deletes a key, of which there is no row yet, while a backfill is about to commit an older record of it: by
    its merge alone the row would stay for ever. The backfill takes it out, or its next start does.
    """
    world.changes["source"] = {"start": "latest"}
    world.produce(change(7, 1), change(4, 70))
    world.run()
    world.produce(change(9, 1))
    world.run()
    world.produce(change(4, 80, "D"))
    path = world.path()
    s3.fault(
        lambda request: reached(Step.COMMITTING, request, path, f"{path}_quarantine"),
        call_before(world.run),
        times=1,
    )
    if cut_off:
        # The run's own batch is the first one that is committed.
        at_step = cut_off_at(s3, Step.COMMITTED, path, f"{path}_quarantine", batch=2)
        with pytest.raises(StorageUnreachable):
            world.ingestion(retry={"wait": "1 second"}).backfill("earliest")
        assert at_step.is_set()
        s3.clear()
        assert sorted(row["id"] for row in world.rows()) == [4, 7, 9]
    world.ingestion().backfill("earliest")
    assert sorted((row["id"], row["at"]) for row in world.rows()) == [(7, 1), (9, 1)]
    report = world.ingestion().audit()
    assert report.conserved, report


@pytest.mark.faults
def test_deleted_while_a_replay_brings_it(world: World, s3: S3Proxy, tmp_path: Path) -> None:
    """The same of a replay that is cut off behind its commit: the next one takes the row out, and moves nothing."""
    suite = tmp_path / "suite.json"
    world.changes["gate"] = {"suite": str(suite)}

    def allow(most: int) -> None:
        rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "at", "max_value": most}}
        suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))

    allow(20)
    world.produce(change(7, 1), change(4, 70))
    world.run()
    allow(100)
    world.produce(change(4, 80, "D"))
    path = world.path()
    s3.fault(
        lambda request: reached(Step.COMMITTING, request, path, f"{path}_quarantine"), call_before(world.run), times=1
    )
    at_step = cut_off_at(s3, Step.COMMITTED, path, f"{path}_quarantine", batch=2)
    with pytest.raises(StorageUnreachable):
        world.ingestion().replay("corrected")
    assert at_step.is_set()
    s3.clear()
    assert sorted(row["id"] for row in world.rows()) == [4, 7]
    assert world.ingestion().replay("again").moved == 0
    assert [row["id"] for row in world.rows()] == [7]
    report = world.ingestion().audit()
    assert report.conserved, report


@pytest.mark.slow
def test_a_delete_that_is_still_to_be_committed(world: World, s3: S3Proxy) -> None:
    """Of a batch that was cut off between its memory and its merge: it is no fault of the row that it will delete."""
    world.produce(change(1, 1), change(2, 1))
    world.run()
    world.produce(change(1, 5, "D"))
    at_step = cut_off_at(s3, Step.REMEMBERED, world.path(), f"{world.path()}_quarantine")
    with pytest.raises(StorageUnreachable):
        world.run()
    assert at_step.is_set()
    s3.clear()
    report = world.ingestion().audit()
    assert (report.conserved, report.altered) == (True, ()), report
    world.run()
    assert [row["id"] for row in world.rows()] == [2]
    assert world.ingestion().audit().conserved
