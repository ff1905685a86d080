"""`plan` tells what `run` then does: columns, verdicts and counts, over many topics, and twice over each.

The second batch of each topic finds the table that the first one made.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import only
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, clean_records, registered
from support.records.registered import header, json_schema, maybe, record
from support.servers import spark_versions

from lakeingest.errors import BatchHeld, LakeingestError
from lakeingest.gate.evaluate import Result
from lakeingest.ingest.events import Committed
from lakeingest.local import Addresses
from lakeingest.operations.results.plan import Plan

Sent = Sequence[bytes | Record | None]
Batches = Callable[[SchemaWorld], tuple[Sent, Sent]]
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
AVRO = {"value": {"format": "avro"}}
SALTED = {"keep_bytes": "never"}
REFUSED = [
    b"{",
    b"[1]",
    b'{"n": "x"}',
    b'{"n": null}',
    b'{"text": "no n"}',
    b'{"n": 3000000000}',
    b'{"n": 1, "text": "\xff"}',
    b'{"n": 1.5}',
    None,
    b"",
]


@dataclass(frozen=True)
class Topic:
    """What is produced in two batches, and what the pipeline file says.

    Attributes:
        batches: gives the two, and may register schemas for them.
        expectations: of the suite: a type, its arguments, and what is done if it fails.
        between: SQL that somebody runs on the table between the two.
    """

    batches: Batches
    parts: Mapping[str, Any]
    expectations: Sequence[tuple[str, Mapping[str, Any], str]] = ()
    between: str = ""


def plain(first: Sent, second: Sent = (), **parts: Any) -> Topic:
    return Topic(lambda _: (first, second), parts)


def of(columns: str | None, first: Sent, second: Sent = (), mode: str | None = None, **parts: Any) -> Topic:
    """JSON with declared columns, if any."""
    return plain(first, second, schema={"columns": columns, "compatibility": mode}, **parts)


def gated(*expectations: tuple[str, Mapping[str, Any], str], **parts: Any) -> Topic:
    return Topic(lambda _: ([*clean_records(20), *REFUSED], clean_records(5, 100)), parts, expectations)


def avro(*trees: Any, mode: str = "BACKWARD", **parts: Any) -> Topic:
    """Records of every version, the newest first; and of the last one alone, cut short too."""

    def batches(world: SchemaWorld) -> tuple[Sent, Sent]:
        writers = [world.avro(tree) for tree in trees]
        filled = [_filled(tree) for tree in trees]
        first = [w(**f) for w, f in zip(reversed(writers[:2]), reversed(filled[:2]), strict=True)]
        last = writers[-1](**filled[-1])
        return [*first, last[:-1], header(987654) + b"x", b"{}", None], [*first, last, last[:-1]]

    schema = {"columns": None, "compatibility": mode}
    return Topic(batches, {"decode": AVRO, "schema": schema, **parts})


def _filled(tree: Any) -> dict[str, Any]:
    """A value for each field of a record."""
    values = {"int": 1, "long": 2**40, "double": 1.5, "string": "a", "boolean": True}
    return {f["name"]: values[f["type"]] if isinstance(f["type"], str) else None for f in tree["fields"]}


def of_json_schema(world: SchemaWorld) -> tuple[Sent, Sent]:
    trees = json_schema(id="integer", required=["id"]), json_schema(id="integer", name="string", required=["id"])
    one, two = (registered.register(world.stack, f"{world.name}-value", json.dumps(t), "JSON") for t in trees)
    first = [header(one) + b'{"id": 1}', header(one) + b'{"id": "x"}', header(one) + b'{"id": 1, "more": 2}']
    return first, [header(two) + b'{"id": 2, "name": "b"}', header(one) + b"{"]


def of_protobuf(world: SchemaWorld) -> tuple[Sent, Sent]:
    text = 'syntax = "proto3"; package x; message M { string name = 1; int32 n = 2; %s }'
    one, two = (
        registered.register(world.stack, f"{world.name}-value", text % more, "PROTOBUF")
        for more in ("", "optional double lat = 3;")
    )
    payload = b"\0\x0a\x01a\x10\x05"
    first = [header(one) + payload, header(one) + payload[:-1], header(one) + b"\x02\x40" + payload]
    return first, [header(two) + payload + b"\x19" + struct.pack("<d", 1.5), header(one) + payload]


def keyed(world: SchemaWorld) -> tuple[Sent, Sent]:
    keys = [world.avro(kind, "key") for kind in ("int", "string")]
    value = b'{"n": 1}'
    return [Record(value, keys[0](1)), Record(value, b"x"), Record(value)], [Record(value, keys[1]("x"))]


def hashed(*steps: Mapping[str, Any], **parts: Any) -> Topic:
    return of(
        "n INT, text STRING",
        [*clean_records(5), *REFUSED],
        clean_records(3, 5),
        transform=[*steps],
        quarantine=SALTED,
        **parts,
    )


V1 = record("W", n="int", email=maybe("string"))
V2 = record("W", n="int", email=maybe("string"), gust=maybe("double"))
V3 = record("W", n="long", gust=maybe("double"))
NUMBERS = [b'{"n": %d, "text": "t"}' % n for n in range(4)]
NESTED = [b'{"n": 1, "s": {"a": 1, "l": [{"x": 1}]}}', b'{"n": 2, "s": {"a": 1.5, "b": "x"}}', b'{"s": 1}']
TIMES = [b'{"t": "2026-03-29T0%d:30:00Z", "n": %d}' % (n, n) for n in range(4)]
BETWEEN = ("expect_column_values_to_be_between", {"column": "n", "max_value": 10})
MEAN = ("expect_column_mean_to_be_between", {"column": "n", "max_value": 1})
TOPICS: dict[str, Topic] = {
    # The first ones run in CI, each for many of its kind.
    "json_by_partitions": of(
        "t TIMESTAMP, n INT, text STRING",
        [*TIMES, b'{"t": "x"}', b'{"n": 1}', b'{"t": 1e30}'],
        [*TIMES, b'{"t": "2026-01-01T00:00:00Z", "n": "x", "new": 1}'],
        partition=[
            {"by": "time", "field": "t", "every": "hour", "timezone": "Europe/Berlin"},
            {"by": "field", "field": "n", "name": "number"},
            {"by": "field", "field": "text"},
            {"by": "kafka_partition"},
        ],
    ),
    "avro_backward": avro(V1, V2, V3),
    "gate_set_aside": gated((*BETWEEN, "quarantine"), (*MEAN, "quarantine"), (*BETWEEN, "warn")),
    "json_undeclared_none": of(
        "id INT",
        [b'{"a": 1, "b": "x"}', b'{"a": 1.5, "c": {"d": [1]}}', b"{", b"[]", b'{"_x": 1}', b'{"a": "text"}', None],
        [b'{"a": 9007199254740993}', b'{"e": true, "c": {"f": 1}}', b'{"a": {"g": 1}}'],
        "NONE",
    ),
    # All others.
    "json_declared": of(
        "n INT NOT NULL, text STRING", [*clean_records(5), *REFUSED], [*clean_records(3), b'{"n": 5, "more": {"a": 1}}']
    ),
    "json_declared_none": of("n INT NOT NULL", [*NUMBERS, *REFUSED], [b'{"n": 1, "other": "x", "n2": 1e400}'], "NONE"),
    "json_declared_backward": of(
        "n INT", [*NUMBERS, *REFUSED], [b'{"n": 1, "b": true}', b'{"n": 1, "b": "x"}'], "BACKWARD"
    ),
    "json_declared_full": of("n INT", [*NUMBERS, b'{"x": [1]}', b'{"x": [1.5]}'], [b'{"n": 1, "y": 2}'], "FULL"),
    "json_nested": of("n INT, s STRUCT<a: INT NOT NULL, l: ARRAY<STRUCT<x: INT>>>", NESTED, NESTED),
    "json_nested_none": of("n INT, s STRUCT<a: INT>", NESTED, [*NESTED, b'{"m": {"k": {"v": 1}}}'], "NONE"),
    "json_types": of(
        "d DATE, t TIMESTAMP, m DECIMAL(5,2), f FLOAT, b BOOLEAN, x BINARY, map MAP<STRING, INT>, z TIMESTAMP_NTZ",
        [
            b'{"d": "2026-02-29", "t": 1}',
            b'{"d": "2026-02-28", "t": "2026-01-01", "m": 1.234}',
            b'{"m": 999.99, "f": 1e39, "b": true}',
            b'{"f": 1.5, "b": "true"}',
            b'{"x": "AQI=", "map": {"a": 1, "b": null}, "z": "2026-01-01T00:00:00"}',
            b'{"map": {"a": "1"}}',
        ],
    ),
    "json_quoted": plain(
        [b'{"n": "1", "text": 1}', b'{"n": "x"}', b'{"n": ""}'],
        decode={"value": {"format": "json", "numbers_in_quotes": True, "decimals": "round"}},
    ),
    "json_doubled": of("n INT, text STRING", [b'{"n": 1, "n": 2}', b'{"n": 1, "N": 2}', b'{"n": 1, "x": 1, "x": 2}']),
    "tombstones_dropped": of("n INT", [*NUMBERS, None, None], [None, *NUMBERS], decode={"on_null": "ignore"}),
    "tombstones_written": of(
        "n INT",
        [*NUMBERS, Record(None, b"k")],
        [Record(None, b"k")],
        decode={"on_null": "write", "key": {"format": "string"}},
    ),
    "too_large": of("n INT, text STRING", [*NUMBERS, b'{"text": "%s"}' % (b"x" * 100)], decode={"max_bytes": 50}),
    "strings": plain(
        [b"a", b"\xff", b"", None], [b"b"], schema={"columns": None}, decode={"value": {"format": "string"}}
    ),
    "bytes": plain([b"a", b"\xff", b"", None], [b"b"], schema={"columns": None}, decode={"value": {"format": "bytes"}}),
    "string_keys": of(
        "n INT",
        [Record(b'{"n": 1}', b"k"), Record(b'{"n": 1}', b"\xff"), Record(b'{"n": 1}', None, headers=(("h", b"\xff"),))],
        decode={"key": {"format": "string"}, "headers": False},
    ),
    "json_keys": of(
        "n INT",
        [Record(b'{"n": 1}', k) for k in (b'{"id": 1}', b'{"id": "x"}', b"{", None)],
        decode={"key": {"format": "json", "columns": "id BIGINT NOT NULL"}},
    ),
    "avro_keys": Topic(keyed, {"schema": {"columns": "n INT"}, "decode": {"key": {"format": "avro"}}}),
    "avro_none": avro(V1, V2, V3, mode="NONE"),
    "avro_forward": avro(V1, V2, V3, mode="FORWARD"),
    "avro_full": avro(V1, V2, V3, mode="FULL"),
    "avro_downwards": avro(V3, V1, V2),
    "avro_other_types": avro(V1, record("W", n="string", email=maybe("string")), V2),
    "avro_rewritten": avro(V1, V1, V3, schema={"columns": None, "widening": "rewrite"}),
    "avro_not_widened": avro(V1, V1, V3, schema={"columns": None, "widening": "refuse"}),
    "avro_by_field": avro(V1, V2, V3, partition=[{"by": "field", "field": "n"}]),
    "avro_by_removed_field": avro(V1, V2, V3, partition=[{"by": "field", "field": "email"}]),
    "avro_transformed": avro(
        V1,
        V2,
        V3,
        transform=[{"derive": {"twice": "CAST(n * 2 AS BIGINT)"}}, {"where": {"small": "n < 100"}}],
        quarantine=SALTED,
    ),
    "avro_without_a_table": avro(V1, V2, transform=[{"derive": {"twice": "n * 2"}}], quarantine=SALTED),
    "json_schema": Topic(of_json_schema, {"schema": {"columns": None}, "decode": {"value": {"format": "json_schema"}}}),
    "protobuf": Topic(of_protobuf, {"schema": {"columns": None}, "decode": {"value": {"format": "protobuf"}}}),
    "by_kafka_time": of("n INT", [Record(b'{"n": 1}', at=AT), b'{"n": 2}'], NUMBERS, partition=[{"by": "time"}]),
    "by_nested_field": of(
        "s STRUCT<a: INT, b: STRING>, m MAP<STRING, STRING>",
        [b'{"s": {"a": 1, "b": "x"}, "m": {"k": "v"}}', b'{"s": {"b": "%s"}}' % (b"x" * 300), b"{}"],
        partition=[{"by": "field", "field": "s.a"}, {"by": "field", "field": "s.b"}, {"by": "field", "field": "m.k"}],
    ),
    "by_pattern": of(
        "t TIMESTAMP, n INT",
        TIMES,
        [*TIMES, b'{"t": null}'],
        partition=[{"by": "time", "field": "t", "every": "month", "format": "'year'=yyyy/'month'=MM"}],
    ),
    "where_and_derive": hashed(
        {"derive": {"half": "CAST(100 / n AS DOUBLE)", "first": "substring(text, 1, 1)"}},
        {"where": {"even": "n % 2 = 0", "some": "n > 0"}},
    ),
    "masked": hashed({"mask": {"text": {"hash": "salt" * 4}, "n": "null"}}),
    "masked_last": hashed({"mask": {"text": {"last": 2}}}, {"rename": {"text": "name"}}),
    "cast_and_drop": hashed({"cast": {"n": "STRING"}}, {"drop": ["text"]}),
    "flattened": of("s STRUCT<a: INT, b: STRING>", [b'{"s": {"a": 1}}', b"{}"], transform=[{"flatten": ["s"]}]),
    "gate_records": gated((*BETWEEN, "quarantine"), ("expect_column_values_to_be_unique", {"column": "text"}, "warn")),
    "gate_held": gated((*MEAN, "hold")),
    "gate_ended": gated((*MEAN, "fail"), (*BETWEEN, "hold")),
    "gate_warned": gated((*BETWEEN[:1], {**BETWEEN[1], "mostly": 0.9}, "warn"), (*MEAN, "warn")),
    "too_many_refused": gated(quarantine={"max_refused": 2}),
    "few_enough_refused": gated(quarantine={"max_refused": "50%"}),
    "constraint_of_others": Topic(
        lambda _: (clean_records(5), clean_records(20)),
        {},
        between="ALTER TABLE {table} ADD CONSTRAINT small CHECK (n < 10)",
    ),
    "not_null_of_others": Topic(
        lambda _: (clean_records(5), [*clean_records(2), b'{"n": 1}']),
        {},
        between="ALTER TABLE {table} ADD CONSTRAINT there CHECK (text IS NOT NULL)",
    ),
    "column_of_others": Topic(
        lambda _: (clean_records(5), [*clean_records(2), b'{"n": 1, "note": "x"}']),
        {},
        between="ALTER TABLE {table} ADD COLUMNS (note STRING)",
    ),
    "spread_over_partitions": of(
        "n INT, text STRING", [Record(v, partition=n % 3) for n, v in enumerate([*clean_records(6), b"{"])]
    ),
}
IN_CI = 2


def run_of(world: SchemaWorld, seen: int) -> dict[str, Any]:
    """What a run does with the next batch, in the words of a plan.

    Args:
        seen: how many schemas the table has seen before.
    """
    done: list[Committed] = []
    try:
        counts = world.ingestion().run(until_caught_up=True, on_event=only(Committed, done.append))
    except BatchHeld as held:
        return {"held": [_found(each) for each in held.found]}
    (batch,) = (each for each in done if each.ranges.offsets)
    reasons = Counter(
        (row["stage"], reason)
        for row in world.refused
        if row["sequence"] == batch.sequence
        for reason in row["expectations"] or [row["reason"]]
    )
    return {
        "counts": vars(counts),
        "columns": [(f.name, f.dataType.simpleString()) for f in world.table.schema],
        "verdicts": [(e.id, e.version, e.verdict, e.action, e.changes) for e in world.ledger.entries[seen:]],
        "reasons": reasons,
        "results": [_found(each) for each in batch.gate],
        "left_out": dict(batch.left_out),
    }


def _found(each: Result) -> tuple[Any, ...]:
    return each.rule.name, each.success, each.unexpected, each.observed


def plan_of(plan: Plan) -> dict[str, Any]:
    return {
        "counts": plan.counts,
        "columns": [(each["name"], each["type"]) for each in plan.columns],
        "verdicts": [(e.id, e.version, e.verdict, e.action, e.changes) for e in plan.schemas],
        "reasons": {(each["stage"], each["reason"]): each["count"] for each in plan.refusals},
        "results": [_found(each) for each in plan.results],
        "left_out": plan.left_out,
    }


def marked(number: int, name: str) -> Any:
    marks = [] if number < IN_CI else [pytest.mark.faults]
    return pytest.param(name, marks=[*marks, spark_versions.protobuf] if name == "protobuf" else marks)


@pytest.mark.slow
@pytest.mark.parametrize("name", [marked(*each) for each in enumerate(TOPICS)])
def test_plan_tells_what_run_does(stack: Addresses, spark: SparkSession, name: str, tmp_path: Path) -> None:
    """A plan told of a new table of 14 columns, and the run made 15: it computed them by code of its own."""
    topic = TOPICS[name]
    world = SchemaWorld(stack, spark, f"planned_{name}", **topic.parts)
    world.changes["table"] = {"path": str(tmp_path / "table")}
    if topic.expectations:
        suite = {
            "name": "s",
            "expectations": [
                {"type": type_, "kwargs": kwargs, "meta": {"lakeingest": {"on_failure": action}}}
                for type_, kwargs, action in topic.expectations
            ],
        }
        (tmp_path / "s.json").write_text(json.dumps(suite))
        world.changes["gate"] = {"suite": str(tmp_path / "s.json")}
    partitions = 3 if name == "spread_over_partitions" else 1
    for at, batch in enumerate(topic.batches(world)):
        if not batch:
            continue
        if at and topic.between:
            world.sql(topic.between)
        world.produce(*batch, partitions=partitions)
        seen = len(world.ledger.entries) if at else 0
        try:
            plan = world.ingestion().plan()
        except LakeingestError as failed:
            with pytest.raises(type(failed), match=re.escape(failed.what)):
                world.run()
            return
        assert (tmp_path / "table").exists() == bool(at)
        told, done = plan_of(plan), run_of(world, seen)
        if "held" in done:
            assert plan.held
            assert [each for each in told["results"] if each in done["held"]] == done["held"]
            return
        assert (plan.held, told) == ((), done)
