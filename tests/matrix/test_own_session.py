"""lakeingest in a session that its user started: on the pinned Spark, on Spark 4.1, and on Spark 4.0 with Delta 4.0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from support.pipelines import values_of
from support.records import mixed_records, produce
from support.servers import spark_versions

from lakeingest.local import Addresses, artifacts
from lakeingest.spark import jvm

pytestmark = [pytest.mark.matrix, pytest.mark.slow]

WIRED = {"spark.delta.logStore.s3a.impl": jvm.LOG_STORE}
Run = Callable[..., subprocess.CompletedProcess[str]]


def of_another(version: str) -> tuple[Path, Sequence[Path]]:
    """Python and jars of a version of Spark beside the pinned one."""
    jars = spark_versions.jars(spark_versions.MATRIX / f"spark-{version}-jars.txt")
    return spark_versions.python(f"spark-{version}", "dev"), jars


def of_the_pinned() -> tuple[Path, Sequence[Path]]:
    """Those of the pinned one."""
    return Path(sys.executable), artifacts.fetch("spark")


@pytest.fixture
def run(stack: Addresses, named: str, tmp_path: Path) -> Run:
    """Twenty records, of which four are refused, and a program with a session of these jars and settings."""
    produce(stack, named, mixed_records(20))
    (tmp_path / "p.yaml").write_text(json.dumps(values_of(stack, named)))
    env = {**os.environ, "PYTHONPATH": str(spark_versions.ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}

    def program(python: Path, jars: Sequence[Path], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        words = ["p.yaml", os.pathsep.join(map(str, jars)), json.dumps(settings)]
        command = [python, spark_versions.ROOT / "tests" / "support" / "pipelines" / "own_session.py", *words]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=env,
            timeout=300,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return program


@pytest.mark.parametrize(
    ("version", "engine"),
    [
        (partial(of_another, "4.0"), "Apache-Spark/4.0.2 Delta-Lake/4.0.0"),
        (partial(of_another, "4.1"), "Apache-Spark/4.1.1 Delta-Lake/4.4.0"),
        (of_the_pinned, "Apache-Spark/4.2.0 Delta-Lake/4.4.0"),
    ],
    ids=["4.0", "4.1", "4.2"],
)
@pytest.mark.parametrize("wired", [True, False], ids=["with the jar", "without the jar"])
def test_a_session_of_the_users_own(
    run: Run, version: Callable[[], tuple[Path, Sequence[Path]]], engine: str, wired: bool
) -> None:
    """With lakeingest's jar it reads in one step; without it works too, and it is said what is unsafe."""
    python, jars = version()
    done = run(python, [*jars, jvm.JAR], WIRED) if wired else run(python, jars, {})
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    assert (said["engine"], said["counts"], said["conserved"]) == (engine, [16, 4], True)
    assert set(said["functions"]) == (set(jvm.FUNCTIONS) if wired else set())
    assert [text.partition(":")[0] for text in said["warnings"]] == (
        [] if wired else ["this Spark session has no safe log store for s3a"]
    )


def test_hadoop_3_4_1_cannot_commit_safely(run: Run) -> None:
    """Pip's pyspark 4.0 brings it; the log store refuses it before anything is written."""
    python, jars = of_another("4.0")
    older = [jar for jar in jars if not jar.name.startswith("org.apache.hadoop__")]
    done = run(python, [*older, *spark_versions.jars(spark_versions.MATRIX / "hadoop-3.4.1-jars.txt"), jvm.JAR], WIRED)
    assert done.returncode == 1
    named = "org.apache.hadoop.fs.s3a.S3AFileSystem of Hadoop 3.4.1"
    refused = f"UnsafeStore: s3a://lake cannot commit safely: {named} cannot create a file only if there is none\n"
    assert f"lakeingest.errors.{refused}" in done.stderr
