"""A run that keeps its tables in shape by itself, and a maintenance by others beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import Change, check, encoded

from lakeingest.delta.history import TableHistory
from lakeingest.ingest.events import Committed, Event, Maintained, Retrying
from lakeingest.local import Addresses

QUIET = {"every": "1 day"}
MODES: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"table": UPSERT}}


def operations(world: World) -> list[str]:
    """The newest last."""
    history = TableHistory(world.ingestion().tables.main).history(None)
    return [entry["operation"] for entry in history][::-1]


def until(condition: Callable[[], bool], run: Future[Any]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert not run.done(), run.result()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def running(world: World, **changes: Any) -> Iterator[tuple[list[Event], Future[Any]]]:
    """A run that goes on within the block, and what it tells."""
    events, stop = list[Event](), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(world.ingestion(**changes).run, on_event=events.append, stop=stop)
        try:
            yield events, run
        finally:
            stop.set()
        run.result(120)


def count(events: list[Event], kind: type[Event]) -> int:
    return sum(isinstance(each, kind) for each in events)


def changes_of(batch: int) -> list[Change]:
    """Keys that change, one that goes, and new ones."""
    return [(0, batch, f"{batch}", "U"), (1, batch, f"{batch}", "D" if batch % 2 else "U"), (10 + batch, 1, "n", "U")]


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_a_run_does_it_at_a_quiet_moment(stack: Addresses, spark: SparkSession, named: str, mode: str) -> None:
    """Once: the log tells the next run that it was done. What came is in the table, and the audit proves it."""
    world = World(stack, spark, named, schema={"columns": CHANGES}, **MODES[mode])
    sent = [each for batch in range(3) for each in changes_of(batch)]
    for batch in range(3):
        world.produce(*map(encoded, changes_of(batch)))
        world.run()
    with running(world, maintenance=QUIET) as (events, run):
        until(lambda: any(isinstance(e, Maintained) and bool(e.files.vacuum) for e in events), run)
        more = changes_of(3)
        world.produce(*map(encoded, more))
        until(lambda: count(events, Committed) > 0, run)
    done = operations(world)
    assert done.count("VACUUM END") == 1
    assert done.index("OPTIMIZE") < done.index("VACUUM END")
    world.run(maintenance=QUIET)
    assert operations(world) == done
    if mode == "upsert":
        check(world, [*sent, *more])
    else:
        world.checked()


@pytest.mark.slow
def test_a_maintenance_beside_a_run_of_mode_upsert(stack: Addresses, spark: SparkSession, named: str) -> None:
    """The run goes on: a batch begins anew at most once for each compaction, and none is lost."""
    world = World(stack, spark, named, schema={"columns": CHANGES}, table=UPSERT)
    sent: list[Change] = []

    def send() -> None:
        batch = changes_of(len(sent) // 3)
        sent.extend(batch)
        world.produce(*map(encoded, batch))

    with running(world, retry={"wait": "1 minute"}) as (events, run):
        for number in range(1, 3):
            send()
            until(lambda: count(events, Committed) >= number, run)  # noqa: B023
        with ThreadPoolExecutor(1) as pool:
            for _ in range(2):
                done = pool.submit(world.ingestion().maintain, "compact")
                while not done.done():
                    send()
                    time.sleep(1)
                assert all(each.failure is None for each in done.result())
        commits = count(events, Committed)
        send()
        until(lambda: count(events, Committed) > commits, run)
    assert count(events, Retrying) <= operations(world).count("OPTIMIZE")
    assert "OPTIMIZE" in operations(world)
    world.run()
    check(world, sent)


@pytest.mark.slow
def test_a_failure_ends_no_run(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Rows that cannot be sorted: it is told, and the run is caught up."""
    world = World(stack, spark, named)
    for n in range(3):
        world.produce(b'{"n": %d}' % n)
        if n < 2:
            world.run()
    ingestion, events = world.ingestion(maintenance={**QUIET, "compact": {"order_by": ["none"]}}), list[Event]()
    assert ingestion.run(until_caught_up=True, on_event=events.append).accepted == 1
    (told,) = (each for each in events if isinstance(each, Maintained) and each.files.failure)
    assert "cannot be sorted by none" in str(told.files.failure)
    world.checked()
