"""Configurations of sinks that are imported and run, against real servers."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import kit
import pytest
import registry_kit
from confluent_kafka import Consumer, TopicPartition
from connectors import AVRO, CONFLUENT, JSON, PARTITIONER
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import lakeingest
from lakeingest.cli import app
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

ORDER = registry_kit.record("order", id="int", region="string", at={"type": "long", "logicalType": "timestamp-millis"})
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
    schema_id = registry_kit.register(stack, "imported_avro-value", json.dumps(ORDER))
    kit.produce(stack, "imported_avro", [framed(schema_id, row) for row in ROWS])
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
    kit.produce(stack, "imported_json", [json.dumps(row).encode() for row in ROWS] + [None, b"no json"])
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
    kit.produce(stack, topic, [kit.Record(bytes([n]), partition=n % 3) for n in range(12)], 3)
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
    kit.produce(stack, topic, [kit.Record(b"new", partition=1)], 3)
    pipeline.run(until_caught_up=True)
    assert table.where("_partition = 1").count() == 1


@pytest.mark.usefixtures("keys")
def test_a_group_that_never_was(stack: Addresses, tmp_path: Path) -> None:
    """Said, with what to do; nothing is written."""
    config = {**dict.fromkeys(("key.converter", "value.converter"), JSON), "name": "x", "topics": "x"}
    config |= {"connector.class": CONFLUENT, "consumer.override.bootstrap.servers": stack.kafka}
    (tmp_path / "c.json").write_text(json.dumps(config), encoding="utf-8")
    found = CliRunner().invoke(app, ["import-confluent", str(tmp_path / "c.json"), "--to", str(tmp_path), "--offsets"])
    assert "the group connect-x has committed no offset" in str(found.exception)
    assert not list(tmp_path.glob("*.yaml"))
