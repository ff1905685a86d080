"""Receipts in the log: written, read back, told from other tools' metadata, and what an error of Spark means."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines.receipts import receipt, write

from lakeingest.delta import commit, commit_log
from lakeingest.delta.receipt import Run
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced


def test_the_ledger_of_one_pipeline_among_others(spark: SparkSession, tmp_path: Path) -> None:
    """Two pipelines and an OPTIMIZE share a table; each has its own frontier and sequence."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 10))
    write(spark, path, receipt(1, 5, pipeline="other"))
    write(spark, path, receipt(2, 20))
    spark.sql(f"OPTIMIZE delta.`{path}`")
    mine, other = (commit_log.read(Table(spark, str(path)), name) for name in ("p", "other"))
    assert (mine.frontier, mine.last_sequence, [c.rows for c in mine.commits]) == ({("t", 0): 20}, 2, [2, 1])
    assert (other.frontier, other.last_sequence) == ({("t", 0): 5}, 1)


@pytest.mark.parametrize("told", ["0", "1", "7", None])
def test_what_is_read_back_is_what_the_log_says(spark: SparkSession, tmp_path: Path, told: str | None) -> None:
    """Whatever version the session says that it wrote last, to whatever table; asked is the log itself."""
    path, last = str(tmp_path / "t"), "spark.databricks.delta.lastCommitVersionInSession"

    class Elsewhere:
        """A session that has written to another table meanwhile, or does not say."""

        conf = SimpleNamespace(get=lambda name, default: {last: told}[name])

        def __getattr__(self, name: str) -> object:
            return getattr(spark, name)

    commit.write(Table(spark, path), spark.range(5), receipt(1, 10), "zstd")
    elsewhere: Any = Elsewhere()
    done = commit.write(Table(elsewhere, path), spark.range(3), made := receipt(2, 20), "zstd")
    newest = commit_log.read(Table(spark, path), "p").newest
    assert newest is not None
    assert (newest.version, newest.rows, newest.receipt) == (done.version, done.rows, done.receipt) == (1, 3, made)
    assert abs(newest.time - done.time) < timedelta(seconds=1)


@pytest.mark.parametrize("by", ["version", pytest.param("timestamp", marks=pytest.mark.faults)])
def test_a_restore_takes_commits_back(spark: SparkSession, tmp_path: Path, by: str) -> None:
    """The frontier goes back with the rows; the sequence does not, because Delta's own memory of it does not."""
    path = tmp_path / "t"
    for sequence in (1, 2, 3):
        write(spark, path, receipt(sequence, sequence * 10))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    to = "VERSION AS OF 1" if by == "version" else f"TIMESTAMP AS OF '{history[1]['timestamp']}'"
    spark.sql(f"RESTORE TABLE delta.`{path}` TO {to}")
    ledger = commit_log.read(Table(spark, str(path)), "p")
    assert (ledger.frontier, ledger.last_sequence) == ({("t", 0): 20}, 3)


def test_a_number_that_was_taken_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Delta skips a sequence number that it has seen; the loser is told who took it, and nothing was written."""
    path, winner = tmp_path / "t", Run(host="winner")
    write(spark, path, receipt(1, 10, run=winner))
    with pytest.raises(Fenced, match=f"process {winner.pid} on winner"):
        write(spark, path, receipt(1, 10))
    assert spark.read.format("delta").load(str(path)).count() == 1
