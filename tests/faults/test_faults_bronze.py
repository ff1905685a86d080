"""What may happen to bronze and silver besides a run: another source, a RESTORE, a table made anew, a catalog."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.command_line import Command
from support.pipelines.layers import Layers
from support.records import DIRTY, clean_records, produce
from support.servers import s3_client

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.errors import OffsetsLost, TableMismatch
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

pytestmark = pytest.mark.faults

LONG = [b'{"n": 1, "text": "' + b"x" * 300 + b'"}', b'{"n": "none", "text": "' + b"x" * 300 + b'"}']
"""Records that bronze refuses for their length; the second one is refused by silver too."""
SHORT = {"max_bytes": 200}


@pytest.fixture
def layers(stack: Addresses, spark: SparkSession, named: str) -> Layers:
    return Layers(stack, spark, named)


def test_over_from_kafka_to_bronze_and_back(layers: Layers) -> None:
    """The same offsets are the same records: nothing is taken twice, and nothing is left out."""
    kafka = {"source": {"topics": [layers.name], "bootstrap_servers": layers.stack.kafka}}
    drops = {"decode": {"on_null": "ignore"}}
    layers.produce(*clean_records(3), None, DIRTY)
    assert layers.fed(**kafka, **drops) == Counts(5, 3, 1, 1)
    layers.run(decode={"on_null": "write"})
    assert layers.fed(**drops) == Counts()
    layers.produce(*clean_records(3, 3), None)
    layers.run(decode={"on_null": "write"})
    assert layers.fed(**drops) == Counts(4, 3, 0, 1)
    assert layers.agreed(**drops).dropped == 2
    layers.produce(*clean_records(3, 6), None)
    assert layers.fed(**kafka, **drops) == Counts(4, 3, 0, 1)
    report = layers.silver(**drops).audit()
    assert (report.conserved, report.consumed, report.dropped) == (True, 13, 3)


def test_a_bronze_table_that_begins_behind_the_frontier(layers: Layers) -> None:
    """What lies between was never read, and bronze does not have it: nothing is skipped."""
    kafka = {"topics": [layers.name], "bootstrap_servers": layers.stack.kafka}
    layers.produce(*clean_records(3))
    layers.fed(source=kafka)
    layers.produce(*clean_records(3, 3))
    layers.run(source={**kafka, "start": {layers.name: {0: 5}}})
    with pytest.raises(OffsetsLost, match="offsets 3 to 4 were never read, and s3a:"):
        layers.fed()
    assert layers.fed(source=kafka) == Counts(3, 3)
    assert layers.fed() == Counts()


def test_a_restored_silver_takes_what_came_late_again(layers: Layers) -> None:
    """Its batch is taken back: the row comes again, what it refused stays in quarantine, and both are accounted for."""
    layers.produce(*clean_records(3), *LONG)
    layers.run(decode=SHORT)
    layers.fed()
    version = layers.silver().history().collect()[0]["version"]
    assert layers.ingestion().replay("long ones are fine").moved == 2
    assert layers.fed() == Counts(2, 1, 1)
    assert layers.agreed().quarantine == 1
    layers.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}", f"{layers.path()}_silver")
    layers.fed()
    assert layers.agreed().quarantine == 1
    layers.produce(*clean_records(2, 9))
    layers.run()
    assert layers.fed() == Counts(2, 2)
    layers.agreed()


def test_a_bronze_that_is_made_anew_with_more(layers: Layers) -> None:
    """Another table is there now, of the same topics: what it has more is taken, and nothing twice."""
    layers.produce(*clean_records(3), *LONG)
    layers.run(decode=SHORT)
    layers.fed()
    client = s3_client(layers.stack)
    for key in [o["Key"] for o in client.list_objects_v2(Bucket="lake", Prefix=f"{layers.name}")["Contents"]]:
        if not key.startswith(f"{layers.name}_silver"):
            client.delete_object(Bucket="lake", Key=key)
    client.close()
    for _ in range(3):
        layers.produce(*clean_records(2))
        layers.run()
    assert layers.fed() == Counts(8, 7, 1)
    layers.agreed()
    assert layers.fed() == Counts()


def test_others_change_bronze(layers: Layers) -> None:
    """Rows that somebody appends are taken; a compaction changes nothing; what is deleted stays in silver."""
    layers.produce(*clean_records(4), *LONG)
    layers.run(decode=SHORT)
    layers.fed()
    rows = layers.spark.read.format("delta").load(layers.path())
    lost = rows.where("_offset = 3").selectExpr("* EXCEPT (_offset)", "4L AS _offset").select(*rows.columns)
    lost.write.format("delta").mode("append").save(layers.path())
    layers.sql("OPTIMIZE {table}")
    assert layers.fed() == Counts(1, 1)
    layers.sql("DELETE FROM {table} WHERE _offset = 0")
    with pytest.warns(UserWarning, match="DELETE.* has taken rows away"):
        assert layers.fed() == Counts()
    assert layers.silver().audit().conserved
    layers.produce(*clean_records(1))
    layers.run()
    with pytest.warns(UserWarning, match="DELETE"):
        assert layers.fed() == Counts(1, 1)
    assert layers.fed() == Counts()


def test_a_vacuum_behind_what_came_late(layers: Layers) -> None:
    """The version before can no longer be read: what silver lacks is told by coordinates."""
    layers.produce(*clean_records(3), *LONG)
    layers.run(decode=SHORT)
    layers.fed()
    layers.ingestion().replay("long ones are fine")
    layers.sql("OPTIMIZE {table}")
    layers.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        layers.sql("VACUUM {table} RETAIN 0 HOURS")
    finally:
        layers.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert layers.fed() == Counts(2, 1, 1)
    layers.agreed()


def test_a_run_that_goes_on_follows_bronze(layers: Layers) -> None:
    """Batches and replays of bronze are taken as they come, while it is looked at each second."""
    layers.produce(*clean_records(3), *LONG)
    layers.run(decode=SHORT)
    stop, taken = threading.Event(), list[int]()
    pipeline = layers.silver()
    running = threading.Thread(
        target=lambda: pipeline.run(on_progress=lambda done: taken.append(done.counts.consumed), stop=stop)
    )
    running.start()

    def until(count: int) -> None:
        deadline = time.monotonic() + 120
        while sum(taken) < count:
            assert time.monotonic() < deadline
            time.sleep(0.2)

    try:
        until(3)
        layers.ingestion().replay("long ones are fine")
        until(5)
        layers.produce(*clean_records(4, 10))
        layers.run()
        until(9)
    finally:
        stop.set()
        running.join()
    layers.agreed()


@pytest.fixture
def warehouse(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql("DROP SCHEMA IF EXISTS metal CASCADE")
    place = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    shutil.rmtree(f"{place}/metal.db", ignore_errors=True)


def test_a_bronze_table_of_a_catalog(layers: Layers, warehouse: None) -> None:
    """It is known by its name alone, so that Spark reads its log: the same promises."""
    layers.changes["table"] = {"name": f"metal.{layers.name}"}
    named = {"source": {"table": f"metal.{layers.name}"}}

    def bronze(**changes: object) -> Pipeline:
        values = layers.values(**changes)
        del values["table"]["path"], values["storage"]
        return Pipeline(file.from_mapping(values))

    layers.produce(*clean_records(3), *LONG)
    bronze(decode=SHORT).run(until_caught_up=True)
    assert layers.fed(**named) == Counts(3, 3)
    assert layers.silver(**named).status().lag == 0
    bronze().replay("long ones are fine")
    assert layers.fed(**named) == Counts(2, 1, 1)
    assert layers.fed(**named) == Counts()
    report = layers.silver(**named).audit()
    assert (report.conserved, report.consumed) == (True, 5)


def test_topics_of_many_are_chosen(layers: Layers) -> None:
    """A table of two topics feeds one pipeline for each, and refuses a topic that it has not."""
    other = f"{layers.name}_b"
    layers.produce(*clean_records(3))
    produce(layers.stack, other, clean_records(2))
    layers.run(source={"topics": [layers.name, other], "bootstrap_servers": layers.stack.kafka})
    assert layers.fed(source={"table": layers.path(), "topics": [other]}) == Counts(2, 2)
    assert {row["_topic"] for row in layers.silver().table().collect()} == {other}
    assert layers.fed() == Counts(3, 3)
    layers.agreed()


def test_places_that_hold_something_else(layers: Layers, lakeingest: Command, tmp_path: Path) -> None:
    """A rebuild into files, another table, or another rebuild's place, is refused before anything is written."""
    layers.produce(*clean_records(3))
    layers.run()
    kafka = {"topics": [layers.name], "bootstrap_servers": "127.0.0.1:1"}
    at = tmp_path / "p.yaml"
    at.write_text(json.dumps(layers.silver_values(source=kafka)))

    def refused(to: str, source: str = layers.path()) -> str:
        said = lakeingest("rebuild", at, "--from", source, "--to", to)
        assert said.code == 2, said
        return said.err

    layers.spark.range(3).write.parquet(f"s3a://lake/{layers.name}_files")
    assert "holds files that are no Delta table" in refused(f"s3a://lake/{layers.name}_files")
    layers.spark.range(3).write.format("delta").save(f"s3a://lake/{layers.name}_table")
    assert "did not write" in refused(f"s3a://lake/{layers.name}_table")
    assert "reads from Kafka, and no bronze table is named" in lakeingest("rebuild", at, "--to", "s3a://lake/x").err
    assert "no Delta table" in refused(f"s3a://lake/{layers.name}_x", "s3a://lake/nowhere")
    place = f"s3a://lake/{layers.name}_anew"
    assert lakeingest("rebuild", at, "--from", layers.path(), "--to", place).code == 0
    assert "is fed from" in refused(place, f"{layers.path()}_copy")
    at.write_text(json.dumps(layers.silver_values(source=kafka, partition=[{"by": "kafka_partition"}])))
    said = lakeingest("rebuild", at, "--from", layers.path(), "--to", place)
    assert (said.code, "partitioned by nothing" in said.err) == (1, True), said


def test_a_table_that_is_not_bronze(layers: Layers) -> None:
    """Silver as a source of silver: its values are decoded, and no bytes."""
    layers.produce(*clean_records(3))
    layers.run()
    layers.fed()
    wrong = layers.silver_values(source={"table": f"{layers.path()}_silver"}, name="other")
    wrong["table"] = {"path": f"{layers.path()}_other"}
    with pytest.raises(TableMismatch, match="has the decoded fields of records, and not their bytes"):
        Pipeline(file.from_mapping(wrong)).run(until_caught_up=True)
