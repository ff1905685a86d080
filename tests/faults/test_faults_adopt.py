"""An adoption that is ended at each of its steps, and one beside the old job, which still appends."""

from __future__ import annotations

import threading

import pytest
from support.faults import BUCKET, Cell
from support.pipelines import old_job
from support.pipelines.old_job import OldJob

from lakeingest.errors import StorageError, TableMismatch, UsageError
from lakeingest.testing.s3 import S3Proxy
from lakeingest.testing.steps import Step, cut_off_at

COORDINATES = ",".join(f"{part}={name}" for part, name in old_job.COORDINATES.items())
ENDS = {
    "quarantine's files": (Step.MAKING, 1),
    "before the receipt": (Step.COMMITTING, 1),
    "after the receipt": (Step.COMMITTED, 1),
    "before the partitions are kept": (Step.KEEPING, 1),
    "before the frontier is kept": (Step.KEEPING, 2),
    "after the frontier was kept": (Step.KEPT, 2),
}
"""Where an adoption is ended: a step, and the so-and-so-many-th time that it is reached."""


def begun(cell: Cell) -> OldJob:
    """A job's table in the proxied bucket, and records that it did not take."""
    cell.bucket = BUCKET
    cell.folder.mkdir(exist_ok=True)
    cell.produce(200, "clean")
    job = OldJob(cell.stack, cell.spark, cell.name, cell.table)
    job.take()
    cell.produce(200)
    return job


def adopt(cell: Cell) -> None:
    """As somebody would who was told that it failed."""
    try:
        cell.ingestion().adopt(coordinates=old_job.COORDINATES)
    except UsageError as done:
        if "is adopted since version" not in done.what:
            raise


def checked(cell: Cell, earlier: int) -> None:
    report = cell.ingestion().audit()
    assert (report.conserved, report.earlier) == (True, earlier), report
    rows = cell.spark.read.format("delta").load(cell.table)
    refused = cell.spark.read.format("delta").load(cell.quarantine)
    dropped = len(cell.manifest) - rows.count() - refused.count()
    assert report.dropped == dropped
    found = old_job.places(rows, refused, cell.name)
    assert len({*found}) == len(found)
    assert {*found} <= cell.manifest.keys()


@pytest.mark.faults
@pytest.mark.parametrize("end", ENDS)
def test_cut_off(cells: dict[str, Cell], s3: S3Proxy, end: str) -> None:
    """The store answers nothing from a step on: it is adopted once, then or when it is called again."""
    cell = cells["dirty"]
    begun(cell)
    step, times = ENDS[end]
    table = cell.quarantine if step is Step.MAKING else cell.table
    there = cut_off_at(s3, step, table, cell.quarantine, batch=times)
    with pytest.raises(StorageError):
        adopt(cell)
    assert there.is_set()
    s3.clear()
    adopt(cell)
    cell.run()
    checked(cell, 200)


@pytest.mark.faults
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["dirty", "evolving"])
def test_killed(cells: dict[str, Cell], s3: S3Proxy, end: str, kind: str) -> None:
    """A process, killed at a step: the next run, or the next adoption where the receipt is not there, goes on."""
    cell = cells[kind]
    begun(cell)
    step, times = ENDS[end]
    ended = Cell(cell.stack, cell.spark, cell.name, cell.kind, cell.folder, cell.rows, BUCKET)
    if step is Step.MAKING:
        pytest.skip("the table that is made is quarantine: test_cut_off ends there")
    ended.killed(s3, step, "--coordinates", COORDINATES, batch=times, command=("adopt",))
    if step is Step.COMMITTING:
        with pytest.raises(TableMismatch, match="no coordinates"):
            cell.run()
        adopt(cell)
    cell.run()
    checked(cell, 200)


@pytest.mark.faults
def test_beside_the_old_job(cells: dict[str, Cell]) -> None:
    """The job appends all the time: no run goes on before it is stopped and the table adopted behind its last row."""
    cell = cells["dirty"]
    job = begun(cell)
    stop, failures = threading.Event(), list[BaseException]()

    def append() -> None:
        while not stop.is_set():
            try:
                job.take()
            except Exception as failed:
                # Delta ends an append that meets the adoption's new columns.
                if "MetadataChanged" not in str(failed) and "METADATA_CHANGED" not in str(failed):
                    failures.append(failed)
                    return

    def produce() -> None:
        cell.produce(20, "clean")

    appending = threading.Thread(target=append)
    appending.start()
    told = list[str]()
    try:
        for _ in range(4):
            produce()
            try:
                cell.ingestion().adopt(coordinates=old_job.COORDINATES)
                produce()
                stop.wait(2)
                cell.run()
            except TableMismatch as refused:
                told.append(refused.what)
    finally:
        stop.set()
        appending.join()
    assert not failures, failures
    assert told
    assert all("added rows" in each for each in told), told
    earlier = cell.spark.read.format("delta").load(cell.table).count()
    adopt(cell)
    cell.produce(100)
    cell.run()
    checked(cell, earlier)
