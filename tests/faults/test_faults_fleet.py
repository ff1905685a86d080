"""Many pipelines in one process, hurt in one place, or all at once: each is conserved, and the others go on."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.faults import BUCKET, QUICK, Cell
from support.pipelines.schema_world import SchemaWorld
from support.records.registered import maybe, proxied, record

from lakeingest import Fleet
from lakeingest.config.file import from_mapping
from lakeingest.errors import Fenced, StorageUnreachable
from lakeingest.ingest.events import Committed, Ended, Event, Retrying
from lakeingest.operations.results.fleet import Outcome
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import S3Proxy, denied, internal_error, lose_answer, slow_down
from lakeingest.testing.steps import OF_UPSERT, Step, cut_off_at, end_at

pytestmark = pytest.mark.faults

STEPS = tuple(step for step in Step if step not in (Step.MARKING, Step.MARKED, *OF_UPSERT))
SMALL = {"trigger": {"max_records": 100, "every": "1 second"}}


def process(cells: dict[str, Cell], folder: Path, s3: S3Proxy, *options: str) -> Process:
    """All cells in one process, through the proxy."""
    (folder / "fleet").mkdir(exist_ok=True)
    for cell in cells.values():
        values = cell.values(storage={"endpoint": s3.endpoint}, **SMALL)
        (folder / "fleet" / f"{cell.kind}.yaml").write_text(json.dumps(values))
    own = {"LAKEINGEST_STATE": str(folder / "state"), "LAKEINGEST_DRIVER_MEMORY": "1g", **QUICK}
    return Process(folder / "fleet", *options, env=own)


def fleet(cells: dict[str, Cell], **changes: Any) -> Fleet:
    return Fleet([from_mapping(cell.values(**SMALL, **changes)) for cell in cells.values()])


def outcomes(ended: list[Outcome]) -> dict[str, str]:
    return {each.pipeline.rpartition("_")[2]: each.outcome for each in ended}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.lower())
def test_killed(cells: dict[str, Cell], s3: S3Proxy, tmp_path: Path, step: Step) -> None:
    """SIGKILL to the process when one of its pipelines comes to a step: the next process completes all tables."""
    for cell in cells.values():
        cell.produce(100, "clean" if cell.kind == "evolving" else None)
        cell.produce(100)
    hurt = cells["evolving"]
    # The table is made once, and what evolves later has one batch with an account.
    once = step in (Step.MAKING, Step.KEEPING, Step.KEPT, Step.SETTING_ASIDE, Step.ACCOUNTING, Step.ACCOUNTED)
    with process(cells, tmp_path, s3) as running:
        there = end_at(s3, step, hurt.table, hurt.quarantine, running.kill, batch=1 if once else 2)
        deadline = time.monotonic() + 240
        while running.code is None:
            assert time.monotonic() < deadline, running.out + running.err
            time.sleep(0.05)
        assert there.is_set(), running.out + running.err
    s3.clear()
    with process(cells, tmp_path, s3, "--until-caught-up") as running:
        assert running.wait(240) == 0, running.out + running.err
    for cell in cells.values():
        cell.check(f"fleet killed {step}", "a fleet went on from the logs", 0)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.lower())
def test_one_is_cut_off(cells: dict[str, Cell], s3: S3Proxy, step: Step) -> None:
    """The store answers one pipeline nothing from a step on: it fails alone, and goes on in the next run."""
    hurt = cells["evolving"]
    hurt.bucket = BUCKET
    for cell in cells.values():
        cell.produce(200)
    there = cut_off_at(s3, step, hurt.table, hurt.quarantine)
    ended = fleet(cells).run(until_caught_up=True)
    assert there.is_set()
    assert outcomes(ended) == {"clean": "caught up", "dirty": "caught up", "evolving": "failed"}
    assert isinstance(ended[-1].failure, StorageUnreachable)
    s3.clear()
    assert set(outcomes(fleet(cells).run(until_caught_up=True)).values()) == {"caught up"}
    for cell in cells.values():
        cell.check(f"fleet, one cut off {step}", "alone; a fleet went on", 0)


@pytest.mark.parametrize("act", [slow_down, internal_error, lose_answer, denied], ids=lambda act: act.__name__)
def test_the_store_of_one_is_spoilt(cells: dict[str, Cell], s3: S3Proxy, act: Any) -> None:
    """From its first commit on those that follow fail, or lose their answers: it tries again by itself, and the others
    do not wait.
    """
    hurt = cells["dirty"]
    hurt.bucket = BUCKET
    for cell in cells.values():
        cell.produce(300)
    others, ended = {cells[kind].name for kind in ("clean", "evolving")}, dict[str, Ended]()
    retried, faults = list[str](), list[Any]()

    def take(name: str, event: Event) -> None:
        if isinstance(event, Ended):
            ended[name] = event
        if isinstance(event, Committed) and (name, event.sequence) == (hurt.name, 1):
            faults.append(s3.fault(lambda request: request.kind == "PUT" and "_delta_log" in request.key, act()))
        if isinstance(event, Retrying):
            retried.append(name)
        if others <= ended.keys() and retried:
            s3.clear()

    found = fleet(cells, retry={"wait": "5 minutes"}).run(until_caught_up=True, on_event=take)
    assert set(outcomes(found).values()) == {"caught up"}
    assert faults[0].hits
    assert set(retried) <= {hurt.name}
    for cell in cells.values():
        cell.check(f"fleet, {act.__name__} for one", f"caught up, {len(retried)} retries", 0)


def test_the_registry_of_one_is_away(cells: dict[str, Cell]) -> None:
    """A schema comes that it would have to ask for: it tries again until the registry is back; the other goes on."""
    cell = cells["clean"]
    avro = SchemaWorld(cell.stack, cell.spark, f"{cell.name}_avro", decode={"value": {"format": "avro"}})
    one, two = avro.avro(record("o", n="int")), avro.avro(record("o", n="int", text=maybe("string")))
    avro.produce(*(one(n=n) for n in range(25)), *(two(n=n, text="x") for n in range(25)))
    cell.produce(300)
    told = set[tuple[str, str]]()
    with proxied(cell.stack) as registry:
        avro.changes |= {"registry": {"url": registry.url, "wait": "1 second"}, "retry": {"wait": "5 minutes"}}
        avro.changes |= {"trigger": {"max_records": 25}}
        back = {(cell.name, "Ended"), (avro.name, "Retrying")}

        def take(name: str, event: Event) -> None:
            if isinstance(event, Committed) and (name, event.sequence) == (avro.name, 1):
                registry.down()
            waits = not back <= told
            told.add((name, type(event).__name__))
            if waits and back <= told:
                registry.up()

        configs = [avro.ingestion().config, from_mapping(cell.values(**SMALL))]
        found = Fleet(configs).run(until_caught_up=True, on_event=take)
    assert [each.outcome for each in found] == ["caught up", "caught up"]
    assert back <= told
    avro.checked()
    cell.check("fleet, registry of one away", "caught up", 0)


def test_two_fleets(cells: dict[str, Cell], s3: S3Proxy, tmp_path: Path) -> None:
    """The older one is stopped for a while, overtaken, and woken: each of its pipelines is fenced off, and says so."""
    for cell in cells.values():
        cell.produce(100)
    with process(cells, tmp_path, s3) as zombie:
        zombie.commits(len(cells))
        zombie.signal(signal.SIGSTOP)
        for cell in cells.values():
            cell.produce(100)
        assert set(outcomes(fleet(cells).run(until_caught_up=True)).values()) == {"caught up"}
        zombie.signal(signal.SIGCONT)
        for cell in cells.values():
            cell.produce(100)
        assert zombie.wait(240) == Fenced.exit_code, zombie.out + zombie.err
        for cell in cells.values():
            # Told when it happens, too, in the log's own words.
            fenced = f"{cell.name}: error (commit): pipeline '{cell.name}' is held by another writer"
            assert zombie.err.count(fenced) == 1
    fleet(cells).run(until_caught_up=True)
    for cell in cells.values():
        cell.check("two fleets", "the older one fenced off", 0)


def test_all_at_once_twice(cells: dict[str, Cell], tmp_path: Path, s3: S3Proxy) -> None:
    """Two fleets over the same tables from the beginning: whichever commits, each record is there once."""
    for cell in cells.values():
        cell.produce(300)
    with ExitStack() as running:
        both = [running.enter_context(process(cells, tmp_path, s3, "--until-caught-up")) for _ in range(2)]
        codes = [each.wait(240) for each in both]
    assert 0 in codes or codes == [Fenced.exit_code] * 2
    fleet(cells).run(until_caught_up=True)
    for cell in cells.values():
        cell.check("two fleets at once", f"exit codes {codes}", 0)


def test_told_in_the_end(cells: dict[str, Cell]) -> None:
    """The outcome of each counts what its commits told."""
    for cell in cells.values():
        cell.produce(250)
    told = dict.fromkeys((cell.name for cell in cells.values()), 0)

    def take(name: str, event: Event) -> None:
        if isinstance(event, Committed):
            told[name] += event.counts.consumed

    ended = fleet(cells).run(until_caught_up=True, on_event=take)
    assert {each.pipeline: each.counts.consumed for each in ended} == told
    for cell in cells.values():
        cell.check("fleet, nothing", "caught up", 0)
