"""What is said of a session that somebody else started, and what one hides of its settings."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
import pytest
from pyspark.sql import SparkSession

from lakeingest.errors import SetupError
from lakeingest.spark import session
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


def test_the_class_archive_is_one_of_these_very_jars(tmp_path: Path) -> None:
    """Java would reject one that was recorded with others, and say nothing: a jar that is replaced gets a new one."""
    jar = tmp_path / "some.jar"
    jar.touch()
    before, again = (local._class_archive(Path(sys.executable), [str(jar)]) for _ in range(2))
    assert before == again
    os.utime(jar, ns=(0, 0))
    assert local._class_archive(Path(sys.executable), [str(jar)]) != before


def test_class_archives_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has 230 MB: what a killed process left goes after an hour, what no session used after two weeks."""
    monkeypatch.setenv("LAKEINGEST_CACHE", str(tmp_path))
    folder = tmp_path / "spark"
    folder.mkdir()
    _, recording = local._class_archive(Path(sys.executable), [])
    assert recording is not None
    used = recording.with_suffix(".jsa")
    days = {
        used.name: 100,
        "classes-a.jsa": 13,
        "classes-b.jsa": 15,
        "classes-a.12": 0.1,
        "classes-a.13": 0,
        "x.jar": 100,
    }
    for name, ago in days.items():
        (folder / name).touch()
        os.utime(folder / name, (time.time() - ago * 86_400,) * 2)
    assert local._class_archive(Path(sys.executable), []) == (f"-XX:SharedArchiveFile={used}", None)
    assert {path.name for path in folder.iterdir()} == {used.name, "classes-a.jsa", "classes-a.13", "x.jar"}
    assert time.time() - used.stat().st_mtime < 60


@pytest.mark.parametrize("version", ["4.1.1", "4.20.0", "4.3.0", "5.0.0"])
def test_jars_are_for_one_version_of_spark(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """With another one Spark's JVM would end in an error of its linker; it is said before anything is fetched."""
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(
        SetupError, match=rf"pyspark {version} is installed, and lakeingest starts Spark with jars for 4.2"
    ):
        local.jars()
