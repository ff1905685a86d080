"""What tests share: one embedded stack and one Spark session for the whole run, and a proxy that can hurt its S3.

A fixture is made when a test first asks for it: unit/ may ask for neither servers nor Spark, spark/ not for servers.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from support import faults
from support.pipelines.command_line import Command, Said
from support.servers import connect, s3_client, spark_versions
from support.tables import without_files

from lakeingest import cli
from lakeingest.config import Storage
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader.log import Unreadable
from lakeingest.errors import LakeingestError
from lakeingest.ingest import endpoints
from lakeingest.local import Addresses
from lakeingest.local.stack import down, up
from lakeingest.operations import audit
from lakeingest.operations.readers import FileTables, PipelineReader, SparkTables
from lakeingest.operations.results.audit import Report
from lakeingest.spark import jvm, s3a, session
from lakeingest.spark.platforms import local
from lakeingest.testing.s3 import S3Proxy

# What a table's width is tested by: processes that share a run get it from their terminal.
os.environ.pop("COLUMNS", None)
# A process that a test starts ends before the compiler that takes its time has paid back what it took from two cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
# A test never depends on how busy the machine is.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
_FAULT = "fault"
"""The property of a test's report that is a line of the matrix."""


@pytest.fixture(scope="session")
def stack_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the run: no test sees the stack that a developer has running."""
    state = tmp_path_factory.mktemp("state")
    os.environ["LAKEINGEST_STATE"] = str(state)
    return state


@pytest.fixture(scope="session")
def stack(stack_state: Path) -> Iterator[Addresses]:
    """The embedded stack: real servers, started once, wiped at the end. Name topics and keys after the test."""
    try:
        yield up(stack_state)
    finally:
        down(stack_state, wipe=True)


@pytest.fixture(scope="session")
def local_spark(request: pytest.FixtureRequest, stack_state: Path) -> Iterator[SparkSession]:
    """The process's one session, as lakeingest starts it for itself; it knows of no server."""
    # Two thousand tests leave more behind than a pipeline does.
    os.environ.setdefault("LAKEINGEST_DRIVER_MEMORY", "4g")
    if request.config.getoption("connect"):
        with connect.server(stack_state) as address:
            # Commands that tests start go there too.
            os.environ["SPARK_REMOTE"] = address
            yield session.attach(Storage(), "tests")
        return
    with pytest.MonkeyPatch.context() as patched:
        # Each test has plans of its own. Where the code made for them is full, Java interprets the rest. Its second
        # compiler does not pay for itself: 203 CPU seconds of three files without it, 252 with it.
        patched.setenv("SPARK_SUBMIT_OPTS", "-XX:ReservedCodeCacheSize=400m -XX:TieredStopAtLevel=1")
        if listing := request.config.getoption("jars"):
            patched.setattr(local, "jars", lambda: [*map(str, spark_versions.jars(Path(listing))), str(jvm.JAR)])
        # To write down which classes it loaded takes a JVM of many tests longer than it ever saves.
        patched.setattr(local, "_class_archive", lambda *_: ("", None))
        spark = session.attach(Storage(), "tests")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def spark(local_spark: SparkSession, stack: Addresses) -> SparkSession:
    """The one session, with the stack's S3."""
    storage = Storage.model_validate(
        {
            "endpoint": stack.s3,
            "access_key": stack.s3_access_key,
            "secret_key": stack.s3_secret_key,
            "path_style": True,
        }
    )
    for name, value in s3a.s3a_options(storage).items():
        local_spark.conf.set(name, value)
    return local_spark


@pytest.fixture(autouse=True)
def few_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tables of ten rows on the stack: no task that reads their logs writes Java for it, a fifth of the CPU.

    What Spark generates for a whole stage, as for what a batch computes, stays as it is; and tests of local files, and
    processes that tests start, have all of it.
    """
    if not {"stack", "spark"} <= set(request.fixturenames):
        yield
        return
    with session.setting(request.getfixturevalue("spark"), {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        yield


@pytest.fixture(scope="session")
def proxy(stack: Addresses, spark: SparkSession) -> Iterator[S3Proxy]:
    """The stack's S3 behind a proxy; the shared session reaches one bucket through it, in small parts."""
    client = s3_client(stack)
    client.create_bucket(Bucket=faults.BUCKET)
    client.close()
    with S3Proxy(stack.s3) as proxy:
        options = {"endpoint": proxy.endpoint, "multipart.size": "5M", "multipart.threshold": "5M"}
        for name, value in options.items():
            spark.conf.set(f"fs.s3a.bucket.{faults.BUCKET}.{name}", value)
        yield proxy


@pytest.fixture
def s3(proxy: S3Proxy) -> Iterator[S3Proxy]:
    """The proxy, without faults at the beginning and at the end."""
    yield proxy
    proxy.clear()
    proxy.open_port()


@pytest.fixture
def fault_rows(request: pytest.FixtureRequest) -> Iterator[list[faults.Row]]:
    """The lines that a test adds to the matrix; its report takes them along, out of whatever process."""
    rows: list[faults.Row] = []
    yield rows
    request.node.user_properties.extend((_FAULT, row.texts) for row in rows)


@pytest.fixture
def cells(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, fault_rows: list[faults.Row]
) -> dict[str, faults.Cell]:
    """A cell for each kind of batch, not begun yet."""
    return {
        kind: faults.Cell(stack, spark, f"{named}_{kind}", kind, tmp_path / kind, fault_rows) for kind in faults.KINDS
    }


@pytest.fixture(params=faults.KINDS)
def cell(request: pytest.FixtureRequest, cells: dict[str, faults.Cell], named: str, tmp_path: Path) -> faults.Cell:
    """A cell of each kind in turn."""
    return replace(cells[request.param], name=named, folder=tmp_path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="the tests' session is one of a Spark Connect server")
    parser.addoption("--jars", metavar="LIST", help="the tests' session has the jars of this list, not lakeingest's")


def pytest_configure() -> None:
    """Processes that the tests start take Ctrl-C, also where the suite itself runs in the background of a script."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the matrix of the faults that were rehearsed."""
    reports = [
        each for some in terminalreporter.stats.values() for each in some if getattr(each, "when", "") == "teardown"
    ]
    rows = [texts for report in reports for name, texts in report.user_properties if name == _FAULT]
    if rows:
        terminalreporter.section("faults rehearsed")
        for line in faults.shown(rows):
            terminalreporter.write_line(line)


@pytest.fixture
def named(request: pytest.FixtureRequest) -> str:
    """The test's own name, fit for topics, tables and pipelines."""
    return re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_").lower()


@pytest.fixture(autouse=True)
def audited_each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a test with a Spark session audits, it is done by the log, by all files and by Spark, as far as each
    answers: all say the same.
    """
    proof = audit.audit

    def every(reader: PipelineReader, *, deep: bool = False, proved: Collection[int] = ()) -> Report:
        storage = endpoints.addresses(reader.config)[1]
        try:
            report = proof(reader, deep=deep, proved=proved)
        except LakeingestError:
            with pytest.raises(Unreadable):
                proof(FileTables(reader.config, storage))
            raise
        spark, by_files = SparkSession.getActiveSession(), isinstance(reader, FileTables)
        if spark and by_files:
            assert without_files(proof(SparkTables(PipelineTables(spark, reader.config)))) == without_files(report)
        for each in {False, True} - ({deep} if by_files else set()):
            with suppress(Unreadable):
                assert without_files(proof(FileTables(reader.config, storage), deep=each)) == without_files(report)
        return report

    if "unit" not in request.path.parts:
        monkeypatch.setattr(audit, "audit", every)


@pytest.fixture
def lakeingest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process, with the session that is there."""

    def command(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["lakeingest", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(ended.value.code or 0, *capsys.readouterr())  # type: ignore[arg-type]

    return command
