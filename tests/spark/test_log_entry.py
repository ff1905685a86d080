"""One version of a log, as its own file tells of it: by lakeingest's jar, and by Spark's reader where there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeingest.delta.history import TableHistory, adds_rows, named_version
from lakeingest.delta.table import Table
from lakeingest.errors import LakeingestError
from lakeingest.spark import jvm


@pytest.fixture(params=["jar", "no jar"], autouse=True)
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """With the jar's functions, and as where the session has none."""
    name = jvm.catalog("log")
    before = spark.conf.get(name)
    if request.param == "no jar":
        spark.conf.unset(name)
    yield spark
    spark.conf.set(name, before)


@pytest.fixture
def history(spark: SparkSession, tmp_path: Path) -> TableHistory:
    """Of a table of two versions, with a quote in its path."""
    path = f"{tmp_path}/it's"
    for rows in (1, 2):
        writer = spark.range(rows).write.format("delta").mode("append").option("userMetadata", f'"ü{rows}\n')
        writer.save(path)
    return TableHistory(Table(spark, path))


def log_file(history: TableHistory, version: int) -> Path:
    return Path(history.table.identifier, "_delta_log", f"{version:020}.json")


def test_it_is_what_the_history_says(history: TableHistory) -> None:
    """But for the time, which Delta's history takes from the file."""
    described = {row["version"]: row for row in history.history(None)}
    for version in (0, 1):
        entry = history.entry(version)
        assert entry is not None
        for name in ("version", "operation", "operationMetrics", "userMetadata"):
            assert entry[name] == described[version][name], name
        assert abs(entry["timestamp"] - described[version]["timestamp"]).total_seconds() < 60
    assert history.entry(2) is None
    assert history.since(1) == ()


NAMES = ("version", "timestamp", "operation", "operationMetrics", "userMetadata", "userName", "engineInfo")


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_the_newest_commits_are_what_delta_describes(spark: SparkSession, history: TableHistory, limit: int) -> None:
    """With the times that Delta gives them, also where the files' own go backwards; and with a RESTORE's version."""
    table = history.table
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF 1")
    os.utime(log_file(history, 2), (1_700_000_000.5, 1_700_000_000.5))
    described = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {limit}").collect()
    entries = history.history(limit)
    assert [[entry[name] for name in NAMES] for entry in entries] == [
        [row[name] for name in NAMES] for row in described
    ]
    assert named_version(entries[0]) == 1
    assert [adds_rows(entry) for entry in entries] == [adds_rows(row.asDict()) for row in described]


def test_it_ends_where_clean_up_took_commits(spark: SparkSession, history: TableHistory) -> None:
    """A checkpoint has what they did, and nothing says who did it."""
    table = history.table
    table.set_properties({"delta.checkpointInterval": "2"})
    spark.range(1).write.format("delta").mode("append").save(table.identifier)
    newest = history.newest()
    for version in (0, 1):
        log_file(history, version).unlink()
    assert [entry["version"] for entry in history.history(20)] == list(range(newest, 1, -1))


def test_times_that_commits_bear_are_deltas_to_tell(spark: SparkSession, history: TableHistory) -> None:
    """They are not those of the files."""
    table = history.table
    table.set_properties({"delta.enableInCommitTimestamps": "true"})
    (row,) = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT 1").collect()
    os.utime(log_file(history, row["version"]), (1_700_000_000, 1_700_000_000))
    assert history.history(1)[0]["timestamp"] == row["timestamp"]


def test_a_table_that_is_not_there_has_no_history(spark: SparkSession, tmp_path: Path) -> None:
    """Delta says so."""
    with pytest.raises(LakeingestError, match="nothing"):
        TableHistory(Table(spark, f"{tmp_path}/nothing")).history(1)


def test_a_file_need_not_say_it(history: TableHistory) -> None:
    """Delta's protocol asks for no commitInfo, and writers may put it anywhere; a value may have its name."""
    commit_info, *actions = log_file(history, 1).read_text(encoding="utf-8").splitlines()
    decoy = json.dumps({"add": {"path": "x", "stats": '{"commitInfo":1}', "commitInfo": {"userMetadata": "no"}}})
    others = log_file(history, 2), log_file(history, 3)
    others[0].write_text("\n".join([decoy, *actions, f" {commit_info}"]), encoding="utf-8")
    others[1].write_text("\n".join([decoy, *actions]), encoding="utf-8")
    last, none = history.entry(2), history.entry(3)
    assert last is not None
    assert none is not None
    assert last["userMetadata"] == '"ü2\n'
    assert (none["operation"], none["timestamp"], none["userMetadata"]) == (None, None, None)


@pytest.mark.classic
def test_the_driver_alone_reads_it(spark: SparkSession, history: TableHistory) -> None:
    """The jar's function runs no job."""
    if not jvm.offered("log"):
        pytest.skip("Spark's reader does")
    context = spark.sparkContext
    context.setJobGroup("log entry", "")
    history.entry(1)
    history.entry(2)
    history.history(2)
    assert list(context.statusTracker().getJobIdsForGroup("log entry")) == []
    context._jsc.clearJobGroup()


def test_what_cannot_be_read_is_told(spark: SparkSession) -> None:
    """It is not taken for a version that is missing."""
    with pytest.raises(LakeingestError, match="nowhere"):
        TableHistory(Table(spark, "nowhere://lake/orders")).since(1)
