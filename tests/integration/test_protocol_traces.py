"""Random histories of a pipeline, lived by the protocol's model and by the real code: after each step both agree."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET
from support.oracle.protocol_model import (
    BATCH,
    Bounds,
    Commit,
    Replay,
    Run,
    State,
    Stopped,
    completed,
    discard,
    replay_on,
    run_on,
    wrong,
)
from support.pipelines import config_of
from support.records import Record, create_topic, expire_records, produce

from lakeingest.errors import LakeingestError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.s3 import Request, S3Proxy, denied

KINDS = "grbdg"
RECORDS = {"g": b'{"n": 1}', "r": b'{"n": 100}', "b": b"{", "d": Record(None, b"gone")}
STEPS = 6


class Real:
    """The pipeline itself, whose store can fail at a step."""

    def __init__(self, stack: Addresses, spark: SparkSession, s3: S3Proxy, name: str, folder: Path) -> None:
        self.stack, self.spark, self.s3, self.name, self.folder = stack, spark, s3, name, folder
        self.last = 0
        create_topic(stack, name)

    def ingestion(self, most: int = 50) -> Pipeline:
        suite = self.folder / f"suite_{most}.json"
        rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": most}}
        suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
        return Pipeline(
            config_of(
                self.stack,
                self.name,
                schema={"columns": "n INT NOT NULL"},
                decode={"on_null": "ignore"},
                table={"path": f"s3a://{BUCKET}/{self.name}"},
                trigger={"max_records": BATCH},
                gate={"suite": str(suite)},
            )
        )

    def produce(self) -> None:
        kinds = (KINDS[offset % len(KINDS)] for offset in range(self.last, self.last + BATCH))
        produce(self.stack, self.name, [RECORDS[kind] for kind in kinds])
        self.last += BATCH

    @contextmanager
    def failing(self, at: str | None) -> Iterator[None]:
        """While the store denies the commits of a step."""
        where = {"commit": self.name, "set aside": f"{self.name}_quarantine", "mark": f"{self.name}_quarantine"}

        def hit(request: Request) -> bool:
            inside = request.kind == "PUT" and request.key.startswith(f"{where[at or '']}/_delta_log/0")
            return inside and '"operation":"CREATE' not in request.text

        if at is not None:
            self.s3.fault(hit, denied())
        try:
            yield
        finally:
            self.s3.clear()

    def versions(self) -> list[int]:
        """The table's versions as the model counts them."""
        path = self.ingestion().config.table.path
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version").collect()
        return [0, *(row["version"] for row in history if row["operation"] in ("WRITE", "RESTORE"))]

    def found(self) -> tuple[list[int], list[tuple[int, bool, bool]]]:
        """The table's rows, and quarantine's with whether they were moved or discarded."""
        config = self.ingestion().config
        rows = self.spark.read.format("delta").load(config.table.path).select("_offset").collect()
        refused = self.spark.read.format("delta").load(config.quarantine.path).where("moved.replay IS DISTINCT FROM -1")
        marks = refused.selectExpr("_offset", "moved IS NOT NULL", "discarded IS NOT NULL").collect()
        return sorted(row[0] for row in rows), sorted(tuple(row) for row in marks)


def modelled(state: State) -> tuple[list[int], list[tuple[int, bool, bool]]]:
    """The same of the model."""
    return sorted(state.rows("A")), sorted((r.offset, bool(r.moved), r.discarded) for r in state.quarantine)


def walk(state: State, work: Any, on: Callable[..., Any], until: str | None, **how: Any) -> tuple[State, bool]:
    """All steps of a run or replay, or as far as the step that fails; whether it ended well."""
    while work is not None:
        if until is not None and work.step in (until, "settle" if until == "set aside" else until):
            return state, False
        try:
            state, work = on(state, work, **how)
        except Stopped:
            return state, False
    return state, True


def step(state: State, real: Real, dice: random.Random) -> tuple[State, str]:
    """One thing that happens to both."""
    what = dice.choice(
        ["produce", "run", "run", "run cut off", "replay", "replay cut off", "restore", "discard", "expire"]
    )
    well: bool | None = None
    if what == "produce" or not state.last or (what != "run" and not state.tables):
        real.produce()
        return replace(state, last=state.last + BATCH), "produce"
    at: str | None = None
    do: Callable[[], object] = lambda: None  # noqa: E731
    match what:
        case "run" | "run cut off":
            at = dice.choice(["commit", "set aside"]) if what != "run" else None
            accept = dice.random() < 0.5
            state, well = walk(state, Run("A", state.last), run_on, at, accept_gap=accept)
            do = lambda: real.ingestion().run(until_caught_up=True, accept_gap=accept)  # noqa: E731
        case "replay" | "replay cut off":
            at = dice.choice(["commit", "mark"]) if what != "replay" else None
            state, well = walk(state, Replay("A"), replay_on, at)
            do = lambda: real.ingestion(200).replay("a trace")  # noqa: E731
        case "restore":
            version = dice.randrange(len(state.log("A")))
            to = real.versions()[version]
            state = state.commit("A", Commit("restore", version))
            path = real.ingestion().config.table.path
            do = lambda: real.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {to}").collect()  # noqa: E731
        case "discard":
            state = discard(state, "A")
            do = lambda: real.ingestion().discard("a trace")  # noqa: E731
        case _:
            expire_records(real.stack, real.name, state.last)
            state = replace(state, first=state.last)
    with real.failing(at):
        try:
            do()
            ended = True
        except LakeingestError:
            ended = False
    assert well is None or ended == well
    return state, f"{what} {at or ''}"


def live(real: Real, seed: int) -> None:
    """A history of so many steps; at its end all is brought to where it belongs, and the audit says so."""
    dice, way = random.Random(seed), list[str]()
    state = State(Bounds(KINDS))
    for _ in range(STEPS):
        state, name = step(state, real, dice)
        way.append(name)
        if state.tables:
            assert real.found() == modelled(state), way
    assert wrong(state) is None, way
    state = completed(state, "A")
    real.ingestion().run(until_caught_up=True, accept_gap=True)
    assert real.found() == modelled(state), way
    report = real.ingestion().audit()
    assert (report.missing, report.duplicated, report.unexpected, report.breaks) == (0, 0, 0, ()), (way, report)


@pytest.fixture
def real(stack: Addresses, spark: SparkSession, s3: S3Proxy, named: str, tmp_path: Path) -> Real:
    return Real(stack, spark, s3, named, tmp_path)


@pytest.mark.slow
def test_a_history(real: Real) -> None:
    """One of them: it goes through more than most pipelines do."""
    live(real, 1)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(100, 130))
def test_histories(real: Real, seed: int) -> None:
    """Thirty of them."""
    live(real, seed)
