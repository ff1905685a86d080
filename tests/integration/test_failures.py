"""What a failure of Spark means, and what to do then: from what was said, and from servers that really say it."""

from __future__ import annotations

import socket
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import boto3
import kit
import pytest
from pyspark.sql import SparkSession

from lakeingest.errors import FilesLost, LakeingestError, SetupError, StorageUnreachable, TableChanged
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.spark import failures, s3a

PATH = "s3a://b/t"
SDK = "software.amazon.awssdk.services.s3.model.S3Exception"


def s3(text: str, status: int, code: str | None) -> str:
    """As S3A words what a store answers; the first look is a HEAD, which brings no code."""
    said = f"{text} (Service: S3, Status Code: {status}, Request ID: 18EAD1E4547AF59E)"
    return (
        f"An error occurred while calling o91.load.\n: java.nio.file.AccessDeniedException: {PATH}/_delta_log: "
        f"getFileStatus on {PATH}/_delta_log: {SDK}: {said}:{code}\n\tat org.apache.hadoop.fs.s3a.S3AUtils\n"
        f"Caused by: {SDK}: {said}\n"
    )


def unknown(host: str) -> str:
    return (
        f": java.net.UnknownHostException: getFileStatus on {PATH}/_delta_log: "
        "software.amazon.awssdk.core.exception.SdkClientException: Received an UnknownHostException when attempting to "
        f"interact with a service.\nCaused by: java.net.UnknownHostException: {host}\n"
    )


GONE = (
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file s3a://b/t/part-0-c0.snappy.parquet. File "
    "does not exist. It is possible the underlying files have been updated."
)
NO_KEYS = (
    f": java.nio.file.AccessDeniedException: {PATH}/_delta_log: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: "
    "No AWS Credentials provided by TemporaryAWSCredentialsProvider SimpleAWSCredentialsProvider"
)
NULL = "DeltaInvariantViolationException: [DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column"
NO_CLASS = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
CHANGED = TableChanged
STORE = StorageUnreachable


@pytest.mark.parametrize(
    ("text", "kind", "what", "cure"),
    [
        (f": {NULL}: a.", CHANGED, "was changed while a batch was written", "the batch is decided anew"),
        ("[DELTA_MISSING_NOT_NULL_COLUMN_VALUE] Column s, which has", CHANGED, "was changed while", "decided anew"),
        ("[DELTA_METADATA_MISMATCH] A metadata mismatch was", CHANGED, "has other columns", "DESCRIBE HISTORY"),
        ("[DELTA_FAILED_TO_MERGE_FIELDS] Failed to merge fields", CHANGED, "has other columns", "put them back"),
        ("[DELTA_CONCURRENT_DELETE_READ] This transaction", CHANGED, "another commit changed", "run again"),
        (GONE, FilesLost, "s3a://b/t/part-0-c0.snappy.parquet is gone", "backup"),
        ("[DELTA_TRUNCATED_TRANSACTION_LOG] file:/t/_delta_log", CHANGED, "has a gap", "bring the object"),
        ("[FAILED_READ_FILE.NO_HINT] reading file s3a://b/t/_delta_log/0.json.", CHANGED, "is damaged", "backup"),
        (': UnsupportedFileSystemException: No FileSystem for scheme "s3"', SetupError, "cannot open", "fs.s3.impl="),
        (f": java.lang.RuntimeException: {NO_CLASS}", SetupError, "cannot open", "hadoop-aws"),
        (": java.io.IOException: No space left on device", STORE, "a disk is full", "spark.local.dir"),
        ("[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/t", STORE, "cannot be written", "the user of this"),
        (NO_KEYS, STORE, "no keys for bucket b", "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (s3("Forbidden", 403, None), STORE, "denies access to bucket b (403)", "the keys, which come from"),
        (s3("does not exist", 403, "InvalidAccessKeyId"), STORE, "not know the access key", "which comes from"),
        (s3("does not match", 403, "SignatureDoesNotMatch"), STORE, "secret key is another", "the secret key"),
        (s3("skewed", 403, "RequestTimeTooSkewed"), STORE, "another time", "set the clock"),
        (s3("The provided token has expired.", 400, "ExpiredToken"), STORE, "session token", "renew the temporary"),
        (s3("The provided token is malformed", 400, "InvalidToken"), STORE, "or is none", "renew the temporary"),
        (s3("is wrong", 400, "AuthorizationHeaderMalformed"), STORE, "another region", "set storage.region"),
        (s3("Moved", 301, "PermanentRedirect"), STORE, "another region", "set storage.region"),
        (s3("Bad Request", 400, None), STORE, "(400), and says no more", "set storage.region"),
        (s3("not exist", 404, "NoSuchBucket"), STORE, "there is no bucket b", "make the bucket"),
        (unknown("b.localhost"), STORE, "no server is called b.localhost", "set storage.path_style: true"),
        (unknown("b.s3.eu-west-9.amazonaws.com"), STORE, "a name that is not known", "correct storage.endpoint"),
        (unknown("minio.example"), STORE, "a name that is not known", "correct storage.endpoint"),
        ("SSLException: Unsupported or unrecognized SSL message", STORE, "does not speak TLS", "with http://"),
        ("SSLHandshakeException: PKIX path building failed", STORE, "is not trusted", "trustStore"),
        (": java.net.ConnectException: Connection refused", STORE, "nothing listens at", "start the store"),
        (s3("Reduce your request rate", 503, "SlowDown"), STORE, "SlowDown", "look at the store"),
        ("org.apache.spark.SparkException: executor lost", STORE, "executor lost", "look at the end of Spark's log"),
    ],
)
def test_a_failure_has_the_cure_that_would_work(text: str, kind: type[LakeingestError], what: str, cure: str) -> None:
    """As Spark, Delta and S3A word it; what is none of the store's is not sent there."""
    meant = failures.translate(PATH, RuntimeError(text))
    assert (type(meant), what in meant.what, cure in meant.cure) == (kind, True, True), meant
    assert ("credentials" in meant.cure) is (text == NO_KEYS)


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
    kit.produce(stack, named, kit.clean(1))
    config = kit.config_of(stack, named, table={"path": f"s3a://{bucket}/t"}, storage=storage)
    with pytest.raises(StorageUnreachable) as caught:
        Pipeline(config).run(until_caught_up=True)
    assert (what in caught.value.what, cure in caught.value.cure) == (True, True), caught.value


@pytest.mark.parametrize("endpoint", ["refused", "unknown", "open"])
def test_a_closed_port_of_the_store_is_told_within_seconds(stack: Addresses, named: str, endpoint: str) -> None:
    """Without any option of the user's Hadoop tried for more than two minutes, and nothing was said."""
    where = {"refused": closed(), "unknown": "http://nowhere.invalid:1", "open": stack.s3}[endpoint]
    storage = kit.config_of(stack, named, storage={"endpoint": where}).storage
    begun = time.monotonic()
    told = pytest.raises(StorageUnreachable, match=f"nothing listens at {where}, where s3a://b/t is looked for")
    with told if endpoint == "refused" else nullcontext():
        s3a.check_listens(storage, ["/tmp/t", "s3a://b/t"])
    s3a.check_listens(storage, ["/tmp/t"])
    assert time.monotonic() - begun < 20


def test_a_command_looks_for_the_store_before_spark(stack: Addresses, named: str) -> None:
    """So that each of them says it, and none waits for Hadoop."""
    config = kit.config_of(stack, named, storage={"endpoint": closed()})
    with pytest.raises(StorageUnreachable, match="nothing listens at"):
        _ = Pipeline(config).spark


def test_a_data_file_that_somebody_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """It is told by its name, and not for a store that is away."""
    path = tmp_path / "t"
    spark.range(3).write.format("delta").save(str(path))
    for file in path.glob("*.parquet"):
        file.unlink()
    named = pytest.raises(FilesLost, match=r"\S+\.parquet is gone, and the log of \S+ names it")
    with named, failures.storage_failures(str(path)):
        spark.read.format("delta").load(str(path)).agg({"id": "sum"}).collect()
