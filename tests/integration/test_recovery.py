"""The frontier where the log no longer tells it: receipts go with log clean-up, rows stay."""

from __future__ import annotations

from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once, topic_manifest
from support.pipelines import config_of, forget_receipts
from support.records import clean_records, mixed_records, produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


def test_the_frontier_is_taken_from_the_rows(spark: SparkSession, stack: Addresses) -> None:
    """A log without a receipt neither loses nor repeats a record, refused ones included, and Delta skips no write."""
    topic = "receipts_forgotten"
    produce(stack, topic, mixed_records(10))
    ingestion = Pipeline(config_of(stack, topic))
    ingestion.run(until_caught_up=True)
    forget_receipts(spark, stack, ingestion.config.table.path)
    found, _ = ingestion.tables.commit_logs()
    # Delta remembers the sequence number in the log's checkpoint, whatever the clock says.
    assert (found.newest, found.frontier, found.last_sequence) == (None, {(topic, 0): 10}, 1)
    produce(stack, topic, clean_records(3))
    Pipeline(config_of(stack, topic)).run(until_caught_up=True)
    assert_exactly_once(spark, ingestion, topic_manifest(stack, topic))
