"""Batch after batch: which schema is met when, and what the table makes of it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import SparkSession
from support.pipelines import forget_receipts
from support.pipelines.schema_world import SchemaWorld
from support.records import registered
from support.records.registered import maybe, record
from support.records.weather import ADDED, AVRO, FIRST, NARROW, PAST_INT, VERSIONS, weather

from lakeingest.delta.receipt import Counts
from lakeingest.ingest import microbatch
from lakeingest.ingest.events import Committed
from lakeingest.local import Addresses


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, **AVRO)


# A deploy while the pipeline runs


@pytest.mark.faults
def test_a_rolling_deploy(world: SchemaWorld) -> None:
    """Producers of v1 and v2 at once, v2 registered while the pipeline runs: no restart, no loss, no refusal."""
    first = world.avro(VERSIONS[0])
    world.produce(*(first(weather(1, n)) for n in range(10)), partitions=2)
    stop, told, taken = threading.Event(), [], threading.Semaphore(0)
    ingestion = world.ingestion(trigger={"every": "1 second"})

    def told_of(progress: Committed) -> None:
        told.append(progress.counts)
        taken.release(progress.counts.consumed)

    def wait_for(count: int) -> None:
        for _ in range(count):
            assert taken.acquire(timeout=60)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(ingestion.run, on_progress=told_of, stop=stop)
        try:
            wait_for(10)
            second = world.avro(VERSIONS[1])
            sent = [writer(weather(v, n)) for n in range(10) for v, writer in ((1, first), (2, second))]
            for part in (sent[:10], sent[10:]):
                world.produce(*part, partitions=2)
                wait_for(10)
        finally:
            stop.set()
        assert running.result(60) == Counts(30, 30)
    assert sum(told, Counts()) == Counts(30, 30)
    assert world.ledger.current["value"].version == 2
    assert Counter(world.columns("_schema_id", "gust IS NULL", "note IS NULL")) == {
        (first.id, True, True): 20,
        (second.id, False, False): 10,
    }
    world.checked()


# Batch after batch


@pytest.mark.slow
def test_an_older_version_after_a_newer_one(world: SchemaWorld) -> None:
    """BACKWARD takes it, without a default, by the ledger of the log, and without a receipt by that of the property."""
    old, new = (world.avro(tree) for tree in VERSIONS[:2])
    world.produce(new(weather(2, 0)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    world.produce(old(weather(1, 1)), new(weather(2, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 2)
    known = world.ledger
    assert [(e.version, e.verdict, e.action, e.sequence) for e in known.entries] == [
        (2, "OK", "evolve", 1),
        (1, "OK", "project", 2),
    ]
    forget_receipts(world.spark, world.stack, f"s3a://lake/{world.name}")
    assert world.commit_log().newest is None
    world.produce(old(weather(1, 2)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.ledger == known
    assert world.columns("origin", "gust", "note") == [
        ("v2-0", 0.5, "note 0"),
        ("v1-1", None, None),
        ("v2-1", 1.5, "note 1"),
        ("v1-2", None, None),
    ]


def test_the_oldest_version_is_found_later(world: SchemaWorld) -> None:
    """FORWARD moves to it, and newer records go on filling the columns that the table has."""
    mode = {"schema": {"compatibility": "FORWARD"}}
    old, new = (world.avro(tree) for tree in VERSIONS[:2])
    world.produce(new(weather(2, 0)))
    world.ingestion(**mode).run(until_caught_up=True)
    world.produce(new(weather(2, 1)), old(weather(1, 1)))
    assert world.ingestion(**mode).run(until_caught_up=True) == Counts(2, 2)
    assert world.ledger.current["value"].version == 1
    assert [(e.version, e.verdict, e.action, e.changes) for e in world.ledger.entries] == [
        (2, "OK", "evolve", (*ADDED[0], *ADDED[1])),
        (1, "DIFFERENT_VERSION", "evolve", ("- gust DOUBLE", "- note STRING")),
    ]
    assert world.columns("origin", "gust", "note", "_rescued") == [
        ("v2-0", 0.5, "note 0", None),
        ("v2-1", 1.5, "note 1", None),
        ("v1-1", None, None, None),
    ]


@pytest.mark.faults
def test_a_stray_schema_does_not_become_the_tables(world: SchemaWorld) -> None:
    """A record whose schema belongs to another subject comes first, alone even: it is refused, not followed."""
    stray = registered.avro(world.stack, f"{world.name}-stray", record("Stray", n="int"))
    mine = world.avro(VERSIONS[0])
    world.produce(stray(n=1))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 0, 1)
    world.produce(stray(n=2), mine(weather(1, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 1, 1)
    stage, reason, message = world.reasons[0, 0]
    assert (stage, reason) == ("schema", "VERSION_REQUIRED")
    assert message.startswith(f"schema id {stray.id} (in no version of {world.name}-value, but ")
    assert message.endswith("no version tells older from newer")
    assert world.reasons[0, 1] == world.reasons[0, 0]
    assert world.value_types == {name: NARROW[name] for name in FIRST}
    world.checked()


# JSON that nobody has a schema of


@pytest.mark.parametrize("mode", ["BACKWARD", pytest.param("FORWARD", marks=pytest.mark.faults)])
def test_undeclared_json_fields(stack: Addresses, spark: SparkSession, mode: str) -> None:
    """BACKWARD makes columns of them in that very batch, nested too, but for null; FORWARD keeps them in _rescued."""
    topic = f"undeclared_{mode.lower()}"
    changes = {"schema": {"columns": "n INT NOT NULL, at STRUCT<lat: DOUBLE>", "compatibility": mode}}
    world = SchemaWorld(stack, spark, topic, **changes)
    world.produce(b'{"n": 0, "at": {"lat": 0.5}}', b'{"n": 1, "gust": 1.5, "at": {"lat": 1.5, "zip": "z"}}')
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 2)
    batch = [
        b'{"n": 2, "gust": 2.5, "stop": {"name": "s"}, "price": 1234567890123456.78}',
        b'{"n": 3, "stop": {"name": "t", "minutes": 3}, "void": null}',
        b'{"n": 4, "gust": "strong"}',
    ]
    world.produce(*batch, b'{"gust": 1.5}')
    counts = world.ingestion().run(until_caught_up=True)
    if mode == "FORWARD":
        assert counts == Counts(4, 3, 1)
        assert world.value_types == {"n": "int", "at": "struct<lat:double>"}
        left = [json.loads(text) if text else None for (text,) in world.columns("_rescued")]
        assert left[0] is None
        assert left[1] == {"gust": 1.5, "at": {"lat": 1.5, "zip": "z"}}
        assert left[2:] == [{k: v for k, v in json.loads(each).items() if k != "n"} for each in batch]
    else:
        assert world.value_types == {
            "n": "int",
            "at": "struct<lat:double,zip:string>",
            "gust": "double",
            "stop": "struct<name:string,minutes:bigint>",
        }
        assert counts == Counts(4, 2, 2)
        assert world.columns("n", "at.lat", "at.zip", "gust", "stop.name", "stop.minutes", "_rescued") == [
            (0, 0.5, None, None, None, None, None),
            (1, 1.5, "z", 1.5, None, None, None),
            (2, None, None, 2.5, "s", None, '{"price":1234567890123456.78}'),
            (3, None, None, None, "t", 3, None),
        ]
        assert world.reasons[0, 4][1:] == ("WRONG_TYPE", 'gust = "strong" is no DOUBLE')
        assert world.ledger.current["value"].version == 3
    assert world.reasons[0, 5][1:] == ("REQUIRED_MISSING", "n is required, and missing")
    world.checked()


# The first batch


def test_partitions_by_what_only_the_registry_knows(world: SchemaWorld) -> None:
    """Also where the first batch has no good record: the columns are those of the subject's newest version."""
    writer = world.avro(record("Event", origin="string", at={"type": "long", "logicalType": "timestamp-millis"}))
    whole = writer(origin="JFK", at=datetime(2026, 3, 1, 23, tzinfo=UTC))
    world.produce(b"nonsense", whole[:-1], None)
    world.changes |= {"partition": [{"by": "field", "field": "origin"}, {"by": "time", "field": "at", "every": "day"}]}
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 0, 3)
    world.produce(whole)
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.columns("origin", "day") == [("JFK", date(2026, 3, 1))]
    listed = world.spark.sql(f"DESCRIBE DETAIL delta.`s3a://lake/{world.name}`").collect()[0]["partitionColumns"]
    assert listed == ["origin", "day"]


@pytest.mark.faults
@pytest.mark.parametrize("begin", [(1, 1), (2, 2), (None, None), (1, 2)])
def test_a_batch_is_judged_by_its_first_records(
    world: SchemaWorld, begin: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema that comes behind them, or all of them, is met in the same batch, and it is one commit as ever."""
    monkeypatch.setattr(microbatch, "_SAMPLE", 2)
    writers = {v: world.avro(VERSIONS[v - 1]) for v in (1, 2)}
    versions = (*begin, 1, 2, None, 2, 1)
    world.produce(*(b"nonsense" if v is None else writers[v](weather(v, n)) for n, v in enumerate(versions)))
    bad = versions.count(None)
    assert world.ingestion().run(until_caught_up=True) == Counts(7, 7 - bad, bad)
    assert world.columns("_schema_id", "origin") == [
        (writers[v].id, weather(v, n)["origin"]) for n, v in enumerate(versions) if v is not None
    ]
    assert sorted(world.reasons) == [(0, n) for n, v in enumerate(versions) if v is None]
    assert world.ledger.current["value"].version == 2
    assert {entry.id for entry in world.ledger.entries} == {writer.id for writer in writers.values()}
    world.checked()


@pytest.mark.faults
def test_partitions_outlive_their_fields(world: SchemaWorld) -> None:
    """A schema that drops the field goes on; one that has a partition's own name, or moves its rows, is refused."""
    at = {"type": "long", "logicalType": "timestamp-millis"}
    moment = datetime(2026, 3, 1, 23, tzinfo=UTC)
    first = world.avro(record("Event", origin=("string", "?"), wave="int", at=at))
    second = world.avro(record("Event", wave="int", at=at))
    third = world.avro(record("Event", wave="int", at=at, day=maybe({"type": "int", "logicalType": "date"})))
    fourth = world.avro(record("Event", wave="long", at=at))
    parts = [{"by": "field", "field": "origin"}, {"by": "field", "field": "wave"}, {"by": "time", "field": "at"}]
    world.changes |= {"partition": parts}
    world.produce(first(origin="JFK", wave=1, at=moment))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    world.produce(second(wave=2, at=moment), third(wave=3, at=moment, day=None), first(origin="LGA", wave=4, at=moment))
    world.produce(fourth(wave=PAST_INT, at=moment))
    assert world.ingestion().run(until_caught_up=True) == Counts(4, 2, 2)
    assert world.columns("origin", "wave", "day", "_rescued") == [
        ("JFK", 1, date(2026, 3, 1), None),
        (None, 2, date(2026, 3, 1), None),
        ("LGA", 4, date(2026, 3, 1), None),
    ]
    assert world.reasons[0, 2][:2] == ("schema", "UNUSABLE_SCHEMA")
    assert "'day' is already a column of the value" in world.reasons[0, 2][2]
    assert world.reasons[0, 4][:2] == ("schema", "DIFFERENT_TYPE")
    assert "wave is int in the table, which is partitioned by it" in world.reasons[0, 4][2]
    world.checked()


def test_nothing_but_nonsense_and_no_subject(world: SchemaWorld) -> None:
    """No column is known then; the table is made all the same, and takes on the first schema that comes later."""
    world.produce(b"nonsense", b"\0\0\0\xff\xffx", None)
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 0, 3)
    writer = world.avro(VERSIONS[0])
    world.produce(writer(weather(1, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.value_types == {name: NARROW[name] for name in FIRST}
    world.checked()


def test_a_schemas_words_are_kept_as_they_are(world: SchemaWorld) -> None:
    """Spark fills in ${…} and blots out secrets wherever it shows a table's properties; the ledger is none of these."""
    doc = 'it\'s a "${spark.app.name}", C:\\new, ünï ${env:HOME}'
    fields = {"url": "string", "password": "string", "token": maybe("string")}
    world.produce(world.avro({**record("Account", **fields), "doc": doc})(url="u", password="p", token="t"))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    more = world.avro({**record("Account", **fields, region=maybe("string")), "doc": doc})
    world.produce(more(url="v", password="q", token=None, region="EU"))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    known = world.ledger
    assert known.current["value"].doc == doc
    forget_receipts(world.spark, world.stack, f"s3a://lake/{world.name}")
    assert world.ledger == known
