"""Records that bring their schemas: from real producers, registry, broker and S3 to what each mode promises."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import kit
import pytest
import registry_kit
from chispa import assert_df_equality
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kit import Record
from pyspark.sql import DataFrame, SparkSession
from registry_kit import Avro, header, json_schema, maybe, record, zigzag
from world import forget_receipts

from lakeingest.config import file
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.errors import RegistryUnreachable
from lakeingest.ingest import microbatch
from lakeingest.ingest.events import Progress
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.schema.ledger import SchemaLedger

pytestmark = pytest.mark.slow

AVRO = {"decode": {"value": {"format": "avro"}}}


@dataclass
class World:
    """One pipeline over a topic: by name of its own, so that several can read one topic."""

    stack: Addresses
    spark: SparkSession
    name: str
    topics: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)

    def values(self, **changes: Any) -> dict[str, Any]:
        """What the pipeline file holds."""
        # The registry is named, so that no running stack of a developer's is asked.
        given = {"registry": {"url": self.stack.registry}, **self.changes, **changes}
        given["source"] = {"topics": list(self.topics or (self.name,))}
        if given.get("decode", {}).get("value", {"format": "json"})["format"] != "json":
            given["schema"] = {"columns": None, **given.get("schema", {})}
        return kit.values_of(self.stack, self.name, **given)

    def ingestion(self, **changes: Any) -> Pipeline:
        """As on a machine that never ran it."""
        return Pipeline(file.from_mapping(self.values(**changes)))

    def produce(self, *records: bytes | Record | None, partitions: int = 1) -> None:
        kit.produce(self.stack, self.name, records, partitions)

    def avro(self, tree: Any, side: str = "value") -> Avro:
        return registry_kit.avro(self.stack, f"{self.name}-{side}", tree)

    @property
    def table(self) -> DataFrame:
        return (
            self.spark.read.format("delta").load(f"s3a://lake/{self.name}").orderBy("_topic", "_partition", "_offset")
        )

    def columns(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.table.selectExpr(*names).collect()]

    @property
    def value_types(self) -> dict[str, str]:
        return {f.name: f.dataType.simpleString() for f in self.table.schema if not f.name.startswith("_")}

    @property
    def written(self) -> list[int]:
        """The number of files of each commit that wrote data."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`s3a://lake/{self.name}`").where("operation = 'WRITE'")
        return [int(row["operationMetrics"]["numFiles"]) for row in history.collect()]

    @property
    def refused(self) -> dict[tuple[int, int], tuple[str, str, str]]:
        """(partition, offset) → stage, reason, message."""
        rows = self.spark.read.format("delta").load(f"s3a://lake/{self.name}_quarantine").collect()
        return {(r["_partition"], r["_offset"]): (r["stage"], r["reason"], r["message"]) for r in rows}

    @property
    def ledger(self) -> CommitLog:
        return self.ingestion().tables.commit_logs(back=None)[0]

    @property
    def history(self) -> SchemaLedger:
        return self.ledger.schemas

    def checked(self, **changes: Any) -> None:
        """Both auditors agree that every record is there exactly once."""
        ingestion = self.ingestion(**changes)
        report = ingestion.audit()
        assert report.conserved, report
        kit.assert_exactly_once(self.spark, ingestion, kit.manifest(self.stack, *(self.topics or (self.name,))))


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, changes=dict(AVRO))


# Five versions in one micro-batch, in every mode

STOP = record("Stop", name="string", minutes="int")
WIDE = record("Stop", name="string", minutes="long")
PLACE = record("Place", lat="double", tags={"type": "array", "items": "string"})
FIRST = {"origin": "string", "wind": "int", "temp": "float", "visib": maybe("int")}
SECOND = {**FIRST, "gust": ("double", 7.5), "note": maybe("string")}
THIRD = {**SECOND, "place": maybe(PLACE), "stops": ({"type": "array", "items": STOP}, [])}
FOURTH = {
    **THIRD, "wind": "long", "temp": "double", "visib": maybe("double"),
    "stops": ({"type": "array", "items": WIDE}, []),
}  # fmt: skip
FIFTH = {**FOURTH, "wind": "string"}
VERSIONS = [record("Weather", **fields) for fields in (FIRST, SECOND, THIRD, FOURTH, FIFTH)]
PAST_INT = 2**31 + 7


def weather(version: int, n: int) -> dict[str, Any]:
    """The n-th record of a version; every value tells both."""
    of_all = {"origin": f"v{version}-{n}", "wind": 100 * version + n, "temp": n + 0.25, "visib": n}
    more: dict[str, Any] = {"gust": n + 0.5, "note": f"note {n}"} if version > 1 else {}
    if version > 2:
        more |= {"place": {"lat": 40.5, "tags": ["a", f"b{n}"]}, "stops": [{"name": "s", "minutes": n}]}
    if version > 3:
        more |= {"wind": PAST_INT + n, "visib": n + 0.125, "stops": [{"name": "s", "minutes": PAST_INT}]}
    if version > 4:
        more["wind"] = "strong"
    return {**of_all, **more}


@dataclass(frozen=True)
class Mixture:
    """A topic of every version and of everything that can be wrong.

    Attributes:
        sent: (partition, offset) → the version that was written there.
        bad: (partition, offset) → stage, reason, and words of the message.
    """

    topic: str
    ids: list[int]
    sent: dict[tuple[int, int], tuple[int, int]]
    bad: dict[tuple[int, int], tuple[str, str, tuple[str, ...]]]
    size: int
    unusable: int


def mismatch(size: int, *words: str) -> tuple[str, str, tuple[str, ...]]:
    return "value", "PAYLOAD_MISMATCH", (f"a payload of {size} bytes", *words)


@pytest.fixture(scope="module")
def mixture(stack: Addresses) -> Mixture:
    topic, subject = "mixture", "mixture-value"
    writers = [registry_kit.avro(stack, subject, tree) for tree in VERSIONS]
    tree = record("Tree", children={"type": "array", "items": "x.Tree"})
    recursive = registry_kit.register(stack, "mixture-tree", json.dumps(tree))
    foreign = registry_kit.register(stack, "mixture-foreign", json.dumps(json_schema(a="string")), "JSON")
    ids = [writer.id or 0 for writer in writers]
    whole = writers[2](weather(3, 1))
    claims = writers[2].payload({**weather(3, 1), "stops": []})[:-1] + zigzag(2_000_000_000)
    monster = header(ids[2]) + claims
    text = header(ids[0]) + zigzag(2_147_483_000) + b"JFK"
    other = header(ids[0]) + Avro(record("Other", a="boolean", b="boolean")).payload({"a": True, "b": False})
    label = "schema id {} (version {} of mixture-value)"
    bad: list[tuple[bytes | None, tuple[str, str, tuple[str, ...]]]] = [
        (header(987654) + b"x", ("value", "UNKNOWN_SCHEMA_ID", ("no schema of the registry has id 987654",))),
        (b"\x01" + whole[1:], ("value", "NO_SCHEMA_ID", (f"{len(whole)} bytes, 0x01000000",))),
        (b'{"origin": "JFK"}', ("value", "NO_SCHEMA_ID", ("17 bytes, 0x7B226F726967696E",))),
        (b"", ("value", "NO_SCHEMA_ID", ("0 bytes, 0x…",))),
        (b"\0\0\0\0", ("value", "NO_SCHEMA_ID", ("4 bytes, 0x00000000…",))),
        (whole[:-1], mismatch(len(whole) - 6, label.format(ids[2], 3))),
        (whole[:5], mismatch(0, label.format(ids[2], 3))),
        (whole + b"\0", mismatch(len(whole) - 4, label.format(ids[2], 3))),
        (other, mismatch(2, label.format(ids[0], 1), "begins with 0x0100")),
        (monster, mismatch(len(monster) - 5, label.format(ids[2], 3))),
        (text, mismatch(len(text) - 5, label.format(ids[0], 1))),
        (header(recursive) + b"\0", ("schema", "UNUSABLE_SCHEMA", (f"schema id {recursive} ", "contains itself"))),
        (header(foreign) + b"{}", ("schema", "UNUSABLE_SCHEMA", (f"schema id {foreign} ", "a schema of type JSON"))),
        (None, ("value", "NULL_VALUE", ("the record has no value",))),
    ]  # fmt: skip
    values: list[tuple[bytes | None, Any]] = []
    for n in range(8):
        # The newest first: whichever comes first must not decide.
        values += [(writers[v - 1](weather(v, n)), (v, n)) for v in (5, 4, 1, 3, 2)]
        values += bad[2 * n : 2 * n + 2]
    kit.produce(stack, topic, [value for value, _ in values], 2)
    placed = {(i % 2, i // 2): said for i, (_, said) in enumerate(values)}
    return Mixture(
        topic,
        ids,
        {place: said for place, said in placed.items() if len(said) == 2},
        {place: said for place, said in placed.items() if len(said) == 3},
        len(values),
        2,
    )


TYPES = {
    "origin": "string", "wind": "bigint", "temp": "double", "visib": "double", "gust": "double", "note": "string",
    "place": "struct<lat:double,tags:array<string>>", "stops": "array<struct<name:string,minutes:bigint>>",
}  # fmt: skip
NARROW = {
    **TYPES, "wind": "int", "temp": "float", "visib": "int", "stops": "array<struct<name:string,minutes:int>>"
}  # fmt: skip


@dataclass(frozen=True)
class Promise:
    """What a mode makes of the mixture.

    Attributes:
        types: the value's columns.
        missing: what stands in fields that a record's version lacks.
        refuses: the versions whose records are refused, with what their message says.
        ledger: version → verdict, action, changes.
        current: the version that is current afterwards, of a union the newest in it.
    """

    types: dict[str, str]
    missing: dict[str, Any]
    refuses: dict[int, str]
    ledger: dict[int, tuple[str, str, tuple[str, ...]]]
    current: int


STRUCTS = ("+ place STRUCT<lat: DOUBLE, tags: ARRAY<STRING>>", "+ stops ARRAY<STRUCT<name: STRING, minutes: INT>>")
ADDED = (
    ("+ origin STRING NOT NULL", "+ wind INT NOT NULL", "+ temp FLOAT NOT NULL", "+ visib INT"),
    ("+ gust DOUBLE NOT NULL DEFAULT 7.5", "+ note STRING"),
    (STRUCTS[0], STRUCTS[1] + " NOT NULL DEFAULT []"),
)
WIDENED = ("~ wind INT → BIGINT", "~ temp FLOAT → DOUBLE", "~ visib INT → DOUBLE", "~ stops[].minutes INT → BIGINT")
BACK, NARROWER = ("~ wind BIGINT → STRING",), "~ wind INT → STRING"
DEFAULTS = {"gust": 7.5, "stops": []}
REQUIRED = ("~ gust NULL → NOT NULL", "~ stops NULL → NOT NULL")
WIDE_STOPS = "+ stops ARRAY<STRUCT<name: STRING, minutes: BIGINT>> NOT NULL DEFAULT []"
PROMISES = {
    "NONE": Promise(
        TYPES, {}, {5: "wind: Delta can widen neither BIGINT to STRING"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("DIFFERENT_SCHEMA", "evolve", ("+ gust DOUBLE DEFAULT 7.5", "+ note STRING")),
            3: ("DIFFERENT_SCHEMA", "evolve", (STRUCTS[0], STRUCTS[1] + " DEFAULT []")),
            4: ("DIFFERENT_SCHEMA", "evolve", WIDENED),
            5: ("DIFFERENT_TYPE", "quarantine", (*BACK, *REQUIRED)),
        }, 4,
    ),
    "BACKWARD": Promise(
        TYPES, DEFAULTS, {5: "wind: BIGINT in the table, STRING in the record"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("DIFFERENT_VERSION", "evolve", ADDED[1]),
            3: ("DIFFERENT_VERSION", "evolve", ADDED[2]),
            4: ("DIFFERENT_TYPE", "evolve", WIDENED),
            5: ("DIFFERENT_TYPE", "quarantine", BACK),
        }, 4,
    ),
    "FORWARD": Promise(
        {name: NARROW[name] for name in FIRST}, {},
        {4: "wind: BIGINT in the record, INT in the table", 5: "wind: STRING in the record, INT in the table"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("OK", "project", ADDED[1]),
            3: ("OK", "project", ADDED[1] + ADDED[2]),
            4: ("DIFFERENT_TYPE", "quarantine", (*WIDENED[:3], *ADDED[1], STRUCTS[0], WIDE_STOPS)),
            5: ("DIFFERENT_TYPE", "quarantine", (NARROWER, *WIDENED[1:3], *ADDED[1], STRUCTS[0], WIDE_STOPS)),
        }, 1,
    ),
    "FULL": Promise(
        NARROW, DEFAULTS,
        {4: "wind: BIGINT in the record, INT in the table", 5: "wind: STRING in the record, INT in the table"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("DIFFERENT_VERSION", "evolve", ADDED[1]),
            3: ("DIFFERENT_VERSION", "evolve", ADDED[2]),
            4: ("DIFFERENT_TYPE", "quarantine", WIDENED),
            5: ("DIFFERENT_TYPE", "quarantine", (NARROWER, *WIDENED[1:])),
        }, 3,
    ),
}  # fmt: skip


def expected(world: World, mixture: Mixture, promise: Promise) -> DataFrame:
    """The table as the mode promises it, out of what was sent."""
    rows = []
    for (partition, offset), (version, n) in sorted(mixture.sent.items()):
        if version in promise.refuses:
            continue
        sent = weather(version, n)
        of_row = {name: sent.get(name, promise.missing.get(name)) for name in promise.types}
        of_row["visib"] = float(sent["visib"]) if promise.types["visib"] == "double" else sent["visib"]
        left = {name: value for name, value in sent.items() if name not in promise.types}
        rescued = json.dumps(left, separators=(",", ":")) if left else None
        rows.append((mixture.topic, partition, offset, mixture.ids[version - 1], *of_row.values(), rescued))
    kept = ", ".join(f"{name} {kind}" for name, kind in promise.types.items())
    frame = world.spark.createDataFrame(
        rows, f"_topic STRING, _partition INT, _offset LONG, _schema_id INT, {kept}, _rescued STRING"
    )
    times = world.table.select("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
    return (
        frame.join(times, ["_topic", "_partition", "_offset"], "left")
        .select(world.table.columns)
        .orderBy("_topic", "_partition", "_offset")
    )


@pytest.fixture(scope="module")
def one_version(stack: Addresses, spark: SparkSession, mixture: Mixture) -> int:
    """How many files a batch of the mixture's size makes, if all is of one version."""
    world = World(stack, spark, "uniform", changes=AVRO)
    writer = world.avro(VERSIONS[0])
    world.produce(*(writer(weather(1, n)) for n in range(mixture.size)), partitions=2)
    world.ingestion().run(until_caught_up=True)
    (files,) = world.written
    return files


@pytest.mark.parametrize("mode", PROMISES)
def test_five_versions_in_one_batch(
    stack: Addresses, spark: SparkSession, mixture: Mixture, one_version: int, mode: str
) -> None:
    """Each mode's columns, values, refusals and ledger, in one commit of no more files than one version makes."""
    promise = PROMISES[mode]
    world = World(stack, spark, f"mixture_{mode.lower()}", (mixture.topic,), AVRO | {"schema": {"compatibility": mode}})
    taken = {place: said for place, said in mixture.sent.items() if said[0] not in promise.refuses}
    counts = world.ingestion().run(until_caught_up=True)
    assert counts == Counts(mixture.size, len(taken), mixture.size - len(taken))
    assert world.value_types == promise.types
    assert_df_equality(world.table, expected(world, mixture, promise), ignore_nullable=True)
    refused = world.refused
    assert refused.keys() == mixture.bad.keys() | (mixture.sent.keys() - taken.keys())
    for place, (stage, reason, words) in mixture.bad.items():
        assert refused[place][:2] == (stage, reason)
        assert all(word in refused[place][2] for word in words), refused[place]
    for place, (version, _) in mixture.sent.items() - taken.items():
        label = f"schema id {mixture.ids[version - 1]} (version {version} of mixture-value): "
        assert refused[place][:2] == ("schema", "DIFFERENT_TYPE")
        assert refused[place][2].startswith(label + promise.refuses[version]), refused[place]
    entries = {e.version: e for e in world.history.entries if e.version}
    assert {v: (e.verdict, e.action, e.changes) for v, e in entries.items()} == promise.ledger
    assert [(e.id, mixture.sent[e.first[1:]][0]) for v, e in sorted(entries.items()) if e.first] == list(
        zip(mixture.ids, range(1, 6), strict=True)
    )
    assert [(e.verdict, e.action) for e in world.history.entries if not e.version] == [
        ("UNUSABLE_SCHEMA", "quarantine")
    ] * mixture.unusable
    assert world.history.current["value"].version == promise.current
    assert world.written == [one_version], "one commit with data, of as many files as one version makes"
    world.checked()


# Records of one schema too big, or of none


def test_a_record_of_thirty_megabytes(world: World) -> None:
    """A good one becomes a row, a bad one is refused alone with all of its bytes."""
    big = 30_000_000
    kit.admin(world.stack).create_topics([NewTopic(world.name, 1, 1, config={"max.message.bytes": "40000000"})])[
        world.name
    ].result()
    writer = world.avro(record("Big", text="string"))
    values = [writer(text="small"), writer(text="x" * big), writer(text="y" * big) + b"\0"]
    producer = Producer({"bootstrap.servers": world.stack.kafka, "message.max.bytes": 40_000_000})
    for value in values:
        producer.produce(world.name, value)
    assert producer.flush(60) == 0
    ingestion = world.ingestion(decode={"value": {"format": "avro"}, "max_bytes": 2 * big})
    assert ingestion.run(until_caught_up=True) == Counts(3, 2, 1)
    assert world.table.selectExpr("_offset", "length(text)").collect() == [(0, 5), (1, big)]
    assert world.refused[0, 2][:2] == ("value", "PAYLOAD_MISMATCH")
    assert world.refused[0, 2][2].startswith(f"a payload of {len(values[2]) - 5} bytes")
    assert len(world.refused[0, 2][2]) < 300


# A deploy while the pipeline runs


@pytest.mark.faults
def test_a_rolling_deploy(world: World) -> None:
    """Producers of v1 and v2 at once, v2 registered while the pipeline runs: no restart, no loss, no refusal."""
    first = world.avro(VERSIONS[0])
    world.produce(*(first(weather(1, n)) for n in range(10)), partitions=2)
    stop, told, taken = threading.Event(), [], threading.Semaphore(0)
    ingestion = world.ingestion(trigger={"every": "1 second"})

    def told_of(progress: Progress) -> None:
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
    assert world.history.current["value"].version == 2
    assert Counter(world.columns("_schema_id", "gust IS NULL", "note IS NULL")) == {
        # Those of the first batch were written before there was a gust.
        (first.id, True, True): 10,
        (first.id, False, True): 10,
        (second.id, False, False): 10,
    }
    world.checked()


# Batch after batch


def test_an_older_version_after_a_newer_one(world: World) -> None:
    """BACKWARD projects up with the ledger from the log, and without a receipt with the ledger from the property."""
    old, new = (world.avro(tree) for tree in VERSIONS[:2])
    world.produce(new(weather(2, 0)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    world.produce(old(weather(1, 1)), new(weather(2, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 2)
    known = world.history
    assert [(e.version, e.verdict, e.action, e.sequence) for e in known.entries] == [
        (2, "OK", "evolve", 1),
        (1, "OK", "project", 2),
    ]
    forget_receipts(world.spark, world.stack, f"s3a://lake/{world.name}")
    assert world.ledger.newest is None
    world.produce(old(weather(1, 2)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.history == known
    assert world.columns("origin", "gust", "note") == [
        ("v2-0", 0.5, "note 0"),
        ("v1-1", 7.5, None),
        ("v2-1", 1.5, "note 1"),
        ("v1-2", 7.5, None),
    ]


def test_the_oldest_version_is_found_later(world: World) -> None:
    """FORWARD moves to it, and newer records are projected down to it from then on."""
    mode = {"schema": {"compatibility": "FORWARD"}}
    old, new = (world.avro(tree) for tree in VERSIONS[:2])
    world.produce(new(weather(2, 0)))
    world.ingestion(**mode).run(until_caught_up=True)
    world.produce(new(weather(2, 1)), old(weather(1, 1)))
    assert world.ingestion(**mode).run(until_caught_up=True) == Counts(2, 2)
    assert world.history.current["value"].version == 1
    assert [(e.version, e.verdict, e.action, e.changes) for e in world.history.entries] == [
        (2, "OK", "evolve", (*ADDED[0], *ADDED[1])),
        (1, "DIFFERENT_VERSION", "evolve", ("- gust DOUBLE", "- note STRING")),
    ]
    assert world.columns("origin", "gust", "note", "_rescued") == [
        ("v2-0", 0.5, "note 0", None),
        ("v2-1", None, None, '{"gust":1.5,"note":"note 1"}'),
        ("v1-1", None, None, None),
    ]


def test_a_stray_schema_does_not_become_the_tables(world: World) -> None:
    """A record whose schema belongs to another subject comes first, alone even: it is refused, not followed."""
    stray = registry_kit.avro(world.stack, f"{world.name}-stray", record("Stray", n="int"))
    mine = world.avro(VERSIONS[0])
    world.produce(stray(n=1))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 0, 1)
    world.produce(stray(n=2), mine(weather(1, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 1, 1)
    stage, reason, message = world.refused[0, 0]
    assert (stage, reason) == ("schema", "VERSION_REQUIRED")
    assert message.startswith(f"schema id {stray.id} (in no version of {world.name}-value): a schema version is")
    assert world.refused[0, 1] == world.refused[0, 0]
    assert world.value_types == {name: NARROW[name] for name in FIRST}
    world.checked()


# Killed between the change of the table and what follows

KILLED = """
import os, signal, sys
from pathlib import Path
from lakeingest.delta import commit
from lakeingest.config import file
from lakeingest.pipeline import Pipeline

append, moment = commit.append, sys.argv[2]

def killed(*given, **more):
    if moment == "committed":
        append(*given, **more)
    os.killpg(0, signal.SIGKILL)

commit.append = killed
Pipeline(file.read(Path(sys.argv[1]), {})).run(until_caught_up=True)
"""


@pytest.mark.faults
@pytest.mark.parametrize("moment", ["widened", "committed"])
def test_killed_behind_the_change_of_the_table(world: World, tmp_path: Path, moment: str) -> None:
    """SIGKILL behind the ALTER, and behind the evolving commit: the next run decides the same."""
    old, new = world.avro(VERSIONS[0]), world.avro(VERSIONS[3])
    world.produce(old(weather(1, 0)))
    world.ingestion().run(until_caught_up=True)
    world.produce(new(weather(4, 1)), new(weather(4, 2))[:-1], old(weather(1, 3)))
    (tmp_path / "pipeline.yaml").write_text(json.dumps(world.values()))
    env = {**os.environ, "LAKEINGEST_STATE": str(tmp_path / "state"), "LAKEINGEST_DRIVER_MEMORY": "1g"}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pipeline.yaml"), moment]
    died = subprocess.run(command, env=env, start_new_session=True, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    rows = 1 if moment == "widened" else 3
    assert (world.table.count(), world.refused) == (rows, {})
    assert world.value_types["wind"] == "bigint", "the ALTER came first"
    world.ingestion().run(until_caught_up=True)
    assert world.value_types == TYPES
    assert world.columns("origin", "wind", "gust", "_offset") == [
        ("v1-0", 100, None, 0),
        ("v4-1", PAST_INT + 1, 1.5, 1),
        ("v1-3", 103, 7.5, 3),
    ]
    assert world.refused[0, 2][:2] == ("value", "PAYLOAD_MISMATCH")
    assert [(e.version, e.action) for e in world.history.entries] == [(1, "evolve"), (2, "evolve")]
    world.checked()


# The registry is away


def test_the_registry_goes_away_and_comes_back(world: World) -> None:
    """Known ids go on; an unknown one ends the run with nothing committed, nothing quarantined, nothing lost."""
    old = world.avro(VERSIONS[0])
    world.produce(*(old(weather(1, n)) for n in range(8)))
    new = world.avro(VERSIONS[1])
    world.produce(new(weather(2, 8)), old(weather(1, 9)))
    with registry_kit.proxied(world.stack) as proxy:
        world.changes |= {"registry": {"url": proxy.url, "wait": "1 second"}, "trigger": {"max_records": 4}}
        told: list[Progress] = []

        def cut(progress: Progress) -> None:
            told.append(progress)
            proxy.down()

        ingestion = world.ingestion()
        with pytest.raises(RegistryUnreachable, match=f"did not answer for 1 s, asked for schema id {new.id}"):
            ingestion.run(until_caught_up=True, on_progress=cut)
        assert [p.counts for p in told] == [Counts(4, 4)] * 2, "the second batch was written without it"
        assert (world.ledger.frontier, world.refused) == ({(world.name, 0): 8}, {})
        with pytest.raises(RegistryUnreachable, match="asked for schema id"):
            ingestion.run(until_caught_up=True)
        proxy.up()
        assert ingestion.run(until_caught_up=True) == Counts(2, 2)
    assert len(world.ledger.commits) == 3
    assert world.refused == {}
    world.changes["registry"] = {"url": world.stack.registry}
    world.checked()


# Keys

ID = record("Id", id="int")
ID_2 = record("Id", id="long", region=maybe("string"))


@pytest.mark.parametrize("on_null", ["ignore", "write", "quarantine"])
def test_avro_keys_beside_json_values(stack: Addresses, spark: SparkSession, on_null: str) -> None:
    """A key's schema evolves by a field and a wider type; a bad key is refused; tombstones keep theirs, or go."""
    topic = "avro_keys"
    keys = [registry_kit.avro(stack, f"{topic}-key", tree) for tree in (ID, ID_2)]
    if topic not in kit.admin(stack).list_topics(timeout=10).topics:
        kit.produce(
            stack,
            topic,
            [
                Record(b'{"n": 0}', keys[0](id=0)),
                Record(b'{"n": 1}', keys[1](id=PAST_INT, region="EU")),
                Record(None, keys[0](id=2)),
                Record(None, keys[1](id=3, region="US")),
                Record(b'{"n": 4}', keys[1](id=4, region="US")[:-1]),
                Record(b'{"n": 5}', b"5"),
                Record(b'{"n": 6}', None),
                Record(None, header(987654)),
            ],
        )
    changes = {"decode": {"key": {"format": "avro"}, "on_null": on_null}, "schema": {"columns": "n INT"}}
    world = World(stack, spark, f"{topic}_{on_null}", (topic,), changes)
    counts = world.ingestion().run(until_caught_up=True)
    tombstones = {(2, None, 2, None), (3, None, 3, "US")} if on_null == "write" else set()
    assert set(world.columns("_offset", "n", "_key.id", "_key.region")) == tombstones | {
        (0, 0, 0, None),
        (1, 1, PAST_INT, "EU"),
        (6, 6, None, None),
    }
    assert world.table.where("_offset = 6 AND _key IS NULL").count() == 1
    refused = {offset: why[:2] for (_, offset), why in world.refused.items()}
    wanted = {4: ("key", "PAYLOAD_MISMATCH"), 5: ("key", "NO_SCHEMA_ID")}
    if on_null != "ignore":
        wanted[7] = ("key", "UNKNOWN_SCHEMA_ID")
    if on_null == "quarantine":
        wanted |= dict.fromkeys((2, 3), ("value", "NULL_VALUE"))
    assert refused == wanted
    assert counts.dropped == (3 if on_null == "ignore" else 0)
    assert [(e.side, e.version, e.action) for e in world.history.entries if e.side == "key"] == [
        ("key", 1, "evolve"),
        ("key", 2, "evolve"),
    ]
    world.checked()


def test_a_primitive_key(world: World) -> None:
    """A key that is an INT becomes wider, and one that no column takes is refused with its verdict."""
    keys = [world.avro(kind, "key") for kind in ("int", "long", "string")]
    value = world.avro(VERSIONS[0])(weather(1, 0))
    world.produce(*(Record(value, key(what)) for key, what in zip(keys, (1, PAST_INT, "x"), strict=True)))
    world.changes = {"decode": {"value": {"format": "avro"}, "key": {"format": "avro"}}}
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 2, 1)
    assert world.columns("_key") == [(1,), (PAST_INT,)]
    assert world.refused[0, 2][:2] == ("schema", "DIFFERENT_TYPE")
    assert world.refused[0, 2][2].startswith(f"schema id {keys[2].id} (version 3 of {world.name}-key): ")


# Other formats, subjects and references


def test_plain_avro_follows_its_schema_file(world: World, tmp_path: Path) -> None:
    """A newer file is the next version: a column more, in the batch that begins with it."""
    for version, sent in ((1, [weather(1, 0)]), (2, [weather(2, 1), weather(2, 2)])):
        (tmp_path / "weather.avsc").write_text(json.dumps(VERSIONS[version - 1]))
        plain = Avro(VERSIONS[version - 1])
        value = {"format": "avro", "schema_file": "weather.avsc"}
        (tmp_path / "pipeline.yaml").write_text(json.dumps(world.values(decode={"value": value})))
        world.produce(*(plain(each) for each in sent), plain(sent[0])[:-1])
        ingestion = Pipeline(file.read(tmp_path / "pipeline.yaml", {}))
        assert ingestion.run(until_caught_up=True) == Counts(len(sent) + 1, len(sent), 1)
    assert world.columns("origin", "gust") == [("v1-0", None), ("v2-1", 1.5), ("v2-2", 2.5)]
    assert "_schema_id" not in world.table.columns
    assert [(e.version, e.verdict, e.action) for e in world.history.entries] == [
        (1, "OK", "evolve"),
        (2, "DIFFERENT_VERSION", "evolve"),
    ]
    assert world.refused[0, 1][2].startswith("a payload of ")
    assert "the schema of decode.schema_file" in world.refused[0, 1][2]
    assert ingestion.audit().conserved


def test_json_with_a_schema_in_the_registry(world: World) -> None:
    """Its versions evolve the table as Avro's do; what the schema does not name is rescued."""
    first = json_schema(id="integer", name="string", required=["id"])
    second = json_schema(id="integer", name="string", at=json_schema(lat="number"), required=["id"])
    ids = [
        registry_kit.register(world.stack, f"{world.name}-value", json.dumps(tree), "JSON") for tree in (first, second)
    ]
    world.produce(
        header(ids[0]) + b'{"id": 1, "name": "a"}',
        header(ids[1]) + b'{"id": 2, "at": {"lat": 1.5}, "more": [1]}',
        header(ids[1]) + b'{"id": "three"}',
        header(ids[0]) + b'{"id": 4',
        header(ids[0]) + b'{"name": "five"}',
    )
    world.changes = {"decode": {"value": {"format": "json_schema"}}}
    assert world.ingestion().run(until_caught_up=True) == Counts(5, 2, 3)
    assert world.columns("_schema_id", "id", "name", "at.lat", "_rescued") == [
        (ids[0], 1, "a", None, None),
        (ids[1], 2, None, 1.5, '{"more":[1]}'),
    ]
    assert {offset: why[:2] for (_, offset), why in world.refused.items()} == dict.fromkeys(
        (2, 3, 4), ("value", "PAYLOAD_MISMATCH")
    )
    assert [(e.version, e.action) for e in world.history.entries] == [(1, "evolve"), (2, "evolve")]


def test_protobuf(world: World) -> None:
    """A message within the second message of its file, whose field's type another file holds, in two versions."""
    subject = f"{world.name}-value"
    place = 'syntax = "proto3"; package x; message Place { double lat = 1; }'
    registry_kit.register(world.stack, f"{world.name}-place", place, "PROTOBUF")
    text = (
        'syntax = "proto3"; package x; import "place.proto"; message Other { string of = 1; } '
        "message Trip { message Stop { string name = 1; int32 minutes = 2; Place at = 3; %s } }"
    )
    references = [("place.proto", f"{world.name}-place", 1)]
    ids = [
        registry_kit.register(world.stack, subject, text % more, "PROTOBUF", references)
        for more in ("", "optional string note = 4;")
    ]
    nested, other = b"\x04\x02\x00", b"\x00"
    stop = b"\x0a\x01a\x10\x05" + b"\x1a\x09\x09" + struct.pack("<d", 1.5)
    world.produce(
        header(ids[0]) + nested + stop,
        header(ids[1]) + nested + stop + b"\x22\x02hi",
        header(ids[1]) + nested + stop[:-1],
        header(ids[1]) + b"\x02\x40" + stop,
        header(ids[1]) + other + b"\x0a\x01a",
        header(987654) + nested + stop,
    )
    world.changes = {"decode": {"value": {"format": "protobuf"}}}
    counts = world.ingestion().run(until_caught_up=True)
    assert world.columns("_schema_id", "name", "minutes", "at.lat", "note") == [
        (ids[0], "a", 5, 1.5, None),
        (ids[1], "a", 5, 1.5, "hi"),
    ]
    assert counts == Counts(6, 2, 4)
    assert {offset: why[:2] for (_, offset), why in world.refused.items()} == {
        2: ("value", "PAYLOAD_MISMATCH"),
        3: ("value", "UNKNOWN_SCHEMA_ID"),
        4: ("schema", "DIFFERENT_NAME"),
        5: ("value", "UNKNOWN_SCHEMA_ID"),
    }


@pytest.mark.parametrize("strategy", ["record", "topic_record"])
def test_two_records_in_one_topic(world: World, strategy: str) -> None:
    """Under NONE the table is the union of both; one refers to a schema of a third subject, of two levels."""
    before = f"{world.name}-" if strategy == "topic_record" else ""
    place, town = record("Place", lat="double"), record("Town", name="string", at="x.Place")
    registry_kit.avro(world.stack, f"{world.name}.Place", place)
    town_refers = {"x.Place": (place, f"{world.name}.Place", 1)}
    registry_kit.avro(world.stack, f"{world.name}.Town", town, town_refers)
    login = registry_kit.avro(world.stack, f"{before}x.Login", record("Login", user="string", n="int"))
    refers = {**town_refers, "x.Town": (town, f"{world.name}.Town", 1)}
    visit = registry_kit.avro(world.stack, f"{before}x.Visit", record("Visit", n="long", town=maybe("x.Town")), refers)
    world.produce(
        login(user="a", n=1), visit(n=PAST_INT, town={"name": "t", "at": {"lat": 2.5}}), visit(n=3, town=None)
    )
    world.changes = {
        "decode": {"value": {"format": "avro", "subject": strategy}},
        "schema": {"compatibility": "NONE"},
    }
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 3)
    assert world.columns("user", "n", "town.name", "town.at.lat") == [
        ("a", 1, None, None),
        (None, PAST_INT, "t", 2.5),
        (None, 3, None, None),
    ]
    assert {(e.subject, e.version, e.name) for e in world.history.entries} == {
        (f"{before}x.Login", 1, "x.Login"),
        (f"{before}x.Visit", 1, "x.Visit"),
    }


# JSON that nobody has a schema of


@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD"])
def test_undeclared_json_fields(stack: Addresses, spark: SparkSession, mode: str) -> None:
    """BACKWARD makes columns of them in that very batch, nested ones too; FORWARD keeps them in _rescued."""
    topic = f"undeclared_{mode.lower()}"
    changes = {"schema": {"columns": "n INT NOT NULL, at STRUCT<lat: DOUBLE>", "compatibility": mode}}
    world = World(stack, spark, topic, changes=changes)
    world.produce(b'{"n": 0, "at": {"lat": 0.5}}', b'{"n": 1, "gust": 1.5, "at": {"lat": 1.5, "zip": "z"}}')
    assert world.ingestion().run(until_caught_up=True) == Counts(2, 2)
    batch = [
        b'{"n": 2, "gust": 2.5, "stop": {"name": "s"}, "mixed": 1}',
        b'{"n": 3, "stop": {"name": "t", "minutes": 3}, "mixed": "three"}',
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
            "stop": "struct<minutes:bigint,name:string>",
        }
        assert counts == Counts(4, 2, 2)
        assert world.columns("n", "at.lat", "at.zip", "gust", "stop.name", "stop.minutes", "_rescued") == [
            (0, 0.5, None, None, None, None, None),
            (1, 1.5, "z", 1.5, None, None, None),
            (2, None, None, 2.5, "s", None, '{"mixed":1}'),
            (3, None, None, None, "t", 3, '{"mixed":"three"}'),
        ]
        assert world.refused[0, 4][1:] == ("WRONG_TYPE", 'gust = "strong" is no DOUBLE')
        assert world.history.current["value"].version == 3
    assert world.refused[0, 5][1:] == ("REQUIRED_MISSING", "n is required, and missing")
    world.checked()


# The first batch


def test_partitions_by_what_only_the_registry_knows(world: World) -> None:
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


@pytest.mark.parametrize("begin", [(1, 1), (2, 2), (1, 2), (None, None)])
def test_a_batch_is_judged_by_its_first_records(
    world: World, begin: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
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
    assert sorted(world.refused) == [(0, n) for n, v in enumerate(versions) if v is None]
    assert world.history.current["value"].version == 2
    assert {entry.id for entry in world.history.entries} == {writer.id for writer in writers.values()}
    world.checked()


def test_partitions_outlive_their_fields(world: World) -> None:
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
        (None, 4, date(2026, 3, 1), '{"origin":"LGA"}'),
    ]
    assert world.refused[0, 2][:2] == ("schema", "UNUSABLE_SCHEMA")
    assert "'day' is already a column of the value" in world.refused[0, 2][2]
    assert world.refused[0, 4][:2] == ("schema", "DIFFERENT_TYPE")
    assert "wave is int in the table, which is partitioned by it" in world.refused[0, 4][2]
    world.checked()


def test_nothing_but_nonsense_and_no_subject(world: World) -> None:
    """No column is known then; the table is made all the same, and takes on the first schema that comes later."""
    world.produce(b"nonsense", b"\0\0\0\xff\xffx", None)
    assert world.ingestion().run(until_caught_up=True) == Counts(3, 0, 3)
    writer = world.avro(VERSIONS[0])
    world.produce(writer(weather(1, 1)))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    assert world.value_types == {name: NARROW[name] for name in FIRST}
    world.checked()


# Types


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def test_every_type_of_avro(world: World) -> None:
    """Each lands in its Delta type with its value, in a full record and in one of nulls."""
    fixed = {"type": "fixed", "name": "Big", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 4}
    inner = record("Inner", n="int", deeper=maybe(record("Deeper", s=maybe("string"))))
    moment, local = datetime(2026, 3, 1, 23, 59, 59, 123456, UTC), datetime(1969, 12, 31, 12, 0, 0, 7)
    types: list[tuple[str, Any, str, Any, Any]] = [
        ("money", logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)", Decimal("-12345678.90"), None),
        ("big", fixed, "decimal(12,4)", Decimal("12345678.1234"), None),
        ("day", logical("int", "date"), "date", date(1899, 12, 31), None),
        ("time_ms", logical("int", "time-millis"), "int", time(23, 59, 59, 123000), 86399123),
        ("time_us", logical("long", "time-micros"), "bigint", time(23, 59, 59, 123456), 86399123456),
        ("ms", logical("long", "timestamp-millis"), "timestamp", moment.replace(microsecond=123000), None),
        ("us", logical("long", "timestamp-micros"), "timestamp", moment, None),
        ("local_ms", logical("long", "local-timestamp-millis"), "timestamp_ntz", local.replace(microsecond=7000), None),
        ("local_us", logical("long", "local-timestamp-micros"), "timestamp_ntz", local, None),
        ("id", logical("string", "uuid"), "string", UUID(int=7), str(UUID(int=7))),
        ("colour", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, "string", "BLUE", None),
        ("raw", {"type": "fixed", "name": "Raw", "size": 4}, "binary", b"\x00\x01\xfe\xff", None),
        ("blob", "bytes", "binary", b"", None),
        ("flag", "boolean", "boolean", False, None),
        ("real", "float", "float", 0.1, None),
        ("map", {"type": "map", "values": ["null", "double"]}, "map<string,double>", {"a": 1.5, "b": None}, None),
        ("list", {"type": "array", "items": inner}, "array<struct<n:int,deeper:struct<s:string>>>",
         [{"n": 1, "deeper": {"s": None}}, {"n": 2, "deeper": None}], None),
    ]  # fmt: skip
    fields = {name: maybe(kind) for name, kind, *_ in types}
    tree = record("All", **fields, either=(["null", "int", "string", "x.Inner"], None))
    writer = world.avro(tree)
    full = {name: sent for name, _, _, sent, _ in types}
    eithers: list[tuple[Any, Any]] = [
        (5, (5, None, None)),
        ("five", (None, "five", None)),
        (("x.Inner", {"n": 6, "deeper": None}), (None, None, (6, None))),
        (None, None),
    ]
    world.produce(*(writer({**full, "either": either}) for either, _ in eithers), writer({}))
    assert world.ingestion().run(until_caught_up=True) == Counts(5, 5)
    union = "struct<member_int:int,member_string:string,member_Inner:struct<n:int,deeper:struct<s:string>>>"
    kinds = {name: kind for name, _, kind, *_ in types} | {"either": union}
    rows = [(*(sent if held is None else held for *_, sent, held in types), held) for _, held in eithers]
    wanted = world.spark.createDataFrame(
        [*rows, (None,) * len(kinds)], ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    )
    assert_df_equality(world.table.select(*kinds), wanted, ignore_nullable=True)


def test_a_schemas_words_are_kept_as_they_are(world: World) -> None:
    """Spark fills in ${…} and blots out secrets wherever it shows a table's properties; the ledger is none of these."""
    doc = 'it\'s a "${spark.app.name}", C:\\new, ünï ${env:HOME}'
    fields = {"url": "string", "password": "string", "token": maybe("string")}
    world.produce(world.avro({**record("Account", **fields), "doc": doc})(url="u", password="p", token="t"))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    more = world.avro({**record("Account", **fields, region=maybe("string")), "doc": doc})
    world.produce(more(url="v", password="q", token=None, region="EU"))
    assert world.ingestion().run(until_caught_up=True) == Counts(1, 1)
    known = world.history
    assert known.current["value"].doc == doc
    forget_receipts(world.spark, world.stack, f"s3a://lake/{world.name}")
    assert world.history == known
