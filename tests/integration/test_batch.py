"""A micro-batch's way from Kafka to its commit: counted, settled, fenced, restored, and proved by two auditors.

`checked` closes nearly every test: lakeingest's own audit, and the oracle of tests/support, which knows nothing of it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from itertools import pairwise

import pytest
from pyarrow.parquet import ParquetFile
from pyspark.sql import DataFrame, Observation, SparkSession
from support.pipelines import World, shape_of
from support.records import DIRTY, Record, clean_records, mixed_records, transaction

from lakeingest.delta import sums, table_properties
from lakeingest.delta.commit import LAST_VERSION
from lakeingest.delta.receipt import Account, Counts
from lakeingest.delta.table import Table
from lakeingest.ingest import context
from lakeingest.ingest.batch_plan import observed, plan_batch
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.decided import FEW, decide
from lakeingest.ingest.events import Committed
from lakeingest.ingest.refused_bitmap import maybe_refused
from lakeingest.kafka import reader
from lakeingest.pipeline import Pipeline
from lakeingest.record import OffsetRanges
from lakeingest.spark import jvm


def newest_read(world: World, ingestion: Pipeline) -> DataFrame:
    """What the newest batch read."""
    return BatchReader(ingestion.context).frame(world.commit_log().commits[0].receipt.ranges)


def test_a_clean_batch_is_one_commit(world: World) -> None:
    """Clean records become rows in one commit, and quarantine is not touched."""
    world.produce(*clean_records(10), partitions=2)
    assert world.run() == Counts(10, 10)
    assert sorted(row["n"] for row in world.rows()) == list(range(10))
    assert [c.rows for c in world.commit_log().commits] == [10]
    assert world.commit_log("_quarantine").commits == ()
    assert world.checked().consumed == 10


def test_the_receipt_says_what_was_committed(world: World) -> None:
    """A commit's userMetadata names pipeline, sequence, run, cluster, topic ids and offsets."""
    world.produce(*clean_records(4), partitions=2)
    ingestion = world.ingestion()
    ingestion.run(until_caught_up=True)
    history = world.spark.sql(f"DESCRIBE HISTORY delta.`s3a://lake/{world.name}` LIMIT 1").collect()
    said, topics = json.loads(history[0]["userMetadata"]), ingestion.source.topics()
    properties = Table(world.spark, f"s3a://lake/{world.name}").properties()
    assert said == {
        "lakeingest": 2,
        "pipeline": world.name,
        "sequence": 1,
        "run": vars(ingestion.writer),
        "cluster": topics.cluster,
        "topics": topics.ids,
        "offsets": {world.name: {"0": [0, 2], "1": [0, 2]}},
        "quarantine": f"s3a://lake/{world.name}_quarantine",
        "job": {"name": "run"},
        "schemas": {"digest": table_properties.ledger(properties, world.name).digest},
        "decided": {"account": 0},
    }


def test_refused_records_are_set_aside_with_bytes_and_reason(world: World) -> None:
    """Quarantine says stage, reason, message and sequence, and keeps key, headers and value as they came."""
    world.produce(Record(DIRTY, b"k", headers=(("h", b"1"),)), *clean_records(2), b"{")
    assert world.run() == Counts(4, 2, 2)
    wrong, broken = world.refused
    assert (wrong["stage"], wrong["reason"], wrong["sequence"]) == ("value", "WRONG_TYPE", 1)
    assert (wrong["key"], wrong["value"], wrong["headers"]) == (b"k", DIRTY, [{"key": "h", "value": b"1"}])
    assert "n" in wrong["message"]
    assert "not a number" in wrong["message"]
    assert (broken["reason"], broken["_offset"]) == ("BROKEN_JSON", 3)
    world.checked()


@pytest.mark.classic
@pytest.mark.parametrize("reads", [1, 2])
def test_refused_records_come_in_two_ways(world: World, request: pytest.FixtureRequest, reads: int) -> None:
    """While the batch is written, or by a second read of it: quarantine is the same."""
    conf, functions = world.spark.conf, jvm.catalog("records")
    conf.set(functions, jvm.FUNCTIONS["records"] if reads == 1 else "none")
    request.addfinalizer(lambda: conf.set(functions, jvm.FUNCTIONS["records"]))
    records = [Record(value, b"\xff", headers=(("h", b"secret"), ("g", b""))) for value in mixed_records(40, every=2)]
    world.produce(*records, partitions=2)
    changes = {"transform": [{"mask": {"_headers.h": "null"}}], "quarantine": {"keep_bytes": "plain"}}
    assert world.run(**changes) == Counts(40, 20, 20)
    assert all(row["_headers"][0]["value"] is None for row in world.rows())
    headers = [{"key": "h", "value": b"secret"}, {"key": "g", "value": b""}]
    assert [(row["key"], row["value"], row["headers"]) for row in world.refused] == [(b"\xff", DIRTY, headers)] * 20
    assert {(row["sequence"], row["reason"]) for row in world.refused} == {(1, "WRONG_TYPE")}
    assert len({row["refused_at"] for row in world.refused}) == 1
    world.checked(**changes)


@pytest.mark.classic
def test_few_refused_records_are_computed_by_a_session_of_their_own(world: World) -> None:
    """In which Spark generates no code; many are by that of the batch. It is nobody else's session behind that."""

    def version_of_few(*values: bytes | Record) -> str | None:
        """The version that this session committed, in a run of its own."""
        world.produce(*values)
        ingestion = world.ingestion(decode={"on_null": "ignore"})
        few = ingestion.context.few_rows
        few.conf.unset(LAST_VERSION)
        ingestion.run(until_caught_up=True)
        return few.conf.get(LAST_VERSION, None)

    assert version_of_few(*[DIRTY] * (FEW + 1), *clean_records(1)) is None
    assert version_of_few(DIRTY, b"{", *clean_records(1)) == "2"
    # A batch without refused records, of which one is dropped, has an account too.
    assert version_of_few(Record(None, b"k"), *clean_records(1)) == "3"
    assert len(world.refused) == FEW + 3
    assert SparkSession.active() is world.spark
    world.checked(decode={"on_null": "ignore"})


def test_quarantine_accounts_for_the_batch(world: World) -> None:
    """Where rows are fewer than offsets, quarantine's commit of the same sequence bears the counts."""
    world.produce(*mixed_records(10))
    world.run()
    (account,) = world.commit_log("_quarantine").commits
    table = sums.of((row["_topic"], row["_partition"], row["_offset"]) for row in world.rows())
    assert (account.receipt.sequence, account.receipt.account) == (1, Account(Counts(10, 8, 2), table=table))


def test_max_records_cuts_batches(world: World) -> None:
    """Batches of at most max_records offsets follow each other without a gap."""
    world.produce(*mixed_records(10), partitions=2)
    assert world.run(trigger={"max_records": 4}) == Counts(10, 8, 2)
    assert [c.receipt.ranges.offsets for c in world.commit_log().commits] == [2, 4, 4]
    assert world.checked().commits == 3


@pytest.mark.faults
def test_running_again_adds_nothing(world: World) -> None:
    """A caught-up pipeline commits nothing, and goes on, on any machine, where the log says it stood."""
    world.produce(*mixed_records(5))
    world.run()
    assert world.run() == Counts()
    world.produce(*mixed_records(5))
    assert world.run() == Counts(5, 4, 1)
    assert [c.receipt.sequence for c in world.commit_log().commits] == [2, 1]
    world.checked()


@pytest.mark.parametrize(
    ("on_null", "counts"),
    [
        pytest.param("ignore", Counts(3, 2, 0, 1), marks=pytest.mark.faults),
        pytest.param("write", Counts(3, 3), marks=pytest.mark.faults),
        ("quarantine", Counts(3, 2, 1)),
    ],
)
def test_tombstones(world: World, on_null: str, counts: Counts) -> None:
    """A record without a value is dropped and counted, written with its key, or set aside."""
    world.produce(clean_records(1)[0], Record(None, b"gone"), clean_records(1)[0])
    changes = {"decode": {"on_null": on_null, "key": {"format": "string"}}, "schema": {"columns": "n INT, text STRING"}}
    assert world.run(**changes) == counts
    assert world.checked(**changes).dropped == counts.dropped
    assert [row["_key"] for row in world.rows()].count("gone") == (on_null == "write")
    assert [row["reason"] for row in world.refused] == ["NULL_VALUE"] * (on_null == "quarantine")


def test_key_and_headers_are_columns(world: World) -> None:
    """Key, headers and the record's place stand beside its value."""
    world.produce(Record(clean_records(1)[0], b"key", headers=(("a", b"1"), ("a", b"2"))))
    world.run(decode={"key": {"format": "string"}})
    (row,) = world.rows()
    assert (row["_key"], row["_topic"], row["_partition"], row["_offset"]) == ("key", world.name, 0, 0)
    assert row["_headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}]


def test_transactions_leave_gaps_and_nothing_else(world: World) -> None:
    """Aborted records are nowhere; they and the markers are counted as gaps."""
    transaction(world.stack, world.name, clean_records(3, 100), commit=False)
    transaction(world.stack, world.name, [*clean_records(4), DIRTY], commit=True)
    assert world.run() == Counts(5, 4, 1)
    assert all(row["n"] < 100 for row in world.rows())
    assert world.checked().gaps == 3 + 2


@pytest.mark.faults
def test_a_batch_of_aborted_records_moves_the_frontier(world: World) -> None:
    """Offsets without a single record are consumed and accounted for."""
    transaction(world.stack, world.name, clean_records(3), commit=False)
    assert world.run() == Counts()
    assert world.commit_log().frontier == {(world.name, 0): 4}
    assert world.run() == Counts()
    assert world.checked().gaps == 4


@pytest.mark.classic
def test_a_clean_batch_reads_once_and_keeps_nothing(world: World) -> None:
    """The plan of the accepted rows scans Kafka once, parses once, shuffles nothing, and no frame stays cached.

    Nor has Spark made columns of what is counted, which each row would carry.
    """
    world.produce(*clean_records(3))
    ingestion = world.ingestion()
    ingestion.run(until_caught_up=True)
    batch = plan_batch(ingestion.config, shape_of(ingestion.config), None)
    plan = decide(batch, newest_read(world, ingestion)).accepted._jdf.queryExecution().executedPlan().toString()
    assert plan.lower().count("scan kafka") == 1
    assert plan.count("invoke(io.lakeingest.JsonFunctions") == 1
    assert plan.count("from_json") <= 1  # the rescued fields' map
    assert "InMemory" not in plan
    assert "Exchange" not in plan
    assert "_common_expr" not in plan
    # Not the persisted RDDs: Delta keeps its snapshots there.
    assert world.spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.classic
@pytest.mark.parametrize("jar", [True, False])
def test_batches_are_resolved_once(world: World, request: pytest.FixtureRequest, jar: bool) -> None:
    """One frame is every batch's that so many tasks read, and reads the offsets of the newest one; no other frame does.

    Without the jar each batch has a frame of its own.
    """
    conf, functions = world.spark.conf, jvm.catalog("records")
    conf.set(functions, jvm.FUNCTIONS["records"] if jar else "none")
    request.addfinalizer(lambda: conf.set(functions, jvm.FUNCTIONS["records"]))
    world.produce(*mixed_records(3_100, every=100), partitions=2)
    ingestion = world.ingestion(trigger={"max_records": 2_600})
    ingestion.run(until_caught_up=True)
    assert world.checked().commits == 2
    last, first = (commit.receipt for commit in world.commit_log().commits)
    batches, plan = BatchReader(ingestion.context), plan_batch(ingestion.config, shape_of(ingestion.config), None)

    def read(frame: DataFrame) -> set[tuple[str, int, int]]:
        return {tuple(row) for row in frame.select("_topic", "_partition", "_offset").collect()}

    def offsets(ranges: OffsetRanges) -> set[tuple[str, int, int]]:
        return {(s.topic, s.partition, offset) for s in ranges for offset in range(s.start, s.end)}

    other, by_two = batches.frame(last.ranges), batches.records(first)
    assert read(by_two) == offsets(first.ranges)
    by_one = batches.records(last)
    decided = decide(plan, by_one)
    assert read(by_one) == read(decided.records) == read(other) == offsets(last.ranges)
    start = first.ranges.first(7)
    again = batches.records(replace(first, ranges=start))
    next_plan = plan_batch(ingestion.config, shape_of(ingestion.config), None, plan)
    next_decided = decide(next_plan, again)
    assert read(again) == read(next_decided.records) == offsets(start)
    assert (again is by_one, next_decided.records is decided.records) == (jar, jar)
    assert by_two is not by_one
    assert read(other) == offsets(last.ranges)


@pytest.mark.classic
@pytest.mark.faults
def test_a_batch_finds_its_code_compiled(world: World) -> None:
    """For one more batch Spark compiles nothing, whether records are refused or not.

    A number of the batch's in the code would have Java compile that again, and warm it up again.
    """
    world.spark.conf.unset("spark.sql.codegen.factoryMode")
    world.produce(*mixed_records(40), *clean_records(40))
    compiled, metrics = [], world.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics

    def count(_: Committed) -> None:
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())

    world.ingestion(trigger={"max_records": 10}).run(until_caught_up=True, on_progress=count)
    more = [after - before for before, after in pairwise(compiled)]
    assert more[1:3] == [0, 0], "batches with refused records"
    assert more[5:] == [0, 0], "clean ones"


@pytest.mark.classic
def test_each_commit_prepares_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is looked at when the table is made or found there, and after each commit but a run's last."""
    looked: list[str] = []
    monkeypatch.setattr(context, "prefetch_snapshots", lambda _, tables: looked.extend(map(str, tables)))
    table, refused = (f"s3a://lake/{world.name}{where}" for where in ("", "_quarantine"))
    world.produce(DIRTY, *clean_records(3))
    world.ingestion(trigger={"max_records": 2}).run(until_caught_up=True)
    assert looked == [table, table, refused]
    looked.clear()
    world.run()
    assert looked == [table]


def test_files_are_written_as_readers_can_skip_by_them(world: World) -> None:
    """Times as 64-bit numbers with statistics, not as INT96; the topic, which is always the same, without."""
    world.produce(*clean_records(3))
    world.run()
    (file,) = world.spark.read.format("delta").load(f"s3a://lake/{world.name}").inputFiles()
    content = world.spark.read.format("binaryFile").load(file).collect()[0]["content"]
    group = ParquetFile(BytesIO(content)).metadata.row_group(0)
    columns = {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}
    assert columns["_timestamp"].physical_type == "INT64"
    assert columns["_timestamp"].statistics.has_min_max
    assert columns["text"].statistics.has_min_max
    assert columns["_topic"].statistics is None


@pytest.mark.parametrize(("least", "files"), [(100, 1), pytest.param(3, 3, marks=pytest.mark.faults)])
def test_a_small_batch_is_few_files(world: World, monkeypatch: pytest.MonkeyPatch, least: int, files: int) -> None:
    """One task reads several partitions of Kafka where these have too few records for tasks of their own."""
    monkeypatch.setattr(reader, "_LEAST_IN_A_TASK", least)
    world.produce(*clean_records(9), partitions=3)
    world.run()
    assert len(world.spark.read.format("delta").load(f"s3a://lake/{world.name}").inputFiles()) == files
    world.checked()


@pytest.mark.faults
def test_only_what_may_be_refused_is_decoded_again(world: World) -> None:
    """Of a batch with few bad records, those that share a bit with one of them: all the bad ones are among them."""
    world.produce(*mixed_records(3_000, every=100), partitions=3)
    ingestion = world.ingestion()
    assert ingestion.run(until_caught_up=True).refused == 30
    world.checked()
    batch = plan_batch(ingestion.config, shape_of(ingestion.config), None)
    kafka, seen = newest_read(world, ingestion), Observation()
    observed(batch.decide(kafka), seen, *batch.refused_bitmaps).count()
    some = batch.decide(maybe_refused(kafka, seen.get))
    assert some.where("_refused").count() == 30
    assert some.count() < 60
