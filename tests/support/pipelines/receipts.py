"""Receipts as a run writes them, and small commits that carry them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakeingest.delta import commit, commit_log
from lakeingest.delta.receipt import Account, Counts, Receipt, Run
from lakeingest.delta.table import Table
from lakeingest.record import OffsetRange, OffsetRanges


def receipt(sequence: int, end: int, *, pipeline: str = "p", run: Run | None = None) -> Receipt:
    ranges = OffsetRanges((OffsetRange("t", 0, 0, end),))
    return Receipt(
        pipeline,
        sequence,
        run or Run(),
        "cluster",
        {"t": "id"},
        ranges,
        "quarantine",
        account=Account(Counts(3, 1, 1, 1)),
    )


def write(spark: SparkSession, path: Path, made: Receipt) -> commit_log.Commit:
    return commit.write(Table(spark, str(path)), spark.range(made.sequence), made, "zstd")
