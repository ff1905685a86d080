"""Ended at each step of a batch, once, twice, and while a run repairs what an earlier end left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.faults import BUCKET, OF_A_DIRTY_BATCH, Cell

from lakeingest.errors import StorageUnreachable
from lakeingest.testing.s3 import S3Proxy
from lakeingest.testing.steps import OF_UPSERT, Step, cut_off_at

LIMITS = {"trigger": {"max_records": 300}}
STEPS = {
    "clean": (Step.MAKING, Step.WRITING, Step.COMMITTING, Step.COMMITTED),
    "dirty": OF_A_DIRTY_BATCH,
    "evolving": tuple(step for step in Step if step not in (Step.MARKING, Step.MARKED, *OF_UPSERT)),
}
"""The steps that a batch of each kind comes by."""
ONCE = (Step.MAKING, Step.KEEPING, Step.KEPT)
OF_QUARANTINE = (Step.SETTING_ASIDE, Step.ACCOUNTING, Step.ACCOUNTED)
SOME = (Step.COMMITTED,)
"""The shorter choice."""
TWICE = [
    # What is left of the first making lets Delta make the table by writing alone.
    (Step.MAKING, Step.COMMITTING),
    (Step.COMMITTING, Step.COMMITTING),
    (Step.COMMITTED, Step.SETTING_ASIDE),
    (Step.COMMITTED, Step.ACCOUNTING),
    (Step.COMMITTED, Step.ACCOUNTED),
    (Step.WRITING, Step.ACCOUNTED),
]
"""The second of them is reached by the run that repairs, where the first left something to repair."""


def killed_at_once(wanted: list[Cell], s3: S3Proxy, step: Step, *, second: bool = False) -> None:
    """The same to several, at the same time, at the step's first time or its second."""

    def kill(cell: Cell) -> None:
        # The first batch of what evolves later is clean, and the ledger is kept where a table is there already.
        once = step in ONCE or (cell.kind == "evolving" and step in OF_QUARANTINE)
        cell.killed(s3, step, "--until-caught-up", batch=2 if second and not once else 1, **LIMITS)

    with ThreadPoolExecutor(len(wanted)) as pool:
        list(pool.map(kill, wanted))


def prepared(cells: dict[str, Cell], *steps: Step) -> list[Cell]:
    """The cells whose batches come by these steps, with records for two batches."""
    wanted = [cell for kind, cell in cells.items() if set(steps) <= set(STEPS[kind])]
    for cell in wanted:
        cell.folder.mkdir()
        cell.produce(300, "clean" if cell.kind == "evolving" else None)
        cell.produce(300)
    return wanted


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS["evolving"], ids=lambda step: step.name.lower())
def test_killed(cells: dict[str, Cell], s3: S3Proxy, step: Step) -> None:
    """SIGKILL at a step of the second batch (or of the start): the next run, elsewhere, completes the tables."""
    wanted = prepared(cells, step)
    killed_at_once(wanted, s3, step, second=True)
    for cell in wanted:
        cell.recover(f"killed {step}", "went on from the log")


@pytest.mark.faults
@pytest.mark.parametrize(("first", "second"), TWICE, ids=lambda step: step.name.lower())
def test_killed_twice(cells: dict[str, Cell], s3: S3Proxy, first: Step, second: Step) -> None:
    """Two runs in a row are killed, the second one as a rule while it repairs what the first one left."""
    wanted = prepared(cells, first, second)
    killed_at_once(wanted, s3, first, second=True)
    killed_at_once(wanted, s3, second)
    for cell in wanted:
        cell.recover(f"killed {first}; then {second}", "went on from the log")


@pytest.mark.faults
def test_killed_while_it_repairs(cells: dict[str, Cell], s3: S3Proxy) -> None:
    """Real processes, killed between the commits, and again in the repair."""
    cell = prepared(cells, Step.COMMITTED, Step.ACCOUNTING)[-1]
    cell.killed(s3, Step.COMMITTED, "--until-caught-up", batch=2, **LIMITS)
    cell.killed(s3, Step.ACCOUNTING, "--until-caught-up", **LIMITS)
    cell.recover(f"killed {Step.COMMITTED}; then {Step.ACCOUNTING}", "went on from the log")


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [step if step in SOME else pytest.param(step, marks=pytest.mark.faults) for step in STEPS["evolving"]],
    ids=lambda step: step.name.lower(),
)
def test_cut_off(cells: dict[str, Cell], s3: S3Proxy, step: Step) -> None:
    """The shorter choice: the store answers nothing from a step on, as it would see it of a crash."""
    cell = cells["evolving"]
    cell.bucket = BUCKET
    cell.produce(100)
    there = cut_off_at(s3, step, cell.table, cell.quarantine)
    with pytest.raises(StorageUnreachable):
        cell.run()
    assert there.is_set()
    s3.clear()
    cell.recover(f"cut off {step}", "exit 4; went on from the log")
