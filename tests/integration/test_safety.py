"""A pipeline file, a schema or a record cannot run code, read files, reach other addresses, or end the process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.pipelines import config_of, values_of
from support.records import Record, admin_client, clean_records, produce, registered
from support.records.bombs import BOMBS

from lakeingest.delta.receipt import Counts
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.schema import ddl
from lakeingest.testing.manifest import sha256
from lakeingest.testing.process import Process

SLOW_S = 10
"""Of this process alone, however busy the machine is; a bomb takes minutes, or all of memory."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SLOW_S


# Through real servers


def rows(spark: SparkSession, path: str, *columns: str) -> list[tuple[Any, ...]]:
    return [
        tuple(row)[1:]
        # Sorting whole rows would hold all of the large ones at once.
        for row in spark.read.format("delta").load(path).selectExpr("_offset AS at", *columns).orderBy("at").collect()
    ]


def send(stack: Addresses, topic: str, values: list[Record]) -> None:
    """Produce to a topic that takes records of 100 MB."""
    most = str(120_000_000)
    admin_client(stack).create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": most})])[topic].result()
    options = {"bootstrap.servers": stack.kafka, "message.max.bytes": most, "compression.type": "lz4", "log_level": 0}
    producer = Producer(options)
    for value in values:
        producer.produce(topic, value.value, value.key)
        producer.flush(60)


@pytest.mark.faults
@pytest.mark.slow
def test_bombs_and_large_records_in_one_batch(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """Each is refused alone with all of its bytes, by its size where it is too large, beside clean ones, in 6 GiB."""
    most = 2**24
    clean, frame = clean_records(1)[0], len(b'{"n":1,"text":""}')
    fits = b'{"n":1,"text":"' + b"x" * (most - frame) + b'"}'
    large = b'{"n":1,"text":"' + b"x" * 100_000_000 + b'"}'
    bombs = [Record(value) for what, value in BOMBS.items() if not what.startswith("many")]
    values = [
        Record(clean),
        Record(fits),
        Record(large),
        Record(fits + b" "),
        Record(clean, key=b"k" * (most + 1)),
        *bombs,
        Record(clean),
    ]
    send(stack, named, values)
    columns = "n INT NOT NULL, text STRING, s STRING, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, b BINARY, a ARRAY<INT>, "
    more = "m MAP<STRING,INT>, st STRUCT<q: INT>"
    made = config_of(stack, named, schema={"columns": columns + more})
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(values_of(stack, named, schema={"columns": columns + more})))
    env = {"LAKEINGEST_STATE": str(tmp_path / "state"), "LAKEINGEST_DRIVER_MEMORY": "6g"}
    with Process(file, "--until-caught-up", env=env) as process:
        assert process.wait(300) == 0, process.out + process.err
        assert f"caught up: {len(values)} records in 1 commit," in process.out
    # By what was sent: a plain consumer takes no record of 100 MB.
    bytes_ = dict(rows(spark, made.quarantine.path, "_offset", "sha2(value, 256)"))
    accepted = [offset for (offset,) in rows(spark, made.table.path, "_offset")]
    assert sorted([*accepted, *bytes_]) == list(range(len(values)))
    assert bytes_ == {offset: sha256(values[offset].value) for offset in bytes_}
    said = {row[0]: row[1:] for row in rows(spark, made.quarantine.path, "_offset", "stage", "reason", "message")}
    assert [said.get(offset) for offset in range(5)] == [
        None,
        None,
        ("value", "TOO_LARGE", f"value has {len(large)} bytes, decode.max_bytes is {most}"),
        ("value", "TOO_LARGE", f"value has {most + 1} bytes, decode.max_bytes is {most}"),
        ("key", "TOO_LARGE", f"key has {most + 1} bytes, decode.max_bytes is {most}"),
    ]
    assert rows(spark, made.table.path, "length(text)")[:2] == [(6,), (most - frame,)]


NASTY = ["a`b", "a.b", "it's", 'say"so', "a/b", "a-b", "é☃", "x` INT) --", "a b", "a,b", "a;b", "a\nb", "$x", "${HOME}",
         "*", "?", "[0]", "a\\b", "a:b", "select", "1", "%41", "a\0b", "a\U0001f600b"]  # fmt: skip


@pytest.mark.slow
def test_nasty_field_names_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A name that a record brings becomes a column as it is, or stays in _rescued; it is never taken for SQL."""
    values = [json.dumps({"n": i, name: i, "nested": {name: i}}).encode() for i, name in enumerate(NASTY)]
    produce(stack, named, values)
    made = config_of(stack, named, schema={"columns": "n INT NOT NULL", "compatibility": "BACKWARD"})
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(values), len(values), 0)
    produce(stack, named, values)
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(values), len(values), 0)
    table = spark.read.format("delta").load(made.table.path)
    found = [row.asDict(recursive=True) for row in table.orderBy("_offset").collect()]
    for i, name in enumerate(NASTY):
        row = found[i]
        kept = row.get(name)
        rescued = json.loads(row["_rescued"] or "{}")
        assert kept == i or rescued.get(name) == i, name


@pytest.mark.slow
def test_nasty_declared_names_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A declared column may have any name that Delta stores, and its undeclared fields within are kept."""
    names = [name for name in NASTY if not any(c in ddl.UNSTORABLE + "\0" for c in name)]
    listed = ", ".join(f"`{name.replace('`', '``')}` STRUCT<`{name.replace('`', '``')}`: INT>" for name in names)
    produce(stack, named, [json.dumps({name: {name: 1, "more": 2} for name in names}).encode()])
    made = config_of(stack, named, schema={"columns": listed})
    assert Pipeline(made).run(until_caught_up=True) == Counts(1, 1, 0)
    (row,) = spark.read.format("delta").load(made.table.path).collect()
    assert {name: row[name][name] for name in names} == dict.fromkeys(names, 1)
    assert {name: part["more"] for name, part in json.loads(row["_rescued"]).items()} == dict.fromkeys(names, 2)


@pytest.mark.slow
def test_schemas_and_payloads_that_are_bombs_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Payloads that claim more than they hold, and schemas that nobody has, are refused beside clean ones."""
    good = registered.avro(stack, f"{named}-value", registered.record("R", a="string", b=registered.maybe("int")))
    zig = registered.zigzag
    frame = registered.header(good.id or 0)
    payloads = [
        good(a="x", b=1),
        frame + zig(2**31 - 1) + b"x",
        frame + zig(2**62) + b"x",
        frame + zig(-5) + b"x",
        frame + b"\xff" * 50,
        frame,
        registered.header(2**31 - 1) + b"x",
        registered.header(0) + b"x",
        b"\0",
        good(a="y", b=None),
    ]
    produce(stack, named, payloads)
    made = config_of(
        stack, named, decode={"value": {"format": "avro"}}, schema={"columns": None}, registry={"url": stack.registry}
    )
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(payloads), 2, len(payloads) - 2)
    assert_exactly_once(spark, Pipeline(made), topic_manifest(stack, named))
