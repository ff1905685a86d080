"""A rebuild out of bronze that is killed at each step, and one of all flights: conserved, and Kafka goes on from it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, OF_A_DIRTY_BATCH, Cell
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.records import Record, produce

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.errors import StorageUnreachable
from lakeingest.local import Addresses
from lakeingest.local.demo import flights
from lakeingest.pipeline import Pipeline
from lakeingest.testing.s3 import S3Proxy
from lakeingest.testing.steps import Step, cut_off_at

LIMITS = {"trigger": {"max_records": 300}}


def bronze_of(cell: Cell, **changes: Any) -> Pipeline:
    """What keeps the cell's records as bytes, tombstones too."""
    decode = {"value": {"format": "bytes"}, "on_null": "write", **changes}
    values = values_of(cell.stack, f"{cell.name}_bronze", source={"topics": [cell.name]}, decode=decode)
    values["schema"] = {}
    return Pipeline(file.from_mapping(values))


def words(cell: Cell) -> tuple[str, ...]:
    """Of a rebuild that makes the cell's table."""
    return ("--from", bronze_of(cell).config.table.identifier, "--to", cell.table)


@pytest.mark.faults
@pytest.mark.parametrize("step", OF_A_DIRTY_BATCH, ids=lambda step: step.name.lower())
def test_a_rebuild_is_killed(cells: dict[str, Cell], s3: S3Proxy, lakeingest: Command, step: Step) -> None:
    """SIGKILL at a step of its second batch (or of its start): the same words, elsewhere, complete the table. Then the
    pipeline goes on in it from Kafka.
    """
    cell = cells["dirty"]
    cell.folder.mkdir()
    cell.produce(600)
    bronze_of(cell).run(until_caught_up=True)
    old = {"table": {"path": f"{cell.table}_old"}, **LIMITS}
    nowhere = {"source": {"bootstrap_servers": "127.0.0.1:1"}}
    batch = 1 if step is Step.MAKING else 2
    cell.killed(s3, step, *words(cell), command=("rebuild",), batch=batch, **old, **nowhere)
    said = lakeingest("rebuild", cell.file(**old, **nowhere), *words(cell), "--output", "json")
    assert (said.code, json.loads(said.out)["audit"]["conserved"]) == (0, True), said
    cell.check(f"rebuild killed {step}", "the same words went on from the log", 0)
    cell.produce(50)
    cell.recover(f"rebuild killed {step}", "then Kafka went on from its frontier")


@pytest.mark.faults
@pytest.mark.parametrize("step", [Step.COMMITTED, Step.COMMITTING, Step.ACCOUNTED], ids=lambda step: step.name.lower())
def test_what_came_late_is_cut_off(cells: dict[str, Cell], s3: S3Proxy, step: Step) -> None:
    """The store is gone at a step of the batch that takes what a replay brought into bronze: that is taken once."""
    cell = cells["dirty"]
    cell.bucket = BUCKET
    cell.produce(40)
    without = sum(digest is None for digest in cell.manifest.values())
    bronze_of(cell, on_null="quarantine").run(until_caught_up=True)
    silver = {"source": {"table": f"s3a://lake/{cell.name}_bronze"}, "decode": {"on_null": "quarantine"}}

    def pipeline() -> Pipeline:
        values = cell.values(**silver)
        del values["source"]["bootstrap_servers"]
        return Pipeline(file.from_mapping(values))

    assert pipeline().run(until_caught_up=True).consumed == 40 - without
    assert bronze_of(cell).replay("tombstones are wanted").moved == without > 0
    there = cut_off_at(s3, step, cell.table, cell.quarantine)
    with pytest.raises(StorageUnreachable):
        pipeline().run(until_caught_up=True)
    assert there.is_set()
    s3.clear()
    # A batch that was cut off behind its commit is told by the run that settles it.
    assert pipeline().run(until_caught_up=True).consumed == (0 if step is Step.ACCOUNTED else without)
    assert pipeline().run(until_caught_up=True) == Counts()
    report = pipeline().audit()
    assert (report.conserved, report.consumed) == (True, 40), report
    cell.check(f"cut off {step}, of what came late", "exit 4; went on from the log", 0)


SUITE = {
    "name": "other",
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "distance", "min_value": 100, "max_value": 2500},
        }
    ],
}


@pytest.mark.faults
def test_all_flights_are_rebuilt_from_bronze(
    stack: Addresses, spark: SparkSession, lakeingest: Command, tmp_path: Path
) -> None:
    """Under another partitioning and suite, from bronze, without Kafka: each flight is there once, by the new rules."""
    topic = "all_flights"
    records = [Record(value, key, partition) for partition, key, value in flights.records()]
    produce(stack, topic, records, flights.PARTITIONS)
    bronze = values_of(stack, f"{topic}_bronze", source={"topics": [topic]}, decode={"value": {"format": "bytes"}})
    bronze["schema"] = {}
    assert Pipeline(file.from_mapping(bronze)).run(until_caught_up=True) == Counts(flights.RECORDS, flights.RECORDS)
    today = file.read(Path(__file__).parents[2] / "pipelines" / "flights.yaml", {})
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    values = values_of(
        stack,
        topic,
        source={"bootstrap_servers": "127.0.0.1:1"},
        decode={"key": {"format": "string"}},
        schema={"columns": today.schema_.columns},
        partition=[{"by": "field", "field": "carrier"}],
        gate={"suite": str(tmp_path / "suite.json")},
    )
    (tmp_path / "p.yaml").write_text(json.dumps(values))
    to = f"s3a://lake/{topic}_2"
    words = ("rebuild", tmp_path / "p.yaml", "--from", bronze["table"]["path"], "--to", to, "--output", "json")
    told = json.loads(lakeingest(*words).out)
    whole = [json.loads(r.value) for n, r in enumerate(records, 1) if r.value and n % 1000]
    near = [flight["carrier"] for flight in whole if 100 <= flight["distance"] <= 2500]
    assert told["consumed"] == flights.RECORDS
    assert (told["accepted"], told["refused"]) == (len(near), flights.RECORDS - len(near))
    assert (told["audit"]["conserved"], told["audit"]["duplicated"]) == (True, 0)
    rows = spark.read.format("delta").load(to)
    assert {row[0]: row[1] for row in rows.groupBy("carrier").count().collect()} == Counter(near)
    assert spark.sql(f"DESCRIBE DETAIL delta.`{to}`").collect()[0]["partitionColumns"] == ["carrier"]
