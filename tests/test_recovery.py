"""The frontier where the log no longer tells it: receipts go with log clean-up, rows stay."""

from __future__ import annotations

import boto3
import kit
from pyspark.sql import SparkSession

from lakeingest.delta import table
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


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


def test_the_frontier_is_taken_from_the_rows(spark: SparkSession, stack: Addresses) -> None:
    """A log without a receipt neither loses nor repeats a record, refused ones included, and Delta skips no write."""
    topic = "receipts_forgotten"
    kit.produce(stack, topic, kit.mixed(10))
    ingestion = Pipeline(kit.config_of(stack, topic))
    ingestion.run(until_caught_up=True)
    forget_receipts(spark, stack, ingestion.config.table.path)
    found, _ = table.ledgers(spark, ingestion.config)
    # Delta remembers the sequence number in the log's checkpoint, whatever the clock says.
    assert (found.newest, found.frontier, found.last_sequence) == (None, {(topic, 0): 10}, 1)
    kit.produce(stack, topic, kit.clean(3))
    Pipeline(kit.config_of(stack, topic)).run(until_caught_up=True)
    kit.assert_exactly_once(spark, ingestion, kit.manifest(stack, topic))
