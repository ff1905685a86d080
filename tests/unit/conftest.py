"""Unit tests start no server, no JVM and open no port: what tries to is stopped, whoever calls it.

The one program that they may start is Python itself; it finds no Java.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeingest.spark import session

_WATCHED = {"on": False}
"""An audit hook stays as long as the process, which may go on with other folders."""
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn")
_ELSEWHERE = "belongs in tests/spark or tests/integration"


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse a program other than Python, a shell command, and a port that is listened on."""
    if not _WATCHED["on"]:
        return
    if event in _STARTS and str(arguments[0]) != sys.executable:
        pytest.fail(f"a unit test starts {arguments[0]}: it {_ELSEWHERE}")
    if event == "os.system":
        pytest.fail(f"a unit test starts a shell: it {_ELSEWHERE}")
    if event == "socket.bind" and isinstance(arguments[1], tuple):
        pytest.fail(f"a unit test opens port {arguments[1][1]}: it {_ELSEWHERE}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Watch this test, and hide Java from the programs that it starts; gives the folder in which there is none."""
    nothing = tmp_path_factory.getbasetemp() / "no-java"
    monkeypatch.setenv("JAVA_HOME", str(nothing))
    # Tests of other folders may have left a session in this process.
    monkeypatch.setattr(session, "runs", lambda: False)
    _WATCHED["on"] = True
    yield nothing
    _WATCHED["on"] = False


def _refused() -> None:
    pytest.fail(f"a unit test asks for servers or for Spark: it {_ELSEWHERE}")


@pytest.fixture(scope="session")
def stack() -> None:
    """No server is for tests of this folder."""
    _refused()


@pytest.fixture(scope="session")
def local_spark() -> None:
    """No session either."""
    _refused()


@pytest.fixture(scope="session")
def spark() -> None:
    """No session either."""
    _refused()
