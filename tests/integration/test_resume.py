"""A run goes on after a server that failed, a crash between two commits, a RESTORE, and another writer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.pipelines import Crash, World, only
from support.pipelines.command_line import Command
from support.records import DIRTY, clean_records, expire_records, mixed_records, transaction
from support.servers import s3_client

from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.errors import (
    Fenced,
    LakeingestError,
    OffsetsLost,
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
    world.produce(*mixed_records(10))
    away, said = StorageUnreachable("503 SlowDown", cure="wait"), []
    ingestion = world.ingestion(retry={"wait": "1 minute"}, trigger={"max_records": 5})
    with failing(away, away):
        assert ingestion.run(until_caught_up=True, on_event=only(Retrying, said.append)) == Counts(10, 8, 2)
    assert [retry.failure for retry in said] == [away, away]
    world.checked()


def test_what_no_retry_helps_ends_the_run(world: World) -> None:
    """A refusal that waiting cannot change is raised at once."""
    world.produce(*clean_records(1))
    ingestion = world.ingestion(retry={"wait": "10 seconds"})
    with failing(TableMismatch("other columns", cure="none")), pytest.raises(TableMismatch):
        ingestion.run(until_caught_up=True, on_event=only(Retrying, lambda _: pytest.fail("it tried again")))


# RESTORE


def restored(world: World, version: int, batches: int = 3) -> None:
    """`batches` dirty commits of four records, then the table goes back to `version`."""
    world.produce(*mixed_records(4 * batches, every=4))
    world.run(trigger={"max_records": 4})
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")


@pytest.mark.faults
def test_a_restored_table_is_read_again(world: World) -> None:
    """The run after a RESTORE goes on from the older frontier, and withdraws what quarantine had of it."""
    restored(world, version=1)
    assert world.run(trigger={"max_records": 3}) == Counts(8, 6, 2)
    assert [row["moved"] and row["moved"]["replay"] for row in world.refused].count(None) == 3
    world.checked()
    world.produce(*mixed_records(4))
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
    """A run that ends half-way after a RESTORE has withdrawn what the next one reads again."""
    restored(world, version=0, batches=4)

    def end(_: Committed) -> None:
        raise Crash

    with pytest.raises(Crash):
        world.ingestion(trigger={"max_records": 4}).run(until_caught_up=True, on_progress=end)
    assert world.run(trigger={"max_records": 4}) == Counts(12, 9, 3)
    world.checked()


@pytest.mark.faults
def test_reading_again_may_crash_before_quarantine(world: World) -> None:
    """What is settled after a RESTORE counts the records that were refused, too, and were withdrawn before."""
    restored(world, version=1)
    world.produce(DIRTY, *clean_records(3))
    world.crash()
    assert world.run() == Counts(12, 9, 3)
    assert world.checked().dropped == 0


@pytest.mark.faults
def test_a_table_restored_far_back_is_read_again(world: World) -> None:
    """Also to a batch whose account is no longer among quarantine's newest commits."""
    restored(world, version=1, batches=22)
    assert world.run() == Counts(84, 63, 21)
    world.checked()


# Quarantine that lost what it had


def made_anew(world: World) -> None:
    client = s3_client(world.stack)
    bucket, _, prefix = world.path("_quarantine").removeprefix("s3a://").partition("/")
    for each in client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")["Contents"]:
        client.delete_object(Bucket=bucket, Key=each["Key"])
    client.close()


def restored_aside(world: World, version: int = 0) -> None:
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}", world.path("_quarantine"))


@pytest.mark.faults
@pytest.mark.parametrize("how", [restored_aside, made_anew, lambda world: restored_aside(world, 1)])
def test_what_quarantine_lost_is_read_again(world: World, how: Callable[[World], None]) -> None:
    """A RESTORE of quarantine was never made good: runs said nothing, and the audit said missing for ever."""
    for _ in range(2):
        world.produce(*mixed_records(10))
        world.run(trigger={"max_records": 5})
    world.produce(*clean_records(2))
    world.run()
    how(world)
    assert world.run() == Counts()
    world.checked()
    assert world.ingestion().audit().quarantine == 4
    commits = world.commit_log("_quarantine").last_sequence
    world.produce(*clean_records(2))
    assert world.run() == Counts(2, 2)
    assert world.commit_log("_quarantine").last_sequence == commits
    # A second time, behind what the first one brought back.
    restored_aside(world, 1 if how is made_anew else 0)
    world.produce(DIRTY)
    assert world.run() == Counts(1, 0, 1)
    world.checked()


@pytest.mark.faults
def test_a_quarantine_that_is_restored_while_it_runs(world: World) -> None:
    """The batch that is committed behind the RESTORE hides it from nobody."""
    world.produce(*mixed_records(20))
    versions = list[int]()

    def restore(done: Any) -> None:
        versions.append(done.version)
        if len(versions) == 2:
            restored_aside(world)

    ingestion = world.ingestion(trigger={"max_records": 5}, retry={"wait": "1 minute"})
    assert ingestion.run(until_caught_up=True, on_progress=restore) == Counts(20, 16, 4)
    world.checked()


@pytest.mark.faults
def test_what_quarantine_lost_and_kafka_too(world: World) -> None:
    """The run says what is missing, and each of its cures leads out: the other RESTORE, or to go on without."""
    world.produce(*mixed_records(10), *clean_records(10))
    world.run(trigger={"max_records": 10})
    restored_aside(world)
    expire_records(world.stack, world.name, 7)
    with pytest.raises(OffsetsLost, match=r"had an account of batch 1, and has none any more .* 2 of these") as lost:
        world.run()
    assert "RESTORE TABLE" in lost.value.cure
    restored_aside(world, 1)
    world.run()
    assert world.ingestion().audit().conserved
    restored_aside(world, 0)
    world.ingestion().run(until_caught_up=True, accept_gap=True)
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.table) == (True, 2, 18), report


@pytest.mark.faults
def test_an_account_of_drops_alone_needs_no_record(world: World) -> None:
    """The account that a RESTORE took back says what was dropped, when Kafka has nothing of it any more."""
    ignoring = {"decode": {"on_null": "ignore"}}
    world.produce(None, *clean_records(3))
    world.run(**ignoring)
    restored_aside(world)
    expire_records(world.stack, world.name, 4)
    world.produce(*clean_records(1))
    assert world.run(**ignoring) == Counts(1, 1)
    report = world.ingestion(**ignoring).audit()
    assert (report.conserved, report.dropped, report.lost) == (True, 1, 0), report


@pytest.mark.faults
def test_a_delete_in_quarantine_is_named(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """It was a loss without a name or a cure: RESTORE to before it, and what that took back is read again."""
    world.produce(*mixed_records(10))
    world.run()
    world.sql("DELETE FROM {table} WHERE _offset = 5", world.path("_quarantine"))
    world.produce(DIRTY)
    world.run()
    (tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    said = lakeingest("audit", tmp_path / "p.yaml")
    assert said.code == 1
    assert f"version 2 of {world.path('_quarantine')} is a DELETE (rows: 1)" in said.err
    assert "RESTORE that table to the version before it" in said.err
    restored_aside(world, 1)
    assert world.run() == Counts()
    world.checked()


# A crash between the two commits


@pytest.mark.faults
def test_a_crash_before_quarantine_is_settled(world: World) -> None:
    """The next run sets aside what the crashed one refused, under its sequence number, and goes on. It counts and tells
    of that batch, which nobody has told of: no outcome, metric or sum had it.
    """
    world.produce(*mixed_records(10))
    world.crash()
    assert not world.ingestion().audit().conserved
    world.produce(*clean_records(2))
    heard = list[Any]()
    assert world.ingestion().run(until_caught_up=True, on_event=heard.append) == Counts(12, 10, 2)
    done = [event for event in heard if isinstance(event, Committed)]
    assert [(each.sequence, each.refused) for each in done] == [(1, {"WRONG_TYPE": 2}), (2, {})]
    assert (heard[-1].commits, heard[-1].counts) == (2, Counts(12, 10, 2))
    assert [(row["sequence"], row["reason"]) for row in world.refused] == [(1, "WRONG_TYPE")] * 2
    world.checked()


@pytest.mark.faults
def test_a_record_that_passes_today_is_settled_as_such(world: World) -> None:
    """Its reason says that only the rules of its time refused it."""
    world.produce(json.dumps({"n": 9, "text": "long " * 10}).encode(), *clean_records(3))
    world.crash(decode={"max_bytes": 40})
    world.run()
    assert [(row["stage"], row["reason"]) for row in world.refused] == [("settle", "SETTLED")]
    world.checked()


@pytest.mark.faults
def test_a_crash_with_nothing_refused_is_settled(world: World) -> None:
    """Drops and gaps have their account written too."""
    transaction(world.stack, world.name, clean_records(3), commit=False)
    world.produce(None, *clean_records(3))
    world.crash(decode={"on_null": "ignore"})
    assert world.run(decode={"on_null": "ignore"}) == Counts(4, 3, dropped=1)
    report = world.checked(decode={"on_null": "ignore"})
    assert (report.dropped, report.gaps) == (1, 4)


@pytest.mark.faults
def test_a_crash_over_a_batch_without_records_is_settled(world: World) -> None:
    """A batch of gaps alone has an account too."""
    transaction(world.stack, world.name, clean_records(3), commit=False)
    world.crash()
    assert world.run() == Counts()
    assert world.checked().gaps == 4


@pytest.mark.faults
def test_settling_twice_is_harmless(world: World) -> None:
    """A second run finds nothing open, and one that crashes while settling leaves all to the next."""
    world.produce(*mixed_records(5))
    world.crash()
    world.crash()
    world.run()
    world.run()
    assert len(world.commit_log("_quarantine").commits) == 1
    world.checked()


# One writer


def test_a_stale_writer_is_fenced(world: World) -> None:
    """Who goes on after another run committed learns its name, and writes nothing."""
    world.produce(*mixed_records(10))
    stale, winner = world.ingestion(), world.ingestion()
    winner.run(until_caught_up=True)
    receipt = replace(world.commit_log().commits[0].receipt, run=stale.writer)
    version = world.commit_log().commits[0].version
    with pytest.raises(Fenced, match=re.escape(winner.writer.started)):
        MicroBatchExecution(stale.context, None, CommitLog("", world.name)).execute(receipt, {})
    assert world.commit_log().commits[0].version == version
    world.checked()


@pytest.mark.slow
def test_a_writer_that_was_overtaken_is_fenced_in_its_run(world: World) -> None:
    """Between two batches of one run another run commits: the first one stops at its next batch."""
    world.produce(*mixed_records(8))
    with pytest.raises(Fenced, match="held by another writer"):
        world.ingestion(trigger={"max_records": 4}).run(
            until_caught_up=True, on_progress=lambda _: world.run() and None
        )
    world.checked()
