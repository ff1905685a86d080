"""A table of mode upsert that batches are applied to, without Kafka."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from support.pipelines.receipts import receipt

from lakeingest.config.parts import Table as TableOptions
from lakeingest.delta import commit, latest
from lakeingest.delta.latest import LatestRows
from lakeingest.delta.table import Table
from lakeingest.delta.upsert import TIED, DeletedKeys, Upsert, completed, latest_of
from lakeingest.record import DELETES

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def options(**values: Any) -> TableOptions:
    return TableOptions(path="/t", mode="upsert", **values)


class Applied:
    """A table that batches are applied to.

    Attributes:
        latest: how the latest row of a key is known.
    """

    def __init__(self, spark: SparkSession, folder: Path, columns: str, **values: Any) -> None:
        self.spark, self.columns = spark, columns
        self.latest: LatestRows = latest.of(options(**values), spark.createDataFrame([], columns).schema)
        self.table, self.number = Table(spark, str(folder / "t")), 0
        self.deleted_keys = DeletedKeys(Table(spark, str(folder / "t_deletes")), "p")
        self.table.create(spark.createDataFrame([], columns).schema)

    def mark(self) -> None:
        """Let rows be marked in deletion vectors from now on."""
        self.table.set_properties({"delta.enableDeletionVectors": "true"})

    def apply(self, rows: list[tuple[Any, ...]]) -> None:
        """Records, each with whether it deletes."""
        self.number += 1
        frame = self.spark.createDataFrame(rows, f"{self.columns}, {DELETES} BOOLEAN")
        rows, seen = (
            latest_of(completed(frame, self.latest), self.latest).drop(TIED).persist(),
            self.deleted_keys.version(),
        )
        newer = self.deleted_keys.without_superseded(rows, self.latest, seen)
        self.deleted_keys.remember(rows, self.latest, NOW, seen)
        bounds = self.latest.bounds(rows.agg(*self.latest.extents).collect()[0])
        mode = Upsert(self.latest, self.spark.newSession(), tuple(bounds))
        commit.write(self.table, newer, receipt(self.number, 1), "zstd", mode=mode)
        self.deleted_keys.join_files()
        rows.unpersist()

    @property
    def rows(self) -> DataFrame:
        return self.table.read()
