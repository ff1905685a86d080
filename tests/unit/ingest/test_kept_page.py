"""The endpoint's report: who makes it, how often, and what is answered where it cannot be made. No port is opened."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from lakeingest.errors import SetupError
from lakeingest.ingest.listeners import endpoint
from lakeingest.ingest.listeners.endpoint import Endpoint
from lakeingest.ingest.listeners.kept_page import KeptPage
from lakeingest.ingest.listeners.log import Log
from lakeingest.ingest.listeners.status_page import POLICY

PAGE = "<!DOCTYPE html><p>é</p>"
MISSING = SetupError("altair\x1b[2J is not installed", cure="pip install 'lakeingest[report]'")


class Asked:
    """An endpoint that is asked without a socket."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, report: Callable[[], str] | None, *names: str) -> None:
        server = SimpleNamespace(server_port=1, serve_forever=lambda: None, shutdown=lambda: None)
        server.server_close = lambda: None
        monkeypatch.setattr(endpoint, "make_server", lambda *_: server)
        self.endpoint = Endpoint("127.0.0.1:0", ["p"], report, names)

    def get(self, path: str, method: str = "GET", **more: str) -> tuple[str, dict[str, str], str]:
        """Status, headers and body."""
        said: dict[str, tuple[str, dict[str, str]]] = {}

        def respond(status: str, headers: list[tuple[str, str]]) -> None:
            said["it"] = (status, dict(headers))

        asked = {"PATH_INFO": path, "REQUEST_METHOD": method, **more}
        body = b"".join(self.endpoint._respond(asked, respond))  # type: ignore
        return *said["it"], body.decode()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch, lambda: PAGE)


def test_the_report_brings_its_own_policy(asked: Asked) -> None:
    """That of the status page would stop its scripts; nobody may frame either."""
    status, headers, body = asked.get("/report")
    assert (status, body) == ("200 OK", PAGE)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Content-Length"] == str(len(PAGE.encode()))
    assert headers["Cache-Control"] == "no-store"


def test_the_status_page_links_to_it_and_stays_strict(asked: Asked) -> None:
    _, headers, body = asked.get("/")
    assert '<a href="report">' in body
    assert headers["Content-Security-Policy"] == POLICY
    assert "unsafe-eval" not in POLICY


def test_without_a_report_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, None)
    assert 'href="report"' not in asked.get("/")[2]
    assert asked.get("/report")[0] == "404 Not Found"


def test_what_is_there_is_named(asked: Asked) -> None:
    assert asked.get("/nothing")[2] == "there are /metrics, /, /healthz, /readyz, /report\n"


def test_a_head_has_no_body_and_nothing_is_changed(asked: Asked) -> None:
    assert asked.get("/report", "HEAD")[::2] == ("200 OK", "")
    assert asked.get("/report", "POST")[0] == "405 Method Not Allowed"


def test_a_head_of_any_page_has_the_headers_of_its_get(asked: Asked) -> None:
    """That of /metrics was refused: prometheus-client knows GET alone."""
    for path in ("/metrics", "/", "/readyz", "/report", "/nothing"):
        status, headers, body = asked.get(path)
        head_status, head, nothing = asked.get(path, "HEAD")
        length = int(head.pop("Content-Length"))
        assert headers.pop("Content-Length", "") in ("", str(length))
        assert (head_status, head, nothing) == (status, headers, "")
        # /metrics counts the seconds of the processor.
        assert length == len(body.encode()) or path == "/metrics"


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        *((host, True) for host in ("", "127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "10.0.0.7", "localhost:1")),
        *(
            (host, True)
            for host in ("LOCALHOST.", "lakeingest:9464", "lakeingest.ingest.svc:80", "a.svc.cluster.local")
        ),
        *((host, True) for host in ("ingest.internal", "lake.example.com", "Lake.Example.com:443")),
        *((host, False) for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9464")),
        *((host, False) for host in ("evil.example,localhost", "[::1", "a b", "evil.example#.local", "x@evil.example")),
    ],
)
def test_a_page_of_another_site_reads_nothing(monkeypatch: pytest.MonkeyPatch, host: str, *, answered: bool) -> None:
    """Each Host was answered: a name that leads to this address by now (DNS rebinding) let a page read all."""
    asked = Asked(monkeypatch, lambda: PAGE, "lake.example.com")
    for path in ("/", "/metrics", "/readyz", "/report"):
        status, _, body = asked.get(path, HTTP_HOST=host)
        assert (status != "421 Misdirected Request") is answered
        assert ("--listen-name" in body) is not answered


def fails(failure: Exception) -> Callable[[], str]:
    def make() -> str:
        raise failure

    return make


def test_what_is_missing_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain text, under the strict policy; a later request tries again."""
    status, headers, body = Asked(monkeypatch, fails(MISSING)).get("/report")
    assert status == "503 Service Unavailable"
    assert body == "altair\\x1b[2J is not installed\npip install 'lakeingest[report]'\n"
    assert (headers["Content-Type"], headers["Content-Security-Policy"]) == ("text/plain; charset=utf-8", POLICY)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    said: list[str] = []
    log = Log("json", said.append)
    yield said
    log.close()


def test_a_fault_of_ours_is_logged_and_not_shown(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    status, _, body = Asked(monkeypatch, fails(KeyError("a secret"))).get("/report")
    assert status == "500 Internal Server Error"
    assert "secret" not in body
    assert "Traceback" not in body
    assert json.loads(lines[0])["level"] == "ERROR"
    assert "a secret" in lines[0]


class Slow:
    """A page that takes as long as a test wants, and counts how often it is made."""

    def __init__(self) -> None:
        self.made, self.go = 0, threading.Event()
        self.begun = threading.Event()

    def __call__(self) -> str:
        self.made += 1
        self.begun.set()
        assert self.go.wait(10)
        return f"page {self.made}"


def test_two_at_once_make_one_page() -> None:
    """And whoever comes within the time gets it too."""
    slow = Slow()
    page = KeptPage(slow)
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(page.answer) for _ in range(5)]
        slow.begun.wait(10)
        slow.go.set()
        assert {each.result()[2] for each in asked} == {"page 1"}
    assert page.answer()[2] == "page 1"
    assert slow.made == 1


def test_it_is_made_again_when_it_is_old() -> None:
    slow = Slow()
    slow.go.set()
    page = KeptPage(slow, kept_s=0.05)
    page.answer()
    time.sleep(0.1)
    assert page.answer()[2] == "page 2"


def test_an_old_page_is_not_shown_for_a_new_one() -> None:
    """Where the tables cannot be read any more, that is told."""
    pages = iter([PAGE, MISSING, PAGE])

    def make() -> str:
        page = next(pages)
        return page if isinstance(page, str) else fails(page)()

    page = KeptPage(make, kept_s=0)
    assert [page.answer()[0][:3] for _ in range(3)] == ["200", "503", "200"]


def test_nobody_waits_for_ever() -> None:
    """While a page is made that does not come to its end, others are told."""
    slow = Slow()
    page = KeptPage(slow, waits_s=0.05)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(page.answer)
        slow.begun.wait(10)
        status, _, body = page.answer()
        assert status == "503 Service Unavailable"
        assert re.match("the page is being made", body)
        slow.go.set()
        assert first.result()[0] == "200 OK"
