"""Looks at all that a pipeline needs before it runs: this machine, the servers, the store, and the Spark session.

Each finding stands for itself, so that one look names all that is missing. Nothing of the pipeline's tables is written;
the store is asked for a conditional PUT with a small object beside them, which is deleted again.
"""

from __future__ import annotations

import importlib
import os
import platform
import socket
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig, Storage, file, location
from lakeingest.config.formats import uses_registry
from lakeingest.errors import LakeingestError, PipelineFileError, SetupError, number_of
from lakeingest.local import artifacts
from lakeingest.operations.doctor import store
from lakeingest.operations.results.doctor import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REGISTRY_WAIT = timedelta(seconds=3)
"""A run waits longer for a registry that is away."""
_BROKER_WAIT_S = 2.0
_PACKAGES = ("pyspark", "pyarrow", "confluent_kafka")
_GIB = 1024**3


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
    elif any(finding.about == "pyspark" and finding.state == "bad" for finding in packages):
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
    setting = os.environ.get("LAKEINGEST_DRIVER_MEMORY", "3g").lower()
    units = {"g": _GIB, "m": 1024**2, "k": 1024}
    try:
        driver_bytes = int(setting.rstrip("b")[:-1]) * units[setting.rstrip("b")[-1]]
    except (KeyError, ValueError, IndexError):
        return Finding("memory", "bad", f"LAKEINGEST_DRIVER_MEMORY is {setting!r}", "write it as in 3g or 3000m")
    text = f"{total / _GIB:.1f} GiB, of which Spark may take {driver_bytes / _GIB:.1f} GiB and a third more"
    # Beside its heap a JVM needs memory for classes, code, threads and network buffers.
    if driver_bytes * 4 / 3 > total:
        return Finding("memory", "warning", text, "set LAKEINGEST_DRIVER_MEMORY to half of what there is, as in 2g")
    return Finding("memory", "good", text)


def _servers(config: PipelineConfig, servers: str, storage: Storage) -> Iterator[Finding]:
    from lakeingest.ingest import endpoints
    from lakeingest.kafka.broker import Broker

    def topics() -> str:
        offsets = Broker(config.source, servers).topics()
        first, last = offsets.first, offsets.last
        count = sum(last[tp] - first[tp] for tp in last)
        return f"{servers}: {number_of(len(last), 'partition')}, {number_of(count, 'offset')}, which may be read"

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
            client = endpoints.registry(config.model_copy(update={"registry": impatient}))
            subject = client.topic_subject(config.source.topics[0], "value")
            latest = client.latest(subject)
            return f"{subject} has no schema yet" if latest is None else f"{subject} is at version {latest[1]}"

        yield _tried("registry", registry)
    # One path for each bucket; of local ones each may be on another disk.
    written = [path for path in config.tables if location.is_path(path)]
    for path in {location.place(path).bucket or path: path for path in reversed(written)}.values():
        yield from store.bucket(storage, path) if location.place(path).on_s3 else (_folder(path),)
    yield from store.writers(config, storage)


def _brokers(servers: str) -> Iterator[Finding]:
    """Those that do not answer: a run does without them as long as one is left."""
    addresses = [each.strip() for each in servers.split(",") if each.strip()]
    dead = list[str]()
    for each in addresses:
        host, _, port = each.rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _BROKER_WAIT_S).close()
        except (OSError, ValueError):
            dead.append(each)
    if dead and len(dead) < len(addresses):
        cure = "start them, or take them out of source.bootstrap_servers: the others alone are asked now"
        yield Finding("brokers", "warning", f"{len(dead)} of {len(addresses)} do not answer: {', '.join(dead)}", cure)


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
        offsets = source_of(config, "", storage, spark).topics()
        first, last = offsets.first, offsets.last
        count = sum(last[tp] - first[tp] for tp in last)
        return f"{config.source.table}: {number_of(len(last), 'partition')}, about {number_of(count, 'offset')}"

    return _tried("source", topics)


def _tried(about: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(about, "good", look())
    except LakeingestError as wrong:
        return Finding(about, "bad", wrong.what, wrong.cure)


def _folder(path: str) -> Finding:
    folder = Path(path.removeprefix("file://").removeprefix("file:"))
    existing_folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing_folder):
            return Finding("store", "good", f"{path}: files can be written")
    except OSError as failed:
        cure = "let the user of this process write there, or correct the path"
        return Finding("store", "bad", f"{path} cannot be written: {failed}", cure)


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
    if not own.exists(spark, name):
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
