"""Records that bring their schemas: from real producers, registry, broker and S3 to what each mode promises."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, produce, registered
from support.records.registered import Avro, header, json_schema, record, zigzag
from support.records.weather import ADDED, AVRO, FIRST, NARROW, STRUCTS, TYPES, VERSIONS, weather

from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses

pytestmark = pytest.mark.slow


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, **AVRO)


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


def unusable(*words: str) -> tuple[str, str, tuple[str, ...]]:
    return "schema", "UNUSABLE_SCHEMA", words


@pytest.fixture(scope="module")
def mixture(stack: Addresses) -> Mixture:
    topic, subject = "mixture", "mixture-value"
    writers = [registered.avro(stack, subject, tree) for tree in VERSIONS]
    tree = record("Cases", id="int", ID="int")
    ambiguous = registered.register(stack, "mixture-cases", json.dumps(tree))
    foreign = registered.register(stack, "mixture-foreign", json.dumps(json_schema(a="string")), "JSON")
    ids = [writer.id or 0 for writer in writers]
    whole = writers[2](weather(3, 1))
    claims = writers[2].payload({**weather(3, 1), "stops": []})[:-1] + zigzag(2_000_000_000)
    monster = header(ids[2]) + claims
    text = header(ids[0]) + zigzag(2_147_483_000) + b"JFK"
    other = header(ids[0]) + Avro(record("Other", a="boolean", b="boolean")).payload({"a": True, "b": False})
    label = "schema id {} (version {} of mixture-value)"
    nowhere = "schema id {} (in no version of mixture-value, but version 1 of mixture-{})"
    bad: list[tuple[bytes | None, tuple[str, str, tuple[str, ...]]]] = [
        (header(987654) + b"x", ("value", "UNKNOWN_SCHEMA_ID", ("no schema of the registry has id 987654",))),
        (b"\x02" + whole[1:], ("value", "NO_SCHEMA_ID", (f"{len(whole)} bytes, 0x02000000",))),
        (b'{"origin": "JFK"}', ("value", "NO_SCHEMA_ID", ("17 bytes, 0x7B226F726967696E",))),
        (b"", ("value", "NO_SCHEMA_ID", ("0 bytes, 0x…",))),
        (b"\0\0\0\0", ("value", "NO_SCHEMA_ID", ("4 bytes, 0x00000000…",))),
        (whole[:-1], mismatch(len(whole) - 6, label.format(ids[2], 3))),
        (whole[:5], mismatch(0, label.format(ids[2], 3))),
        (whole + b"\0", mismatch(len(whole) - 4, label.format(ids[2], 3))),
        (other, mismatch(2, label.format(ids[0], 1), "begins with 0x0100")),
        (monster, mismatch(len(monster) - 5, label.format(ids[2], 3))),
        (text, mismatch(len(text) - 5, label.format(ids[0], 1))),
        (header(ambiguous) + b"\0\0", unusable(nowhere.format(ambiguous, "cases"), "one column for upper")),
        (header(foreign) + b"{}", unusable(nowhere.format(foreign, "foreign"), "a schema of type JSON")),
        (None, ("value", "NULL_VALUE", ("the record has no value",))),
    ]  # fmt: skip
    values: list[tuple[bytes | None, Any]] = []
    for n in range(8):
        # The order of their first records decides, and no other.
        values += [(writers[v - 1](weather(v, n)), (v, n)) for v in ((5, 4, 1, 3, 2) if n else range(1, 6))]
        values += bad[2 * n : 2 * n + 2]
    begin = datetime.now(UTC) - timedelta(hours=1)
    times = [begin + timedelta(seconds=n) for n in range(len(values))]
    produce(stack, topic, [Record(value, at=at) for (value, _), at in zip(values, times, strict=True)], 2)
    placed = {(i % 2, i // 2): said for i, (_, said) in enumerate(values)}
    return Mixture(
        topic,
        ids,
        {place: said for place, said in placed.items() if len(said) == 2},
        {place: said for place, said in placed.items() if len(said) == 3},
        len(values),
        2,
    )


@dataclass(frozen=True)
class Promise:
    """What a mode makes of the mixture.

    Attributes:
        types: the value's columns.
        refuses: the versions whose records are refused, with what their message says.
        ledger: version → verdict, action, changes.
        current: the version that is current afterwards, of a union the newest in it.
    """

    types: dict[str, str]
    refuses: dict[int, str]
    ledger: dict[int, tuple[str, str, tuple[str, ...]]]
    current: int


WIDENED = ("~ wind INT → BIGINT", "~ temp FLOAT → DOUBLE", "~ visib INT → DOUBLE", "~ stops[].minutes INT → BIGINT")
BACK, NARROWER = ("~ wind BIGINT → STRING",), "~ wind INT → STRING"
REQUIRED = ("~ gust NULL → NOT NULL", "~ stops NULL → NOT NULL")
WIDE_STOPS = "+ stops ARRAY<STRUCT<name: STRING, minutes: BIGINT>> NOT NULL DEFAULT []"

PROMISES = {
    "NONE": Promise(
        TYPES, {5: "wind: Delta can widen neither BIGINT to STRING"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("DIFFERENT_SCHEMA", "evolve", ("+ gust DOUBLE DEFAULT 7.5", "+ note STRING")),
            3: ("DIFFERENT_SCHEMA", "evolve", (STRUCTS[0], STRUCTS[1] + " DEFAULT []")),
            4: ("DIFFERENT_SCHEMA", "evolve", WIDENED),
            5: ("DIFFERENT_TYPE", "quarantine", (*BACK, *REQUIRED)),
        }, 4,
    ),
    "BACKWARD": Promise(
        TYPES, {5: "wind: BIGINT in the table, STRING in the record"},
        {
            1: ("OK", "evolve", ADDED[0]),
            2: ("DIFFERENT_VERSION", "evolve", ADDED[1]),
            3: ("DIFFERENT_VERSION", "evolve", ADDED[2]),
            4: ("DIFFERENT_TYPE", "evolve", WIDENED),
            5: ("DIFFERENT_TYPE", "quarantine", BACK),
        }, 4,
    ),
    "FORWARD": Promise(
        {name: NARROW[name] for name in FIRST},
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
        NARROW,
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


def expected(world: SchemaWorld, mixture: Mixture, promise: Promise) -> DataFrame:
    """The table as the mode promises it, out of what was sent."""
    rows = []
    for (partition, offset), (version, n) in sorted(mixture.sent.items()):
        if version in promise.refuses:
            continue
        sent = weather(version, n)
        of_row = {name: sent.get(name) for name in promise.types}
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
    world = SchemaWorld(stack, spark, "uniform", **AVRO)
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
    world = SchemaWorld(
        stack,
        spark,
        f"mixture_{mode.lower()}",
        source={"topics": [mixture.topic]},
        schema={"compatibility": mode},
        **AVRO,
    )
    taken = {place: said for place, said in mixture.sent.items() if said[0] not in promise.refuses}
    counts = world.ingestion().run(until_caught_up=True)
    assert counts == Counts(mixture.size, len(taken), mixture.size - len(taken))
    assert world.value_types == promise.types
    assert_df_equality(world.table, expected(world, mixture, promise), ignore_nullable=True)
    refused = world.reasons
    assert refused.keys() == mixture.bad.keys() | (mixture.sent.keys() - taken.keys())
    for place, (stage, reason, words) in mixture.bad.items():
        assert refused[place][:2] == (stage, reason)
        assert all(word in refused[place][2] for word in words), refused[place]
    for place, (version, _) in mixture.sent.items() - taken.items():
        label = f"schema id {mixture.ids[version - 1]} (version {version} of mixture-value): "
        assert refused[place][:2] == ("schema", "DIFFERENT_TYPE")
        assert refused[place][2].startswith(label + promise.refuses[version]), refused[place]
    entries = {e.version: e for e in world.ledger.entries if e.version}
    assert {v: (e.verdict, e.action, e.changes) for v, e in entries.items()} == promise.ledger
    assert [(e.id, mixture.sent[e.first[1:]][0]) for v, e in sorted(entries.items()) if e.first] == list(
        zip(mixture.ids, range(1, 6), strict=True)
    )
    assert [(e.verdict, e.action) for e in world.ledger.entries if not e.version] == [
        ("UNUSABLE_SCHEMA", "quarantine")
    ] * mixture.unusable
    assert world.ledger.current["value"].version == promise.current
    assert world.written == [one_version], "one commit with data, of as many files as one version makes"
    world.checked()
