"""Tables that something else wrote become a pipeline's: it goes on behind their rows, exactly once, and says what it
cannot know.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kit
import old_job
import pytest
from command import Command
from old_job import OldJob
from world import World

from lakeingest.errors import TableMismatch
from lakeingest.pipeline import Report


def job_of(world: World, **how: Any) -> OldJob:
    return OldJob(world.stack, world.spark, world.name, world.path(), **how)


def each_once(world: World) -> None:
    rows = world.spark.read.format("delta").load(world.path())
    old_job.assert_each_once(rows, world.spark.read.format("delta").load(world.path("_quarantine")), world.produced)


def checked(world: World, *, earlier: int, table: int, **changes: Any) -> Report:
    """Conserved from the adoption on; and each record is once in the table, by whomever, or in quarantine."""
    report = world.ingestion(**changes).audit()
    assert report.conserved, report
    assert (report.earlier, report.table) == (earlier, table), report
    each_once(world)
    return report


def file_of(world: World, folder: Path, **changes: Any) -> Path:
    path = folder / "p.yaml"
    path.write_text(json.dumps(world.values(**changes)))
    return path


def test_a_job_by_hand(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """Its table has coordinates under other names: a run is refused, it is adopted, and the job that was not stopped
    is noticed.
    """
    world.produce(*kit.clean(10), partitions=2)
    job = job_of(world)
    job.take()
    world.produce(*kit.mixed(10), partitions=2)
    with pytest.raises(TableMismatch, match="no coordinates") as refused:
        world.run()
    assert "lakeingest adopt" in refused.value.cure
    coordinates = ",".join(f"{part}={name}" for part, name in old_job.COORDINATES.items())
    command = ("adopt", file_of(world, tmp_path), "--coordinates", coordinates)
    looked = lakeingest(*command, "--dry-run")
    assert (looked.code, "nothing was written" in looked.out) == (0, True), looked
    with pytest.raises(TableMismatch, match="no coordinates"):
        world.run()
    adopted = json.loads(lakeingest(*command, "--output", "json").out)
    assert (adopted["rows"], [p["frontier"] for p in adopted["partitions"]]) == (10, [5, 5])
    (first,) = world.commit_log().commits
    assert first.receipt.adopted["how"] == "the coordinates topic=src.topic, partition=part, offset=off"
    assert first.receipt.ranges.frontier == {(world.name, 0): 5, (world.name, 1): 5}
    again = lakeingest(*command)
    assert (again.code, f"is adopted since version {first.version}" in again.err) == (2, True), again
    assert world.run().consumed == 10
    checked(world, earlier=10, table=8)
    told = lakeingest("audit", file_of(world, tmp_path))
    assert (told.code, "10 rows were there before, and are not proved" in told.out) == (0, True), told
    assert world.ingestion().status().lag == 0
    assert world.ingestion().replay("again", dry_run=True).looked == 2
    # The old job was not stopped: it takes from Kafka what the pipeline has.
    job.take()
    report = world.ingestion().audit()
    assert (report.conserved, report.unexpected) == (False, 10), report
    assert "10 rows without coordinates" in str(report.named["unexpected"])
