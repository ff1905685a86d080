"""A loopback port that an asyncio loop serves in a daemon thread of its own, and that can be closed for a while."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from lakeingest.local.addresses import HOST

T = TypeVar("T")
Protocols = Callable[[], asyncio.BaseProtocol]
_SHARED = socket.SO_REUSEADDR if sys.platform == "linux" else socket.SO_REUSEPORT
"""What lets the reserving and the listening socket have one port."""


class Served:
    """What a proxy is: a port, a loop, a thread. Served from the first moment until `close`."""

    def __init__(self, protocols: Protocols, listen_port: int = 0) -> None:
        """Listen.

        Args:
            protocols: makes one protocol per connection; called on the loop.
            listen_port: 0 is any free port.

        Raises:
            OSError: the port is taken.
        """
        # Bound and never listening: while the port is closed, nobody else can be given it.
        self._reserved = _bound(listen_port)
        self.port: int = self._reserved.getsockname()[1]
        self._protocols = protocols
        self._listener: asyncio.Server | None = None
        self._refusing = False
        """Also tells connections off that were accepted, but not yet begun, when the port was closed."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        self.run(self._listen())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the loop, from any other thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End all connections and the thread, at once. A second time does nothing."""
        if self._loop.is_closed():
            return
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reserved.close()

    async def _listen(self) -> None:
        self._refusing = False
        if self._listener is None:
            self._listener = await self._loop.create_server(self._protocols, sock=_bound(self.port))

    async def _refuse(self) -> None:
        """From now on connecting is refused, and all connections are reset."""
        self._refusing = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for transport in self._transports():
            reset(transport)
        await asyncio.sleep(0)

    def _transports(self) -> list[asyncio.WriteTransport]:
        """Those of all connections that are open now."""
        raise NotImplementedError

    async def _end(self) -> None:
        await self._refuse()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await asyncio.sleep(0)


def reset(transport: asyncio.BaseTransport | None) -> None:
    """End the connection with a reset, not with an end of file; what was not yet sent is dropped."""
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, _SHARED, 1)
        bound.bind((HOST, port))
    except BaseException:
        bound.close()
        raise
    return bound


async def paced(pieces: AsyncIterator[bytes], bytes_per_second: float) -> AsyncIterator[bytes]:
    """The same bytes at that pace, evenly: about twenty pieces a second."""
    step = max(1, int(bytes_per_second / 20))
    async for piece in pieces:
        for begin in range(0, len(piece), step):
            part = piece[begin : begin + step]
            await asyncio.sleep(len(part) / bytes_per_second)
            yield part
