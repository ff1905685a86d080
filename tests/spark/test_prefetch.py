"""The state of a table's log is computed before a commit asks for it, and whatever fails then is no failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from support.pipelines.receipts import receipt, write

from lakeingest.delta import prefetch
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced
from lakeingest.spark import jvm, session


def jobs(spark: SparkSession, group: str, work: Callable[[], object]) -> int:
    """How many jobs of Spark a piece of work takes, in this thread."""
    spark.sparkContext.setJobGroup(group, group)
    try:
        work()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


@pytest.mark.pinned
def test_a_commit_finds_the_state_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """What is left is one job, which writes the rows; without the jar a second asks the log what was committed. With it
    the state is needed only behind a checkpoint.
    """
    path, logs = tmp_path / "t", session.few_rows_session(spark)
    assert logs is not None

    def commit(sequence: int) -> int:
        return jobs(spark, f"commit {sequence}", lambda: write(spark, path, receipt(sequence, 10 * sequence)))

    commit(1)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    # Versions 2 to 5, of which 3 writes a checkpoint too.
    *_, behind_checkpoint, next_one = [commit(sequence) for sequence in (2, 3, 4, 5)]
    least = 1 if jvm.offered("log") else 2
    assert behind_checkpoint > 2 * least
    assert (next_one == least) == jvm.offered("log")
    commit(6)
    for sequence, merges in ((7, False), (8, True)):
        prefetch.prefetch_snapshots(logs, {Table(spark, str(path)): merges}).join()
        # Behind a checkpoint Delta also reads which files there are.
        assert commit(sequence) == least + (sequence == 7)


def test_somebody_elses_commit_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """The state that was computed is not taken for a newer one."""
    path, logs = tmp_path / "t", session.few_rows_session(spark)
    assert logs is not None
    write(spark, path, receipt(1, 10))
    prefetch.prefetch_snapshots(logs, {Table(spark, str(path)): False}).join()
    elsewhere = spark.newSession()
    write(elsewhere, path, receipt(2, 20))
    with pytest.raises(Fenced):
        write(spark, path, receipt(2, 20))
    prefetch.prefetch_snapshots(logs, {Table(spark, str(path)): False}).join()
    write(spark, path, receipt(3, 30))
    assert spark.read.format("delta").load(str(path)).count() == 6


def test_a_log_that_cannot_be_read(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is said: the commit will."""
    logs = session.few_rows_session(spark)
    assert logs is not None
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").write_text("{")
    prefetch.prefetch_snapshots(logs, {Table(spark, str(tmp_path / "t")): False}).join()

    class Gone:
        """A session whose JVM has ended."""

        def sql(self, _: str) -> None:
            raise Py4JNetworkError("Answer from Java side is empty")

    prefetch.prefetch_snapshots(Gone(), {Table(spark, "/t"): False}).join()
    assert capfd.readouterr() == ("", "")


def test_databricks_is_left_alone(spark: SparkSession) -> None:
    """Its Delta keeps states in a way of its own."""
    theirs = spark.newSession()
    theirs.conf.set("spark.databricks.clusterUsageTags.sparkVersion", "16.4.x")
    assert session.few_rows_session(theirs) is None
