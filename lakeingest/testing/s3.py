"""An S3 that can be hurt: a proxy before the object store, that tells S3's requests apart and spoils those you choose.

    with S3Proxy("http://127.0.0.1:8333") as s3:
        commits = s3.fault(lambda r: r.kind == "PUT" and "_delta_log/" in r.key, lose_answer(), times=1)
        ...  # run the pipeline with s3.endpoint as its storage endpoint
        assert commits.hits == 1

What no fault is for goes through byte for byte: path, query and headers as they were signed (the Host too, which is
the proxy's own), bodies as they come, in bounded memory. Addresses are path-style. An act is what a fault does; the
acts are below, and one of your own is a coroutine function that takes an `Exchange`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from lakeingest.local.addresses import HOST
from lakeingest.testing._exchange import Exchange, Kind, Request
from lakeingest.testing._loop import Served, paced

__all__ = [
    "Act",
    "Exchange",
    "Fault",
    "Kind",
    "Request",
    "Rule",
    "S3Proxy",
    "call_after",
    "call_before",
    "call_instead",
    "cut",
    "denied",
    "expired",
    "half_answer",
    "hang",
    "internal_error",
    "lose_answer",
    "slow",
    "slow_down",
]

_LONGEST_LINE = 2**16


Act = Callable[[Exchange], Awaitable[web.StreamResponse]]
Rule = Callable[[Request], bool]
"""Asked on the proxy's own thread, for every request: it must answer at once."""


@dataclass(eq=False)
class Fault:
    """A rule and what happens to the requests that it holds for."""

    when: Rule
    act: Act
    times: int | None
    skip: int
    hits: int = 0
    """The number of times that it acted."""
    lifted: bool = False

    def lift(self) -> None:
        """Act no more; what is being done to a request is done to its end."""
        self.lifted = True

    def takes(self, request: Request) -> bool:
        """Whether it acts on this request, which then counts."""
        if self.lifted or (self.times is not None and self.hits >= self.times) or not self.when(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.hits += 1
        return True


class S3Proxy(Served):
    """A proxy on loopback before an S3 server.

    A rule, an act or a `call_…` that raises is a bug of the rehearsal: the client gets a 500, and the end of the `with`
    block raises the first of them.
    """

    def __init__(self, upstream: str) -> None:
        """Serve.

        Args:
            upstream: the real store's endpoint, as http://host:port.
        """
        self.seen: Counter[str] = Counter()
        """The number of requests by kind, those that were spoilt included."""
        self._upstream = upstream.rstrip("/")
        self._faults: list[Fault] = []
        self._lock = threading.RLock()
        self._bugs: list[Exception] = []
        self._server: web.Server | None = None
        self._session: ClientSession | None = None
        super().__init__(self._protocol)

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://{HOST}:{self.port}"

    def fault(self, when: Rule, act: Act, times: int | None = None, skip: int = 0) -> Fault:
        """Spoil the requests that `when` holds for; of several faults the first that is not used up acts.

        Args:
            times: how many requests it spoils; None is all.
            skip: how many it lets through before, which are left to later faults.
        """
        fault = Fault(when, act, times, skip)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Lift all faults."""
        with self._lock:
            for fault in self._faults:
                fault.lift()
            self._faults.clear()

    def close_port(self) -> None:
        """Be as a server that is down: all connections are reset, and connecting is refused until `open_port`."""
        self.run(self._refuse())

    def open_port(self) -> None:
        """Listen again, on the same port; what is listening already stays."""
        self.run(self._listen())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        if self._bugs and error is None:
            raise self._bugs[0]

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._server is None:
            self._server = web.Server(
                self._handle,
                handler_cancellation=True,
                auto_decompress=False,
                access_log=None,
                max_line_size=_LONGEST_LINE,
                max_field_size=_LONGEST_LINE,
            )
        return self._server()

    def _transports(self) -> list[asyncio.WriteTransport]:
        connections = self._server.connections if self._server else []
        return [each.transport for each in connections if each.transport is not None]

    async def _end(self) -> None:
        await super()._end()
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        if self._session is None:
            self._session = ClientSession(
                # Shorter than a server's patience with an idle connection, so that none is lost under a request.
                connector=TCPConnector(limit=0, keepalive_timeout=2),
                timeout=ClientTimeout(),
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                max_line_size=_LONGEST_LINE,
                max_field_size=_LONGEST_LINE,
            )
        exchange = Exchange(raw, self._upstream, self._session)
        if self._refusing:
            return exchange.reset()
        try:
            await exchange.look()
            return await self._act_on(exchange.request)(exchange)
        except (ClientError, ConnectionError, web.RequestPayloadError):
            # The store or the client went away, which either side is to see as it would without a proxy.
            return exchange.reset()
        except Exception as bug:
            self._bugs.append(bug)
            return await exchange.refuse(500, "InternalError", f"{type(bug).__name__}: {bug}")

    def _act_on(self, request: Request) -> Act:
        with self._lock:
            self.seen[request.kind] += 1
            return next((fault.act for fault in self._faults if fault.takes(request)), _pass)


async def _pass(exchange: Exchange) -> web.StreamResponse:
    async with exchange.forward() as answer:
        return await exchange.pass_on(answer)


def slow_down() -> Act:
    """503 SlowDown, "Please reduce your request rate.": S3 under load. Clients try again, more slowly."""
    return lambda exchange: exchange.refuse(503, "SlowDown", "Please reduce your request rate.")


def internal_error() -> Act:
    """500 InternalError, "We encountered an internal error. Please try again.", which clients do."""
    return lambda exchange: exchange.refuse(500, "InternalError", "We encountered an internal error. Please try again.")


def denied() -> Act:
    """403 AccessDenied: a right that was taken away. Clients give up."""
    return lambda exchange: exchange.refuse(403, "AccessDenied", "Access Denied")


def expired() -> Act:
    """400 ExpiredToken: temporary credentials past their time. A HEAD sees 400 alone, as with S3."""
    return lambda exchange: exchange.refuse(400, "ExpiredToken", "The provided token has expired.")


def cut() -> Act:
    """The connection is reset before any answer, and the store hears nothing."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        return exchange.reset()

    return act


def hang(seconds: float) -> Act:
    """Nothing happens for so long; then all goes on as if nothing had been, unless the client has gone."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await _pass(exchange)

    return act


def slow(bytes_per_second: float) -> Act:
    """The request's body reaches the store, and the answer's the client, at this pace; all of it arrives."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        async with exchange.forward(bytes_per_second) as answer:
            return await exchange.pass_on(answer, paced(answer.content.iter_any(), bytes_per_second))

    return act


def lose_answer() -> Act:
    """The store does what it is asked, and the connection is reset before any answer: did it happen or not?"""

    async def act(exchange: Exchange) -> web.StreamResponse:
        async with exchange.forward() as answer:
            await _done(answer)
        return exchange.reset()

    return act


def half_answer() -> Act:
    """The answer's headers and half its body, then the end of the connection; an answer without body comes whole."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        async with exchange.forward() as answer:
            return await exchange.pass_on(answer, _half(answer), whole=False)

    return act


def call_before(call: Callable[[], object]) -> Act:
    """`call` runs in a thread, then all goes on."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await asyncio.to_thread(call)
        return await _pass(exchange)

    return act


def call_instead(call: Callable[[], object]) -> Act:
    """`call`, which may end the client, runs in a thread; the connection is reset, and the store hears nothing."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await asyncio.to_thread(call)
        return exchange.reset()

    return act


def call_after(call: Callable[[], object]) -> Act:
    """The store does what it is asked, then `call` runs in a thread, then a client that is still there is answered."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        async with exchange.forward() as answer:
            body = await _done(answer)
            await asyncio.to_thread(call)
            return await exchange.pass_on(answer, body)

    return act


async def _done(answer: ClientResponse) -> AsyncIterator[bytes] | None:
    """Wait until the store has done what it was asked; the body, where that had to be read."""
    return None if answer.method in {"GET", "HEAD"} else _once(await answer.read())


async def _half(answer: ClientResponse) -> AsyncIterator[bytes]:
    if answer.content_length is None:
        body = await answer.read()
        yield body[: len(body) // 2]
        return
    remaining = answer.content_length // 2
    while remaining and (piece := await answer.content.read(remaining)):
        yield piece
        remaining -= len(piece)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
