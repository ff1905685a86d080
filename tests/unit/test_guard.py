"""What keeps the unit tests quick: they can start neither a server nor Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.java_gateway import launch_gateway

from lakeingest.local.server import spawn

STOPPED = pytest.fail.Exception


def test_no_spark_session(tmp_path: Path) -> None:
    """Spark's own launcher is stopped before it starts Java."""
    with pytest.raises(STOPPED, match=r"a unit test starts .*: it belongs in tests/spark or tests/integration"):
        # Whatever session another folder's tests have left in this process.
        launch_gateway()


def test_no_server(tmp_path: Path) -> None:
    """The stack's way to start a process."""
    with pytest.raises(STOPPED, match="a unit test starts /bin/sh"):
        spawn(["sleep", "0"], os.environ, tmp_path / "log", tmp_path)


def test_no_port() -> None:
    """A server within this process is one too."""
    with socket.socket() as server, pytest.raises(STOPPED, match="a unit test opens port 0"):
        server.bind(("127.0.0.1", 0))


@pytest.mark.parametrize("name", ["stack", "spark", "local_spark", "proxy", "cells"])
def test_no_fixture(request: pytest.FixtureRequest, name: str) -> None:
    """Not the shared ones, and none that is made of them."""
    with pytest.raises(STOPPED, match="a unit test asks for servers or for Spark"):
        request.getfixturevalue(name)


def test_python_may_be_started(guarded: Path) -> None:
    """Another interpreter tells what an import costs; Java is not where it would look."""
    code = "import os; print(os.environ['JAVA_HOME'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Path(ran.stdout.strip()) == guarded
    assert not guarded.exists()
