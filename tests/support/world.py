"""A pipeline with what was produced to it, and what may happen to its table from outside."""

from __future__ import annotations

from typing import Any

import kit
import pytest
from pyspark.sql import SparkSession

from lakeingest.config import file
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.delta.writer import TableWriter
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline, Report
from lakeingest.testing.manifest import Manifest


class Crash(Exception):
    """The process ended here."""


def _crash(*_: object) -> None:
    raise Crash


class World:
    """A topic, a pipeline and its tables, all of one name, and what was produced.

    Attributes:
        changes: what the pipeline file says besides, part by part.
    """

    def __init__(self, stack: Addresses, spark: SparkSession, name: str, **changes: Any) -> None:
        self.stack, self.spark, self.name, self.changes = stack, spark, name, changes
        self.produced: dict[tuple[str, int, int], str | None] = {}

    @property
    def topics(self) -> list[str]:
        return list(self.changes.get("source", {}).get("topics", [self.name]))

    def produce(self, *records: bytes | kit.Record | None, partitions: int = 1) -> Manifest:
        made = kit.produce(self.stack, self.name, records, partitions)
        self.produced.update(made)
        return made

    def values(self, **changes: Any) -> dict[str, Any]:
        """What the pipeline file holds."""
        return kit.values_of(self.stack, self.name, **{**self.changes, **changes})

    def ingestion(self, **changes: Any) -> Pipeline:
        """As on a machine that never ran it: nothing local is handed over."""
        return Pipeline(file.from_mapping(self.values(**changes)))

    def run(self, **changes: Any) -> Counts:
        return self.ingestion(**changes).run(until_caught_up=True)

    def crash(self, **changes: Any) -> None:
        """A run whose process ends between the table's commit and quarantine's."""
        with pytest.MonkeyPatch.context() as dying:
            dying.setattr(TableWriter, "set_aside", _crash)
            with pytest.raises(Crash):
                self.run(**changes)

    def path(self, of: str = "") -> str:
        return f"{self.values()['table']['path']}{of}"

    def rows(self, of: str = "") -> list[dict[str, Any]]:
        """In the order of Kafka; `of` is the end of the path of another table than the main one."""
        rows = self.spark.read.format("delta").load(self.path(of)).orderBy("_topic", "_partition", "_offset")
        return [row.asDict(recursive=True) for row in rows.collect()]

    @property
    def refused(self) -> list[dict[str, Any]]:
        return self.rows("_quarantine")

    def commit_log(self, of: str = "") -> CommitLog:
        return commit_log.read(Table(self.spark, self.path(of)), self.name, back=None)

    def sql(self, statement: str, path: str | None = None) -> None:
        self.spark.sql(statement.format(table=f"delta.`{path or self.path()}`")).collect()

    def checked(self, *topics: str, **changes: Any) -> Report:
        """Two auditors agree that each record is there once: lakeingest's, and the oracle, which knows nothing of it.

        Args:
            topics: of the oracle, which asks Kafka; what was produced here counts also where Kafka has forgotten it.
        """
        ingestion = self.ingestion(**changes)
        report = ingestion.audit()
        assert report.conserved, report
        assert min(report.missing, report.duplicated, report.gaps, report.table, report.quarantine) >= 0, report
        held = kit.manifest(self.stack, *(topics or self.topics))
        kit.assert_exactly_once(self.spark, ingestion, {**held, **self.produced})
        return report


def forget_receipts(spark: SparkSession, stack: Addresses, path: str) -> None:
    """Leave of the log what clean-up would: a checkpoint of the newest version, and no commit of ours."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kept' = 'by somebody')")
    s3 = kit.s3(stack)
    bucket, _, prefix = path.removeprefix("s3a://").partition("/")
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_delta_log/")["Contents"]
    commits = sorted(o["Key"] for o in objects if o["Key"].endswith(".json"))
    for key in commits[:-1]:
        s3.delete_object(Bucket=bucket, Key=key)
    s3.close()
