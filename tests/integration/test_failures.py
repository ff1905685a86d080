"""What a failure of Spark means, and what to do then: from what was said, and from servers that really say it."""

from __future__ import annotations

import socket
import time
from contextlib import nullcontext
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession
from support.pipelines import config_of
from support.records import clean_records, produce

from lakeingest.errors import StorageUnreachable
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.spark import s3a


def closed() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


ONCE = {"options": {"fs.s3a.retry.limit": "1", "fs.s3a.attempts.maximum": "1"}}

# The tests' session has the other style for all buckets.
HOST_STYLE = {"endpoint": "http://localhost", "options": {**ONCE["options"], "fs.s3a.path.style.access": "false"}}

OWN = "storage.access_key and storage.secret_key, and are not the embedded stack's"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "make", "what", "cure"),
    [
        ({"access_key": "nobody"}, True, "denies access", f"keys, which come from {OWN}"),
        ({"secret_key": "wrong"}, True, "denies access", "the embedded stack (`lakeingest stack env`)"),
        ({"session_token": "old"}, True, "denies access", "a new process"),
        ({}, False, "there is no bucket", "make the bucket"),
        (
            {**HOST_STYLE, "path_style": False},
            True,
            "no server is called refuses-host.localhost",
            "set storage.path_style: true",
        ),
        ({"endpoint": "refused", **ONCE}, True, "nothing listens at http://127.0.0.1:", "start the store"),
        ({"endpoint": "https", **ONCE}, True, "does not speak TLS", "with http://"),
    ],
    ids=["key", "secret", "token", "bucket", "host", "port", "tls"],
)
def test_a_store_that_really_refuses(
    stack: Addresses, spark: SparkSession, named: str, *, storage: dict[str, Any], make: bool, what: str, cure: str
) -> None:
    """A run against the stack's own S3 server, with one thing wrong in storage."""
    bucket = f"refuses-{named.rpartition('_')[2]}"
    if make:
        keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
        client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
        client.create_bucket(Bucket=bucket)
        client.close()
    endpoints = {"refused": closed(), "https": stack.s3.replace("http:", "https:")}
    if given := storage.get("endpoint"):
        storage = {**storage, "endpoint": endpoints.get(given, given)}
    produce(stack, named, clean_records(1))
    config = config_of(stack, named, table={"path": f"s3a://{bucket}/t"}, storage=storage)
    with pytest.raises(StorageUnreachable) as caught:
        Pipeline(config).run(until_caught_up=True)
    assert (what in caught.value.what, cure in caught.value.cure) == (True, True), caught.value


@pytest.mark.parametrize("endpoint", ["refused", "unknown", "open"])
def test_a_closed_port_of_the_store_is_told_within_seconds(stack: Addresses, named: str, endpoint: str) -> None:
    """Without any option of the user's Hadoop tried for more than two minutes, and nothing was said."""
    where = {"refused": closed(), "unknown": "http://nowhere.invalid:1", "open": stack.s3}[endpoint]
    storage = config_of(stack, named, storage={"endpoint": where}).storage
    begun = time.monotonic()
    told = pytest.raises(StorageUnreachable, match=f"nothing listens at {where}, where s3a://b/t is looked for")
    with told if endpoint == "refused" else nullcontext():
        s3a.check_listens(storage, ["/tmp/t", "s3a://b/t"])
    s3a.check_listens(storage, ["/tmp/t"])
    assert time.monotonic() - begun < 20


def test_a_command_looks_for_the_store_before_spark(stack: Addresses, named: str) -> None:
    """So that each of them says it, and none waits for Hadoop."""
    config = config_of(stack, named, storage={"endpoint": closed()})
    with pytest.raises(StorageUnreachable, match="nothing listens at"):
        _ = Pipeline(config).spark
