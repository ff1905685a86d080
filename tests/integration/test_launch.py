"""Spark's JVM: that it ends with the process which started it, and where it and pyspark say what they have to say."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest
from pyspark.sql import SparkSession
from support.pipelines import config_of, values_of
from support.records import DIRTY, clean_records, produce

from lakeingest.delta.reader.log import OfflineLog
from lakeingest.local import Addresses, artifacts
from lakeingest.operations import backlog
from lakeingest.pipeline import Pipeline
from lakeingest.spark.settings import BRIEF
from lakeingest.testing.process import Process

pytestmark = pytest.mark.classic

FAULT = pytest.mark.faults


def jvms(name: str) -> list[psutil.Process]:
    """The processes that have the pipeline's name as their application's: Spark's launcher, and its JVM."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if f"spark.app.name=lakeingest {name}" in (process.info["cmdline"] or ()):
            found.append(process)
    return found


def until(name: str, *, there: bool, timeout_s: float) -> list[psutil.Process]:
    """Wait until the pipeline has a JVM, or none any more; which it has then."""
    deadline = time.monotonic() + timeout_s
    while bool(found := jvms(name)) is not there and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.fixture
def file(stack: Addresses, named: str, tmp_path: Path) -> Path:
    """The file of a pipeline that has not run."""
    produce(stack, named, clean_records(1))
    (tmp_path / "p.yaml").write_text(json.dumps(values_of(stack, named)))
    return tmp_path / "p.yaml"


STARTS = """
from lakeingest.config import Storage
from lakeingest.spark import session
from lakeingest.spark.platforms import local

session.attach(Storage(), "archive")
local.exercised()
print("the last word")
"""


@pytest.mark.faults
@pytest.mark.pinned
def test_a_command_says_what_it_waits_for_at_its_end(tmp_path: Path) -> None:
    """The first one ended 20 s behind its last word, without a sign: Java was writing its archive of classes."""
    (tmp_path / "spark").mkdir()
    for jar in (artifacts.cache_dir() / "spark").glob("*.jar"):
        (tmp_path / "spark" / jar.name).symlink_to(jar)
    environment = {**os.environ, "LAKEINGEST_CACHE": str(tmp_path)}

    def said() -> str:
        master, terminal = pty.openpty()
        with Popen([sys.executable, "-c", STARTS], env=environment, stdout=PIPE, stderr=terminal, text=True) as process:
            os.close(terminal)
            out = process.communicate()[0]
        assert (process.returncode, out) == (0, "the last word\n")
        # A terminal that nobody has open any more, and nothing in it: its end is an error.
        with suppress(OSError):
            return os.read(master, 10_000).decode() if select.select([master], [], [], 0)[0] else ""
        return ""

    assert "Java writes down what it has loaded" in said()
    if [*(tmp_path / "spark").glob("classes-*.jsa")]:
        # Where Java takes longer than a minute, it is tried again.
        assert said() == ""


SHORT = {(signal.SIGINT, 0.0), (signal.SIGKILL, 0.4)}
"""The one that is answered, and the one that no process can answer; the others are cells of the matrix."""
MOMENTS = [
    pytest.param(number, after_s, id=f"{number.name}-{after_s}", marks=() if (number, after_s) in SHORT else FAULT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    for after_s in (0.0, 0.4, 1.0)
]


@pytest.mark.pinned
@pytest.mark.slow
@pytest.mark.parametrize(("number", "after_s"), MOMENTS)
def test_the_jvm_ends_with_its_process(file: Path, named: str, number: signal.Signals, after_s: float) -> None:
    """Also where that is ended before the JVM said where it listens: then it ran on for good."""
    with Process(file, command=("status",)) as process:
        assert until(named, there=True, timeout_s=30)
        time.sleep(after_s)
        os.kill(process.pid, number)
        assert process.wait(30) == (130 if number == signal.SIGINT else -number)
        assert until(named, there=False, timeout_s=30) == []


@pytest.mark.pinned
@pytest.mark.parametrize(("options", "brief"), [(("--until-caught-up",), True), ((), False)])
def test_java_compiles_less_where_little_waits(file: Path, named: str, options: tuple[str, ...], brief: bool) -> None:
    """A run that ends soon ends sooner; one that goes on needs the code that is best."""
    with Process(file, *options) as process:
        assert until(named, there=True, timeout_s=30)
        (command, *_) = [each.info["cmdline"] for each in jvms(named)]
        process.signal(signal.SIGKILL)
    assert any(BRIEF in argument for argument in command) is brief
    assert until(named, there=False, timeout_s=30) == []


def test_what_waits_is_known_before_spark_starts(stack: Addresses, spark: SparkSession, named: str, file: Path) -> None:
    """Of what the table has already nothing waits. What is not known for certain is not taken for little."""
    pipeline = Pipeline(config_of(stack, named))
    assert backlog.offsets_of(pipeline, stack.kafka) == 1
    assert backlog.is_small(pipeline, stack.kafka)
    assert backlog.offsets_of(pipeline, "127.0.0.1:9") is None
    assert not backlog.is_small(pipeline, "127.0.0.1:9")
    pipeline.run(until_caught_up=True)
    assert backlog.offsets_of(pipeline, stack.kafka) == 0
    produce(stack, named, clean_records(2))
    assert backlog.offsets_of(pipeline, stack.kafka) == 2
    log = OfflineLog(pipeline.config.table.identifier, pipeline.storage)
    log.filesystem.delete_file(f"{log.folder}/_delta_log/{0:020}.json")
    assert backlog.offsets_of(pipeline, stack.kafka) is None


@pytest.mark.pinned
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "after_s"),
    [
        (("status",), 2.0),
        # Once it takes batches, it ends the one in hand instead, with 0.
        (("run",), 0.5),
        pytest.param(("audit",), 2.5, marks=FAULT),
        pytest.param(("plan",), 3.5, marks=FAULT),
        pytest.param(("quarantine", "list"), 1.5, marks=FAULT),
        pytest.param(("schema", "history"), 2.5, marks=FAULT),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_an_interrupted_command_says_one_line(file: Path, named: str, command: tuple[str, ...], after_s: float) -> None:
    """Ctrl-C while Spark starts, and while it works: exit code 130, without a traceback."""
    with Process(file, command=command) as process:
        assert until(named, there=True, timeout_s=30)
        time.sleep(after_s)
        process.signal(signal.SIGINT)
        assert (process.wait(30), process.out) == (130, "")
        *logged, last = process.err.splitlines()
    assert last == "interrupted"
    # A run logs where there is no terminal.
    assert [line for line in logged if not (command == ("run",) and " INFO " in line)] == []


@pytest.mark.faults
@pytest.mark.pinned
@pytest.mark.slow
def test_spark_says_nothing_on_the_terminal(
    stack: Addresses, stack_state: Path, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """Where a query fails pyspark wrote 12 KB of JSON before the error; it is in the log, which nobody can run."""
    produce(stack, named, [*clean_records(2), DIRTY])
    Pipeline(config_of(stack, named)).run(until_caught_up=True)
    (tmp_path / "p.yaml").write_text(json.dumps(values_of(stack, named)))
    wrong = ("--where", "nope = 1", "--reason", "x")
    with Process(tmp_path / "p.yaml", *wrong, command=("quarantine", "discard")) as process:
        assert process.wait(120) == 2
        assert process.err.startswith("error (usage): --where 'nope = 1' is no condition")
        assert "SQLQueryContextLogger" not in process.err
    (log,) = (stack_state / "logs" / named).glob("quarantine-discard-*.log")
    assert "SQLQueryContextLogger" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) & 0o111 == 0


@pytest.mark.pinned
@pytest.mark.faults
def test_a_run_as_it_should_be_is_silent_in_the_log(
    stack: Addresses, stack_state: Path, named: str, file: Path
) -> None:
    """Else each batch had its warnings, and whoever looks for the reason of a failure had to know them."""
    produce(stack, named, [*clean_records(20), DIRTY])
    values = json.loads(file.read_text()) | {"trigger": {"max_records": 5}}
    file.write_text(json.dumps(values))
    with Process(file, "--until-caught-up", "--log-format", "none") as process:
        assert process.wait(120) == 0, process.err
        assert process.out.count(" · commit ") > 3
        assert process.err == ""
    (log,) = (stack_state / "logs" / named).glob("run-*.log")
    assert [line for line in log.read_text().splitlines() if " WARN " in line or " ERROR " in line] == []
