"""The probes of the manifests ask for what a run answers."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from lakeingest.ingest.listeners import endpoint as module
from lakeingest.ingest.listeners.endpoint import Endpoint

KUBERNETES = Path(__file__).resolve().parents[2] / "infra" / "kubernetes"


def probes(found: Any) -> Iterator[tuple[str, Any]]:
    """Each probe, wherever it stands in a manifest."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name.endswith("Probe"):
                yield name, value
            else:
                yield from probes(value)
    elif isinstance(found, list):
        for each in found:
            yield from probes(each)


def answer(path: str) -> int:
    """The status of a run that has not looked for records yet."""
    endpoint = Endpoint("127.0.0.1:0", ["flights"])
    try:
        with urllib.request.urlopen(endpoint.url + path, timeout=60) as got:
            return int(got.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
    finally:
        endpoint.close()


def test_each_probe_is_answered() -> None:
    """Alive from the first second, ready later; a path that nobody serves would be 404."""
    manifest = next(YAML(typ="safe").load_all(KUBERNETES / "deployment.yaml"))
    asked = {name: probe["httpGet"]["path"] for name, probe in probes(manifest)}
    assert asked.keys() == {"startupProbe", "livenessProbe", "readinessProbe"}
    answers = {name: answer(path) for name, path in asked.items()}
    assert answers == {"startupProbe": 200, "livenessProbe": 200, "readinessProbe": 503}
    assert answer("/healthy") == 404


def test_clients_that_go_leave_no_word(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that resets, idles, or sends half a request, wrote a traceback each: a health check by TCP fills the log."""
    monkeypatch.setattr(module._Quiet, "timeout", 0.2)
    endpoint = Endpoint("127.0.0.1:0", ["flights"])
    try:
        for begun in (b"", b"GET /metrics", b"GET /metrics HTTP/1.1\r\nHost: x", b"GET /metrics HTTP/1.0\r\n\r\n"):
            for reset in (False, True):
                with connected(endpoint) as client:
                    client.sendall(begun)
                    if reset:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        client.close()
                    time.sleep(0.3)
    finally:
        endpoint.close()
    assert capfd.readouterr().err == ""


def test_as_many_as_come_are_some_threads() -> None:
    """Each connection had a thread of its own, without a bound; whoever asks is answered all the same."""
    endpoint = Endpoint("127.0.0.1:0", ["flights"])
    before = threading.active_count()
    try:
        with ExitStack() as idle:
            for _ in range(module._AT_ONCE * 3):
                idle.enter_context(connected(endpoint))
            with urllib.request.urlopen(f"{endpoint.url}/healthz", timeout=5) as got:
                assert got.read() == b"ok\n"
            assert threading.active_count() - before <= module._AT_ONCE
    finally:
        endpoint.close()


def connected(endpoint: Endpoint) -> socket.socket:
    host, _, port = endpoint.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=5)
