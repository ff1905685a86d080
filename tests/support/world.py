"""A pipeline with what was produced to it, and what may happen to its table from outside."""

from __future__ import annotations

from typing import Any

import boto3
import kit
from pyspark.sql import SparkSession

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.manifest import Manifest


class World:
    """A topic of one partition, a pipeline and its tables, and what was produced."""

    def __init__(self, stack: Addresses, spark: SparkSession, name: str, **changes: Any) -> None:
        self.stack, self.spark, self.name, self.changes = stack, spark, name, changes
        self.wanted: dict[tuple[str, int, int], str | None] = {}

    def produce(self, *records: bytes | kit.Record | None) -> Manifest:
        made = kit.produce(self.stack, self.name, records)
        self.wanted.update(made)
        return made

    def ingestion(self, **changes: Any) -> Pipeline:
        return Pipeline(kit.config_of(self.stack, self.name, **{**self.changes, **changes}))

    def run(self, **changes: Any) -> Pipeline:
        ingestion = self.ingestion(**changes)
        ingestion.run(until_caught_up=True)
        return ingestion

    def sql(self, statement: str, path: str | None = None) -> None:
        self.spark.sql(statement.format(table=f"delta.`{path or self.ingestion().config.table.path}`")).collect()

    def checked(self, **changes: Any) -> None:
        """Each record is there once, and the audit agrees."""
        ingestion = self.ingestion(**changes)
        kit.assert_exactly_once(self.spark, ingestion, self.wanted)
        report = ingestion.audit()
        assert report.conserved, report
        assert min(report.missing, report.duplicated, report.gaps, report.table, report.quarantine) >= 0, report


def forget_receipts(spark: SparkSession, stack: Addresses, path: str) -> None:
    """Leave of the log what clean-up would: a checkpoint of the newest version, and no commit of ours."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kept' = 'by somebody')")
    s3 = boto3.client(
        "s3",
        endpoint_url=stack.s3,
        aws_access_key_id=stack.s3_access_key,
        aws_secret_access_key=stack.s3_secret_key,
        region_name="us-east-1",
    )
    bucket, _, prefix = path.removeprefix("s3a://").partition("/")
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_delta_log/")["Contents"]
    commits = sorted(o["Key"] for o in objects if o["Key"].endswith(".json"))
    for key in commits[:-1]:
        s3.delete_object(Bucket=bucket, Key=key)
    s3.close()
