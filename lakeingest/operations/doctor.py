"""Looks at all that a pipeline needs before it runs: this machine, the servers, the store, and the Spark session.

Each finding stands for itself, so that one look names all that is missing. Nothing of the pipeline's tables is written;
the store is asked for a conditional PUT with a small object beside them, which is deleted again.
"""

from __future__ import annotations

import base64
import importlib
import os
import platform
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig, Storage, file, location
from lakeingest.config.formats import uses_registry
from lakeingest.delta.history import adds_rows
from lakeingest.delta.receipt import Receipt
from lakeingest.errors import LakeingestError, PipelineFileError, SetupError, number_of
from lakeingest.local import artifacts
from lakeingest.local.loopback import direct
from lakeingest.operations.results.doctor import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROBE = ".lakeingest-probe-"
"""How the object is named with which a conditional PUT is tried: as the log store names its own."""
_SKEW_S = 60.0
"""A clock that is further off is told; from 900 s on S3 refuses every request."""
_REGISTRY_WAIT = timedelta(seconds=3)
"""A run waits longer for a registry that is away."""
_BROKER_WAIT_S = 2.0
_PACKAGES = ("pyspark", "pyarrow", "confluent_kafka")
_GIB = 1024**3
_COMMITS = 100
"""The newest commits of a table that are looked at, each an object of the store."""


def look(path: Path, *, spark: bool = True) -> Iterator[Finding]:
    """Every finding, as soon as it is made.

    Args:
        path: the pipeline file.
        spark: whether to start a session, or to ask the active one; about ten seconds.
    """
    try:
        config = file.read(path, os.environ)
    except PipelineFileError as wrong:
        yield Finding("file", "bad", "; ".join((wrong.what, *wrong.problems)), wrong.cure)
        return
    yield Finding("file", "good", f"{config.name}: {config.source.text} → {config.table.identifier}")
    packages = [*_packages()]
    yield from packages
    yield from _machine()
    from lakeingest.ingest import endpoints

    storage = None
    try:
        servers, storage = endpoints.addresses(config)
    except SetupError as missing:
        yield Finding("addresses", "bad", missing.what, missing.cure)
    else:
        yield from _servers(config, servers, storage)
    if not spark:
        yield Finding("Spark", "skipped", "not asked, as --no-spark says")
    elif any(found.about == "pyspark" and found.state == "bad" for found in packages):
        yield Finding("Spark", "skipped", "no pyspark that can be used", "see pyspark above")
    elif storage is None:
        yield Finding("Spark", "skipped", "not started without addresses", "see addresses above")
    else:
        yield from _spark(config, storage)


def _packages() -> Iterator[Finding]:
    from lakeingest.spark.platforms import capabilities

    for name in _PACKAGES:
        try:
            version = str(importlib.import_module(name).__version__)
            if name == "pyspark":
                capabilities.refuse_old(version)
        except ImportError:
            cure = "pip install 'lakeingest[spark]', or run on Databricks or EMR"
            yield Finding(name, "bad", "not installed", cure)
        except SetupError as old:
            yield Finding(name, "bad", old.what, old.cure)
        else:
            yield Finding(name, "good", f"{version}, in Python {platform.python_version()}")


def _machine() -> Iterator[Finding]:
    yield _tried("Java", lambda: str(artifacts.java()))
    missing = artifacts.missing("spark")
    fetched = "in the cache" if not missing else f"{len(missing)} will be fetched when Spark is first started"
    yield Finding("jars", "good", fetched)
    yield _memory()


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    asked = os.environ.get("LAKEINGEST_DRIVER_MEMORY", "3g").lower()
    units = {"g": _GIB, "m": 1024**2, "k": 1024}
    try:
        wanted = int(asked.rstrip("b")[:-1]) * units[asked.rstrip("b")[-1]]
    except (KeyError, ValueError, IndexError):
        return Finding("memory", "bad", f"LAKEINGEST_DRIVER_MEMORY is {asked!r}", "write it as in 3g or 3000m")
    what = f"{total / _GIB:.1f} GiB, of which Spark may take {wanted / _GIB:.1f} GiB and a third more"
    # Beside its heap a JVM needs memory for classes, code, threads and network buffers.
    if wanted * 4 / 3 > total:
        return Finding("memory", "warning", what, "set LAKEINGEST_DRIVER_MEMORY to half of what there is, as in 2g")
    return Finding("memory", "good", what)


def _servers(config: PipelineConfig, servers: str, storage: Storage) -> Iterator[Finding]:
    from lakeingest.ingest import endpoints
    from lakeingest.kafka.broker import Broker

    def topics() -> str:
        held = Broker(config.source, servers).topics()
        records = sum(held.last[tp] - held.first[tp] for tp in held.last)
        return f"{servers}: {number_of(len(held.last), 'partition')}, {number_of(records, 'offset')}, which may be read"

    if config.source.table is not None:
        yield _bronze(config, storage)
    else:
        yield _tried("Kafka", topics)
        yield from _brokers(servers)
        if config.source.commit_to_group:
            yield _group(config, servers, config.source.commit_to_group)
    formats = (config.decode.value, config.decode.key)
    if any(map(uses_registry, formats)) and config.source.topics:

        def registry() -> str:
            impatient = config.registry.model_copy(update={"wait": min(config.registry.wait, _REGISTRY_WAIT)})
            asked = endpoints.registry(config.model_copy(update={"registry": impatient}))
            subject = asked.topic_subject(config.source.topics[0], "value")
            latest = asked.latest(subject)
            return f"{subject} has no schema yet" if latest is None else f"{subject} is at version {latest[1]}"

        yield _tried("registry", registry)
    # One path for each bucket; of local ones each may be on another disk.
    written = [path for path in config.tables if location.is_path(path)]
    for path in {location.place(path).bucket or path: path for path in reversed(written)}.values():
        yield from _bucket(storage, path) if location.place(path).on_s3 else (_folder(path),)
    yield from _writers(config, storage)


def _brokers(servers: str) -> Iterator[Finding]:
    """Those that do not answer: a run does without them as long as one is left."""
    named = [each.strip() for each in servers.split(",") if each.strip()]
    dead = list[str]()
    for each in named:
        host, _, port = each.rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _BROKER_WAIT_S).close()
        except (OSError, ValueError):
            dead.append(each)
    if dead and len(dead) < len(named):
        cure = "start them, or take them out of source.bootstrap_servers: the others alone are asked now"
        yield Finding("brokers", "warning", f"{len(dead)} of {len(named)} do not answer: {', '.join(dead)}", cure)


def _group(config: PipelineConfig, servers: str, group: str) -> Finding:
    from lakeingest.kafka.broker import Broker

    try:
        members, may = Broker(config.source, servers).group(group)
    except LakeingestError as wrong:
        return Finding("consumer group", "warning", wrong.what, wrong.cure)
    if not may:
        cure = f"let the user of source.options Read the group {group}; a run goes on without"
        return Finding("consumer group", "warning", f"{group} may not be committed to", cure)
    if members:
        cure = "end those consumers, or write a group of this pipeline's own into source.commit_to_group"
        return Finding("consumer group", "warning", f"{group} has {members} live members: others consume by it", cure)
    return Finding("consumer group", "good", f"{group} may be committed to")


def _bronze(config: PipelineConfig, storage: Storage) -> Finding:
    try:
        from lakeingest.ingest.source import source_of
        from lakeingest.spark import session
    except ImportError:
        return Finding("source", "skipped", "the table is not read without pyspark", "see pyspark above")

    def topics() -> str:
        spark = lambda: session.attach(storage, config.name, config.paths, config.names)  # noqa: E731
        held = source_of(config, "", storage, spark).topics()
        offsets = sum(held.last[tp] - held.first[tp] for tp in held.last)
        return f"{config.source.table}: {number_of(len(held.last), 'partition')}, about {number_of(offsets, 'offset')}"

    return _tried("source", topics)


def _tried(about: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(about, "good", look())
    except LakeingestError as wrong:
        return Finding(about, "bad", wrong.what, wrong.cure)


def _folder(path: str) -> Finding:
    folder = Path(path.removeprefix("file://").removeprefix("file:"))
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return Finding("store", "good", f"{path}: files can be written")
    except OSError as failed:
        cure = "let the user of this process write there, or correct the path"
        return Finding("store", "bad", f"{path} cannot be written: {failed}", cure)


def _bucket(storage: Storage, path: str) -> Iterator[Finding]:
    try:
        import boto3
    except ImportError:
        yield Finding("store", "skipped", f"{path}: boto3 is not installed", "pip install boto3")
        return
    from botocore.exceptions import BotoCoreError, ClientError

    from lakeingest.spark import s3a
    from lakeingest.spark.failures import translate

    place = location.place(path)
    # Where the log store's own probe is, and so where a run may write and delete.
    folder = "/".join((*place.steps, "_delta_log", ""))
    key = f"{folder}{PROBE}{uuid.uuid4().hex}"
    try:
        s3a.check_listens(storage, [path])
        with direct(storage.endpoint or ""):
            client = boto3.client("s3", **_client(storage))
        sent = time.time()
        asked = {"Bucket": storage.access_points.get(place.bucket, place.bucket), **_payer(storage)}
        # In the first answer is the store's own time.
        answer = client.list_objects_v2(**asked, Prefix="/".join(place.steps), MaxKeys=1)
        yield _clock(answer["ResponseMetadata"]["HTTPHeaders"].get("date"), (sent + time.time()) / 2)
        put = {**asked, "Key": key, "Body": b"", "IfNoneMatch": "*", **_written(storage)}
        client.put_object(**put)
    except LakeingestError as wrong:
        yield Finding("store", "bad", wrong.what, wrong.cure)
        return
    except (BotoCoreError, ClientError, ValueError) as failed:
        # A ValueError is an endpoint of the environment that is no URL.
        yield _denied(path, failed, translate)
        return
    try:
        client.put_object(**put)
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
        client.delete_object(**asked, Key=key)
    except (BotoCoreError, ClientError) as failed:
        cure = f"allow s3:DeleteObject, which VACUUM needs too; {key} was left behind"
        yield Finding("store", "warning", f"{path}: objects cannot be deleted: {failed}", cure)
        return
    with suppress(BotoCoreError, ClientError):
        # A store with folders keeps an empty one, in which Delta would make no table.
        client.head_object(**asked, Key=folder)
        if not client.list_objects_v2(**asked, Prefix=folder, MaxKeys=1)["KeyCount"]:
            client.delete_object(**asked, Key=folder)


def _writers(config: PipelineConfig, storage: Storage) -> Iterator[Finding]:
    """Who else has committed to the tables on S3: of two log stores neither sees the other's commits coming."""
    try:
        from lakeingest.delta.reader import rows
        from lakeingest.delta.reader.log import OfflineLog, Unreadable

        rows.check_installed()
    except (ImportError, SetupError):
        return
    main, ours = config.table.identifier, frozenset[str]()
    for path in (main, config.quarantine.identifier):
        if not (location.is_path(path) and location.place(path).on_s3):
            continue
        try:
            entries = OfflineLog(path, storage).recent(_COMMITS)
        except (Unreadable, LakeingestError):
            continue
        ours |= engines(entries)
        # Marks in quarantine are made by commits without a receipt.
        found = others(entries, ours, of_rows=path == main)
        if found:
            each = ", ".join(f"{engine} (version {versions[0]} the last)" for engine, versions in found.items())
            what = f"{path}: others than lakeingest made some of its newest {len(entries)} commits: {each}"
            cure = (
                "let each of them commit by a conditional PUT (If-None-Match), as lakeingest's log store does: Spark "
                "with lakeingest's jar, delta-rs with conditional_put = etag. With another log store one of two "
                "commits at once is lost, without an error"
            )
            yield Finding("writers", "warning", what, cure)


def engines(entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """What lakeingest has committed with, among commits as `OfflineLog.recent` has them."""
    return frozenset(entry["engine"] for entry in entries if _is_own(entry))


def others(entries: Sequence[Mapping[str, Any]], ours: Collection[str], *, of_rows: bool) -> dict[str, list[int]]:
    """Who else committed: engine → the versions of the table, the newest first.

    Args:
        ours: the engines that lakeingest commits with.
        of_rows: whether a commit of rows without a receipt is another's, too, whatever engine made it.
    """
    found: dict[str, list[int]] = {}
    for entry in entries:
        changes_rows = of_rows and (adds_rows(entry) or entry["operation"] in ("DELETE", "UPDATE"))
        if not _is_own(entry) and (entry["engine"] not in ours or changes_rows):
            found.setdefault(entry["engine"], []).append(entry["version"])
    return found


def _is_own(entry: Mapping[str, Any]) -> bool:
    said = entry["userMetadata"] or ""
    return said.startswith("lakeingest: ") or Receipt.from_json(said) is not None


def _client(storage: Storage) -> dict[str, Any]:
    """The store as boto3 takes it; what the file does not say, boto3 looks for as s3a does."""
    from botocore.config import Config

    said = {
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
    return {name: value for name, value in said.items() if value is not None}


def _assumed(storage: Storage) -> dict[str, str]:
    """The keys of the role, as S3A gets them."""
    import boto3

    role = storage.role
    assert role is not None
    sts = boto3.client("sts", region_name=storage.region or "us-east-1", **storage.aws_keys)
    said = {"RoleArn": role.arn, "RoleSessionName": role.session_name or "lakeingest", "ExternalId": role.external}
    found = sts.assume_role(
        **{name: value for name, value in said.items() if value is not None},
        DurationSeconds=int(role.duration.total_seconds()),
    )["Credentials"]
    return {
        "aws_access_key_id": found["AccessKeyId"],
        "aws_secret_access_key": found["SecretAccessKey"],
        "aws_session_token": found["SessionToken"],
    }


def _payer(storage: Storage) -> dict[str, str]:
    return {"RequestPayer": "requester"} if storage.requester_pays else {}


def _written(storage: Storage) -> dict[str, Any]:
    """What a PUT says besides, as S3A's do."""
    said: dict[str, Any] = {"ACL": storage.acl} if storage.acl else {}
    encryption = storage.encryption
    if encryption is None:
        return said
    if encryption.type == "SSE-C":
        return {**said, "SSECustomerAlgorithm": "AES256", "SSECustomerKey": base64.b64decode(encryption.secret)}
    kinds = {"SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
    key = {"SSEKMSKeyId": encryption.kms_key} if encryption.kms_key else {}
    return {**said, "ServerSideEncryption": kinds[encryption.type], **key}


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
    what = f"{abs(off):.0f} s {'before' if off > 0 else 'behind'} the store's"
    if abs(off) > _SKEW_S:
        return Finding("clock", "bad" if abs(off) > 900 else "warning", what, "let the clock follow a time server")
    return Finding("clock", "good", "that of the store" if abs(off) < 2 else what)


def _spark(config: PipelineConfig, storage: Storage) -> Iterator[Finding]:
    from lakeingest.delta.pipeline_tables import PipelineTables
    from lakeingest.spark import s3a, session
    from lakeingest.spark.platforms import capabilities

    try:
        s3a.check_listens(storage, config.paths)
        spark = session.attach(storage, config.name, config.paths, config.names)
    except LakeingestError as wrong:
        yield Finding("Spark", "bad", wrong.what, wrong.cure)
        return
    can = capabilities.of(spark)
    yield Finding("Spark", "good", f"{can.version} on {can.platform}")
    if can.own_functions:
        yield Finding("log store", "good", "lakeingest's own, which lets one of two writers win")
    elif can.databricks:
        yield Finding("log store", "good", "Databricks' own")
    yield _python(spark)

    def table() -> str:
        schema = PipelineTables(spark, config).main.schema()
        return (
            "not there yet; the first run makes it"
            if schema is None
            else f"there, with {number_of(len(schema), 'column')}"
        )

    yield _tried("table", table)
    if config.table.name and config.table.path:
        name, path = config.table.name, config.table.path
        yield _tried("catalog", lambda: _catalog(config, storage, spark, name, path))


def _catalog(config: PipelineConfig, storage: Storage, spark: SparkSession, name: str, path: str) -> str:
    from lakeingest.delta.catalog import spark as own
    from lakeingest.delta.catalog.glue import GlueCatalog
    from lakeingest.delta.pipeline_tables import PipelineTables

    main = PipelineTables(spark, config).main
    if config.table.catalog == "glue":
        return GlueCatalog(name, path, storage).look(main.schema())
    if not own.known(spark, name):
        return f"{name} is not in Spark's catalog yet; the next run makes it"
    own.check(main, name)
    return f"{name} is there"


def _python(spark: SparkSession) -> Finding:
    """Python on the executors, which Avro and Protobuf of several schemas, and JSON's diagnosis, need."""
    from lakeingest.spark.failures import spark_failures, summary

    def same(batches: Any) -> Any:
        yield from batches

    try:
        spark.range(1).mapInArrow(same, "id BIGINT").collect()
    except spark_failures() as failed:
        cure = "install the driver's Python on the executors, with pyarrow, and name it in spark.pyspark.python"
        return Finding("Python on executors", "bad", summary(failed), cure)
    return Finding("Python on executors", "good", "runs")
