"""A SparkSession with Delta, Kafka and s3a: the one that is already there, or one of our own.

On Databricks, on EMR or in a notebook a session is active: it is used as it is. So is a Spark Connect server that
$SPARK_REMOTE names. Elsewhere one is started from the pinned jars of the local cache, which takes about 5 s and
resolves nothing.

Secrets are set on a session that runs already: what it is started with stands on the command line of its JVM, which
every user of the machine can read.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeingest.config import Storage
from lakeingest.errors import SetupError
from lakeingest.spark import jvm, launch, s3a
from lakeingest.spark.platforms import capabilities, connect, local
from lakeingest.spark.settings import AVRO_LIMITS, CHEAPER, FOR_FEW_ROWS, HIDDEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOCK = threading.Lock()
_USERS: dict[int, dict[str, tuple[int, str | None]]] = {}
"""By session and name of a setting: how many blocks set it, and what it was before them."""
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_HOME", "HADOOP_CONF_DIR")


def attach(
    storage: Storage, name: str, paths: Sequence[str] = (), names: Sequence[str] = (), *, brief: bool = False
) -> SparkSession:
    """The process's session, or a new local one; its time zone is UTC, so that times and partitions mean one thing.

    Where the session has another zone, a sibling of it is returned (same cluster, its own settings).

    Args:
        storage: how the buckets of `paths` are reached.
        paths: where the tables lie that it is for.
        names: what those tables are called that are a catalog's own.
        brief: whether this process ends within a minute: a session that is started for it starts sooner then.

    Raises:
        SetupError: Java is missing, or the jars cannot be had; the server of $SPARK_REMOTE does not answer; the
            session's Spark is too old; its catalog forgets names; its S3 is EMRFS.
        UsageError: this process has opened a bucket of these paths in another store.
    """
    active = _running() or connect.session()
    if active is None:
        session = local.start(name, brief=brief)
        _check_remembers(session, names)
    else:
        session = capabilities.of(active).in_utc()
        s3a.check_file_system(session, paths, stacklevel=2)
        _offer_functions(session, jvm.FUNCTIONS)
    launch.hide_values()
    launch.answer_promptly(session)
    _hide(session)
    s3a.let_in(session, storage, paths)
    can = capabilities.of(session)
    for option, value in CHEAPER.items():
        if can.setting(option) is None:
            can.set(option, value)
    return session


def _check_remembers(session: SparkSession, names: Sequence[str]) -> None:
    """Raises:
    SetupError: the session's own catalog is in memory, as it is where nobody configured one.
    """
    can = capabilities.of(session)
    for name in names:
        if not can.remembers(name):
            raise SetupError(
                f"the catalog of this Spark session is in memory, and forgets {name} when the process ends",
                cure="write table.path; or name a folder in $SPARK_CONF_DIR whose spark-defaults.conf configures a "
                "lasting catalog (spark.sql.catalogImplementation hive and spark.hadoop.hive.metastore.uris, or "
                "spark.sql.catalog.NAME)",
            )


def is_elsewhere(environment: Mapping[str, str]) -> bool:
    """Whether a variable may give a path, or a store, a meaning that Spark alone knows."""
    return any(environment.get(name) for name in _ELSEWHERE)


def runs() -> bool:
    """Whether this process has a session."""
    return _running() is not None


def _running() -> SparkSession | None:
    """The session of this thread, or else the process's, whichever thread started it; None if there is none."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def few_rows_session(session: SparkSession) -> SparkSession | None:
    """A sibling of a session that is quick with few rows: the states of tables' logs (see `delta.prefetch`), and a
    batch's few refused records; None where there can be none.
    """
    if not capabilities.of(session).siblings:
        return None
    sibling = capabilities.of(session).sibling()
    for option, value in FOR_FEW_ROWS.items():
        sibling.conf.set(option, value)
    return sibling


def merge_session(session: SparkSession) -> SparkSession:
    """A copy of a session in which nothing is committed but the MERGEs of one pipeline: what Delta writes to the log
    with a MERGE are settings of its session. The session itself over Spark Connect before Spark 4.1, which can have no
    copy: there a process may run one such pipeline.
    """
    if not capabilities.of(session).connect:
        return capabilities.of(session).sibling()
    return session.cloneSession() if hasattr(session, "cloneSession") else session


@contextmanager
def statement_session(session: SparkSession, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """A copy of a session for one statement, with settings of its own. Pipelines of one process share their session,
    and what is set on it holds for the statements of all: how many tasks they have, what they write to tables' logs.

    Over Spark Connect the session itself, since no other one knows its frames.
    """
    copy = session if capabilities.of(session).connect else capabilities.of(session).sibling()
    with setting(copy, options):
        yield copy


def _hide(session: SparkSession) -> None:
    """Before any secret is set: each statement's event tells what is set on the session."""
    capabilities.of(session).set("spark.sql.redaction.options.regex", f"{HIDDEN}|url")


@contextmanager
def setting(session: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """What the session is set to within the block, or within several at once, which set a name to the same.

    What it was before the first of them comes back after the last one, if anything.
    """
    with _LOCK:
        users = _USERS.setdefault(id(session), {})
        for name, value in options.items():
            count, before = users.get(name) or (0, session.conf.get(name, None))
            users[name] = count + 1, before
            session.conf.set(name, value)
    try:
        yield
    finally:
        with _LOCK:
            for name in options:
                count, before = users.pop(name)
                if count > 1:
                    users[name] = count - 1, before
                elif before is None:
                    session.conf.unset(name)
                else:
                    session.conf.set(name, before)
            if not users:
                _USERS.pop(id(session), None)


def _offer_functions(session: SparkSession, classes: Mapping[str, str]) -> None:
    """Let the session read JSON and Avro in one step, and hold texts against patterns, if its executors have the jar,
    and classes that it fits: it calls classes of Spark's that are no public interface.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if not capabilities.of(session).own_functions:
        return
    flags = T.StructType([T.StructField(name, T.BooleanType()) for name in "ab"])
    nothing = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "null"}]}
    # Not of literals: the driver would answer by itself.
    payload, text = F.when(F.col("id") >= 0, F.lit(b"{}")), F.col("id").cast("string")
    trials = {"json": (flags.json(), payload), "avro": (json.dumps(nothing), payload), "pattern": ("rlike 0", text)}
    trials["zlib"] = ("inflate 1", payload)
    trials["records"] = (
        f"take trial 0 {flags.json()}",
        F.struct(*(F.lit(None).cast("boolean").alias(n) for n in "ab")),
    )
    # That one is the driver's.
    trials["log"] = ("commit", F.lit("file:/none"))
    for kind, (name, value) in trials.items():
        if session.conf.get(jvm.catalog(kind), None) is not None:
            continue
        session.conf.set(jvm.catalog(kind), classes[kind])
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
            f"{AVRO_LIMITS}",
            stacklevel=3,
        )
