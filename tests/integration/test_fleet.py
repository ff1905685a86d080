"""Many pipelines in one process: each has its own fate, and every record is there once."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from support.faults import BUCKET, QUICK
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import clean_records, mixed_records
from support.servers import free_port

from lakeingest import Fleet
from lakeingest.cli import report
from lakeingest.config.file import read_any
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import BatchHeld, Fenced, SourceUnreachable, StorageUnreachable
from lakeingest.ingest.events import Committed, Ended, Event, Retrying
from lakeingest.local import Addresses
from lakeingest.testing.process import Process
from lakeingest.testing.s3 import S3Proxy, denied

HELD = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}}


@pytest.fixture
def worlds(stack: Addresses, spark: SparkSession, named: str) -> list[World]:
    """Three pipelines of twelve records each, which are cut into batches of five."""
    made = [World(stack, spark, f"{named}_{n}", trigger={"max_records": 5, "every": "1 second"}) for n in range(3)]
    for world in made:
        world.produce(*mixed_records(12))
    return made


def fleet(*worlds: World) -> Fleet:
    return Fleet([world.ingestion().config for world in worlds])


def per_topic(world: World, folder: Path, pattern: str) -> PerTopic:
    """The world's pipeline, for each topic that a pattern matches."""
    values = world.values(name="{topic}", source={"topics": {"pattern": pattern}}, table={"path": "s3a://lake/{topic}"})
    (folder / "topics.yaml").write_text(json.dumps(values))
    found = read_any(folder / "topics.yaml", {})
    assert isinstance(found, PerTopic)
    return found


@pytest.mark.slow
def test_each_ends_alone(worlds: list[World], tmp_path: Path) -> None:
    """One has no broker, one is held, one is overtaken: the others commit all, and it is told what became of each."""
    good, held, lost = worlds
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [HELD]}))
    held.changes["gate"] = {"suite": str(tmp_path / "suite.json")}
    overtaken = World(good.stack, good.spark, f"{good.name}_overtaken", trigger={"max_records": 5})
    overtaken.produce(*mixed_records(12))
    lost.changes["source"] = {"bootstrap_servers": f"127.0.0.1:{free_port()}"}
    told: list[tuple[str, Event]] = []

    def take(name: str, event: Event) -> None:
        told.append((name, event))
        if name == overtaken.name and isinstance(event, Committed) and event.sequence == 1:
            overtaken.run()

    ended = fleet(good, held, lost, overtaken).run(until_caught_up=True, on_event=take)
    assert [(each.pipeline, each.outcome, type(each.failure)) for each in ended] == [
        (good.name, "caught up", type(None)),
        (held.name, "held", BatchHeld),
        (lost.name, "failed", SourceUnreachable),
        (overtaken.name, "fenced", Fenced),
    ]
    assert (ended[0].commits, ended[0].counts.consumed, ended[0].lag) == (3, 12, 0)
    assert {n: e.failure for n, e in told if isinstance(e, Ended)} == {e.pipeline: e.failure for e in ended}
    good.checked()
    overtaken.run()
    overtaken.checked()


@pytest.mark.faults
def test_a_store_that_fails_for_one(worlds: list[World], s3: S3Proxy) -> None:
    """It is tried again by its own rules while the others go on, and catches up when its store is well."""
    hurt, *others = worlds
    hurt.changes |= {
        "table": {"path": f"s3a://{BUCKET}/{hurt.name}"},
        "storage": {"endpoint": s3.endpoint},
        "retry": {"wait": "2 minutes"},
    }
    done: list[str] = []
    retried: list[str] = []

    def take(name: str, event: Event) -> None:
        if isinstance(event, Committed) and (name, event.sequence) == (hurt.name, 1):
            s3.fault(lambda request: request.kind == "PUT" and "_delta_log" in request.key, denied())
        if isinstance(event, Retrying):
            retried.append(name)
        if isinstance(event, Ended):
            done.append(name)
        if {other.name for other in others} <= set(done) and retried:
            s3.clear()

    ended = fleet(*worlds).run(until_caught_up=True, on_event=take)
    assert [each.outcome for each in ended] == ["caught up"] * 3
    assert done[-1] == hurt.name
    assert set(retried) == {hurt.name}
    for world in worlds:
        world.checked()


@pytest.mark.slow
def test_run_of_many_as_a_command(worlds: list[World], lakeingest: Command, tmp_path: Path) -> None:
    """A folder of files; the exit code is the worst, and the JSON says what became of each."""
    for world in worlds:
        (tmp_path / f"{world.name}.yaml").write_text(json.dumps(world.values()))
    said = lakeingest("run", tmp_path, "--until-caught-up", "--log-format", "none", "--output", "json")
    assert (said.code, said.err) == (0, "")
    wanted: dict[str, Any] = {"outcome": "caught up", "error": None, "commits": 3, "consumed": 12, "accepted": 9}
    wanted |= {"refused": 3, "dropped": 0, "lag": 0}
    assert said.data == {"pipelines": [{"pipeline": world.name, **wanted} for world in worlds]}
    (tmp_path / "none.yaml").write_text(
        json.dumps(
            {
                **worlds[0].values(),
                "name": "none",
                "source": {"topics": ["no_such_topic"]},
                "table": {"path": "s3a://lake/none"},
            }
        )
    )
    said = lakeingest("run", tmp_path, "--until-caught-up", "--log-format", "none")
    assert said.code == 2
    assert "none: failed: " in said.out
    assert said.err.startswith("none: error (usage): topic 'no_such_topic' does not exist")
    assert said.out.count("caught up") == 6


@pytest.mark.classic
@pytest.mark.faults
def test_asked_to_stop(worlds: list[World], tmp_path: Path) -> None:
    """SIGTERM: each ends within its batch, and the process with 0."""
    for world in worlds:
        world.produce(*clean_records(200))
        (tmp_path / f"{world.name}.yaml").write_text(json.dumps(world.values()))
    with Process(tmp_path, env={"LAKEINGEST_STATE": str(tmp_path / "state"), **QUICK}) as process:
        process.commits(len(worlds))
        process.signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.err
        assert process.out.count("stopped") >= len(worlds)
    for world in worlds:
        world.run()
        world.checked()


@pytest.mark.faults
def test_a_table_for_each_topic(worlds: list[World], lakeingest: Command, tmp_path: Path) -> None:
    """One that comes while the run goes is taken up; one that is deleted ends alone, and is told."""
    new, gone, kept = worlds
    admin = AdminClient({"bootstrap.servers": new.stack.kafka})
    late = World(new.stack, new.spark, f"{new.name}_late")
    stop, ended = threading.Event(), dict[str, Ended]()

    def take(name: str, event: Event) -> None:
        if isinstance(event, Ended):
            ended[name] = event
        if isinstance(event, Committed) and event.lag == 0:
            if name == gone.name:
                admin.delete_topics([name])[name].result()
            if name == kept.name:
                late.produce(*mixed_records(7))
        if gone.name in ended and (name, isinstance(event, Committed)) == (late.name, True):
            stop.set()
        if len(ended) == 1 and name == late.name:
            stop.set()

    pattern = per_topic(new, tmp_path, f"{new.name[:-2]}_(1|2|0.*)")
    found = Fleet([pattern]).run(on_event=take, stop=stop)
    assert {each.pipeline: each.outcome for each in found} == {
        new.name: "stopped",
        gone.name: "failed",
        kept.name: "stopped",
        late.name: "stopped",
    }
    assert f"topic '{gone.name}' does not exist" in str(ended[gone.name].failure)
    for world in (new, kept, late):
        world.run()
        world.checked()
    said = lakeingest("audit", tmp_path / f"topics.yaml:{late.name}", "--output", "json")
    assert (said.code, said.data["consumed"]) == (0, 7)
    assert "name one, as in" in lakeingest("plan", tmp_path / "topics.yaml").err
    # The topic that was deleted is none of the pattern's any more.
    asked = [new.name, kept.name, late.name]
    for command in (("audit",), ("status",), ("quarantine", "list")):
        said = lakeingest(*command, tmp_path / "topics.yaml", "--output", "json")
        assert (said.code, [each["pipeline"] for each in said.data["pipelines"]]) == (0, sorted(asked))
    page = report.page_of([pattern])
    assert all(name in page for name in asked)


def test_a_pattern_that_matches_nothing(worlds: list[World], tmp_path: Path) -> None:
    """It is told alone; the other pipelines go on."""
    ended = Fleet([per_topic(worlds[0], tmp_path, "nobody-.*"), worlds[1].ingestion().config]).run(until_caught_up=True)
    assert [(each.pipeline, each.outcome) for each in ended] == [(worlds[1].name, "caught up"), ("{topic}", "failed")]
    assert "'nobody-.*' matches no topic's whole name" in str(ended[1].failure)


@pytest.mark.faults
def test_batches_are_judged_by_their_own_rows(worlds: list[World], tmp_path: Path) -> None:
    """Great Expectations has one name for all batches that it is asked about in a process."""
    query = "SELECT * FROM {batch} WHERE text <> '%s'"
    for at, world in enumerate(worlds):
        rule = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query % at}}
        (tmp_path / f"{at}.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
        world.changes["gate"] = {"suite": str(tmp_path / f"{at}.json")}
        world.changes["trigger"] = {"max_records": 4}
        world.name += "_own"
        world.produce(*[f'{{"n": {n}, "text": "{at}"}}'.encode() for n in range(24)])
    before = SparkSession.active()
    ended = Fleet([world.ingestion().config for world in worlds], at_once=3).run(until_caught_up=True)
    assert [(each.outcome, each.commits) for each in ended] == [("caught up", 6)] * 3
    assert SparkSession.active() is before


@pytest.mark.faults
def test_the_first_has_no_store(worlds: list[World]) -> None:
    """Spark is started for all of them, and for none alone."""
    hurt, good, _ = worlds
    hurt.changes |= {
        "table": {"path": f"s3a://{BUCKET}/{hurt.name}"},
        "storage": {"endpoint": f"http://127.0.0.1:{free_port()}"},
    }
    ended = fleet(hurt, good).run(until_caught_up=True)
    assert [each.outcome for each in ended] == ["failed", "caught up"]
    assert isinstance(ended[0].failure, StorageUnreachable)
    good.checked()


@pytest.mark.faults
def test_one_quarantine_for_all(worlds: list[World]) -> None:
    """Each finds its own records in it, and settles its own batches."""
    for world in worlds:
        world.changes |= {"quarantine": {"path": f"s3a://lake/{worlds[0].name}_refused"}, "trigger": {"max_records": 5}}
    ended = fleet(*worlds).run(until_caught_up=True)
    assert [(each.outcome, each.counts.refused) for each in ended] == [("caught up", 3)] * 3
    for world in worlds:
        report = world.ingestion().audit()
        assert (report.conserved, report.quarantine, report.table) == (True, 3, 9)
        assert sum(each["count"] for each in world.ingestion().quarantined()) == 3
