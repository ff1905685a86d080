"""What a failure of Spark means, and what to do then, from what was said."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import AnalysisException

from lakeingest.errors import (
    FilesLost,
    LakeingestError,
    NotComputed,
    SetupError,
    SourceUnreachable,
    StorageRefused,
    StorageUnreachable,
    TableChanged,
)
from lakeingest.spark import failures

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


PROVIDER = ": org.apache.hadoop.fs.s3a.AWSClientIOException: Instantiate AssumedRoleCredentialProvider on /"
STS = PROVIDER + ": software.amazon.awssdk.services.sts.model.StsException: {} (Service: Sts, Status Code: {})"


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

CAST = "SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'hush SQLSTATE: 1' of the type SQLSTATE: 22018"

LOSS = "[KAFKA_DATA_LOSS.X] Some data may have been lost SQLSTATE: 22000"

WRITING = "Job aborted: [TASK_WRITE_FAILED] Task failed while writing rows to s3a://b/t. SQLSTATE: 58030"

STORE = StorageUnreachable

REFUSED = StorageRefused


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
        (s3("not authorized to perform: s3:ListBucket", 403, "AccessDenied"), REFUSED, "right s3:ListBucket is", "iam"),
        (
            s3("not authorized to perform: kms:Decrypt on", 403, "AccessDenied"),
            REFUSED,
            "may not be used",
            "and in the",
        ),
        (s3("KMS.DisabledException: x", 400, None), REFUSED, "in KMS that encrypts bucket b cannot", "enable the key"),
        (STS.format("not authorized to perform: sts:AssumeRole", 403), REFUSED, "cannot be assumed", "external_id"),
        (STS.format("The security token included in the request is invalid", 403), STORE, "session token", "renew"),
        (f"{PROVIDER}: SdkClientException: Unable to load region from any", REFUSED, "no region", "export AWS_REGION"),
        (f"{PROVIDER}: Unable to execute HTTP request: Connect to x failed", STORE, "STS does not answer", "network"),
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
        (CAST, NotComputed, "for a record: CAST_INVALID_INPUT; its", "try_cast"),
        (f"{WRITING} Caused by: {CAST}", NotComputed, "for a record: CAST_INVALID_INPUT; its", "try_cast"),
        ("[USER_RAISED_EXCEPTION] bad\nhush SQLSTATE: P0001", NotComputed, "USER_RAISED_EXCEPTION; its", "refuse"),
        (LOSS, SourceUnreachable, "cannot be read from Kafka", "look at the broker"),
        ("org.apache.spark.SparkException: executor lost", STORE, "executor lost", "look at the end of Spark's log"),
    ],
)
def test_a_failure_has_the_cure_that_would_work(text: str, kind: type[LakeingestError], what: str, cure: str) -> None:
    """As Spark, Delta and S3A word it; what is none of the store's is not sent there."""
    meant = failures.translate(PATH, RuntimeError(text))
    assert (type(meant), what in meant.what, cure in meant.cure) == (kind, True, True), meant
    assert ("credentials" in meant.cure) is (text == NO_KEYS)
    assert "hush" not in str(meant)


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("s3a://lake/bronze/part-0.parquet", "s3a://lake/bronze"),
        ("s3a://lake/bronze/month=2026-11/day=1/part-0.parquet", "s3a://lake/bronze"),
        (f"{PATH}/part-0.parquet", PATH),
    ],
)
def test_a_lost_file_is_named_with_its_own_table(file: str, owner: str) -> None:
    """A batch may be read from another table than it is written to."""
    meant = failures.translate(PATH, RuntimeError(f"FILE_NOT_EXIST: no such file {file} any more"))
    assert meant.what == f"{file} is gone, and the log of {owner} names it: its records are missing"


def test_a_value_is_in_no_traceback() -> None:
    """What Spark says of a cast has the value: it stood in what a notebook shows beside the error."""
    for text, shown in ((CAST, False), (GONE, True)):
        with pytest.raises(LakeingestError) as raised, failures.storage_failures(PATH):
            raise AnalysisException(text)
        assert (text in "".join(traceback.format_exception(raised.value))) is shown
