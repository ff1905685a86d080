"""A run goes on after a server that failed, a crash between two commits, a RESTORE, and another writer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import kit
import pytest
from kit import DIRTY, clean, mixed
from world import Crash, World

from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.errors import (
    Fenced,
    LakeingestError,
    StorageUnreachable,
    TableMismatch,
)
from lakeingest.ingest.events import Committed, Retrying
from lakeingest.ingest.microbatch import MicroBatchExecution

# Servers fail


@contextmanager
def failing(*failures: LakeingestError) -> Iterator[None]:
    """The next batches fail, each with another failure."""
    left, execute = list(failures), MicroBatchExecution.execute

    def failing_first(self: MicroBatchExecution, *arguments: Any) -> Committed:
        if left:
            raise left.pop(0)
        return execute(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MicroBatchExecution, "execute", failing_first)
        yield


def test_a_server_that_fails_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run says why it waits and how long, begins anew from the tables, and takes each record once."""
    monkeypatch.setattr("lakeingest.ingest.retry.LONGEST_PAUSE_S", 0.01)
    world.produce(*mixed(10))
    away, said = StorageUnreachable("503 SlowDown", cure="wait"), []
    ingestion = world.ingestion(retry={"wait": "1 minute"}, trigger={"max_records": 5})
    with failing(away, away):
        assert ingestion.run(until_caught_up=True, on_event=kit.only(Retrying, said.append)) == Counts(10, 8, 2)
    assert [retry.failure for retry in said] == [away, away]
    world.checked()


def test_what_no_retry_helps_ends_the_run(world: World) -> None:
    """A refusal that waiting cannot change is raised at once."""
    world.produce(*clean(1))
    ingestion = world.ingestion(retry={"wait": "10 seconds"})
    with failing(TableMismatch("other columns", cure="none")), pytest.raises(TableMismatch):
        ingestion.run(until_caught_up=True, on_event=kit.only(Retrying, lambda _: pytest.fail("it tried again")))


# RESTORE


def restored(world: World, version: int, batches: int = 3) -> None:
    """`batches` dirty commits of four records, then the table goes back to `version`."""
    world.produce(*mixed(4 * batches, every=4))
    world.run(trigger={"max_records": 4})
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")


@pytest.mark.faults
def test_a_restored_table_is_read_again(world: World) -> None:
    """The run after a RESTORE goes on from the older frontier, and quarantine gets nothing twice."""
    restored(world, version=1)
    assert world.run(trigger={"max_records": 3}) == Counts(8, 6, 2)
    assert len(world.refused) == 3
    world.checked()
    world.produce(*mixed(4))
    assert world.run() == Counts(4, 3, 1)
    world.checked()


@pytest.mark.faults
def test_a_table_restored_to_its_beginning_is_read_again(world: World) -> None:
    """Back to the empty table: all is read again."""
    restored(world, version=0)
    assert world.run() == Counts(12, 9, 3)
    world.checked()


@pytest.mark.faults
def test_reading_again_may_be_interrupted(world: World) -> None:
    """A run that ends half-way after a RESTORE leaves the next one to leave out what quarantine holds."""
    restored(world, version=0, batches=4)

    def end(_: Committed) -> None:
        raise Crash

    with pytest.raises(Crash):
        world.ingestion(trigger={"max_records": 4}).run(until_caught_up=True, on_progress=end)
    assert world.run(trigger={"max_records": 4}) == Counts(12, 9, 3)
    world.checked()


@pytest.mark.faults
def test_reading_again_may_crash_before_quarantine(world: World) -> None:
    """What is settled after a RESTORE counts the records that quarantine held already as refused."""
    restored(world, version=1)
    world.produce(DIRTY, *clean(3))
    world.crash()
    assert world.run() == Counts()
    assert world.checked().dropped == 0


@pytest.mark.faults
def test_a_table_restored_far_back_is_read_again(world: World) -> None:
    """Also to a batch whose account is no longer among quarantine's newest commits."""
    restored(world, version=1, batches=22)
    assert world.run() == Counts(84, 63, 21)
    world.checked()


# A crash between the two commits


@pytest.mark.faults
def test_a_crash_before_quarantine_is_settled(world: World) -> None:
    """The next run sets aside what the crashed one refused, under its sequence number, and goes on."""
    world.produce(*mixed(10))
    world.crash()
    assert not world.ingestion().audit().conserved
    world.produce(*clean(2))
    assert world.run() == Counts(2, 2)
    assert [(row["sequence"], row["reason"]) for row in world.refused] == [(1, "WRONG_TYPE")] * 2
    world.checked()


@pytest.mark.faults
def test_a_record_that_passes_today_is_settled_as_such(world: World) -> None:
    """Its reason says that only the rules of its time refused it."""
    world.produce(json.dumps({"n": 9, "text": "long " * 10}).encode(), *clean(3))
    world.crash(decode={"max_bytes": 40})
    world.run()
    assert [(row["stage"], row["reason"]) for row in world.refused] == [("settle", "SETTLED")]
    world.checked()


@pytest.mark.faults
def test_a_crash_with_nothing_refused_is_settled(world: World) -> None:
    """Drops and gaps have their account written too."""
    kit.transaction(world.stack, world.name, clean(3), commit=False)
    world.produce(None, *clean(3))
    world.crash(decode={"on_null": "ignore"})
    assert world.run(decode={"on_null": "ignore"}) == Counts()
    report = world.checked(decode={"on_null": "ignore"})
    assert (report.dropped, report.gaps) == (1, 4)


@pytest.mark.faults
def test_a_crash_over_a_batch_without_records_is_settled(world: World) -> None:
    """A batch of gaps alone has an account too."""
    kit.transaction(world.stack, world.name, clean(3), commit=False)
    world.crash()
    assert world.run() == Counts()
    assert world.checked().gaps == 4


@pytest.mark.faults
def test_settling_twice_is_harmless(world: World) -> None:
    """A second run finds nothing open, and one that crashes while settling leaves all to the next."""
    world.produce(*mixed(5))
    world.crash()
    world.crash()
    world.run()
    world.run()
    assert len(world.commit_log("_quarantine").commits) == 1
    world.checked()


# One writer


def test_a_stale_writer_is_fenced(world: World) -> None:
    """Who goes on after another run committed learns its name, and writes nothing."""
    world.produce(*mixed(10))
    stale, winner = world.ingestion(), world.ingestion()
    winner.run(until_caught_up=True)
    receipt = replace(world.commit_log().commits[0].receipt, run=stale.writer)
    version = world.commit_log().commits[0].version
    with pytest.raises(Fenced, match=re.escape(winner.writer.started)):
        MicroBatchExecution(stale.context, None, CommitLog("", world.name)).execute(receipt, {})
    assert world.commit_log().commits[0].version == version
    world.checked()


def test_a_writer_that_was_overtaken_is_fenced_in_its_run(world: World) -> None:
    """Between two batches of one run another run commits: the first one stops at its next batch."""
    world.produce(*mixed(8))
    with pytest.raises(Fenced, match="held by another writer"):
        world.ingestion(trigger={"max_records": 4}).run(
            until_caught_up=True, on_progress=lambda _: world.run() and None
        )
    world.checked()
