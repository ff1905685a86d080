"""What is said of a Spark session that somebody else started, and what one hides of its settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakeingest.local.machine import java
from lakeingest.spark import jvm, session
from lakeingest.spark.platforms import local
from lakeingest.spark.settings import HIDDEN


def started_with(**options: str) -> SparkSession:
    """Somebody's session, as far as it is asked for its options."""
    found = {name.replace("_", "."): value for name, value in options.items()}
    return cast(SparkSession, SimpleNamespace(conf=SimpleNamespace(get=found.get)))


@pytest.mark.parametrize("options", [{}, {"spark_executor_extraJavaOptions": "-XX:+UseG1GC"}])
def test_a_session_that_does_not_bound_avro_is_told_how(options: dict[str, Any]) -> None:
    """A damaged record would end an executor; the warning has the options to paste."""
    with pytest.warns(UserWarning, match=r"-Dorg\.apache\.avro\.limits\.collectionItems\.maxLength=10000000"):
        session.warn_of_avro(started_with(**options))


def test_a_session_that_bounds_avro_is_left_alone() -> None:
    """The options are there, so nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.warn_of_avro(
            started_with(spark_executor_extraJavaOptions="-Dorg.apache.avro.limits.bytes.maxLength=1000")
        )


def test_own_sessions_compile_methods_of_any_length(spark: SparkSession) -> None:
    """As their JVM says itself: what Spark generates for a dozen columns would be interpreted else."""
    assert SparkContext._gateway is not None
    ask = [str(java().with_name("jcmd")), str(SparkContext._gateway.proc.pid), "VM.flags", "-all"]
    flags = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    assert re.search(r"DontCompileHugeMethods\s+= false", flags)


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


@pytest.mark.parametrize(
    ("setting", "hidden"),
    [
        ("kafka.sasl.jaas.config", True),
        ("kafka.ssl.keystore.key", True),
        ("kafka.ssl.key.password", True),
        ("ssl.key.pem", True),
        ("basic.auth.user.info", True),
        ("bearer.auth.token", True),
        ("spark.hadoop.fs.s3a.bucket.lake.secret.key", True),
        ("fs.s3a.access.key", True),
        ("fs.s3a.encryption.key", True),
        ("fs.s3a.proxy.username", True),
        ("spark.delta.logStore.s3a.impl", False),
        ("spark.sql.session.timeZone", False),
        ("delta.checkpointInterval", False),
        # The ledger of schemas is read back by SHOW TBLPROPERTIES, which hides as well, by names and by values.
        ("lakeingest.schemas.0123456789abcdef", False),
    ],
)
def test_a_session_hides_settings_that_may_hold_secrets(setting: str, hidden: bool) -> None:
    """From its event log, its UI and SET; what lakeingest reads back itself is not among them."""
    assert bool(re.search(HIDDEN, setting)) is hidden


@pytest.mark.parametrize(
    ("log_store", "misfits", "offered"),
    [
        (jvm.LOG_STORE, {}, {"json", "avro", "pattern"}),
        (jvm.LOG_STORE, {"avro": "no.such.Class"}, {"json", "pattern"}),
        (jvm.LOG_STORE, {"json": "no.such.Class"}, {"avro", "pattern"}),
        (jvm.LOG_STORE, {"pattern": "no.such.Class"}, {"json", "avro"}),
        ("another.LogStore", {}, set()),
    ],
    ids=[
        "with the jar",
        "where avro does not fit",
        "where json does not fit",
        "where patterns do not fit",
        "without the jar",
    ],
)
def test_a_session_reads_in_one_step_what_it_can(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    log_store: str,
    misfits: dict[str, str],
    offered: set[str],
) -> None:
    """Somebody's session is tried first, and left as it was where its classes do not do it."""
    somebodys = spark.newSession()
    somebodys.conf.set("spark.delta.logStore.s3a.impl", log_store)
    for format in jvm.FUNCTIONS:
        somebodys.conf.unset(jvm.catalog(format))
    monkeypatch.setattr(jvm, "FUNCTIONS", jvm.FUNCTIONS | misfits)
    session._offer_functions(somebodys)
    assert {format for format in jvm.FUNCTIONS if somebodys.conf.get(jvm.catalog(format), None)} == offered


def test_the_class_archive_is_one_of_these_very_jars(tmp_path: Path) -> None:
    """Java would reject one that was recorded with others, and say nothing: a jar that is replaced gets a new one."""
    jar = tmp_path / "some.jar"
    jar.touch()
    before, again = (local._class_archive(Path(sys.executable), [str(jar)]) for _ in range(2))
    assert before == again
    os.utime(jar, ns=(0, 0))
    assert local._class_archive(Path(sys.executable), [str(jar)]) != before
