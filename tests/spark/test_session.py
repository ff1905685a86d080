"""What is said of a Spark session that somebody else started, and what one hides of its settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakeingest.config import Storage
from lakeingest.delta.table import Table
from lakeingest.local.machine import java
from lakeingest.spark import jvm, session
from lakeingest.spark.platforms import capabilities


def test_own_sessions_compile_methods_of_any_length(spark: SparkSession) -> None:
    """As their JVM says itself: what Spark generates for a dozen columns would be interpreted else."""
    assert SparkContext._gateway is not None
    ask = [str(java().with_name("jcmd")), str(SparkContext._gateway.proc.pid), "VM.flags", "-all"]
    flags = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    assert re.search(r"DontCompileHugeMethods\s+= false", flags)


def test_java_answers_at_once(spark: SparkSession) -> None:
    """On the connection of each thread of Python, in its session and in each other one: what is longer than 8 KiB would
    come 40 ms later.
    """
    session.attach(Storage(), "twice")
    gateway: Any = SparkContext._gateway
    server = gateway.java_gateway_server
    listeners = [each.getClass().getSimpleName() for each in server.getListeners()]
    assert listeners.count("PromptAnswers") == 1
    connections = server.getClass().getSuperclass().getDeclaredField("connections")
    connections.setAccessible(True)
    with ThreadPoolExecutor(1) as another:
        another.submit(spark.range, 1).result()
        prompt = [each.getSocket().getTcpNoDelay() for each in connections.get(server)]
    assert len(prompt) >= 2
    assert all(prompt)


_NAMED = """
from pathlib import Path
from lakeingest.delta.catalog import spark as catalog
from lakeingest.delta.table import Table
from lakeingest.spark import session
from lakeingest.config import Storage
spark = session.attach(Storage(), "named", [])
spark.range(3).write.format("delta").save(str(Path("there/t").absolute()))
catalog.register(Table(spark, str(Path("there/t").absolute())), "lake.flights")
print(spark.table("lake.flights").count())
"""


@pytest.mark.faults
@pytest.mark.pinned
@pytest.mark.slow
def test_nothing_is_left_in_the_folder_of_a_command(tmp_path: Path) -> None:
    """Spark's warehouse is made in the state folder, not wherever a command is called; a table's name is known."""
    (tmp_path / "here").mkdir()
    environment = {**os.environ, "LAKEINGEST_STATE": str(tmp_path / "state"), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", _NAMED],
        cwd=tmp_path / "here",
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "3"), ran.stderr
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["there"]


@pytest.mark.parametrize("misfit", [None, *jvm.FUNCTIONS], ids=lambda kind: f"where {kind} does not fit")
def test_a_session_reads_in_one_step_what_it_can(spark: SparkSession, misfit: str | None) -> None:
    """Somebody's session is tried first, and left as it was where its classes do not do it."""
    misfits = {misfit: "no.such.Class"} if misfit else {}
    assert _offered(spark, jvm.LOG_STORE, jvm.FUNCTIONS | misfits) == jvm.FUNCTIONS.keys() - misfits


def test_a_session_without_the_jar_is_not_tried(spark: SparkSession) -> None:
    """Its owner has not named the log store that is in the jar."""
    assert _offered(spark, "another.LogStore", jvm.FUNCTIONS) == set()


def _offered(spark: SparkSession, log_store: str, classes: Mapping[str, str]) -> set[str]:
    """The kinds of functions that somebody's session has once these classes were tried in it."""
    somebodys = spark.newSession()
    somebodys.conf.set("spark.delta.logStore.s3a.impl", log_store)
    for kind in jvm.FUNCTIONS:
        somebodys.conf.unset(jvm.catalog(kind))
    session._offer_functions(somebodys, classes)
    return {kind for kind in jvm.FUNCTIONS if somebodys.conf.get(jvm.catalog(kind), None)}


@pytest.mark.classic
def test_another_zone(spark: SparkSession) -> None:
    """Its copy is in UTC, and the name of a table means the same in it."""
    somebodys = spark.newSession()
    somebodys.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    somebodys.conf.set(
        "spark.sql.catalog.theirs", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    )
    somebodys.conf.set("spark.sql.catalog.theirs.url", "jdbc:derby:memory:theirs")
    somebodys.sql("SET CATALOG theirs")
    copy = capabilities.of(somebodys).in_utc()
    assert (copy.conf.get("spark.sql.session.timeZone"), copy.catalog.currentCatalog()) == ("UTC", "theirs")
    assert somebodys.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_settings_of_two_blocks_end_with_the_last(spark: SparkSession) -> None:
    """Two pipelines of one process in one session: what the first one restores is not what the second one set."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    first, second = (session.setting(spark, {name: "64", "spark.lakeingest.trial": "on"}) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (spark.conf.get(name), spark.conf.get("spark.lakeingest.trial")) == ("64", "on")
    second.__exit__(None, None, None)
    assert (spark.conf.get(name), spark.conf.get("spark.lakeingest.trial", None)) == (before, None)


def test_a_statement_has_settings_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """It reaches what the session reaches, and knows its frames; the session does not see its settings."""
    spark.range(3).write.format("delta").save(str(tmp_path / "t"))
    rows = spark.range(2)
    with (
        session.setting(spark, {"fs.s3a.bucket.trial.endpoint": "here"}),
        session.statement_session(spark, {"spark.sql.shuffle.partitions": "64"}) as apart,
    ):
        assert (apart.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.shuffle.partitions")) == (
            "64",
            "2",
        )
        assert apart.conf.get("fs.s3a.bucket.trial.endpoint") == "here"
        Table(apart, str(tmp_path / "t")).merge(rows, ["id"], "WHEN MATCHED THEN DELETE")
    assert [row[0] for row in spark.read.format("delta").load(str(tmp_path / "t")).collect()] == [2]
