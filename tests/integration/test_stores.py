"""Pipelines with several object stores in one process, and tables under each of S3's schemes."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import config_of
from support.records import clean_records, mixed_records, produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.spark import jvm
from lakeingest.testing.s3 import S3Proxy


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["s3", pytest.param("s3n", marks=pytest.mark.faults)])
def test_a_table_under_another_scheme_of_s3(stack: Addresses, spark: SparkSession, named: str, scheme: str) -> None:
    """It is written through S3A and lakeingest's own log store, so that commits of several drivers are safe."""
    table = {"path": f"{scheme}://lake/{named}"}
    ingestion = Pipeline(config_of(stack, named, table=table))
    wanted = produce(stack, named, mixed_records(20))
    assert ingestion.run(until_caught_up=True).consumed == 20
    assert_exactly_once(spark, ingestion, wanted)
    assert ingestion.audit().conserved
    assert spark.read.format("delta").load(f"s3a://lake/{named}").count() == 16
    assert spark.conf.get(f"spark.delta.logStore.{scheme}.impl") == jvm.LOG_STORE


@pytest.fixture
def another(stack: Addresses) -> Iterator[S3Proxy]:
    """Another store, as far as addresses go."""
    with S3Proxy(stack.s3) as proxy:
        yield proxy


@pytest.mark.slow
def test_two_pipelines_with_two_stores_in_one_process(
    stack: Addresses, spark: SparkSession, named: str, another: S3Proxy
) -> None:
    """Each writes into its own, although the session is one; and what the first is set to stays."""
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="another")
    client.close()
    first = Pipeline(config_of(stack, named))
    second = Pipeline(
        config_of(stack, f"{named}_2", table={"path": f"s3a://another/{named}"}, storage={"endpoint": another.endpoint})
    )
    for ingestion in (first, second, first):
        produce(stack, ingestion.config.name, clean_records(5))
        asked = sum(another.seen.values())
        assert ingestion.run(until_caught_up=True).consumed == 5
        assert (sum(another.seen.values()) > asked) is (ingestion is second)
    assert first.audit().conserved
    assert second.audit().conserved
