"""The frontier where the log no longer tells it: receipts go with log clean-up, rows stay."""

from __future__ import annotations

import kit
from pyspark.sql import SparkSession
from world import forget_receipts

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline


def test_the_frontier_is_taken_from_the_rows(spark: SparkSession, stack: Addresses) -> None:
    """A log without a receipt neither loses nor repeats a record, refused ones included, and Delta skips no write."""
    topic = "receipts_forgotten"
    kit.produce(stack, topic, kit.mixed(10))
    ingestion = Pipeline(kit.config_of(stack, topic))
    ingestion.run(until_caught_up=True)
    forget_receipts(spark, stack, ingestion.config.table.path)
    found, _ = ingestion.tables.commit_logs()
    # Delta remembers the sequence number in the log's checkpoint, whatever the clock says.
    assert (found.newest, found.frontier, found.last_sequence) == (None, {(topic, 0): 10}, 1)
    kit.produce(stack, topic, kit.clean(3))
    Pipeline(kit.config_of(stack, topic)).run(until_caught_up=True)
    kit.assert_exactly_once(spark, ingestion, kit.manifest(stack, topic))
