"""Tables that something else wrote become a pipeline's: it goes on behind their rows, exactly once, and says what it
cannot know.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.pipelines import World, forget_receipts, old_job
from support.pipelines.command_line import Command
from support.pipelines.old_job import OldJob
from support.records import clean_records, expire_records, mixed_records

from lakeingest.delta.receipt import Receipt
from lakeingest.errors import OffsetsLost, SourceChanged, TableMismatch, UsageError
from lakeingest.operations import read
from lakeingest.pipeline import Report


def job_of(world: World, **how: Any) -> OldJob:
    return OldJob(world.stack, world.spark, world.name, world.path(), **how)


def each_once(world: World) -> None:
    rows = world.spark.read.format("delta").load(world.path())
    old_job.assert_each_once(rows, world.spark.read.format("delta").load(world.path("_quarantine")), world.produced)


def checked(world: World, *, earlier: int, table: int, **changes: Any) -> Report:
    """Conserved from the adoption on; and each record is once in the table, by whomever, or in quarantine."""
    report = world.ingestion(**changes).audit()
    assert report.conserved, report
    assert (report.earlier, report.table) == (earlier, table), report
    each_once(world)
    return report


def file_of(world: World, folder: Path, **changes: Any) -> Path:
    path = folder / "p.yaml"
    path.write_text(json.dumps(world.values(**changes)))
    return path


@pytest.mark.faults
def test_a_job_by_hand(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """Its table has coordinates under other names: a run is refused, it is adopted, and the job that was not stopped
    is noticed.
    """
    world.produce(*clean_records(10), partitions=2)
    job = job_of(world)
    job.take()
    world.produce(*mixed_records(10), partitions=2)
    with pytest.raises(TableMismatch, match="no coordinates") as refused:
        world.run()
    assert "lakeingest adopt" in refused.value.cure
    coordinates = ",".join(f"{part}={name}" for part, name in old_job.COORDINATES.items())
    command = ("adopt", file_of(world, tmp_path), "--coordinates", coordinates)
    looked = lakeingest(*command, "--dry-run")
    assert (looked.code, "nothing was written" in looked.out) == (0, True), looked
    with pytest.raises(TableMismatch, match="no coordinates"):
        world.run()
    adopted = json.loads(lakeingest(*command, "--output", "json").out)
    assert (adopted["rows"], [p["frontier"] for p in adopted["partitions"]]) == (10, [5, 5])
    (first,) = world.commit_log().commits
    assert first.receipt.job.adopted["how"] == "the coordinates topic=src.topic, partition=part, offset=off"
    assert first.receipt.ranges.frontier == {(world.name, 0): 5, (world.name, 1): 5}
    again = lakeingest(*command)
    assert (again.code, f"is adopted since version {first.version}" in again.err) == (2, True), again
    assert world.run().consumed == 10
    checked(world, earlier=10, table=8)
    told = lakeingest("audit", file_of(world, tmp_path))
    assert (told.code, "10 rows from before, not proved" in told.out) == (0, True), told
    assert world.ingestion().status().lag == 0
    assert world.ingestion().replay("again", dry_run=True).looked == 2
    # The old job was not stopped: it takes from Kafka what the pipeline has.
    job.take()
    report = world.ingestion().audit()
    assert (report.conserved, report.unexpected) == (False, 10), report
    assert "10 rows without coordinates" in str(report.named["unexpected"])


def adopt(world: World, **how: Any) -> Any:
    """By the old job's coordinates unless it is said otherwise."""
    changes = how.pop("changes", {})
    if not how.keys() & {"frontier", "group", "coordinates"}:
        how["coordinates"] = old_job.COORDINATES
    return world.ingestion(**changes).adopt(**how)


def prepared(world: World, records: int = 10, **how: Any) -> OldJob:
    """A job's table, and as many records again that it did not take."""
    world.produce(*clean_records(records), partitions=how.pop("partitions", 1))
    job = job_of(world, **how)
    job.take()
    world.produce(*mixed_records(records))
    return job


@pytest.mark.faults
def test_a_frontier(world: World) -> None:
    """Of a table without coordinates: each partition has to be named, and Kafka has to reach so far."""
    world.produce(*clean_records(10), partitions=2)
    job = job_of(world, names=("partition AS part", "offset AS off"))
    job.take()
    world.produce(*mixed_records(10), partitions=2)
    name = world.name
    for frontier, error, what in (
        ({(name, 0): 5}, UsageError, f"lacks {name}-1"),
        ({(name, 0): 5, (name, 1): 5, (name, 2): 0}, UsageError, f"names {name}-2"),
        ({(name, 0): 5, (name, 1): 11}, SourceChanged, "in Kafka it ends at 10"),
    ):
        with pytest.raises(error, match=what):
            adopt(world, frontier=frontier)
    with pytest.raises(UsageError, match="has no coordinates"):
        adopt(world, coordinates={"topic": "topic", "partition": "part", "offset": "off"})
    done = adopt(world, frontier={(name, 0): 5, (name, 1): 5})
    assert "every record before these offsets" in " ".join(done.unknown)
    world.run()
    checked(world, earlier=10, table=8)
    # Which of the records before them are there, nothing tells.
    with pytest.raises(UsageError, match="adopted with 10 rows without coordinates"):
        world.ingestion().backfill()


@pytest.mark.faults
def test_adopted_behind_a_consumer_group(world: World) -> None:
    """Its committed offsets are the frontier; a partition of which it has none, and which has records, is named."""
    prepared(world, partitions=2)
    name, group = world.name, f"connect-{world.name}"
    with pytest.raises(UsageError, match=f"group {group} has committed no offset of {name}-0, {name}-1"):
        adopt(world, group=group)
    consumer = Consumer({"bootstrap.servers": world.stack.kafka, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(name, p, 5) for p in (0, 1)], asynchronous=False)
    consumer.close()
    done = adopt(world, group=group)
    assert f"the group {group} is the job's" in " ".join(done.unknown)
    world.run()
    checked(world, earlier=10, table=8)


@pytest.mark.faults
def test_double_rows(world: World) -> None:
    """What the job has written twice is told, and takes a yes; it stays."""
    job = prepared(world)
    job.reached = {0: 8}
    job.take()
    with pytest.raises(UsageError, match="2 rows are double") as refused:
        adopt(world)
    assert "--yes" in refused.value.cure
    assert world.commit_log().commits == ()
    done = adopt(world, yes=True)
    assert [p["double"] for p in done.partitions] == [2]
    world.produce(*clean_records(5))
    world.run()
    report = world.ingestion().audit()
    assert (report.conserved, report.earlier, report.table) == (True, 22, 5), report


@pytest.mark.faults
@pytest.mark.parametrize("how", ["CREATE TABLE {copy} USING delta AS SELECT * FROM {table}", "INSERT", "SHALLOW CLONE"])
def test_a_copy_of_ours(world: World, how: str) -> None:
    """Its own coordinates tell. A clone bears the original's name, which is told; under another name both go on."""
    world.produce(*mixed_records(10))
    world.run()
    copy = World(world.stack, world.spark, f"{world.name}_copy", source={"topics": [world.name]})
    if how == "INSERT":
        world.sql(f"CREATE TABLE delta.`{copy.path()}` USING delta AS SELECT * FROM {{table}} WHERE false")
        world.sql(f"INSERT INTO delta.`{copy.path()}` SELECT * FROM {{table}}")
    elif how == "SHALLOW CLONE":
        world.sql(f"CREATE TABLE delta.`{copy.path()}` SHALLOW CLONE {{table}}")
        with pytest.raises(TableMismatch, match="was made for") as refused:
            copy.run()
        assert "lakeingest adopt" in refused.value.cure
        alike = {"name": world.name, "quarantine": {"path": copy.path("_quarantine")}}
        with pytest.raises(UsageError, match="it is a copy or a clone"):
            copy.ingestion(**alike).adopt()
    else:
        world.sql(how.replace("{copy}", f"delta.`{copy.path()}`"))
    done = copy.ingestion().adopt(yes=how == "SHALLOW CLONE")
    assert [(p["first"], p["frontier"], p["rows"]) for p in done.partitions] == [(1, 10, 8)]
    world.produce(*mixed_records(10))
    copy.run()
    world.run()
    world.checked()
    report = copy.ingestion().audit()
    assert (report.conserved, report.earlier, report.table, report.quarantine) == (True, 8, 8, 2), report


@pytest.mark.faults
def test_the_log_forgot(world: World) -> None:
    """Clean-up took the receipt before a record came: a property tells where the pipeline goes on."""
    prepared(world)
    adopt(world)
    forget_receipts(world.spark, world.stack, world.path())
    world.run()
    checked(world, earlier=10, table=8)
    forget_receipts(world.spark, world.stack, world.path())
    world.produce(*clean_records(5))
    world.run()
    each_once(world)
    # What was written before the log forgot is earlier by now, too.
    report = world.ingestion().audit()
    assert (report.conserved, report.table, report.unexpected) == (True, 5, 0), report


@pytest.mark.faults
def test_adopted_and_restored(world: World) -> None:
    """RESTORE to the adoption: what followed is read again. To before it: no run goes on until it is adopted again."""
    prepared(world)
    done = adopt(world)
    world.run()
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {done.version}")
    world.run()
    checked(world, earlier=10, table=8)
    world.sql("RESTORE TABLE {table} TO VERSION AS OF 0")
    with pytest.raises(TableMismatch, match="restored to what it was before") as refused:
        world.run()
    assert "lakeingest adopt" in refused.value.cure
    with pytest.raises(TableMismatch, match="restored to what it was before"):
        world.ingestion().audit()
    adopt(world)
    world.run()
    checked(world, earlier=10, table=8)


@pytest.mark.faults
def test_adopted_otherwise(world: World) -> None:
    """Whoever adopted it by a wrong frontier is told how to take that back."""
    prepared(world)
    wrong = adopt(world, frontier={(world.name, 0): 3})
    with pytest.raises(UsageError, match=f"adopted since version {wrong.version}") as refused:
        adopt(world)
    assert f"TO VERSION AS OF {wrong.version - 1}" in refused.value.cure
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {wrong.version - 1}")
    adopt(world)
    world.run()
    checked(world, earlier=10, table=8)


@pytest.mark.faults
def test_a_writer_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come while it is adopted, and before its first run: neither is gone over, and it is adopted again."""
    job = prepared(world)
    with monkeypatch.context() as patched:
        patched.setattr(Receipt, "to_json", _once(job.take, Receipt.to_json))
        with pytest.raises(TableMismatch, match="somebody has added rows"):
            adopt(world)
    with pytest.raises(TableMismatch, match="somebody has added rows") as refused:
        world.run()
    assert "stop the job" in refused.value.cure
    adopt(world)
    world.produce(*clean_records(5))
    job.take()
    with pytest.raises(TableMismatch, match="somebody has added rows"):
        world.run()
    adopt(world)
    world.sql("OPTIMIZE {table}")
    world.produce(*mixed_records(5))
    world.run()
    checked(world, earlier=25, table=4)


def _once(act: Callable[[], object], then: Callable[[Receipt], str]) -> Callable[[Receipt], str]:
    """Act when a receipt is written first."""
    done: list[object] = []

    def written(receipt: Receipt) -> str:
        if not done:
            done.append(act())
        return then(receipt)

    return written


@pytest.mark.faults
def test_a_gap(world: World) -> None:
    """Kafka has deleted what follows the rows: that is told, and a run takes it with consent alone."""
    prepared(world)
    expire_records(world.stack, world.name, 14)
    assert "--accept-gap" in " ".join(adopt(world).unknown)
    with pytest.raises(OffsetsLost):
        world.run()
    world.ingestion().run(until_caught_up=True, accept_gap=True)
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.earlier, report.consumed) == (True, 4, 10, 6), report


FEATURES = {
    "partitioned": "({columns}) USING delta PARTITIONED BY (part)",
    "clustered": "({columns}) USING delta CLUSTER BY (off)",
    "column mapping": "({columns}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "deletion vectors": "({columns}) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "change feed": "({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "append only": "({columns}) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "identity": "({columns}, id BIGINT GENERATED ALWAYS AS IDENTITY) USING delta",
    "generated": "({columns}, twice INT GENERATED ALWAYS AS (n * 2)) USING delta",
    "not null": "({columns}, more STRING NOT NULL DEFAULT 'x') USING delta "
    "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "other type": "(n STRING, text STRING, part INT, off BIGINT) USING delta",
    "narrower": "(n SMALLINT, text STRING, part INT, off BIGINT) USING delta",
    "check": "({columns}) USING delta",
}
VALUES = {
    "other type": ("string(v.n) AS n", "v.text"),
    "narrower": ("smallint(v.n) AS n", "v.text"),
    "not null": ("v.n", "v.text", "'x' AS more"),
}
REFUSED = {"partitioned": "is partitioned by part", "not null": "NOT NULL of more", "other type": "cannot become"}
"""The tables that cannot be adopted so, and why."""


@pytest.mark.faults
@pytest.mark.parametrize("feature", FEATURES)
def test_tables_of_all_kinds(world: World, feature: str) -> None:
    """A table is adopted and a run goes on, or the reason why not is told, and nothing was written."""
    world.produce(*clean_records(5))
    columns = FEATURES[feature].format(columns="n INT, text STRING, part INT, off BIGINT")
    world.sql(f"CREATE TABLE {{table}} {columns}")
    if feature == "check":
        world.sql("ALTER TABLE {table} ADD CONSTRAINT few CHECK (n < 8)")
    values = VALUES.get(feature, ("v.n", "v.text"))
    job_of(world, names=("partition AS part", "offset AS off"), values=values).take()
    world.produce(*mixed_records(10))
    how = {"coordinates": {"partition": "part", "offset": "off"}}
    if why := REFUSED.get(feature):
        before = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").count()
        with pytest.raises(TableMismatch, match=why):
            adopt(world, **how)
        assert world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").count() == before
        return
    adopt(world, **how)
    world.run()
    table = 6 if feature == "check" else 8
    checked(world, earlier=5, table=table)


@pytest.mark.faults
def test_two_adopt_at_once(world: World) -> None:
    """One adopts; the other is fenced off, or told that it is adopted."""
    prepared(world)
    with ThreadPoolExecutor(2) as pool:
        each = [pool.submit(adopt, world) for _ in range(2)]
    failures = [future.exception() for future in each]
    assert sorted(type(f).__name__ for f in failures if f) in (["Fenced"], ["UsageError"]), failures
    assert len(world.commit_log().commits) == 1
    world.run()
    checked(world, earlier=10, table=8)


@pytest.mark.faults
def test_read(world: World) -> None:
    """Records are asked for by coordinates: the rows that have none are left out, and are in the way of nothing."""
    prepared(world)
    adopt(world)
    world.run()
    world.sql("OPTIMIZE {table}")
    config = world.ingestion().config
    with read.records(config, config.storage, read.RecordSelection()) as found:
        assert [record["_offset"] for record in found.records] == [*range(10, 20)]
    checked(world, earlier=10, table=8)


@pytest.mark.faults
def test_another_pipeline_in_an_adopted_table(world: World) -> None:
    """Of another topic: the old rows are not its own, and nothing of the first one's is."""
    prepared(world)
    adopt(world)
    other = World(world.stack, world.spark, f"{world.name}_b", table={"path": world.path()})
    other.produce(*clean_records(5))
    other.run()
    world.run()
    report = world.ingestion().audit()
    assert (report.conserved, report.earlier, report.table) == (True, 10, 8), report
    report = other.ingestion().audit()
    assert (report.conserved, report.earlier, report.table) == (True, 0, 5), report


@pytest.mark.faults
def test_an_empty_table(world: World) -> None:
    """One that was made by hand, without coordinates and rows, needs no adoption."""
    world.sql("CREATE TABLE {table} (text STRING, n INT) USING delta")
    world.produce(*mixed_records(10))
    world.run()
    world.checked()
