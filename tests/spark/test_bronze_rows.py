"""The rows of a bronze table as records: which tables can be read, and how few of their files are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeingest.config import Storage
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.errors import LakeingestError, TableMismatch, UsageError
from lakeingest.ingest.bronze import BronzeSource
from lakeingest.record import OffsetRange, OffsetRanges

RECORD = {
    "_topic": "'t'",
    "_partition": "0",
    "_offset": "id",
    "_timestamp": "TIMESTAMP '2026-11-26 10:00:00'",
    "_key": "CAST('k' AS BINARY)",
    "_headers": "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY)))",
    "value": "CAST(id AS STRING)",
}


def taken(start: int, end: int) -> OffsetRanges:
    return OffsetRanges((OffsetRange("t", 0, start, end),))


def written(spark: SparkSession, path: Path, start: int, end: int, **columns: str | None) -> BronzeSource:
    """A table with a batch more, of one file, under a receipt; columns as SQL, None for one that it lacks."""
    receipt = Receipt("bronze", 1, Run(), "c", {"t": "i"}, taken(start, end), "/q").to_json()
    wanted = {name: text for name, text in {**RECORD, **columns}.items() if text is not None}
    rows = spark.range(start, end, 1, 1).select(*(F.expr(text).alias(name) for name, text in wanted.items()))
    rows = rows.withColumn("_partition", F.col("_partition").cast("int")) if "_partition" in wanted else rows
    rows.write.format("delta").mode("append").option("userMetadata", receipt).save(str(path))
    return BronzeSource(str(path), (), Storage(), lambda: spark)


def read(spark: SparkSession, source: BronzeSource, start: int, end: int, **more: Any) -> DataFrame:
    source.topics()
    return source.frame(spark, taken(start, end), **more)


def test_a_table_of_another_program_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its log has no receipt; and where there is no table, that is said."""
    spark.range(3).write.format("delta").save(str(tmp_path / "b"))
    for path, kind, what in (("b", TableMismatch, "no receipt"), ("c", UsageError, "there is no Delta table")):
        source = BronzeSource(str(tmp_path / path), (), Storage(), lambda: spark)
        with pytest.raises(kind, match=what) as refused:
            source.topics()
        assert isinstance(refused.value, LakeingestError)


def test_what_bronze_does_not_keep_is_null_and_told_once(spark: SparkSession, tmp_path: Path) -> None:
    """A key that was decoded is no key as it came."""
    source = written(spark, tmp_path / "b", 0, 3, _key="id", _headers=None)
    with pytest.warns(UserWarning, match="does not keep _key and _headers as they came: they are null"):
        rows = read(spark, source, 0, 3).collect()
    assert len(rows) == read(spark, source, 0, 3).count()
    assert [tuple(row)[-3:] for row in rows] == [(None, bytearray(b"%d" % n), None) for n in range(3)]


def test_a_batch_opens_the_files_of_its_offsets_alone(spark: SparkSession, tmp_path: Path) -> None:
    """By Delta's statistics; and what a version has added is told from the one before."""
    for start in range(0, 50, 10):
        source = written(spark, tmp_path / "b", start, start + 10)
    rows = read(spark, source, 12, 28)
    assert sorted(row["_offset"] for row in rows.collect()) == [*range(12, 28)]
    assert len(rows.inputFiles()) == 2
    (row,) = read(spark, source, 3, 4).collect()
    assert (row["_raw_key"], row["_raw_value"], row["_headers"]) == (b"k", b"3", [("h", b"1")])
    late = {"table": str(tmp_path / "b"), "version": 3, "since": 2}
    assert sorted(r["_offset"] for r in source.frame(spark, taken(0, 50), read_from=late).collect()) == [*range(30, 40)]
