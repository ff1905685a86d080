"""Pipelines over the stack: values of a pipeline file, and a pipeline with its topic, its tables and its records."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.records import Record, produce
from support.servers import s3_client

from lakeingest.config import PipelineConfig, file
from lakeingest.decode import Shape
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.delta.table import Table
from lakeingest.delta.writer import TableWriter
from lakeingest.ingest.events import Event
from lakeingest.ingest.evolution import Evolution
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline, Report
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark import session
from lakeingest.testing.manifest import Manifest

T = TypeVar("T")


def only(kind: type[T], then: Callable[[T], object]) -> Callable[[Event], None]:
    """For `Pipeline.run(on_event=…)`: what hears of one kind of event alone."""

    def hear(event: Event) -> None:
        if isinstance(event, kind):
            then(event)

    return hear


def shape_of(config: PipelineConfig) -> Shape:
    """The columns that the pipeline file declares, before any record was seen."""
    return Evolution(config, SchemaLedger(), lambda: pytest.fail("no registry is asked")).shape(None, strict=False)


def values_of(stack: Addresses, name: str, /, **changes: Any) -> dict[str, Any]:
    """A pipeline file's values: topic, tables and pipeline all named `name`, the stack's addresses written out."""
    values: dict[str, Any] = {
        "name": name,
        "source": {"topics": [name], "bootstrap_servers": stack.kafka},
        "schema": {"columns": "n INT NOT NULL, text STRING"},
        "table": {"path": f"s3a://lake/{name}"},
        "trigger": {"every": "1 second"},
        "retry": {"wait": "0 seconds"},
        "storage": {
            "endpoint": stack.s3,
            "access_key": stack.s3_access_key,
            "secret_key": stack.s3_secret_key,
            "path_style": True,
        },
    }
    for part, change in changes.items():
        values[part] = {**values.get(part, {}), **change} if isinstance(change, Mapping) else change
    return values


def config_of(stack: Addresses, name: str, /, **changes: Any) -> PipelineConfig:
    """The checked pipeline file of `values_of`."""
    return file.from_mapping(values_of(stack, name, **changes))


UPSERT: dict[str, Any] = {
    "mode": "upsert",
    "keys": ["id"],
    "order_by": ["at"],
    "on_delete_marker": {"field": "op", "values": ["D"]},
}
"""The part `table` of a file whose records are changes of a key."""
CHANGES = "id INT, at INT, status STRING, op STRING"
"""The columns of such changes."""


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

    def produce(self, *records: bytes | Record | None, partitions: int = 1) -> Manifest:
        made = produce(self.stack, self.name, records, partitions)
        self.produced.update(made)
        return made

    def values(self, **changes: Any) -> dict[str, Any]:
        """What the pipeline file holds."""
        return values_of(self.stack, self.name, **{**self.changes, **changes})

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

    def by_delta_rs(self) -> DeltaTable:
        """The table, as delta-rs has it."""
        store = self.stack
        options = {
            "AWS_ENDPOINT_URL": store.s3,
            "AWS_ACCESS_KEY_ID": store.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": store.s3_secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }
        return DeltaTable(self.path().replace("s3a://", "s3://"), storage_options=options)

    @property
    def asks_files(self) -> bool:
        """Whether the files of tables are asked where Spark need not be; not over Spark Connect."""
        return not session.is_elsewhere(os.environ)

    def path(self, of: str = "") -> str:
        return f"{self.values()['table']['path']}{of}"

    def remove_table(self, of: str = "") -> None:
        """All objects of a table, as if there had been none."""
        bucket, _, prefix = self.path(of).removeprefix("s3a://").partition("/")
        s3 = s3_client(self.stack)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
            for each in page.get("Contents", []):
                s3.delete_object(Bucket=bucket, Key=each["Key"])
        s3.close()

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
        held = topic_manifest(self.stack, *(topics or self.topics))
        assert_exactly_once(self.spark, ingestion, {**held, **self.produced})
        if not self.asks_files and ingestion.config.table.path:
            self.check_types()
        return report

    def check_types(self) -> None:
        """No reader but Spark knows a STRING with a collation, which Spark Connect's client gives each one."""
        log = self.spark.read.text(f"{self.path()}/_delta_log/*.json")
        assert not log.where("value LIKE '%string collate%'").collect()


def forget_receipts(spark: SparkSession, stack: Addresses, path: str) -> None:
    """Leave of the log what clean-up would: a checkpoint of the newest version, and no commit of ours."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kept' = 'by somebody')")
    s3 = s3_client(stack)
    bucket, _, prefix = path.removeprefix("s3a://").partition("/")
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_delta_log/")["Contents"]
    commits = sorted(o["Key"] for o in objects if o["Key"].endswith(".json"))
    for key in commits[:-1]:
        s3.delete_object(Bucket=bucket, Key=key)
    s3.close()
