"""A plain install has no pyspark: what needs it says how to get it, all else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "delta", "py4j", "pyarrow", "great_expectations"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""
MAIN = "from lakeingest.cli import main; main()"
FILE = "{name: p, source: {topics: [t], bootstrap_servers: 'localhost:1'}, table: {path: /t}, schema: {columns: n INT}}"


def python(code: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What Python says to a program, where none of these packages can be imported."""
    (folder / "p.yaml").write_text(FILE)
    command = [sys.executable, "-c", BLOCKED + code, *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=env)


@pytest.mark.parametrize(
    "words",
    [
        "run p.yaml",
        "status p.yaml",
        "audit p.yaml",
        "plan p.yaml",
        "compact p.yaml",
        "quarantine list p.yaml",
        "quarantine show p.yaml t-0:0",
        "quarantine replay p.yaml --reason x",
        "quarantine discard p.yaml --reason x",
        "gate history p.yaml",
        "gate docs p.yaml",
        "schema history p.yaml",
    ],
)
def test_a_command_that_needs_spark_names_the_extra(tmp_path: Path, words: str) -> None:
    """It ended with a traceback, and exit code 1."""
    said = python(MAIN, *words.split(), folder=tmp_path)
    assert said.returncode == 4
    assert said.stderr.startswith("error (setup): pyspark is not installed\n  cure: pip install 'lakeingest[spark]'")


def test_load_names_the_extra(tmp_path: Path) -> None:
    """A SetupError, not a ModuleNotFoundError."""
    said = python("import lakeingest; lakeingest.load('p.yaml')", folder=tmp_path)
    assert "lakeingest.errors.SetupError: pyspark is not installed" in said.stderr


@pytest.mark.parametrize("words", ["--help", "check p.yaml", "describe", "init -", "explain", "explain Fenced"])
def test_what_needs_no_spark_works(tmp_path: Path, words: str) -> None:
    """Files are written and checked before there is a Spark."""
    said = python(MAIN, *words.split(), folder=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
