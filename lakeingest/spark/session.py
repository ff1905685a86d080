"""A SparkSession with Delta, Kafka and s3a: the one that is already there, or one of our own.

On Databricks, on EMR or in a notebook a session is active: it is used as it is. Elsewhere one is started from the
pinned jars of the local cache, which takes about 5 s and resolves nothing.

Secrets are set on a session that runs already: what it is started with stands on the command line of its JVM, which
every user of the machine can read.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.config import Storage, location
from lakeingest.errors import SetupError
from lakeingest.local import artifacts
from lakeingest.local.addresses import state_dir
from lakeingest.record import OFFSET, TOPIC
from lakeingest.spark import jvm, launch, s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = "spark.sql.session.timeZone"
_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("bytes", 2**27), ("string", 2**27), ("collectionItems", 10**7))
)
"""A damaged Avro record may claim two billion elements; Avro makes room for them before it reads the first one. So an
item of more than 128 MiB, and a collection of more than ten million, makes the record unreadable, and not the JVM."""
_COMPILED = "-XX:-DontCompileHugeMethods"
"""By itself Java interprets each method of more than 8,000 bytes of its code for ever. What Spark generates to decide a
record of a dozen columns is larger: with nested Avro a batch then takes 1.4 times the CPU."""
_HIDDEN = (
    "(?i)secret|password|passphrase|token|credential|access[.]?key|encryption[.]|jaas|user[.]?info|keystore|ssl[.]key|"
    "fs[.]s3a"
)
"""Spark shows nobody (event log, UI, SET) a setting with one of these in its name or value. By itself it knows secret,
password, token and access key. Every option of s3a is among them: any may hold a secret."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_CHEAPER = {
    # Spark's default, but for Kafka: its older source makes each record an object of the JVM first, and a row of that.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark's default is Parquet's INT96: twelve bytes that nothing can skip by, and no reader needs any more.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Each offset is another: a dictionary of them is built in vain.
    f"parquet.enable.dictionary#{OFFSET}": "false",
    # Parquet compares each text with the least and the greatest one, byte by byte. Delta's log has both for each file.
    f"parquet.column.statistics.enabled#{TOPIC}": "false",
}
"""What makes reads and commits cheaper and changes no value; a session that has them set otherwise is left as it is."""
_FOR_LOGS = {
    # Each task writes Java for its rows before it finds that it is compiled already. A log has few rows.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Else each step is planned anew when the one before is done.
    "spark.sql.adaptive.enabled": "false",
}
_DAY_S = 86_400
_EXERCISED = threading.Event()


def attach(storage: Storage, name: str, paths: Sequence[str] = ()) -> SparkSession:
    """The process's session, or a new local one; its time zone is UTC, so that times and partitions mean one thing.

    Where the session has another zone, a sibling of it is returned (same cluster, its own settings).

    Args:
        storage: how the buckets of `paths` are reached.
        paths: where the tables lie that it is for.

    Raises:
        SetupError: Java is missing, or the jars cannot be had.
        UsageError: this process has opened a bucket of these paths in another store.
    """
    active = _running()
    if active is None:
        session = _start(name)
    else:
        session = active if active.conf.get(UTC) in {"UTC", "Etc/UTC"} else active.newSession()
        session.conf.set(UTC, "UTC")
        s3a.warn_of_log_store(session, paths, stacklevel=2)
        _offer_functions(session)
    _hide(session)
    s3a.let_in(session, storage, paths)
    for option, value in _CHEAPER.items():
        if session.conf.get(option, None) is None:
            session.conf.set(option, value)
    return session


def _running() -> SparkSession | None:
    """The session of this thread, or else the process's, whichever thread started it; None if there is none."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def log_session(session: SparkSession, storage: Storage, paths: Sequence[str] = ()) -> SparkSession | None:
    """A sibling of a session that computes the states of tables' logs for it (see `delta.prefetch`); None on Databricks, whose
    Delta is another.
    """
    if s3a.on_databricks(session):
        return None
    sibling = session.newSession()
    _hide(sibling)
    # As the session has it, where its owner knows better.
    for option in s3a.options(storage, paths):
        if (value := session.conf.get(option, None)) is not None:
            sibling.conf.set(option, value)
    for option, value in _FOR_LOGS.items():
        sibling.conf.set(option, value)
    return sibling


def _hide(session: SparkSession) -> None:
    """Before any secret is set: each statement's event tells what is set on the session."""
    session.conf.set("spark.sql.redaction.options.regex", f"{_HIDDEN}|url")


@contextmanager
def setting(session: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """What the session is set to within the block; what it was before comes back, if anything."""
    before = {name: session.conf.get(name, None) for name in options}
    try:
        for name, value in options.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def _offer_functions(session: SparkSession) -> None:
    """Let the session read JSON and Avro in one step, and hold texts against patterns, if its executors have the jar,
    and classes that it fits: it calls classes of Spark's that are no public interface.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if session.conf.get("spark.delta.logStore.s3a.impl", None) != jvm.LOG_STORE:
        return
    own = T.StructType([T.StructField(name, T.BooleanType()) for name in "ab"])
    nothing = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "null"}]}
    # Not of literals: the driver would answer by itself.
    payload, text = F.when(F.col("id") >= 0, F.lit(b"{}")), F.col("id").cast("string")
    asked = {"json": (own.json(), payload), "avro": (json.dumps(nothing), payload), "pattern": ("rlike 0", text)}
    for kind, (name, value) in asked.items():
        if session.conf.get(jvm.catalog(kind), None) is not None:
            continue
        session.conf.set(jvm.catalog(kind), jvm.FUNCTIONS[kind])
        try:
            session.range(1).select(F.call_function(jvm.function(kind, name), value)).collect()
        except Exception:
            # Whatever is in the way, there is another way to read.
            session.conf.unset(jvm.catalog(kind))


def warn_of_avro(session: SparkSession) -> None:
    """Name the options that keep damaged Avro from ending executors, where a session was started without them."""
    if "org.apache.avro.limits" not in (session.conf.get("spark.executor.extraJavaOptions", None) or ""):
        warnings.warn(
            "this Spark session does not bound what an Avro record may claim to hold, so that a damaged one can end an "
            "executor. Start it with these in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions: "
            f"{_AVRO_LIMITS}",
            stacklevel=3,
        )


def _start(name: str) -> SparkSession:
    from pyspark import SparkConf

    java = artifacts.java()
    os.environ.setdefault("JAVA_HOME", str(java.parent.parent))
    jars = [str(jar) for jar in (*artifacts.fetch("spark"), jvm.JAR)]
    folder = os.environ.get("SPARK_CONF_DIR")
    # Java keeps no archive of classes where a folder with files is on its class path, and warns in each log.
    archive, recording = ("", None) if folder else _class_archive(java, jars)
    master = os.environ.get("SPARK_MASTER", "local[*]")
    # One of the user's own says how Spark logs.
    own = folder is not None and Path(folder, "log4j2.properties").exists()
    logs = "" if own else f"-Dlog4j2.configurationFile={jvm.LOGGING.as_uri()}"
    settings = {
        # A batch's garbage is short-lived: the parallel collector costs 5 to 8 % less than the default one.
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {_COMPILED} {archive} {_QUIET} {logs} {_AVRO_LIMITS}",
        "spark.executor.extraJavaOptions": f"{_COMPILED} {_AVRO_LIMITS}",
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        # The driver has them on its class path; executors on other machines get them sent.
        "spark.jars": "" if re.match(r"local(\[|$)", master) else ",".join(jars),
        "spark.driver.memory": os.environ.get("LAKEINGEST_DRIVER_MEMORY", "3g"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **{f"spark.delta.logStore.{scheme}.impl": jvm.LOG_STORE for scheme in location.S3},
        **{f"spark.hadoop.fs.{scheme}.impl": s3a.S3A for scheme in location.S3},
        **{jvm.catalog(format): functions for format, functions in jvm.FUNCTIONS.items()},
        "spark.databricks.delta.snapshotPartitions": "2",
        # What it would say is in the log too, and without a rename one costs s3a two dozen requests.
        "spark.databricks.delta.writeChecksumFile.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(state_dir() / "warehouse"),
        # Spark keeps 100 generated classes by default. A run needs about 70, so that where two tables take turns each
        # would compile its own again and again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Else each call that makes a Column makes more of them into the JVM, to tell it which line of Python that is.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # The default lets ten thousand records into one batch for Python, however large they are.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**26),
        "spark.ui.enabled": "false",
        # Without a UI nobody looks at them, and each holds its plan as text.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": _HIDDEN,
        UTC: "UTC",
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(master).setAppName(f"lakeingest {name}").setAll([*settings.items()])
    log = launch.log_for(name)
    try:
        spark = launch.launch(conf, log)
    except Exception as failed:
        raise SetupError(
            f"Spark did not start: {failed}", cure=f"look at the end of {log}; LAKEINGEST_DRIVER_MEMORY sets its memory"
        ) from failed
    if recording is not None:
        atexit.register(_keep_class_archive, recording)
    return spark


def _class_archive(java: Path, jars: list[str]) -> tuple[str, Path | None]:
    """The JVM's option for its archive of loaded classes, and where it is recorded if there is none yet.

    With the archive Spark starts in about half the time. Java goes without one that was recorded with other files, also
    where only their times differ, so it is named by them.
    """
    import pyspark

    files = [(path, os.stat(path)) for path in (str(java.resolve()), pyspark.__file__, *jars)]
    parts = (pyspark.__version__, *(f"{path} {found.st_size} {found.st_mtime_ns}" for path, found in files))
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    archive = artifacts.cache_dir() / "spark" / f"classes-{name}.jsa"
    for left in archive.parent.glob(f"{archive.stem}.[0-9]*"):
        # Of a process that was killed or interrupted.
        if time.time() - left.stat().st_mtime > _DAY_S:
            left.unlink(missing_ok=True)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}", None
    recording = archive.with_suffix(f".{os.getpid()}")
    return f"-XX:ArchiveClassesAtExit={recording}", recording


def exercised() -> None:
    """Say that a batch was committed: by now the session's JVM has loaded what the next one will need at its start."""
    _EXERCISED.set()


def _keep_class_archive(recording: Path) -> None:
    """When this process ends: let the JVM write its archive, which takes some seconds; keep it if it is worth it."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
        if _EXERCISED.is_set() and recording.exists():
            recording.replace(recording.with_suffix(".jsa"))
    recording.unlink(missing_ok=True)
