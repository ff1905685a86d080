"""A pipeline whose records come from a bronze table: once each, with Kafka's coordinates, and without Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.pipelines.layers import Layers
from support.records import DIRTY, Record, clean_records

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.errors import SourceChanged, UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


@pytest.fixture
def layers(stack: Addresses, spark: SparkSession, named: str) -> Layers:
    return Layers(stack, spark, named)


@pytest.mark.slow
def test_silver_is_fed_from_bronze(layers: Layers) -> None:
    """Records are decoded again with their coordinates, keys, headers and times; refused ones are set aside."""
    layers.produce(Record(b'{"n": 1}', b"k", headers=(("h", b"1"),)), *clean_records(5, 2), DIRTY, partitions=2)
    layers.run()
    assert layers.fed() == Counts(7, 6, 1)
    same = ("_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
    bronze = [{name: row[name] for name in same} for row in layers.rows()]
    rows = [row.asDict(recursive=True) for row in layers.silver().table().select(*same).collect()]
    assert len(rows) == len([row for row in rows if row in bronze]) == 6
    assert layers.silver().quarantine().collect()[0]["value"] == DIRTY
    assert layers.silver().status().lag == 0
    assert layers.fed() == Counts()
    layers.produce(*clean_records(4, 10), partitions=2)
    layers.run()
    assert layers.silver().status().lag == 4
    assert layers.fed() == Counts(4, 4)
    layers.agreed()


@pytest.mark.faults
def test_what_comes_into_bronze_late_is_taken(layers: Layers) -> None:
    """A replay of bronze brings records below silver's frontier; silver takes them, and only them, once."""
    layers.produce(*clean_records(3), None, *clean_records(3, 3), None)
    layers.run()
    assert layers.fed() == Counts(6, 6)
    assert layers.ingestion(decode={"on_null": "write"}).replay("tombstones are wanted").moved == 2
    assert layers.fed(decode={"on_null": "ignore"}) == Counts(2, 0, 0, 2)
    assert layers.fed(decode={"on_null": "ignore"}) == Counts()
    assert layers.agreed().dropped == 2


@pytest.mark.faults
def test_a_backfill_of_bronze_is_taken(layers: Layers) -> None:
    """What lies before bronze's start comes below silver's frontier; silver itself has nothing to backfill."""
    layers.produce(*clean_records(4))
    layers.changes = {"source": {"topics": [layers.name], "start": "latest"}}
    layers.run()
    layers.produce(*clean_records(3, 10))
    layers.run()
    assert layers.fed() == Counts(3, 3)
    assert layers.ingestion().backfill().counts == Counts(4, 4)
    with pytest.raises(UsageError, match="its runs take themselves"):
        layers.silver().backfill()
    assert layers.fed() == Counts(4, 4)
    assert layers.fed() == Counts()
    layers.agreed()


@pytest.mark.faults
def test_a_restored_bronze_is_noticed(layers: Layers) -> None:
    """Bronze that was taken back lacks what silver has: that is said, and silver goes on when bronze has caught up."""
    layers.produce(*clean_records(3))
    layers.run()
    layers.produce(*clean_records(3, 3))
    layers.run()
    layers.fed()
    version = layers.commit_log().commits[1].version
    layers.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
    with pytest.warns(UserWarning, match="RESTORE"), pytest.raises(SourceChanged, match="somebody has restored it"):
        layers.fed()
    layers.run()
    with pytest.warns(UserWarning, match="RESTORE"):
        assert layers.fed() == Counts()
    layers.agreed()


@pytest.mark.faults
def test_a_table_is_rebuilt_from_bronze_and_goes_on_from_kafka(
    layers: Layers, lakeingest: Command, tmp_path: Path
) -> None:
    """Under other columns and partitions, beside the old table, without Kafka; then the pipeline goes on from Kafka in
    the new one, at its frontier, with every record once.
    """
    layers.produce(*clean_records(6), DIRTY, partitions=2)
    layers.run()
    name = f"{layers.name}_json"
    values = values_of(layers.stack, name, source={"topics": [layers.name]})
    old = Pipeline(file.from_mapping(values))
    assert old.run(until_caught_up=True) == Counts(7, 6, 1)
    # As today's file has it; and no broker is where it says.
    values |= {"schema": {"columns": "n BIGINT"}, "partition": [{"by": "kafka_partition"}]}
    elsewhere = {**values, "source": {**values["source"], "bootstrap_servers": "127.0.0.1:1"}}
    at = tmp_path / "p.yaml"
    at.write_text(json.dumps(elsewhere))
    to = f"s3a://lake/{name}_2"
    said = lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--dry-run")
    assert (said.code, "has not 7 offsets" in said.out) == (0, True), said
    assert Table(layers.spark, to).schema() is None
    said = lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--output", "json")
    told = json.loads(said.out)
    assert (told["consumed"], told["audit"]["conserved"], told["next"]) == (7, True, {"table.path": to})
    assert told["compared"]["table"] == {"before": 6, "rebuilt": 6}
    # Again, there is nothing to do; another pipeline's place, and the old table's, are refused.
    assert (
        json.loads(lakeingest("rebuild", at, "--from", layers.path(), "--to", to, "--output", "json").out)["commits"]
        == 0
    )
    for place, why in ((layers.path(), "the same"), (f"{values['table']['path']}", "the same")):
        refused = lakeingest("rebuild", at, "--from", layers.path(), "--to", place)
        assert (refused.code, why in refused.err) == (2, True), refused
    layers.produce(*clean_records(4, 20), partitions=2)
    new = Pipeline(file.from_mapping({**values, "table": {"path": to}}))
    assert new.run(until_caught_up=True) == Counts(4, 4)
    report = new.audit()
    assert (report.conserved, report.consumed, report.table) == (True, 11, 10)
    assert_exactly_once(layers.spark, new, layers.produced)
    refused = lakeingest("rebuild", at, "--from", layers.path(), "--to", to)
    assert (refused.code, "fed from Kafka" in refused.err) == (2, True), refused
