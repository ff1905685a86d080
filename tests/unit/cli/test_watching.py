"""Who watches a run: which log there is, what is told of a failure, and how long an endpoint stays behind one."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lakeingest.cli import app, fleet, watching
from lakeingest.cli.fleet import Board
from lakeingest.cli.output import Output
from lakeingest.cli.watching import Watch, watched
from lakeingest.errors import SetupError, StorageUnreachable, UsageError
from lakeingest.ingest.events import Ended, Event, Looked
from lakeingest.ingest.listeners import endpoint
from lakeingest.operations.results.fleet import Outcome, Outcomes
from lakeingest.spark import session

DOWN = StorageUnreachable("the store is down", cure="look at it")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Heard:
    """Instead of an endpoint."""

    url = "http://here"

    def __init__(self) -> None:
        self.events: list[Event] = []

    def heard(self, pipeline: str, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize(
    ("format", "terminal", "logs"),
    [
        (None, False, True),
        (None, True, False),
        ("none", False, False),
        ("text", True, True),
        ("json", True, True),
    ],
)
def test_where_there_is_a_log(monkeypatch: pytest.MonkeyPatch, format: str | None, terminal: bool, logs: bool) -> None:
    """Where stderr is no terminal, or one was asked for; then no line is redrawn, and none goes to stdout."""
    monkeypatch.setattr(sys, "stderr", err := Terminal() if terminal else io.StringIO())
    with watched(format, None, ["p"]) as watch:
        watch.says("starting Spark …")
        watch.heard("p", Looked(1, 2, 3))
        assert watch.logs is logs
        assert watch.shows_live(Output()) is (terminal and not logs)
    assert len(err.getvalue().splitlines()) == (2 if logs else 0)


def test_no_such_format() -> None:
    with pytest.raises(UsageError, match='--log-format "xml" is not a format'), watched("xml", None, []):
        pass


def test_an_address_that_is_none_is_told_before_anything_starts(tmp_path: Path) -> None:
    """With its cure."""
    (tmp_path / "p.yaml").write_text(
        "{name: p, source: {topics: [t], bootstrap_servers: 'h:1'}, table: {path: /t}, schema: {columns: n INT}}"
    )
    said = CliRunner().invoke(app, ["run", str(tmp_path / "p.yaml"), "--listen", "9464"])
    assert isinstance(said.exception, UsageError)
    assert "write 127.0.0.1:9464" in said.exception.cure


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["a pipeline", "a fleet"])
def test_a_run_links_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """Of its pipelines; here there is no Java, so that the run itself ends at once."""
    apps: list[Any] = []

    def make_server(host: str, port: int, app: Any, *_: Any) -> Any:
        apps.append(app)
        nothing = dict.fromkeys(("serve_forever", "shutdown", "server_close"), lambda: None)
        return SimpleNamespace(server_port=1, **nothing)

    def no_java(*_: Any, **_options: Any) -> None:
        raise SetupError("there is no Java", cure="install it")

    monkeypatch.setattr(session, "attach", no_java)
    monkeypatch.setattr(endpoint, "make_server", make_server)
    monkeypatch.setattr(subprocess, "run", lambda command, **given: handed(pickle.loads(given["input"])))
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(
            f"{{name: {name}, source: {{topics: [{name}], bootstrap_servers: 'h:1'}}, table: {{path: /t/{name}}}, "
            "schema: {columns: n INT}}"
        )
    asked = [str(tmp_path / "one.yaml")] if len(names) == 1 else [str(tmp_path)]
    said = CliRunner().invoke(app, ["run", *asked, "--listen", "127.0.0.1:0", "--log-format", "none"])
    assert isinstance(said.exception, SetupError), said.output
    shown = [apps[0]({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *_: None) for path in ("/", "/report")]
    status, page = (b"".join(each).decode() for each in shown)
    assert '<a href="report">' in status
    assert page == " ".join(names)


def handed(configs: list[Any]) -> Any:
    """Instead of the process that makes the page."""
    return SimpleNamespace(returncode=0, stdout=" ".join(each.name for each in configs).encode())


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failure_is_told_once(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON the log has it, and nothing else but the exit code; whoever waits for a document on stdout gets one."""
    endpoint: Any = Heard()
    watch = Watch(None, endpoint, as_json=as_json)
    Output.of("json")
    with pytest.raises((typer.Exit, StorageUnreachable)) as ended, watch.failing("p"):
        raise DOWN
    assert endpoint.events == [Ended(DOWN)]
    if as_json:
        assert isinstance(ended.value, typer.Exit)
        assert (ended.value.exit_code, json.loads(capsys.readouterr().out)["cure"]) == (4, "look at it")


def test_a_failure_that_the_run_has_told_is_not_told_again() -> None:
    endpoint: Any = Heard()
    watch = Watch(None, endpoint)
    watch.heard("p", Ended(DOWN, commits=3))
    with pytest.raises(StorageUnreachable), watch.failing("p"):
        raise DOWN
    assert endpoint.events == [Ended(DOWN, commits=3)]


@pytest.mark.parametrize(
    ("failure", "terminal", "stays"), [(DOWN, False, True), (DOWN, True, False), (None, False, False)]
)
def test_the_endpoint_of_a_run_that_failed_stays(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | None, terminal: bool, stays: bool
) -> None:
    """So that Prometheus sees it; not where somebody waits for the terminal, nor where nothing failed."""
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    waits: list[float] = []
    watch = Watch(None, Heard())  # type: ignore[arg-type]
    with watch.lingering(SimpleNamespace(wait=waits.append)):  # type: ignore[arg-type]
        watch.heard("p", Ended(failure))
    assert waits == [watching.LINGERS_S] * stays


def test_sigterm_ends_the_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    watch, stop = Watch(None, Heard()), threading.Event()  # type: ignore[arg-type]
    threading.Timer(0.1, stop.set).start()
    begun = time.monotonic()
    with watch.lingering(stop):
        watch.heard("p", Ended(DOWN))
    assert time.monotonic() - begun < 10


def test_a_fleet_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    """Each event of each pipeline; errors that a log has for programs are not written beside it."""
    endpoint: Any = Heard()
    board = Board(Output(), Watch(None, endpoint))
    board.take("a", Looked(1, 2, 3))
    board.take("b", Ended(DOWN))
    assert endpoint.events == [Looked(1, 2, 3), Ended(DOWN)]
    capsys.readouterr()
    for told in (True, False):
        with pytest.raises(typer.Exit):
            fleet._tell(Output(), Outcomes([Outcome(DOWN, pipeline="b")]), logged=told)
        assert ("error (storage)" in capsys.readouterr().err) is not told
