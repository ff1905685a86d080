"""A micro-batch's way from Kafka to its commit: counted, settled, fenced, restored, and proved by two auditors.

`checked` closes nearly every test: lakeingest's own audit, and the oracle of kit.py, which knows nothing of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from typing import Any

import kit
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kit import DIRTY, Record, clean, config_of, mixed, produce, shape_of
from pyarrow.parquet import ParquetFile
from pyspark.sql import DataFrame, Observation, SparkSession

from lakeingest import pipeline
from lakeingest.delta import commit, commit_log, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.delta.writer import TableWriter
from lakeingest.errors import (
    Fenced,
    LakeingestError,
    OffsetsLost,
    SourceChanged,
    StorageUnreachable,
    TableMismatch,
)
from lakeingest.ingest import context
from lakeingest.ingest.batch_plan import observed, plan_batch
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.events import Progress
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.refused_bitmap import maybe_refused
from lakeingest.kafka import reader
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.record import OffsetRange, OffsetRanges


@dataclass
class World:
    """One test's topic, tables and pipeline, all of one name."""

    stack: Addresses
    spark: SparkSession
    name: str

    def ingestion(self, **changes: Any) -> Pipeline:
        """A pipeline as on a machine that never ran it: nothing local is handed over."""
        return Pipeline(config_of(self.stack, self.name, **changes))

    def run(self, **changes: Any) -> Counts:
        return self.ingestion(**changes).run(until_caught_up=True)

    def produce(self, *records: bytes | Record | None, partitions: int = 1) -> None:
        produce(self.stack, self.name, records, partitions)

    def rows(self, where: str = "") -> list[dict[str, Any]]:
        return rows(self.spark, f"s3a://lake/{self.name}{where}")

    @property
    def refused(self) -> list[dict[str, Any]]:
        return self.rows("_quarantine")

    def ledger(self, where: str = "") -> CommitLog:
        return commit_log.read(Table(self.spark, f"s3a://lake/{self.name}{where}"), self.name, back=None)

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`s3a://lake/{self.name}` TO VERSION AS OF {version}")

    def read(self, ingestion: Pipeline) -> DataFrame:
        """What the newest batch read."""
        ledger = self.ledger()
        return BatchReader(ingestion.context).frame(ledger.commits[0].receipt.ranges)

    def checked(self, *topics: str, **changes: Any) -> pipeline.Report:
        """Both auditors agree that every record is there exactly once."""
        ingestion = self.ingestion(**changes)
        report = ingestion.audit()
        assert report.conserved, report
        kit.assert_exactly_once(self.spark, ingestion, kit.manifest(self.stack, *(topics or (self.name,))))
        return report


def rows(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    order = ["_topic", "_partition", "_offset"]
    return [row.asDict(recursive=True) for row in spark.read.format("delta").load(path).orderBy(*order).collect()]


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named)


class Crash(Exception):
    """The process ended here."""


def crash(world: World, **changes: Any) -> None:
    """A run whose process ends between the table's commit and quarantine's."""
    with pytest.MonkeyPatch.context() as dying:
        dying.setattr(TableWriter, "set_aside", _crash)
        with pytest.raises(Crash):
            world.ingestion(**changes).run(until_caught_up=True)


def _crash(*_: object) -> None:
    raise Crash


# A batch and its commits


def test_a_clean_batch_is_one_commit(world: World) -> None:
    """Clean records become rows in one commit, and quarantine is not touched."""
    world.produce(*clean(10), partitions=2)
    assert world.run() == Counts(10, 10)
    assert sorted(row["n"] for row in world.rows()) == list(range(10))
    assert [c.rows for c in world.ledger().commits] == [10]
    assert world.ledger("_quarantine").commits == ()
    assert world.checked().consumed == 10


def test_the_receipt_says_what_was_committed(world: World) -> None:
    """A commit's userMetadata names pipeline, sequence, run, cluster, topic ids and offsets."""
    world.produce(*clean(4), partitions=2)
    ingestion = world.ingestion()
    ingestion.run(until_caught_up=True)
    history = world.spark.sql(f"DESCRIBE HISTORY delta.`s3a://lake/{world.name}` LIMIT 1").collect()
    said, topics = json.loads(history[0]["userMetadata"]), ingestion.broker.topics()
    assert said == {
        "lakeingest": 1,
        "pipeline": world.name,
        "sequence": 1,
        "run": vars(ingestion.writer),
        "cluster": topics.cluster,
        "topics": topics.ids,
        "offsets": {world.name: {"0": [0, 2], "1": [0, 2]}},
        "quarantine": f"s3a://lake/{world.name}_quarantine",
        "ledger": table_properties.ledger(
            Table(world.spark, f"s3a://lake/{world.name}").properties(), world.name
        ).digest,
    }


def test_refused_records_are_set_aside_with_bytes_and_reason(world: World) -> None:
    """Quarantine says stage, reason, message and sequence, and keeps key, headers and value as they came."""
    world.produce(Record(DIRTY, b"k", headers=(("h", b"1"),)), *clean(2), b"{")
    assert world.run() == Counts(4, 2, 2)
    wrong, broken = world.refused
    assert (wrong["stage"], wrong["reason"], wrong["sequence"]) == ("value", "WRONG_TYPE", 1)
    assert (wrong["key"], wrong["value"], wrong["headers"]) == (b"k", DIRTY, [{"key": "h", "value": b"1"}])
    assert "n" in wrong["message"]
    assert "not a number" in wrong["message"]
    assert (broken["reason"], broken["_offset"]) == ("BROKEN_JSON", 3)
    world.checked()


def test_quarantine_accounts_for_the_batch(world: World) -> None:
    """Where rows are fewer than offsets, quarantine's commit of the same sequence bears the counts."""
    world.produce(*mixed(10))
    world.run()
    (account,) = world.ledger("_quarantine").commits
    assert (account.receipt.sequence, account.receipt.counts) == (1, Counts(10, 8, 2))


def test_max_records_cuts_batches(world: World) -> None:
    """Batches of at most max_records offsets follow each other without a gap."""
    world.produce(*mixed(10), partitions=2)
    assert world.run(trigger={"max_records": 4}) == Counts(10, 8, 2)
    assert [c.receipt.ranges.offsets for c in world.ledger().commits] == [2, 4, 4]
    assert world.checked().commits == 3


def test_running_again_adds_nothing(world: World) -> None:
    """A caught-up pipeline commits nothing, and goes on, on any machine, where the log says it stood."""
    world.produce(*mixed(5))
    world.run()
    assert world.run() == Counts()
    world.produce(*mixed(5))
    assert world.run() == Counts(5, 4, 1)
    assert [c.receipt.sequence for c in world.ledger().commits] == [2, 1]
    world.checked()


@pytest.mark.parametrize(
    ("on_null", "counts"),
    [("ignore", Counts(3, 2, 0, 1)), ("write", Counts(3, 3)), ("quarantine", Counts(3, 2, 1))],
)
def test_tombstones(world: World, on_null: str, counts: Counts) -> None:
    """A record without a value is dropped and counted, written with its key, or set aside."""
    world.produce(clean(1)[0], Record(None, b"gone"), clean(1)[0])
    changes = {"decode": {"on_null": on_null, "key": {"format": "string"}}, "schema": {"columns": "n INT, text STRING"}}
    assert world.run(**changes) == counts
    assert world.checked(**changes).dropped == counts.dropped
    assert [row["_key"] for row in world.rows()].count("gone") == (on_null == "write")
    assert [row["reason"] for row in world.refused] == ["NULL_VALUE"] * (on_null == "quarantine")


def test_key_and_headers_are_columns(world: World) -> None:
    """Key, headers and the record's place stand beside its value."""
    world.produce(Record(clean(1)[0], b"key", headers=(("a", b"1"), ("a", b"2"))))
    world.run(decode={"key": {"format": "string"}})
    (row,) = world.rows()
    assert (row["_key"], row["_topic"], row["_partition"], row["_offset"]) == ("key", world.name, 0, 0)
    assert row["_headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}]


def test_transactions_leave_gaps_and_nothing_else(world: World) -> None:
    """Aborted records are nowhere; they and the markers are counted as gaps."""
    kit.transaction(world.stack, world.name, clean(3, 100), commit=False)
    kit.transaction(world.stack, world.name, [*clean(4), DIRTY], commit=True)
    assert world.run() == Counts(5, 4, 1)
    assert all(row["n"] < 100 for row in world.rows())
    assert world.checked().gaps == 3 + 2


def test_a_batch_of_aborted_records_moves_the_frontier(world: World) -> None:
    """Offsets without a single record are consumed and accounted for."""
    kit.transaction(world.stack, world.name, clean(3), commit=False)
    assert world.run() == Counts()
    assert world.ledger().frontier == {(world.name, 0): 4}
    assert world.run() == Counts()
    assert world.checked().gaps == 4


def test_a_clean_batch_reads_once_and_keeps_nothing(world: World) -> None:
    """The plan of the accepted rows scans Kafka once, parses once, shuffles nothing, and no frame stays cached.

    Nor has Spark made columns of what is counted, which each row would carry.
    """
    world.produce(*clean(3))
    ingestion = world.ingestion()
    ingestion.run(until_caught_up=True)
    batch = plan_batch(ingestion.config, shape_of(ingestion.config), None)
    decided = batch.decide(world.read(ingestion))
    frame = batch.accepted(observed(decided, Observation(), *batch.metrics, *batch.refused_bitmaps))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.lower().count("scan kafka") == 1
    assert plan.count("invoke(io.lakeingest.JsonFunctions") == 1
    assert plan.count("from_json") <= 1  # the rescued fields' map
    assert "InMemory" not in plan
    assert "Exchange" not in plan
    assert "_common_expr" not in plan
    # Not the persisted RDDs: Delta keeps its snapshots there.
    assert world.spark._jsparkSession.sharedState().cacheManager().isEmpty()


def test_a_batch_finds_its_code_compiled(world: World) -> None:
    """For one more batch Spark compiles nothing; if records are refused, the class that has its number, in two forms.

    A number of the batch's in the code that decodes would have Java compile that again, and warm it up again.
    """
    world.produce(*mixed(40), *clean(40))
    compiled, metrics = [], world.spark._jvm.org.apache.spark.metrics.source.CodegenMetrics

    def count(_: Progress) -> None:
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())

    world.ingestion(trigger={"max_records": 10}).run(until_caught_up=True, on_progress=count)
    more = [after - before for before, after in pairwise(compiled)]
    assert more[1:3] == [2, 2], "batches with refused records"
    assert more[5:] == [0, 0], "clean ones"


def test_each_commit_prepares_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is looked at when the table is made or found there, and after each commit but a run's last."""
    looked: list[str] = []
    monkeypatch.setattr(context, "prefetch_snapshots", lambda _, *tables: looked.extend(map(str, tables)))
    table, refused = (f"s3a://lake/{world.name}{where}" for where in ("", "_quarantine"))
    world.produce(DIRTY, *clean(3))
    world.ingestion(trigger={"max_records": 2}).run(until_caught_up=True)
    assert looked == [table, table, refused]
    looked.clear()
    world.run()
    assert looked == [table]


def test_files_are_written_as_readers_can_skip_by_them(world: World) -> None:
    """Times as 64-bit numbers with statistics, not as INT96; the topic, which is always the same, without."""
    world.produce(*clean(3))
    world.run()
    (file,) = world.spark.read.format("delta").load(f"s3a://lake/{world.name}").inputFiles()
    content = world.spark.read.format("binaryFile").load(file).collect()[0]["content"]
    group = ParquetFile(BytesIO(content)).metadata.row_group(0)
    columns = {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}
    assert columns["_timestamp"].physical_type == "INT64"
    assert columns["_timestamp"].statistics.has_min_max
    assert columns["text"].statistics.has_min_max
    assert columns["_topic"].statistics is None


@pytest.mark.parametrize(("least", "files"), [(100, 1), (3, 3)])
def test_a_small_batch_is_few_files(world: World, monkeypatch: pytest.MonkeyPatch, least: int, files: int) -> None:
    """One task reads several partitions of Kafka where these have too few records for tasks of their own."""
    monkeypatch.setattr(reader, "_LEAST_IN_A_TASK", least)
    world.produce(*clean(9), partitions=3)
    world.run()
    assert len(world.spark.read.format("delta").load(f"s3a://lake/{world.name}").inputFiles()) == files
    world.checked()


def test_only_what_may_be_refused_is_decoded_again(world: World) -> None:
    """Of a batch with few bad records, those that share a bit with one of them: all the bad ones are among them."""
    world.produce(*kit.mixed(3_000, every=100), partitions=3)
    ingestion = world.ingestion()
    assert ingestion.run(until_caught_up=True).refused == 30
    world.checked()
    batch = plan_batch(ingestion.config, shape_of(ingestion.config), None)
    kafka, seen = world.read(ingestion), Observation()
    observed(batch.decide(kafka), seen, *batch.refused_bitmaps).count()
    some = batch.decide(maybe_refused(kafka, seen.get))
    assert some.where("_refused").count() == 30
    assert some.count() < 60


# The source changes


def test_new_partitions_are_read_from_their_beginning(world: World) -> None:
    """A partition that a known topic gains begins at its first offset, even under start: latest."""
    world.produce(*clean(2))
    world.run(source={"start": "latest", "topics": [world.name], "bootstrap_servers": world.stack.kafka})
    kit.widen(world.stack, world.name, 3)
    world.produce(*(Record(value, partition=p) for p, value in enumerate(clean(3))))
    assert world.run(source={"start": "latest"}).accepted == 3
    assert world.ledger().frontier == {(world.name, 0): 3, (world.name, 1): 1, (world.name, 2): 1}


def test_latest_is_remembered(world: World) -> None:
    """Where "latest" was when the pipeline first ran is committed, so that what comes before the next run is read."""
    world.produce(*clean(5))
    assert world.run(source={"start": "latest"}) == Counts()
    assert world.ledger().frontier == {(world.name, 0): 5}
    world.produce(*clean(2, 5))
    assert world.run(source={"start": "latest"}) == Counts(2, 2)
    assert [row["n"] for row in world.rows()] == [5, 6]


def test_topics_come_and_go(world: World) -> None:
    """A topic that the file no longer names must be accepted; named again, it goes on where it stood."""
    other = world.name + "_b"
    world.produce(*mixed(5))
    produce(world.stack, other, mixed(5))
    both = {"source": {"topics": [world.name, other]}}
    assert world.run(**both) == Counts(10, 8, 2)
    with pytest.raises(SourceChanged, match=other):
        world.run()
    produce(world.stack, other, mixed(5))
    world.produce(*mixed(5))
    assert world.ingestion().run(until_caught_up=True, accept_dropped_topics=True) == Counts(5, 4, 1)
    assert world.run() == Counts()
    assert world.run(**both) == Counts(5, 4, 1)
    world.checked(world.name, other, **both)


def test_a_topic_made_anew_is_refused(world: World) -> None:
    """Another topic id means other records, although the offsets would fit."""
    world.produce(*clean(2))
    world.run()
    kit.recreate(world.stack, world.name)
    world.produce(*clean(9))
    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.run()
    assert len(world.rows()) == 2


def test_a_topic_made_anew_while_it_was_not_named_is_refused(world: World) -> None:
    """The id of a topic is remembered as long as its frontier is."""
    other, both = world.name + "_b", {"source": {"topics": [world.name, world.name + "_b"]}}
    world.produce(*clean(2))
    produce(world.stack, other, clean(2))
    world.run(**both)
    world.produce(*clean(2))
    world.ingestion().run(until_caught_up=True, accept_dropped_topics=True)
    kit.recreate(world.stack, other)
    produce(world.stack, other, clean(9))
    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.run(**both)


def test_a_topic_made_anew_during_the_first_run_is_refused(world: World) -> None:
    """A run compares topics with those that it began with, also before the table has a commit of its own."""
    world.produce(*clean(2))

    def anew(_: Progress) -> None:
        kit.recreate(world.stack, world.name)
        world.produce(*clean(5))

    with pytest.raises(SourceChanged, match="deleted and made again"):
        world.ingestion().run(on_progress=anew)


def test_another_cluster_is_refused(world: World) -> None:
    """Where the newest receipt names another cluster, the same offsets are other records."""
    world.produce(*clean(2))
    world.run()
    newest = world.ledger().commits[0].receipt
    foreign = replace(newest, sequence=2, cluster="elsewhere")
    empty = world.spark.read.format("delta").load(f"s3a://lake/{world.name}").limit(0)
    commit.append(Table(world.spark, f"s3a://lake/{world.name}"), empty, foreign, "zstd")
    with pytest.raises(SourceChanged, match="cluster elsewhere"):
        world.run()


@pytest.mark.parametrize("part", ["quarantine", "table"])
def test_another_path_is_refused(world: World, part: str) -> None:
    """A pipeline whose file names another table or quarantine would lose its frontier or its proof."""
    world.produce(*mixed(2))
    world.run()
    # The quarantine stays where it was when the table's path is changed, as a careless edit leaves it.
    paths = {"table": f"s3a://lake/{world.name}", "quarantine": f"s3a://lake/{world.name}_quarantine"}
    paths[part] += "_elsewhere"
    with pytest.raises(TableMismatch, match=r"put .* back"):
        world.run(**{name: {"path": path} for name, path in paths.items()})


def test_offsets_that_expired_unread_need_consent(world: World) -> None:
    """Retention that overtook the pipeline stops it; with consent it goes on, and commit and audit name the gap."""
    world.produce(*mixed(10))
    world.run()
    world.produce(*mixed(10))
    kit.expire(world.stack, world.name, 14)
    with pytest.raises(OffsetsLost, match=f"{world.name}-0: offsets 10 to 13") as stopped:
        world.run()
    assert "--accept-gap" in stopped.value.cure
    assert world.ingestion().run(until_caught_up=True, accept_gap=True) == Counts(6, 5, 1)
    assert world.ledger().commits[0].receipt.gaps == OffsetRanges((OffsetRange(world.name, 0, 10, 14),))
    report = world.ingestion().audit()
    assert (report.conserved, report.lost, report.gaps) == (True, 4, 0)
    assert report.named == {"lost": [f"{world.name}-0 offsets 10 to 13"]}
    world.produce(*mixed(5))
    assert world.run() == Counts(5, 4, 1)
    assert world.ingestion().audit().conserved


def test_a_topic_that_expired_whole_needs_consent_once(world: World) -> None:
    """Where nothing is left to read, an empty commit remembers the consent."""
    world.produce(*clean(3))
    world.run()
    world.produce(*clean(3))
    kit.expire(world.stack, world.name, 6)
    world.ingestion().run(until_caught_up=True, accept_gap=True)
    assert world.run() == Counts()
    assert world.ingestion().audit().lost == 3


# Servers fail


@contextmanager
def failing(*failures: LakeingestError) -> Iterator[None]:
    """The next batches fail, each with another failure."""
    left, execute = list(failures), MicroBatchExecution.execute

    def failing_first(self: MicroBatchExecution, *arguments: Any) -> Progress:
        if left:
            raise left.pop(0)
        return execute(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MicroBatchExecution, "execute", failing_first)
        yield


def test_a_server_that_fails_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run says why it waits and how long, begins anew from the tables, and takes each record once."""
    monkeypatch.setattr("lakeingest.ingest.retry.LONGEST_PAUSE_S", 0.01)
    world.produce(*mixed(10))
    away, said = StorageUnreachable("503 SlowDown", cure="wait"), []
    ingestion = world.ingestion(retry={"wait": "10 seconds"}, trigger={"max_records": 5})
    with failing(away, away):
        assert ingestion.run(until_caught_up=True, on_retry=said.append) == Counts(10, 8, 2)
    assert [retry.failure for retry in said] == [away, away]
    world.checked()


def test_what_no_retry_helps_ends_the_run(world: World) -> None:
    """A refusal that waiting cannot change is raised at once."""
    world.produce(*clean(1))
    ingestion = world.ingestion(retry={"wait": "10 seconds"})
    with failing(TableMismatch("other columns", cure="none")), pytest.raises(TableMismatch):
        ingestion.run(until_caught_up=True, on_retry=lambda _: pytest.fail("it tried again"))


# RESTORE


def restored(world: World, version: int, batches: int = 3) -> None:
    """`batches` dirty commits of four records, then the table goes back to `version`."""
    world.produce(*mixed(4 * batches, every=4))
    world.run(trigger={"max_records": 4})
    world.restore(version)


@pytest.mark.faults
def test_a_restored_table_is_read_again(world: World) -> None:
    """The run after a RESTORE goes on from the older frontier, and quarantine gets nothing twice."""
    restored(world, version=1)
    assert world.run(trigger={"max_records": 3}) == Counts(8, 6, 2)
    assert len(world.refused) == 3
    world.checked()
    world.produce(*mixed(4))
    assert world.run() == Counts(4, 3, 1)
    world.checked()


@pytest.mark.faults
def test_a_table_restored_to_its_beginning_is_read_again(world: World) -> None:
    """Back to the empty table: all is read again."""
    restored(world, version=0)
    assert world.run() == Counts(12, 9, 3)
    world.checked()


@pytest.mark.faults
def test_reading_again_may_be_interrupted(world: World) -> None:
    """A run that ends half-way after a RESTORE leaves the next one to leave out what quarantine holds."""
    restored(world, version=0, batches=4)

    def end(_: Progress) -> None:
        raise Crash

    with pytest.raises(Crash):
        world.ingestion(trigger={"max_records": 4}).run(until_caught_up=True, on_progress=end)
    assert world.run(trigger={"max_records": 4}) == Counts(12, 9, 3)
    world.checked()


@pytest.mark.faults
def test_reading_again_may_crash_before_quarantine(world: World) -> None:
    """What is settled after a RESTORE counts the records that quarantine held already as refused."""
    restored(world, version=1)
    world.produce(DIRTY, *clean(3))
    crash(world)
    assert world.run() == Counts()
    assert world.checked().dropped == 0


@pytest.mark.faults
def test_a_table_restored_far_back_is_read_again(world: World) -> None:
    """Also to a batch whose account is no longer among quarantine's newest commits."""
    restored(world, version=1, batches=22)
    assert world.run() == Counts(84, 63, 21)
    world.checked()


# A crash between the two commits


def test_a_crash_before_quarantine_is_settled(world: World) -> None:
    """The next run sets aside what the crashed one refused, under its sequence number, and goes on."""
    world.produce(*mixed(10))
    crash(world)
    assert not world.ingestion().audit().conserved
    world.produce(*clean(2))
    assert world.run() == Counts(2, 2)
    assert [(row["sequence"], row["reason"]) for row in world.refused] == [(1, "WRONG_TYPE")] * 2
    world.checked()


def test_a_record_that_passes_today_is_settled_as_such(world: World) -> None:
    """Its reason says that only the rules of its time refused it."""
    world.produce(json.dumps({"n": 9, "text": "long " * 10}).encode(), *clean(3))
    crash(world, decode={"max_bytes": 40})
    world.run()
    assert [(row["stage"], row["reason"]) for row in world.refused] == [("settle", "SETTLED")]
    world.checked()


def test_a_crash_with_nothing_refused_is_settled(world: World) -> None:
    """Drops and gaps have their account written too."""
    kit.transaction(world.stack, world.name, clean(3), commit=False)
    world.produce(None, *clean(3))
    crash(world, decode={"on_null": "ignore"})
    assert world.run(decode={"on_null": "ignore"}) == Counts()
    report = world.checked(decode={"on_null": "ignore"})
    assert (report.dropped, report.gaps) == (1, 4)


def test_a_crash_over_a_batch_without_records_is_settled(world: World) -> None:
    """A batch of gaps alone has an account too."""
    kit.transaction(world.stack, world.name, clean(3), commit=False)
    crash(world)
    assert world.run() == Counts()
    assert world.checked().gaps == 4


def test_settling_twice_is_harmless(world: World) -> None:
    """A second run finds nothing open, and one that crashes while settling leaves all to the next."""
    world.produce(*mixed(5))
    crash(world)
    crash(world)
    world.run()
    world.run()
    assert len(world.ledger("_quarantine").commits) == 1
    world.checked()


# The audit finds what is not as it should be


def test_the_audit_names_a_deleted_row(world: World) -> None:
    """A row that somebody deleted is missing, by its coordinates."""
    world.produce(*mixed(10))
    world.run()
    world.spark.sql(f"DELETE FROM delta.`s3a://lake/{world.name}` WHERE _offset = 7")
    report = world.ingestion().audit()
    assert (report.conserved, report.missing) == (False, 1)
    assert report.named == {"missing": [f"{world.name}-0 offsets 7 to 7"]}


@pytest.mark.parametrize(("shift", "kind"), [(0, "duplicated"), (100, "unexpected")])
def test_the_audit_names_a_row_too_many(world: World, shift: int, kind: str) -> None:
    """A copied row is duplicated, one of an offset that was never consumed is unexpected."""
    world.produce(*mixed(10))
    world.run()
    table = world.spark.read.format("delta").load(f"s3a://lake/{world.name}")
    strange = table.where("_offset = 7").selectExpr("* EXCEPT (_offset)", f"_offset + {shift} AS _offset")
    strange.select(*table.columns).write.format("delta").mode("append").save(f"s3a://lake/{world.name}")
    report = world.ingestion().audit()
    assert (report.conserved, getattr(report, kind), report.missing) == (False, 1, 0)
    assert report.named[kind] == [f"{world.name}-0 offset {7 + shift}"]


# One writer


def test_a_stale_writer_is_fenced(world: World) -> None:
    """Who goes on after another run committed learns its name, and writes nothing."""
    world.produce(*mixed(10))
    stale, winner = world.ingestion(), world.ingestion()
    winner.run(until_caught_up=True)
    receipt = replace(world.ledger().commits[0].receipt, run=stale.writer)
    version = world.ledger().commits[0].version
    with pytest.raises(Fenced, match=re.escape(winner.writer.started)):
        MicroBatchExecution(stale.context, None, CommitLog("", world.name)).execute(receipt, {})
    assert world.ledger().commits[0].version == version
    world.checked()


def test_a_writer_that_was_overtaken_is_fenced_in_its_run(world: World) -> None:
    """Between two batches of one run another run commits: the first one stops at its next batch."""
    world.produce(*mixed(8))
    with pytest.raises(Fenced, match="held by another writer"):
        world.ingestion(trigger={"max_records": 4}).run(
            until_caught_up=True, on_progress=lambda _: world.run() and None
        )
    world.checked()


@pytest.fixture
def odd_times(world: World) -> World:
    """Records of producers that sent seconds, micro- and nanoseconds for milliseconds: brokers before 4.0 take them."""
    lenient = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
    asked = NewTopic(world.name, 2, -1, config=lenient)
    kit.admin(world.stack).create_topics([asked])[world.name].result()
    kit.create(world.stack, world.name, 2)
    producer = Producer({"bootstrap.servers": world.stack.kafka, "log_level": 0})
    now = 1_700_000_000
    for n, millis in enumerate((now * 1000, now, now * 10**6, now * 10**9, 2**63 - 1, 253_402_300_800_000)):
        headers = [("h", b"\xff")] if n % 2 else []
        producer.produce(world.name, clean(1, n)[0], str(n), n % 2, timestamp=millis, headers=headers)
    producer.produce(world.name, DIRTY, None, 0, timestamp=now * 10**9)
    producer.produce(world.name, None, b"k", 1, timestamp=now * 1000)
    assert producer.flush(60) == 0
    return world


TIMES = [1_700_000_000, 1_700_000, None, None, None, None]
"""In seconds, what is told of these times: of those beyond the year 9999, nothing."""


def test_a_record_time_that_spark_cannot_hold_stops_nothing(odd_times: World) -> None:
    """Nanoseconds overflow in Spark's Kafka reader: one such record ended each run, which was told as the store's."""
    found = odd_times.run()
    assert (found.consumed, found.accepted, found.refused) == (8, 6, 2)
    rows = sorted(odd_times.rows(), key=lambda row: row["n"])
    assert [row["_timestamp"] and int(row["_timestamp"].timestamp()) for row in rows] == TIMES
    assert [(row["_key"], row["_headers"]) for row in rows][:2] == [
        (b"0", None),
        (b"1", [{"key": "h", "value": b"\xff"}]),
    ]
    assert odd_times.refused[0]["_timestamp"] is None
    odd_times.produce(*clean(4, 10), partitions=2)
    assert odd_times.run().accepted == 4
    odd_times.checked()


def test_a_partition_by_the_records_time_refuses_those_without_one(odd_times: World) -> None:
    """Only what needs the time asks for it; the record is in quarantine, and the others are in the table."""
    odd_times.run(partition=[{"by": "time"}])
    refused = [row["reason"] for row in odd_times.refused]
    assert sorted(refused) == ["NO_PARTITION_TIME"] * 4 + ["NULL_VALUE", "WRONG_TYPE"]
    odd_times.checked(partition=[{"by": "time"}])


def test_a_batch_of_odd_times_is_settled_and_planned(odd_times: World) -> None:
    """A crash between the two commits is made good, and a plan is told, by the other reader too."""
    planned = odd_times.ingestion().plan()
    assert planned.counts["accepted"] == 6
    crash(odd_times)
    odd_times.run()
    assert len(odd_times.refused) == 2
    odd_times.checked()
