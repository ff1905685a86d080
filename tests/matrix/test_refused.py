"""Spark 3.5 is refused in one sentence with its cure, by commands and in sessions, and nothing is started for it.

So is pyspark 4.0 where lakeingest would have to start the session: its jars are for the pinned Spark.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.servers import spark_versions

pytestmark = pytest.mark.matrix

OLD = r"this is Spark 3\.5\.8, and lakeingest needs Spark 4\.0 or newer: older ones cannot tell broken texts"
CURE = r"\n  cure: use Databricks Runtime 17\.3 LTS or newer, an EMR release with Spark 4, or pip install .+\n"
COMMAND = "from lakeingest.cli import main; main()"
SESSION = """
from pyspark.sql import SparkSession

SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
"""
ATTACH = """
from lakeingest.config import Storage
from lakeingest.spark import session

session.attach(Storage(), "old")
"""
LOAD = """
import lakeingest

lakeingest.load("p.yaml").run()
"""

Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., Ran]:
    """What a program says in a folder with a pipeline file; with pyspark 3.5, if no other Python is named."""
    source = {"topics": ["old"], "bootstrap_servers": "127.0.0.1:1"}
    values = {"name": "old", "source": source, "schema": {"columns": "n INT"}, "table": {"path": str(tmp_path / "old")}}
    (tmp_path / "p.yaml").write_text(json.dumps(values))
    env = {**os.environ, "PYTHONPATH": str(spark_versions.ROOT), "LAKEINGEST_STATE": str(tmp_path / "state")}

    def run(program: str, *words: str, python: Path | None = None) -> Ran:
        command = [python or spark_versions.python("spark-3.5"), "-c", program, *words]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.mark.parametrize(
    "words",
    ["run", "status", "audit", "plan", "maintain", "quarantine list", "gate history", "schema history"],
)
def test_a_command_is_refused(ran: Callable[..., Ran], tmp_path: Path, words: str) -> None:
    """Before it asks Kafka, which does not answer here, and before Spark is started."""
    said = ran(COMMAND, *words.split(), "p.yaml")
    assert said.returncode == 4
    assert re.fullmatch(rf"error \(setup\): {OLD}{CURE}  more: .+\n", said.stderr), said.stderr
    assert not (tmp_path / "state" / "logs").exists()


def test_the_doctor_names_it(ran: Callable[..., Ran]) -> None:
    """Beside all that it finds elsewhere."""
    said = ran(COMMAND, "doctor", "p.yaml")
    assert said.returncode == 4
    assert re.search(rf"^bad +pyspark +{OLD}$", said.stdout, re.MULTILINE), said.stdout


def test_a_file_is_checked_all_the_same(ran: Callable[..., Ran]) -> None:
    """No Spark is needed for it."""
    said = ran(COMMAND, "check", "p.yaml")
    assert (said.returncode, said.stdout, said.stderr) == (0, "p.yaml: good\n", "")


@pytest.mark.parametrize("program", [LOAD, SESSION + LOAD, SESSION + ATTACH], ids=["alone", "in a session", "attached"])
def test_a_program_is_refused(ran: Callable[..., Ran], program: str) -> None:
    """A SetupError, also where a session of it is active."""
    said = ran(program)
    assert said.returncode == 1
    assert re.search(rf"\nlakeingest\.errors\.SetupError: {OLD}{CURE}$", said.stderr), said.stderr


def test_jars_are_for_one_version_of_spark(ran: Callable[..., Ran]) -> None:
    """Spark 4.0 with them would end in an error of Java's linker."""
    said = ran(COMMAND, "maintain", "p.yaml", python=spark_versions.python("spark-4.0", "dev"))
    assert said.returncode == 4
    what = "error (setup): pyspark 4.0.2 is installed, and lakeingest starts Spark with jars for 4.2\n"
    assert said.stderr.startswith(f"{what}  cure: pip install 'pyspark==4.2.*', or start the session yourself")
