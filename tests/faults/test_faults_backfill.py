"""A backfill beside a run, ended at each step of its batches: the next one completes it, and the run goes on."""

from __future__ import annotations

import time

import pytest
from support.faults import OF_A_DIRTY_BATCH, Cell

from lakeingest.testing.s3 import S3Proxy
from lakeingest.testing.steps import Step

STEPS = {
    "clean": (Step.WRITING, Step.COMMITTING, Step.COMMITTED),
    "dirty": OF_A_DIRTY_BATCH[1:],
    "evolving": (Step.COMMITTED, Step.ACCOUNTING),
}
"""The steps that a batch of each kind comes by; it never makes a table, and keeps no ledger."""
CASES = [(kind, step) for kind, steps in STEPS.items() for step in steps]
HISTORY, BATCH = 600, 250


def begun(cells: dict[str, Cell], kind: str) -> Cell:
    """A pipeline that began behind the history, and has the columns that later records brought."""
    cell = cells[kind]
    cell.folder.mkdir()
    cell.changes = {"source": {"start": "latest"}}
    cell.produce(HISTORY)
    cell.run()
    cell.produce(50)
    cell.run()
    return cell


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "step"), CASES, ids=[f"{kind}-{step.name.lower()}" for kind, step in CASES])
def test_killed(cells: dict[str, Cell], s3: S3Proxy, kind: str, step: Step) -> None:
    """SIGKILL at a step of its second batch, while a run takes new records: the next backfill takes the rest."""
    cell = begun(cells, kind)
    how = ("--max-records", str(BATCH))
    with cell.process(trigger={"max_records": 20}) as running:
        cell.produce(60)
        running.commits(1)
        cell.killed(s3, step, *how, batch=2, command=("backfill",))
        cell.produce(40)
        begun_at = time.monotonic()
        with cell.process(*how, command=("backfill",)) as again:
            assert again.wait(300) == 0, again.out + again.err
        seconds = time.monotonic() - begun_at
        deadline = time.monotonic() + 120
        while cell.ingestion().status().lag:
            assert running.code is None, running.out + running.err
            assert time.monotonic() < deadline, running.out + running.err
            time.sleep(0.5)
    cell.run()
    cell.check(f"backfill killed {step}, beside a run", "the next one completed it", seconds)
    report = cell.ingestion().audit()
    assert (report.backfilled, report.backfills) == (HISTORY, 3)
