"""What lies behind a pipeline comes into its tables, once, beside its run or without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kit
import pytest
from pyspark.sql import SparkSession
from world import World

from lakeingest.delta.receipt import Counts
from lakeingest.ingest.events import Committed, Ended, Event
from lakeingest.local import Addresses

LATEST = {"source": {"start": "latest"}}


@pytest.fixture
def late(stack: Addresses, spark: SparkSession, named: str) -> World:
    """A pipeline that began at the latest record: of 24 in two partitions it has none, of four that came later all."""
    world = World(stack, spark, named, source={"topics": [named], "start": "latest", "bootstrap_servers": stack.kafka})
    world.produce(*kit.mixed(24), partitions=2)
    world.run()
    world.produce(*kit.clean(4), partitions=2)
    world.run()
    return world


def test_history_before_latest(late: World, tmp_path: Path, lakeingest: Any) -> None:
    """A dry run takes nothing; a second backfill finds nothing to take; the run goes on where it was."""
    before = late.ingestion()
    assert before.audit().consumed == 4
    dry = before.backfill(dry_run=True)
    assert (dry.offsets, dry.held, dry.commits, dry.counts) == (24, 0, 0, Counts())
    assert late.commit_log().version == before.audit().commits
    heard = list[Event]()
    done = before.backfill(max_records=10, on_event=heard.append)
    assert (done.counts, done.commits, done.remaining) == (Counts(24, 19, 5, 0), 3, 0)
    assert [e.lag for e in heard if isinstance(e, Committed)] == [14, 4, 0]
    assert isinstance(heard[-1], Ended)
    report = late.checked()
    assert (report.consumed, report.backfilled, report.backfills) == (28, 24, 3)
    late.produce(*kit.clean(3))
    assert late.run().consumed == 3
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(late.values()))
    said = lakeingest("backfill", file)
    assert (said.code, "nothing to take" in said.out) == (0, True), said
    late.checked()
