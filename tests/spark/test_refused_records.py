"""Refused records, which come to the driver while their batch is written, and the rows that are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from support.pipelines import shape_of

from lakeingest.config.file import from_mapping
from lakeingest.ingest import refused_records
from lakeingest.ingest.batch_plan import plan_batch, set_aside
from lakeingest.kafka.reader import _COLUMNS
from lakeingest.record import RAW_REFUSED_AT, RAW_SEQUENCE, REFUSED
from lakeingest.spark import jvm

NOW = datetime(2026, 11, 28, 4, 5, 6, 789, UTC)
Row = tuple[Any, ...]
_SCHEMA = f"{_COLUMNS}, {REFUSED} BOOLEAN"


def records(count: int) -> list[Row]:
    """All that a record can lack, and bytes that are no text."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    whole = [
        ("t", n % 3, 2**62 + n, at, b"\x00k", b"\xff" * n, [("h", b"v"), ("h", None), ("", b"")], n % 2 == 0)
        for n in range(count)
    ]
    return [*whole, ("t", 0, 7, None, None, None, None, True), ("t", 0, 8, None, b"", b"", [], True)]


class Pass:
    """A batch of these rows, while it is written. What tasks take is there as long as the frame that takes it.

    Attributes:
        kafka: the records, before they are decided.
        metrics: what is observed of them.
    """

    def __init__(self, frame: DataFrame, frame_id: str) -> None:
        self.kafka, self.frame_id, self.table_id = frame.drop(REFUSED), frame_id, f"{frame_id}-table"
        seen = Observation()
        metrics = (F.count_if(REFUSED).alias("refused"), *refused_records.aggregates(frame.sparkSession))
        self.frame = refused_records.collected(frame, self.kafka.schema, frame_id).observe(seen, *metrics)
        self.frame.write.format("noop").mode("overwrite").save()
        self.metrics: dict[str, Any] = seen.get

    def again(self) -> DataFrame | None:
        session = self.kafka.sparkSession
        return refused_records.records(
            session, self.metrics, self.frame_id, self.table_id, (5, NOW), columns=self.kafka.schema
        )


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(records(20), _SCHEMA).repartition(3)


@pytest.fixture
def no_jar(spark: SparkSession) -> Iterator[None]:
    """As where the session has not lakeingest's jar."""
    name = jvm.catalog("records")
    before = spark.conf.get(name)
    spark.conf.unset(name)
    yield
    spark.conf.set(name, before)


def test_they_are_what_came(frame: DataFrame, named: str) -> None:
    """Each as it came, with the batch's number and time."""
    again = Pass(frame, named).again()
    assert again is not None
    marks = again.select(RAW_SEQUENCE, RAW_REFUSED_AT).distinct()
    assert marks.collect() == [(5, NOW.replace(tzinfo=None))]
    expected = frame.where(REFUSED).drop(REFUSED)
    assert expected.count() == 12
    rows = again.drop(RAW_SEQUENCE, RAW_REFUSED_AT)
    assert_df_equality(rows, expected, ignore_row_order=True, ignore_nullable=True)


def test_a_frame_has_the_records_of_the_newest_batch(frame: DataFrame, named: str) -> None:
    """What was made of one batch's records is not made anew for the next one."""
    batches = [Pass(frame.where(f"_partition = {at}"), f"{named}-{at}") for at in range(2)]
    for batch in batches:
        batch.table_id = named
    first = batches[0].again()
    assert first is not None
    kept = first.groupBy("_partition").count()
    before = kept.collect()
    assert batches[1].again() is not None
    assert (before, kept.select("*").collect()) == ([(0, 6)], [(1, 3)])


def test_none_is_refused(frame: DataFrame, named: str) -> None:
    """A clean batch gives no record."""
    clean = Pass(frame.withColumn(REFUSED, F.lit(False)), named)
    assert (clean.metrics["refused"], clean.metrics["taken"]) == (0, 0)
    again = clean.again()
    assert again is not None
    assert again.count() == 0


@pytest.mark.parametrize(("count", "mib"), [(40, 1), (2, 33)], ids=["many", "one that is larger"])
def test_more_than_the_bound(spark: SparkSession, named: str, count: int, mib: int) -> None:
    """A task gives no more than its share; where a record is missing, the driver gives none."""
    value = F.encode(F.repeat(F.lit("v"), mib * 2**20), "utf-8")
    nothing = spark.createDataFrame([], _SCHEMA)
    numbers = spark.range(count, numPartitions=2).select(F.col("id").alias("_offset"), value.alias("_raw_value"))
    frame = nothing.unionByName(numbers.withColumn(REFUSED, F.lit(True)), allowMissingColumns=True)
    batch = Pass(frame, named)
    assert batch.metrics["taken"] < batch.metrics["refused"] == count
    assert batch.again() is None


@pytest.mark.usefixtures("no_jar")
def test_without_the_jar(frame: DataFrame, named: str) -> None:
    """Nothing more is observed."""
    batch = Pass(frame, named)
    assert set(batch.metrics) == {"refused"}
    assert batch.again() is None


def test_several_megabytes(spark: SparkSession, named: str) -> None:
    """They are cut between records, so that several tasks diagnose them."""
    rows = [("t", 0, n, None, None, b"v" * 100_000, [], True) for n in range(35)]
    batch = Pass(spark.createDataFrame(rows, _SCHEMA), named)
    again = batch.again()
    assert again is not None
    by_task = again.groupBy(F.spark_partition_id()).agg(F.count("*"), F.max(F.length("_raw_value"))).collect()
    assert sum(row[1] for row in by_task) == 35
    assert {row[2] for row in by_task} == {100_000}
    assert len(by_task) > 1


def test_a_task_that_runs_again(spark: SparkSession, named: str) -> None:
    """What a frame's tasks took a second time comes in the place of what they took first."""
    rows = [("t", 0, n, None, None, b"v", [], True) for n in range(10)]
    batch = Pass(spark.createDataFrame(rows, _SCHEMA).repartition(3), named)
    batch.frame.write.format("noop").mode("overwrite").save()
    again = batch.again()
    assert again is not None
    assert again.count() == 10


@pytest.mark.parametrize(("extract", "is_kept"), [("record", True), ("wallclock", False)])
def test_rows_are_kept_for_the_next_batch(spark: SparkSession, extract: str, is_kept: bool) -> None:
    """Not where the batch's clock stands in its plan, nor where a gate sets all of it aside."""
    config = from_mapping(
        {
            "name": "p",
            "source": {"topics": ["t"]},
            "schema": {"columns": "n INT"},
            "table": {"path": "/t"},
            "partition": [{"by": "time", "extract": extract, "every": "day"}],
        }
    )
    shape = shape_of(config)
    first = plan_batch(config, shape, None)
    second = plan_batch(config, shape, None, first)
    assert first.now < second.now
    assert (second.frames is first.frames) == is_kept
    assert set_aside(second, []).frames is not second.frames


def test_no_more_tasks_than_cores(spark: SparkSession, named: str) -> None:
    """Each task would generate its code anew, and write a file of its own; and a task for few bytes is not worth it."""
    large = spark.createDataFrame([("t", 0, n, NOW, None, bytes(100_000), None, True) for n in range(80)], _SCHEMA)
    again = Pass(large.repartition(8), named).again()
    assert again is not None
    rows = again.groupBy(F.spark_partition_id()).count().collect()
    assert len(rows) == spark.sparkContext.defaultParallelism
    assert max(row["count"] for row in rows) <= 80 / len(rows) + 1
