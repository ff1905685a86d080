"""What a pipeline needs of its store: a bucket, the rights, conditional PUTs, a clock that is right, no other writer.

Nothing of the tables is written; a small object beside them is, and is deleted again.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from lakeingest.config import PipelineConfig, Storage, location
from lakeingest.errors import LakeingestError, SetupError
from lakeingest.local.loopback import direct
from lakeingest.operations import foreign_writers
from lakeingest.operations.results import words
from lakeingest.operations.results.doctor import Finding

PROBE = ".lakeingest-probe-"
"""How the object is named with which a conditional PUT is tried: as the log store names its own."""
_SKEW_S = 60.0
"""A clock that is further off is told; from 900 s on S3 refuses every request."""
_COMMITS = 100
"""The newest commits of a table that are looked at, each an object of the store."""


def bucket(storage: Storage, path: str) -> Iterator[Finding]:
    """Whether a table may be written below this path, and the store keeps two writers apart."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        yield Finding("store", "skipped", f"{path}: boto3 is not installed", "pip install boto3")
        return

    from lakeingest.spark import s3a
    from lakeingest.spark.failures import translate

    place = location.place(path)
    # Where the log store's own probe is, and so where a run may write and delete.
    folder = "/".join((*place.steps, "_delta_log", ""))
    key = f"{folder}{PROBE}{uuid.uuid4().hex}"
    try:
        s3a.check_listens(storage, [path])
        client = s3_client(storage)
        start_s = time.time()
        bucket_request = {"Bucket": storage.access_points.get(place.bucket, place.bucket), **_payer(storage)}
        # In the first answer is the store's own time.
        answer = client.list_objects_v2(**bucket_request, Prefix="/".join(place.steps), MaxKeys=1)
        yield _clock(answer["ResponseMetadata"]["HTTPHeaders"].get("date"), (start_s + time.time()) / 2)
        put_request = {**bucket_request, "Key": key, "Body": b"", "IfNoneMatch": "*", **_written(storage)}
        client.put_object(**put_request)
    except LakeingestError as wrong:
        yield Finding("store", "bad", wrong.what, wrong.cure)
        return
    except (BotoCoreError, ClientError, ValueError) as failed:
        # A ValueError is an endpoint of the environment that is no URL.
        yield _denied(path, failed, translate)
        return
    try:
        client.put_object(**put_request)
    except ClientError as refused:
        status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
        if status in (409, 412):
            yield Finding(
                "store", "good", f"bucket {place.bucket}: written to, and a second writer was refused ({status})"
            )
        else:
            yield _denied(path, refused, translate)
    else:
        cure = "use a store that honours If-None-Match: with this one two runs could overwrite each other's commits"
        yield Finding("store", "bad", f"{path}: the store overwrote an object that was to be written once", cure)
    try:
        client.delete_object(**bucket_request, Key=key)
    except (BotoCoreError, ClientError) as failed:
        cure = f"allow s3:DeleteObject, which VACUUM needs too; {key} was left behind"
        yield Finding("store", "warning", f"{path}: objects cannot be deleted: {failed}", cure)
        return
    with suppress(BotoCoreError, ClientError):
        # A store with folders keeps an empty one, in which Delta would make no table.
        client.head_object(**bucket_request, Key=folder)
        if not client.list_objects_v2(**bucket_request, Prefix=folder, MaxKeys=1)["KeyCount"]:
            client.delete_object(**bucket_request, Key=folder)


def s3_client(storage: Storage) -> Any:
    """A client of the store, by boto3.

    Raises:
        ImportError: boto3 is not installed.
        BotoCoreError, ValueError: its keys, or its endpoint, are none.
    """
    import boto3

    with direct(storage.endpoint or ""):
        return boto3.client("s3", **_client(storage))


def writers(config: PipelineConfig, storage: Storage) -> Iterator[Finding]:
    """Who else has committed to the tables on S3: of two log stores neither sees the other's commits coming."""
    try:
        from lakeingest.delta.reader import rows
        from lakeingest.delta.reader.log import OfflineLog, Unreadable

        rows.check_installed()
    except (ImportError, SetupError):
        return
    main, own_engines = config.table.identifier, frozenset[str]()
    for path in (main, config.quarantine.identifier):
        if not (location.is_path(path) and location.place(path).on_s3):
            continue
        try:
            entries = OfflineLog(path, storage).recent(_COMMITS)
        except (Unreadable, LakeingestError):
            continue
        own_engines |= foreign_writers.engines(entries)
        # Marks in quarantine are made by commits without a receipt.
        foreign = foreign_writers.of(entries, own_engines, of_rows=path == main)
        if foreign:
            text = f"{path}: {words.foreign_writers(foreign)}"
            cure = (
                "let each of them commit by a conditional PUT (If-None-Match), as lakeingest's log store does: Spark "
                "with lakeingest's jar, delta-rs with conditional_put = etag. With another log store one of two "
                "commits at once is lost, without an error"
            )
            yield Finding("writers", "warning", text, cure)


def _client(storage: Storage) -> dict[str, Any]:
    """The store as boto3 takes it; what the file does not say, boto3 looks for as s3a does."""
    from botocore.config import Config

    arguments = {
        "endpoint_url": storage.endpoint,
        "region_name": storage.region or ("us-east-1" if storage.endpoint else None),
        **(_assumed(storage) if storage.role else storage.aws_keys),
        "config": Config(
            connect_timeout=5,
            read_timeout=20,
            retries={"total_max_attempts": 2},
            s3={"addressing_style": "path" if storage.path_style else "auto"},
        ),
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _assumed(storage: Storage) -> dict[str, str]:
    """The keys of the role, as S3A gets them."""
    import boto3

    role = storage.role
    assert role is not None
    sts = boto3.client("sts", region_name=storage.region or "us-east-1", **storage.aws_keys)
    arguments = {"RoleArn": role.arn, "RoleSessionName": role.session_name or "lakeingest", "ExternalId": role.external}
    credentials = sts.assume_role(
        **{name: value for name, value in arguments.items() if value is not None},
        DurationSeconds=int(role.duration.total_seconds()),
    )["Credentials"]
    return {
        "aws_access_key_id": credentials["AccessKeyId"],
        "aws_secret_access_key": credentials["SecretAccessKey"],
        "aws_session_token": credentials["SessionToken"],
    }


def _payer(storage: Storage) -> dict[str, str]:
    return {"RequestPayer": "requester"} if storage.requester_pays else {}


def _written(storage: Storage) -> dict[str, Any]:
    """What a PUT says besides, as S3A's do."""
    arguments: dict[str, Any] = {"ACL": storage.acl} if storage.acl else {}
    encryption = storage.encryption
    if encryption is None:
        return arguments
    if encryption.type == "SSE-C":
        return {**arguments, "SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(encryption.secret)}
    kinds = {"SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
    key = {"SSEKMSKeyId": encryption.kms_key} if encryption.kms_key else {}
    return {**arguments, "ServerSideEncryption": kinds[encryption.type], **key}


def _denied(path: str, failed: Exception, translate: Callable[[str, Exception], LakeingestError]) -> Finding:
    """What the store says, in the words that a run would have for it."""
    code = getattr(failed, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode")
    wrong = translate(path, Exception(f"fs.s3a: {failed} (Service: S3, Status Code: {code})"))
    return Finding("store", "bad", wrong.what, wrong.cure)


def _clock(date: str | None, now: float) -> Finding:
    if date is None:
        return Finding("clock", "skipped", "the store does not say what time it is")
    # The header has whole seconds.
    off = now - parsedate_to_datetime(date).timestamp() - 0.5
    text = f"{abs(off):.0f} s {'before' if off > 0 else 'behind'} the store's"
    if abs(off) > _SKEW_S:
        return Finding("clock", "bad" if abs(off) > 900 else "warning", text, "let the clock follow a time server")
    return Finding("clock", "good", "that of the store" if abs(off) < 2 else text)
