"""`run --listen`: /metrics, /healthz, /readyz and two pages, by HTTP, from a thread of its own."""

from __future__ import annotations

import io
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from lakeingest.errors import SetupError, UsageError
from lakeingest.ingest.events import Event
from lakeingest.ingest.listeners.kept_page import KeptPage
from lakeingest.ingest.listeners.status_page import POLICY, StatusPage

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_ADDRESS = re.compile(r"(?a)(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})")
_ANSWERS_WITHIN_S = 10.0
"""Whoever asks more slowly, or reads a part more slowly, is left."""
_PART = 2**16
"""Bytes that are sent at once."""
_AT_ONCE = 32
"""Connections, with a thread each."""
_MAKES_ROOM_S = 1.0
_PRIVATE = re.compile(r"[\w-]+|[\w.-]+\.(?:localhost|local|internal|svc)")
"""Names that nobody can have in the public DNS: without a dot, or below what is kept for private networks."""
_TEXT = "text/plain; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_FRAMED = "frame-ancestors 'none'"
"""Of the report, whose own policy stands in the page, and cannot say this there."""


_STRANGER = (
    "this server is not known by the host that was asked\n"
    "cure: ask it by its address; or name the host: lakeingest run … --listen HOST:PORT --listen-name NAME\n"
)


class Endpoint:
    """A listener (see `extend.Listener`) that answers by HTTP from its making until it is closed.

    Args:
        address: HOST:PORT, [HOST]:PORT for an IPv6 address; port 0 takes a free one.
        pipelines: those that will run; others may come.
        report: makes the page of `lakeingest report` about them, which /report answers with; it is called by a thread
            of its own, and must leave the run alone. None for no such page.
        names: hosts by which it is asked too, in the public DNS; see `_is_own`.

    Attributes:
        url: where it answers.

    Raises:
        UsageError: the address is none.
        SetupError: the port is taken or not allowed, the host is not this machine's; or prometheus-client is missing.
    """

    def __init__(
        self,
        address: str,
        pipelines: Iterable[str] = (),
        report: Callable[[], str] | None = None,
        names: Iterable[str] = (),
    ) -> None:
        host, port = parsed(address)
        self._names = frozenset(name.lower() for name in (host, socket.gethostname(), *names))
        try:
            from prometheus_client import disable_created_metrics, make_wsgi_app

            from lakeingest.ingest.listeners.metrics import Metrics
        except ImportError as missing:
            raise SetupError(
                "prometheus-client is not installed, and --listen needs it", cure="pip install 'lakeingest[metrics]'"
            ) from missing
        # Half of what is scraped, and Prometheus asks for none of it.
        disable_created_metrics()
        self._metrics, self._page = Metrics(), StatusPage(pipelines, reports=report is not None)
        self._report = KeptPage(report) if report else None
        self._scrape = make_wsgi_app(self._metrics.registry)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            # A class of its own: an address of version 6 needs another family.
            server = type("Server", (_HttpServer,), {"address_family": family})
            self._server: Any = make_server(host, port, self._respond, server, _Quiet)
        except (OSError, UnicodeError) as failed:
            raise SetupError(
                f"--listen {address}: {getattr(failed, 'strerror', None) or failed}",
                cure="name a port that is free (0 takes any), and above 1023 if you are not root, and an address of "
                f"this machine; `ss -ltnp 'sport = :{port}'` says who has it",
            ) from failed
        host_text = f"[{host}]" if family == socket.AF_INET6 else host
        self.url = f"http://{host_text}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def heard(self, pipeline: str, event: Event) -> None:
        self._metrics.heard(pipeline, event)
        self._page.heard(pipeline, event)

    def _respond(self, environ: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        """The answer to GET; for HEAD its status and headers alone."""
        if environ["REQUEST_METHOD"] != "HEAD":
            return self._answer(environ, respond)
        response: list[Any] = []

        def keep(*answer: Any) -> Any:
            response[:] = answer

        body = b"".join(self._answer({**environ, "REQUEST_METHOD": "GET"}, keep))
        status, headers = response
        respond(status, [*(h for h in headers if h[0] != "Content-Length"), ("Content-Length", str(len(body)))])
        return []

    def _answer(self, environ: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        is_own = self._is_own(environ.get("HTTP_HOST", ""))
        if is_own and environ["PATH_INFO"] == "/metrics":
            scraped: Iterable[bytes] = self._scrape(environ, respond)
            return scraped
        pages: dict[str, Callable[[], tuple[str, str, str]]] = {
            "/": lambda: ("200 OK", _HTML, self._page.html()),
            "/healthz": lambda: ("200 OK", _TEXT, "ok\n"),
            "/readyz": self._ready,
        }
        if self._report:
            pages["/report"] = self._report.answer
        if not is_own:
            status, kind, text = "421 Misdirected Request", _TEXT, _STRANGER
        elif environ["REQUEST_METHOD"] != "GET":
            status, kind, text = "405 Method Not Allowed", _TEXT, "only GET and HEAD\n"
        elif environ["PATH_INFO"] in pages:
            status, kind, text = pages[environ["PATH_INFO"]]()
        else:
            status, kind, text = "404 Not Found", _TEXT, f"there are /metrics, {', '.join(pages)}\n"
        body = text.encode()
        framed = environ["PATH_INFO"] == "/report" and kind == _HTML
        respond(
            status,
            [
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Content-Security-Policy", _FRAMED if framed else POLICY),
                ("X-Content-Type-Options", "nosniff"),
                ("Cache-Control", "no-store"),
            ],
        )
        return [body[at : at + _PART] for at in range(0, len(body), _PART)]

    def _is_own(self, host: str) -> bool:
        """Whether a request's Host is a name of this server. A page of another site, whose name leads to this address
        by now (DNS rebinding), would read all that is here through the browser that shows it.

        An address is always its own: what leads to it is no name. So is no Host, which no browser sends.
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if not host or name in self._names or _PRIVATE.fullmatch(name):
            return True
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False

    def _ready(self) -> tuple[str, str, str]:
        if waits := self._page.waits_for:
            return "503 Service Unavailable", _TEXT, f"not ready: {', '.join(waits)}\n"
        return "200 OK", _TEXT, "ok\n"


def parsed(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        UsageError: that is no address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise UsageError(
            f"--listen {address!r} is not HOST:PORT",
            cure="write 127.0.0.1:9464 for this machine alone, 0.0.0.0:9464 for all that reach it, [::1]:9464 for IPv6",
        )
    return match["six"] or match["host"], int(match["port"])


class _HttpServer(ThreadingMixIn, WSGIServer):
    """Answers so many clients at once; of more than these, the one that is there for longest is left."""

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._free = threading.Semaphore(_AT_ONCE)
        self._open: dict[socket.socket, None] = {}
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            for oldest in list(self._open)[:1]:
                self._open.pop(oldest, None)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            if not self._free.acquire(timeout=_MAKES_ROOM_S):
                self.shutdown_request(request)
                return
        self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that resets, or says nothing, is no fault of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Quiet(WSGIRequestHandler):
    timeout = _ANSWERS_WITHIN_S

    def setup(self) -> None:
        super().setup()
        self.wfile = _ClientWriter(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _ClientWriter(io.BufferedIOBase):
    """Sends to a client. One that does not read any more has gone: no traceback is written for that."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._connection.sendall(data)
        except OSError as gone:
            raise ConnectionAbortedError("the client does not read") from gone
        return memoryview(data).nbytes
