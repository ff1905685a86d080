"""What lies behind a pipeline comes into its tables, once, beside its run or without one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, OF_A_DIRTY_BATCH
from support.oracle import assert_exactly_once
from support.pipelines import World, forget_receipts
from support.pipelines.command_line import Command
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, clean_records, expire_records, mixed_records, produce, transaction
from support.records.weather import AVRO, VERSIONS, weather

from lakeingest.delta import commit, table_properties
from lakeingest.delta.receipt import Counts
from lakeingest.errors import BatchHeld, Fenced, OffsetsLost, StorageError, TableChanged, UsageError
from lakeingest.ingest.events import Committed, Ended, Event, Started
from lakeingest.kafka.broker import Broker
from lakeingest.kafka.offsets import Topics
from lakeingest.local import Addresses
from lakeingest.testing.s3 import S3Proxy
from lakeingest.testing.steps import Step, cut_off_at

LATEST = {"source": {"start": "latest"}}
JSON = {"schema": {"compatibility": "BACKWARD"}}
"""The table follows fields that are not declared."""


def begun(world: World, *records: Any, partitions: int = 2) -> World:
    """A pipeline that began at the latest record: of these it has none."""
    world.produce(*records, partitions=partitions)
    world.run()
    return world


@pytest.fixture
def late(stack: Addresses, spark: SparkSession, named: str) -> World:
    """One that lacks 24 records in two partitions, and has the four that came later."""
    world = begun(World(stack, spark, named, **LATEST), *mixed_records(24))
    world.produce(*clean_records(4), partitions=2)
    world.run()
    return world


def version(world: World, of: str = "") -> int:
    return int(world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path(of)}`").first()["version"])  # type: ignore[index]


def once(then: Callable[[], object], kind: type[Event] = Committed) -> Callable[[Event], None]:
    """For `on_event`: does something at the first event of a kind."""
    done = list[Event]()

    def hear(event: Event) -> None:
        if isinstance(event, kind) and not done:
            done.append(event)
            then()

    return hear


@pytest.mark.slow
def test_history_before_latest(late: World, tmp_path: Path, lakeingest: Command) -> None:
    """A dry run takes nothing; a second backfill finds nothing to take; the run goes on where it was."""
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(late.values()))
    before = late.ingestion()
    versions = version(late), version(late, "_quarantine")
    dry = before.backfill(dry_run=True)
    assert (dry.offsets, dry.held, dry.commits, dry.counts, dry.remaining) == (24, 0, 0, Counts(), 24)
    said = lakeingest("backfill", file, "--dry-run", "--rate", 12)
    assert (said.code, "at 12 a second that takes 2 s" in said.out) == (0, True), said
    assert (version(late), version(late, "_quarantine")) == versions
    heard = list[Event]()
    done = before.backfill(max_records=14, rate=1000, on_event=heard.append)
    assert (done.counts, done.commits, done.remaining) == (Counts(24, 19, 5, 0), 2, 0)
    assert [type(event) for event in heard] == [Started, Committed, Committed, Ended]
    assert [e.lag for e in heard if isinstance(e, Committed)] == [10, 0]
    report = late.checked()
    assert (report.consumed, report.backfilled, report.backfills) == (28, 24, 2)
    late.produce(*clean_records(3), partitions=2)
    assert late.run().consumed == 3
    said = lakeingest("backfill", file)
    assert (said.code, "nothing to take" in said.out) == (0, True), said
    status = before.status()
    assert (status.commits[0]["rows"], status.backfill[0]["sequence"], status.backfill[0]["remaining"]) == (3, 2, 0)
    assert [row["sequence"] for row in before.history().where("backfill").collect()] == [2, 1]


@pytest.mark.faults
@pytest.mark.parametrize("step", OF_A_DIRTY_BATCH[1:], ids=lambda step: step.name.lower())
def test_a_backfill_is_cut_off(stack: Addresses, spark: SparkSession, s3: S3Proxy, named: str, step: Step) -> None:
    """At whatever step: the next backfill settles what was open, and takes what is left."""
    world = begun(World(stack, spark, named, **LATEST, table={"path": f"s3a://{BUCKET}/{named}"}), *mixed_records(12))
    there = cut_off_at(s3, step, world.path(), world.path("_quarantine"))
    with pytest.raises(StorageError):
        world.ingestion().backfill(max_records=6)
    assert there.is_set()
    s3.clear()
    world.produce(*mixed_records(2), partitions=2)
    world.run()
    world.ingestion().backfill(max_records=6)
    assert world.checked().consumed == 14


@pytest.mark.faults
@pytest.mark.parametrize("of", ["table", "both"])
def test_behind_clean_up(late: World, of: str) -> None:
    """No receipt tells any more what was taken: the coordinates do."""
    late.ingestion().backfill(until=f"{late.name}-0:6")
    for path in (late.path(), late.path("_quarantine"))[: 1 if of == "table" else 2]:
        forget_receipts(late.spark, late.stack, path)
    late.produce(*clean_records(2), partitions=2)
    late.run()
    dry = late.ingestion().backfill(dry_run=True)
    assert dry.held == 10
    done = late.ingestion().backfill()
    assert done.held == dry.held
    assert done.counts.consumed == 18
    assert_exactly_once(late.spark, late.ingestion(), late.produced)
    report = late.ingestion().audit()
    assert report.conserved, report


@pytest.mark.faults
def test_backfilled_and_restored(late: World) -> None:
    """What a RESTORE takes back, the next backfill takes again; what it brings back, is not taken again."""
    before = version(late)
    late.ingestion().backfill()
    after = version(late)
    late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}")
    assert late.ingestion().audit().consumed == 4
    late.produce(*clean_records(2), partitions=2)
    late.run()
    assert late.ingestion().backfill(max_records=7).counts == Counts(19, 19, 0, 0), "quarantine has the others still"
    late.checked()
    late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {after}")
    late.run()
    assert late.ingestion().backfill().offsets == 0
    late.checked()


@pytest.mark.faults
@pytest.mark.parametrize("when", ["between", "over"])
def test_restored_while_a_backfill_runs(late: World, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """To a version before its batches, between two of them; and to one that has the very batch which is on its way."""
    before = version(late)
    late.ingestion().backfill(max_records=12)
    if when == "between":
        late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}")
        back = once(lambda: late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}"))
        late.ingestion(retry={"wait": "1 minute"}).backfill(max_records=12, on_event=back)
    else:
        after, write = version(late), commit.write
        late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}")

        def restored(*given: Any, **more: Any) -> Any:
            late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {after}")
            return write(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(commit, "write", restored)
            with pytest.raises(TableChanged):
                late.ingestion().backfill(max_records=12)
        report = late.ingestion().audit()
        assert not report.conserved
        assert "of a backfill takes again" in report.breaks[0]
        assert late.ingestion().backfill().offsets == 0
    late.checked()


@pytest.mark.faults
@pytest.mark.parametrize("run", ["later", "before its commit", "before and later"])
def test_restored_to_before_a_gap(world: World, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    """A gap's records are with a backfill, on their way, and after a RESTORE they are the run's to take."""
    world.produce(*mixed_records(10))
    world.run()
    before = version(world)
    world.produce(*mixed_records(10))
    topics, write = Broker.topics, commit.write

    def begins_later(broker: Broker) -> Topics:
        return replace(topics(broker), first={(world.name, 0): 16})

    with monkeypatch.context() as patched:
        patched.setattr(Broker, "topics", begins_later)
        world.ingestion().run(until_caught_up=True, accept_gap=True)

    def restored(*given: Any, **more: Any) -> Any:
        patched.setattr(commit, "write", write)
        world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}")
        if run != "later":
            world.run(trigger={"max_records": 6})
        return write(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(commit, "write", restored)
        with pytest.raises(TableChanged):
            world.ingestion().backfill()
    if run == "before and later":
        world.produce(*mixed_records(4))
    if run != "before its commit":
        world.run()
    world.ingestion().backfill()
    world.run()
    assert world.checked().conserved


@pytest.mark.faults
def test_the_pipeline_is_restored_meanwhile(late: World) -> None:
    """The run takes again what was its own; the backfill never does."""
    late.produce(*clean_records(4), partitions=2)
    late.run()
    begins = late.commit_log().commits[-1].version
    restored = once(lambda: (late.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {begins}"), late.run()))
    late.ingestion(retry={"wait": "1 minute"}).backfill(max_records=6, on_event=restored)
    assert late.checked().consumed == 32


@pytest.mark.faults
def test_two_backfills_at_once(late: World) -> None:
    """The second takes over, and the first is fenced; the run is neither's business."""
    other = late.ingestion()
    with pytest.raises(Fenced, match="backfill"):
        late.ingestion().backfill(max_records=6, on_event=once(lambda: other.backfill(max_records=6)))
    late.produce(*clean_records(2), partitions=2)
    late.run()
    assert late.checked().consumed == 30


@pytest.mark.faults
def test_stopped_and_beside_a_run(late: World) -> None:
    """A run commits between its batches; it is stopped, and goes on."""
    stop = threading.Event()

    def run() -> None:
        late.produce(*mixed_records(5), partitions=2)
        late.run()
        stop.set()

    done = late.ingestion().backfill(max_records=5, on_event=once(run), stop=stop)
    assert (done.commits, done.remaining) == (1, 19)
    assert late.ingestion().status().backfill[0]["remaining"] == 19
    assert late.ingestion().audit().conserved
    late.ingestion().backfill()
    assert late.checked().consumed == 33


@pytest.mark.faults
@pytest.mark.parametrize("asked", ["named", "time"])
def test_a_part(stack: Addresses, spark: SparkSession, named: str, asked: str) -> None:
    """By offsets or by time; the parts that are left are taken another time."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    records = [Record(v, partition=n % 2, at=start + timedelta(hours=n)) for n, v in enumerate(clean_records(20))]
    world = begun(World(stack, spark, named, **LATEST), *records)
    if asked == "named":
        since: Any = [f"{named}-0:2", f"{named}-1:3"]
        until: Any = [f"{named}-1:5", f"{named}-0:4"]
    else:
        since, until = "2026-11-01T04:00", start + timedelta(hours=8)
    ingestion = world.ingestion()
    taken = ingestion.backfill(since, until)
    wanted = [(0, 2, 4), (1, 3, 5)] if asked == "named" else [(0, 2, 4), (1, 2, 4)]
    assert [(r["partition"], r["start"], r["end"]) for r in taken.ranges] == wanted
    assert ingestion.audit().conserved
    # Two ranges of each partition, which no receipt can name together.
    assert (ingestion.backfill().commits, world.checked().consumed) == (2, 20)


@pytest.mark.faults
def test_what_kafka_no_longer_has(late: World) -> None:
    """It is named, and nothing half done; what is left is taken where that is asked for."""
    expire_records(late.stack, late.name, 3)
    here = version(late)
    with pytest.raises(OffsetsLost, match=f"no longer has {late.name}-0 offsets 1 to 2, and no receipt"):
        late.ingestion().backfill([f"{late.name}-0:1", f"{late.name}-1:0"])
    with pytest.raises(OffsetsLost, match="it begins at 3"):
        late.ingestion().backfill(until=f"{late.name}-0:2")
    assert version(late) == here
    expire = once(lambda: expire_records(late.stack, late.name, 9))
    with pytest.raises(OffsetsLost, match="offsets 5 to 8"):
        late.ingestion().backfill(max_records=6, on_event=expire)
    assert late.ingestion().audit().consumed == 10
    assert late.ingestion().backfill("earliest").counts.consumed == 11
    report = late.ingestion().audit()
    assert (report.conserved, report.consumed, report.unexpected) == (True, 21, 0)


@pytest.mark.faults
def test_a_gap_that_was_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka said that its records were gone, and has them again."""
    world.produce(*mixed_records(10))
    world.run()
    world.produce(*mixed_records(10))
    topics = Broker.topics

    def begins_later(broker: Broker) -> Topics:
        return replace(topics(broker), first={(world.name, 0): 16})

    with monkeypatch.context() as patched:
        patched.setattr(Broker, "topics", begins_later)
        world.ingestion().run(until_caught_up=True, accept_gap=True)
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.named["lost"]) == (True, 6, [f"{world.name}-0 offsets 10 to 15"])
    world.ingestion().backfill(until=f"{world.name}-0:13")
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.named["lost"]) == (True, 3, [f"{world.name}-0 offsets 13 to 15"])
    world.ingestion().backfill()
    report = world.checked()
    assert (report.consumed, report.lost, report.named) == (20, 0, {})


@pytest.mark.faults
def test_a_new_topics_past(late: World) -> None:
    """Of a topic that the file names later, and of one that the run has not come to yet."""
    more = f"{late.name}_more"
    late.produced.update(produce(late.stack, more, mixed_records(6)))
    both = {"source": {"topics": [late.name, more]}}
    with pytest.raises(UsageError, match="has not begun"):
        late.ingestion(**both).backfill(f"{more}-0:0")
    assert late.ingestion(**both).backfill(until=f"{late.name}-0:2").offsets == 2
    late.run(**both)
    late.ingestion(**both).backfill()
    assert late.checked(late.name, more, **both).consumed == 34


def test_before_there_is_anything(world: World) -> None:
    """No table, or nothing that the pipeline has committed: a sentence, and a cure."""
    world.produce(*clean_records(2))
    with pytest.raises(UsageError, match="there is no Delta table"):
        world.ingestion().backfill(dry_run=True)


@pytest.mark.faults
def test_offsets_without_records(world: World) -> None:
    """Transaction markers and aborted records count as gaps, in backfills too."""
    late = World(world.stack, world.spark, world.name, **LATEST, decode={"on_null": "ignore"})
    transaction(late.stack, late.name, clean_records(5), commit=True)
    transaction(late.stack, late.name, clean_records(5), commit=False)
    transaction(late.stack, late.name, [*mixed_records(5), None], commit=True)
    late.run()
    done = late.ingestion().backfill(max_records=4)
    assert done.counts == Counts(11, 9, 1, 1)
    report = late.checked()
    assert (report.consumed, report.gaps, report.dropped) == (11, 8, 1)


@pytest.mark.faults
def test_older_schemas_are_projected(stack: Addresses, spark: SparkSession, named: str) -> None:
    """The ledger of the pipeline stays as it is, as a property and in receipts; a newer schema ends the backfill."""
    world = SchemaWorld(stack, spark, named, **AVRO, **LATEST)
    first, second = (world.avro(each) for each in VERSIONS[:2])
    world.produce(first(weather(1, 0)), second(weather(2, 1)), first(weather(1, 2)), b"no schema")
    # "latest" is remembered when the registry says what the columns are.
    world.run()
    world.produce(second(weather(2, 4)))
    world.run()
    ledger, kept = world.ledger, _kept(world)
    done = world.ingestion().backfill(max_records=3)
    assert done.counts == Counts(4, 3, 1, 0)
    assert (world.ledger, _kept(world)) == (ledger, kept)
    world.produce(second(weather(2, 5)))
    world.run()
    assert world.ledger == ledger
    columns = world.columns("origin", "gust", "_offset")
    assert columns[:3] == [("v1-0", None, 0), ("v2-1", 1.5, 1), ("v1-2", None, 2)]
    world.checked()


def _kept(world: World) -> Any:
    return table_properties.ledger(world.ingestion().tables.main.properties(), world.name)


@pytest.mark.faults
def test_a_schema_that_would_change_the_table(stack: Addresses, spark: SparkSession, named: str) -> None:
    """It ends the backfill until the pipeline itself has brought the columns; also while the backfill goes."""
    world = World(stack, spark, named, **LATEST, **JSON)
    more = json.dumps({"n": 1, "text": "x", "more": 1.5}).encode()
    begun(world, *clean_records(3), more, *clean_records(2), partitions=1)
    here = version(world)
    with pytest.raises(UsageError, match=r"would change the table \(their fields\): \+ more DOUBLE"):
        world.ingestion().backfill()
    assert version(world) == here

    def evolve() -> None:
        world.produce(more)
        world.run()

    done = world.ingestion().backfill(max_records=3, on_event=once(evolve))
    assert done.counts.accepted == 6
    assert [row["more"] for row in world.rows()] == [None, None, None, 1.5, None, None, 1.5]
    with pytest.raises(UsageError, match="declares columns that the table does not have yet"):
        world.ingestion(schema={"columns": "n INT NOT NULL, text STRING, other INT"}).backfill()
    world.checked()


@pytest.mark.faults
def test_a_batch_that_is_held(late: World, tmp_path: Path, lakeingest: Command) -> None:
    """It ends the backfill, and is let through once, by name and reason; the gate's results have both."""
    rule = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "n", "max_value": 5}}
    suite, file = tmp_path / "suite.json", tmp_path / "p.yaml"
    suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    file.write_text(json.dumps(late.values(gate={"suite": str(suite)})))
    with pytest.raises(BatchHeld, match="backfill --accept-held"):
        late.ingestion(gate={"suite": str(suite)}).backfill()
    assert lakeingest("backfill", file).code == 1
    said = lakeingest("backfill", file, "--accept-held", "it was a good month", "--output", "json")
    assert (said.code, json.loads(said.out)["counts"]["accepted"]) == (0, 19), said
    results = late.spark.read.format("delta").load(late.path("_expectations")).orderBy("time")
    assert [tuple(row) for row in results.select("pipeline", "outcome").collect()] == [
        (f"{late.name}:backfill", outcome) for outcome in ("held", "held", "accepted")
    ]
    late.checked(gate={"suite": str(suite)})


@pytest.mark.faults
def test_a_batch_that_retention_overtook(stack: Addresses, spark: SparkSession, s3: S3Proxy, named: str) -> None:
    """Cut off between its commits, and Kafka forgets: it stops, until somebody accepts that."""
    world = begun(World(stack, spark, named, **LATEST, table={"path": f"s3a://{BUCKET}/{named}"}), *mixed_records(12))
    cut_off_at(s3, Step.COMMITTED, world.path(), world.path("_quarantine"))
    with pytest.raises(StorageError):
        world.ingestion().backfill(max_records=6)
    s3.clear()
    expire_records(stack, named, 2)
    with pytest.raises(OffsetsLost, match="--accept-gap"):
        world.ingestion().backfill()
    world.ingestion().backfill(accept_gap=True)
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.consumed) == (True, 1, 11)


@pytest.mark.faults
def test_a_shared_table_and_quarantine(late: World) -> None:
    """Another pipeline's backfill is none of this one's, and no other name of this pipeline's."""
    late.ingestion().backfill()
    name = f"{late.name}_other"
    other = World(late.stack, late.spark, name, **LATEST)
    shared = {"table": {"path": late.path()}, "quarantine": {"path": late.path("_quarantine")}}
    begun(other, *mixed_records(7))
    other.changes = {**other.changes, **shared}
    other.run()
    other.ingestion().backfill()
    late.produce(*clean_records(2), partitions=2)
    late.run()
    for world in (late, other):
        report = world.ingestion().audit()
        assert (report.conserved, report.others) == (True, {}), report
    assert late.ingestion().audit().consumed == 30
    renamed = {"name": f"{late.name}_new", "renamed_from": late.name}
    assert late.ingestion(**renamed).backfill(dry_run=True).offsets == 0
    assert late.ingestion(**renamed).audit().backfilled == 24
