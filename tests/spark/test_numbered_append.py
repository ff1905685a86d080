"""The jar's append is Delta's own in all but the price: what it writes, what it skips, and whom it loses to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.pipelines.receipts import receipt, write

from lakeingest.delta import commit, commit_log, numbered_append
from lakeingest.delta.receipt import Run
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced
from lakeingest.spark import jvm

pytestmark = pytest.mark.classic

OWN = {
    "commitInfo": ("timestamp", "txnId"),
    "add": ("path", "modificationTime", "size"),
    "txn": ("lastUpdated",),
    "metaData": ("id", "createdTime"),
}
"""Action → what of it no two commits have in common."""


def log_file(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020}.json"


def actions(path: Path, version: int) -> Iterator[tuple[str, Any]]:
    """Of a commit, without what only this one can have."""
    for line in log_file(path, version).read_text(encoding="utf-8").splitlines():
        [(kind, action)] = json.loads(line).items()
        yield kind, {name: value for name, value in action.items() if name not in OWN.get(kind, ())}


def foreign_commit(application: str, number: int) -> str:
    """A commit of another process: this one's Delta keeps no checksum of it."""
    metadata = receipt(number, 90, run=Run(host="another")).to_json()
    info = {"timestamp": 0, "operation": "WRITE", "userMetadata": metadata}
    numbered = {"appId": commit_log.application(application), "version": number, "lastUpdated": 0}
    return "\n".join(map(json.dumps, ({"commitInfo": info}, {"txn": numbered})))


@pytest.fixture(autouse=True)
def has_jar(spark: SparkSession) -> None:
    if not jvm.offered("log"):
        pytest.skip("Delta's own append is all there is")


def test_it_writes_what_delta_writes(spark: SparkSession, tmp_path: Path) -> None:
    """A table that is partitioned by a computed column, and a commit that adds a column: all actions are the same."""
    rows = spark.range(3).select("id", F.timestamp_seconds("id").alias("at"))
    wider = rows.withColumn("note", F.lit("ü"))
    options = {"compression": "zstd", "optimizeWrite": "false", "userMetadata": "m", "txnAppId": "a"}
    for name, form in (("numbered", jvm.NUMBERED_APPEND), ("delta", "delta")):
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path / name}` (id BIGINT NOT NULL, at TIMESTAMP, "
            "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) USING DELTA PARTITIONED BY (day)"
        )
        for number, (frame, merges) in enumerate(((rows, "false"), (wider, "true"), (rows.where("false"), "false"))):
            writer = frame.coalesce(1).write.format(form).mode("append")
            writer.options(**options, txnVersion=number, mergeSchema=merges).save(str(tmp_path / name))
    for version in (1, 2, 3):
        assert list(actions(tmp_path / "numbered", version)) == list(actions(tmp_path / "delta", version)), version
    one, other = (spark.read.format("delta").load(str(tmp_path / name)) for name in ("numbered", "delta"))
    assert_df_equality(one, other, ignore_row_order=True)


def test_what_delta_refuses_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A null where the table takes none, and a column that it lacks; nothing is written."""
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT NOT NULL) USING DELTA")
    for number, (frame, error) in enumerate(
        (
            (spark.range(1).select(F.lit(None).cast("bigint").alias("id")), "NULL"),
            (spark.range(1).selectExpr("id", "1 x"), "x"),
        )
    ):
        with pytest.raises(Exception, match=error):
            numbered_append.append(Table(spark, path), frame, {"txnAppId": "a", "txnVersion": str(number)})
    assert not log_file(tmp_path / "t", 1).exists()


def test_another_process_may_have_committed(spark: SparkSession, tmp_path: Path) -> None:
    """The number that it took is lost, though this process has just seen the one before; the next one is free."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 10))
    log_file(path, 1).write_text(foreign_commit("p", 2), encoding="utf-8")
    with pytest.raises(Fenced, match="on another"):
        write(spark, path, receipt(2, 20))
    log_file(path, 2).write_text(foreign_commit("q", 7), encoding="utf-8")
    assert write(spark, path, receipt(3, 30)).version == 3


@pytest.mark.parametrize(("application", "wins"), [("p", False), ("q", True)])
def test_a_commit_between_look_and_commit(spark: SparkSession, tmp_path: Path, application: str, *, wins: bool) -> None:
    """Of another process, while our files are written: with our number it wins; with another's both stand."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 10))
    file, text = log_file(path, 1), foreign_commit(application, 2)

    def meanwhile(batches: Iterator[Any]) -> Iterator[Any]:
        file.write_text(text, encoding="utf-8")
        yield from batches

    rows: DataFrame = spark.range(2).mapInArrow(meanwhile, "id BIGINT")
    table, ours = Table(spark, str(path)), receipt(2, 20)
    if wins:
        assert commit.write(table, rows.coalesce(1), ours, "zstd").version == 2
    else:
        with pytest.raises(Fenced, match="on another"):
            commit.write(table, rows.coalesce(1), ours, "zstd")
    assert table.read().count() == (3 if wins else 1)


def test_behind_checkpoints_numbers_are_known(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint, which loses Delta's checksum, and a commit of somebody else's in this process."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 10))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for sequence in range(2, 6):
        write(spark, path, receipt(sequence, 10 * sequence))
        with pytest.raises(Fenced):
            write(spark, path, receipt(sequence, 10 * sequence, run=Run(host="late")))
        spark.range(1).write.format("delta").mode("append").save(str(path))
    newest = commit_log.read(Table(spark, str(path)), "p").newest
    assert newest is not None
    assert newest.receipt.sequence == 5
    assert spark.read.format("delta").load(str(path)).count() == 1 + 2 + 3 + 4 + 5 + 4


def test_a_table_that_is_made_anew_knows_no_number(spark: SparkSession, tmp_path: Path) -> None:
    """What this process remembers of the table before is not taken for it."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 10))
    write(spark, path, receipt(2, 20))
    path.rename(tmp_path / "gone")
    write(spark, path, receipt(1, 10))
    assert write(spark, path, receipt(2, 20)).version == 1
