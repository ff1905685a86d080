"""Configurations of sinks that are imported and run, against real servers."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from support.pipelines import World
from support.pipelines.connectors import AVRO, CONFLUENT, JSON, PARTITIONER
from support.records import Record, clean_records, mixed_records, produce, registered
from typer.testing import CliRunner

import lakeingest
from lakeingest.cli import app
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

ORDER = registered.record("order", id="int", region="string", at={"type": "long", "logicalType": "timestamp-millis"})
ROWS = [{"id": n, "region": "EU" if n % 2 else "US", "at": 1_427_961_600_000 + n * 60_000} for n in range(6)]


def imported(
    stack: Addresses, folder: Path, name: str, config: Mapping[str, str], *options: str, more: str = ""
) -> Pipeline:
    """The pipeline of a connector's configuration, as the command line makes it."""
    base = {
        "name": name,
        "connector.class": CONFLUENT,
        "topics": name,
        "s3.bucket.name": "lake",
        "s3.region": "us-east-1",
        "store.url": stack.s3,
        "aws.access.key.id": stack.s3_access_key,
        "aws.secret.access.key": stack.s3_secret_key,
        "flush.size": "1000",
        "consumer.override.bootstrap.servers": stack.kafka,
    }
    (folder / "connector.json").write_text(json.dumps({"name": name, "config": {**base, **config}}), encoding="utf-8")
    found = CliRunner().invoke(app, ["import-confluent", str(folder / "connector.json"), "--to", str(folder), *options])
    assert found.exit_code == 0, found.output + str(found.exception)
    path = folder / f"{name}.yaml"
    assert stack.s3_secret_key not in path.read_text(encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    return lakeingest.load(path)


@pytest.fixture
def keys(stack: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the files ask the environment for."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", stack.s3_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", stack.s3_secret_key)


def rows(spark: SparkSession, pipeline: Pipeline, *columns: str) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(pipeline.config.table.identifier)
    return [tuple(row) for row in table.orderBy("_offset").select(*columns).collect()]


def framed(schema_id: int, value: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), dict(value))
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


@pytest.mark.usefixtures("keys")
def test_avro_by_time(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    """Hours of a field in Los Angeles, as the sink names its folders."""
    schema_id = registered.register(stack, "imported_avro-value", json.dumps(ORDER))
    produce(stack, "imported_avro", [framed(schema_id, row) for row in ROWS])
    pipeline = imported(
        stack,
        tmp_path,
        "imported_avro",
        {
            "value.converter": AVRO,
            "value.converter.schema.registry.url": stack.registry,
            "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner",
            "path.format": "'year'=YYYY/'month'=M/'day'=d/'hour'=H",
            "partition.duration.ms": "3600000",
            "timezone": "America/Los_Angeles",
            "timestamp.extractor": "RecordField",
            "timestamp.field": "at",
            "schema.compatibility": "FULL",
        },
    )
    pipeline.run(until_caught_up=True)
    assert rows(spark, pipeline, "id", "region", "year", "month", "day", "hour") == [
        (row["id"], row["region"], "2015", "4", "2", "1") for row in ROWS
    ]
    assert pipeline.audit().conserved


@pytest.mark.usefixtures("keys")
def test_json_with_transforms(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    """Fields renamed and inserted, by the sink's own partitioner; a null is ignored."""
    produce(stack, "imported_json", [json.dumps(row).encode() for row in ROWS] + [None, b"no json"])
    smt = "org.apache.kafka.connect.transforms."
    pipeline = imported(
        stack,
        tmp_path,
        "imported_json",
        {
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "behavior.on.null.values": "ignore",
            "partitioner.class": f"{PARTITIONER}FieldPartitioner",
            "partition.field.name": "area",
            "transforms": "rename,topic",
            "transforms.rename.type": f"{smt}ReplaceField$Value",
            "transforms.rename.renames": "region:area",
            "transforms.topic.type": f"{smt}InsertField$Value",
            "transforms.topic.topic.field": "topic",
            "transforms.topic.static.field": "site",
            "transforms.topic.static.value": "it's",
        },
        more="schema:\n  columns: id INT, region STRING, at TIMESTAMP\n",
    )
    counts = pipeline.run(until_caught_up=True)
    assert (counts.accepted, counts.refused, counts.dropped) == (6, 1, 1)
    assert rows(spark, pipeline, "id", "area", "topic", "site") == [
        (row["id"], row["region"], "imported_json", "it's") for row in ROWS
    ]


@pytest.mark.usefixtures("keys")
def test_bytes_from_where_the_consumer_group_stands(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    """The table begins at the group's offsets; a partition that the group never committed, at its first."""
    topic = "imported_bytes"
    produce(stack, topic, [Record(bytes([n]), partition=n % 3) for n in range(12)], 3)
    group = Consumer({"bootstrap.servers": stack.kafka, "group.id": f"connect-{topic}", "enable.auto.commit": False})
    group.commit(offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 4)], asynchronous=False)
    group.close()
    pipeline = imported(
        stack,
        tmp_path,
        topic,
        {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
        "--offsets",
    )
    assert pipeline.config.source.start == {topic: {0: 2, 1: 4}}
    pipeline.run(until_caught_up=True)
    table = spark.read.format("delta").load(pipeline.config.table.identifier)
    found = {(row._partition, row._offset) for row in table.collect()}
    assert found == {(0, 2), (0, 3), *((2, n) for n in range(4))}
    assert pipeline.audit().conserved
    produce(stack, topic, [Record(b"new", partition=1)], 3)
    pipeline.run(until_caught_up=True)
    assert table.where("_partition = 1").count() == 1


@pytest.mark.usefixtures("keys")
def test_columns_from_the_newest_records(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    """The file that is written is run as it is."""
    produce(stack, "imported_sample", [json.dumps({**row, "at": "2015-04-02T01:00:00Z"}).encode() for row in ROWS])
    config = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    pipeline = imported(stack, tmp_path, "imported_sample", config, "--sample")
    assert pipeline.config.schema_.columns == "id BIGINT, region STRING, at TIMESTAMP"
    pipeline.run(until_caught_up=True)
    assert rows(spark, pipeline, "id", "region", "kafka_partition") == [(row["id"], row["region"], 0) for row in ROWS]


@pytest.mark.usefixtures("keys")
def test_a_group_that_never_was(stack: Addresses, tmp_path: Path) -> None:
    """Said, with what to do; nothing is written."""
    config = {**dict.fromkeys(("key.converter", "value.converter"), JSON), "name": "x", "topics": "x"}
    config |= {"connector.class": CONFLUENT, "consumer.override.bootstrap.servers": stack.kafka}
    (tmp_path / "c.json").write_text(json.dumps(config), encoding="utf-8")
    found = CliRunner().invoke(app, ["import-confluent", str(tmp_path / "c.json"), "--to", str(tmp_path), "--offsets"])
    assert "the group connect-x has committed no offset" in str(found.exception)
    assert not list(tmp_path.glob("*.yaml"))


def sink(folder: Path, topic: str, objects: Mapping[tuple[int, int], int], kind: str = "json") -> None:
    """Objects as the sink names them: (partition, first offset) → how many records."""
    folder.mkdir(parents=True, exist_ok=True)
    for (partition, offset), records in objects.items():
        path = folder / f"{topic}+{partition}+{offset:010}.{kind}"
        if kind == "avro":
            with path.open("wb") as file:
                fastavro.writer(file, fastavro.parse_schema(ORDER), ROWS[:1] * records)
        else:
            with gzip.open(f"{path}.gz", "wt") if kind == "json" else path.open("w") as file:
                file.write('{"n": 1}\n' * records)


@pytest.fixture
def compared(stack: Addresses, spark: SparkSession) -> World:
    """Two partitions with offsets 0 to 19; each fifth record of partition 0 is refused."""
    world = World(stack, spark, f"compared_{next(_NUMBERS)}", partition=[])
    world.produce(*(Record(value, partition=0) for value in mixed_records(20)), partitions=2)
    world.produce(*(Record(value, partition=1) for value in clean_records(20)), partitions=2)
    world.run()
    return world


_NUMBERS = count()


def test_the_objects_of_the_sink_are_held_against_the_table(compared: World, tmp_path: Path) -> None:
    """Refused records count too; an object that misses one, or has one too many, is named; what the table never had is
    told of by itself, and objects of other topics, of keys and of other tools are left aside.
    """
    topic = compared.name
    sink(tmp_path / "a" / "partition=0", topic, {(0, 0): 10, (0, 10): 10})
    sink(tmp_path / "a" / "partition=1", topic, {(1, 0): 5, (1, 5): 9, (1, 15): 5, (1, 20): 7}, "avro")
    sink(tmp_path / "a", "other", {(0, 0): 1})
    sink(tmp_path / "a", f"{topic}+0+0000000000.keys", {(0, 0): 1}, "avro")
    found = compared.ingestion().compare(str(tmp_path))
    assert (found.objects, found.strange, len(found.outside)) == (6, 2, 1)
    assert [(w.partition, w.start, w.end, w.there, w.here) for w in found.windows] == [
        (0, 0, 10, 10, 10),
        (0, 10, 20, 10, 10),
        (1, 0, 5, 5, 5),
        (1, 5, 15, 9, 10),
        (1, 15, 20, 5, 5),
    ]
    assert [w.start for w in found.different] == [5]
    assert found.different[0].first.endswith(f"{topic}+1+0000000005.avro")


@pytest.mark.faults
def test_objects_that_were_open_at_once_are_compared_together(compared: World, tmp_path: Path) -> None:
    """A sink with several time or field partitions takes the records of each into an object of its own."""
    sink(tmp_path / "x=1", compared.name, {(0, 0): 8, (0, 16): 4})
    sink(tmp_path / "x=2", compared.name, {(0, 1): 8})
    found = compared.ingestion().compare(str(tmp_path))
    assert [(w.start, w.end, w.objects, w.there, w.here) for w in found.windows] == [
        (0, 16, 2, 16, 16),
        (16, 20, 1, 4, 4),
    ]
    (tmp_path / "c.yaml").write_text(json.dumps(compared.values()), encoding="utf-8")
    asked = ["import-confluent", str(tmp_path / "c.yaml"), "--compare", str(tmp_path)]
    alike = CliRunner().invoke(app, asked)
    assert alike.exit_code == 0, alike.output
    assert "alike: each range has as many records on both sides" in alike.stdout
    sink(tmp_path / "x=3", compared.name, {(1, 0): 19})
    different = CliRunner().invoke(app, [*asked, "--output", "json"])
    told = json.loads(different.stdout)
    assert different.exit_code == 0
    assert (told["alike"], told["there"], told["here"]) == (True, 39, 39)
    sink(tmp_path / "x=3", compared.name, {(1, 19): 2})
    sink(tmp_path / "x=3", compared.name, {(1, 0): 18})
    different = CliRunner().invoke(app, [*asked, "--output", "json"])
    told = json.loads(different.stdout)
    assert different.exit_code == 1
    assert [(w["partition"], w["there"], w["here"]) for w in told["different"]] == [(1, 18, 19)]


def test_nothing_to_compare(compared: World, tmp_path: Path) -> None:
    """A prefix without an object of the sink is a mistake, and no agreement."""
    sink(tmp_path, "other", {(0, 0): 1})
    with pytest.raises(UsageError, match="no object TOPIC"):
        compared.ingestion().compare(str(tmp_path))
