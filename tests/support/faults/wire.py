"""A wire that can be hurt: a TCP proxy before anything, Kafka above all.

    with Wire("127.0.0.1", 9092) as wire:
        ...  # run the pipeline with wire.address as its bootstrap server
        wire.cut()

A Kafka client asks the bootstrap server for the brokers' addresses, and goes there: it stays on the wire only if the
broker advertises the wire's own address (`listen_port`).

Toxiproxy, which does the same, is a Go binary that no package on PyPI brings, and it cannot tell one request to S3 from
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from lakeingest.local.addresses import HOST
from lakeingest.testing._loop import Served, paced, reset

_PIECE_BYTES = 2**16


class Wire(Served):
    """A TCP proxy on loopback; connections go through, byte for byte, until it is told otherwise."""

    def __init__(self, host: str, port: int, listen_port: int = 0) -> None:
        """Serve.

        Args:
            host: where the real server is.
            port: its port.
            listen_port: the wire's own; 0 is any free one.

        Raises:
            OSError: `listen_port` is taken.
        """
        self._host, self._port = host, port
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._latency_s = 0.0
        self._bytes_per_second: float | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        super().__init__(self._protocol, listen_port)

    @property
    def address(self) -> str:
        """Where clients find it, as host:port."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return sum(not client.is_closing() for client in tuple(self._clients))

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `mend`."""
        self.run(self._refuse())

    def hang(self) -> None:
        """Accept, but pass nothing on, both ways, until `mend`; a client sees a server that never answers."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def slow(self, latency_s: float = 0.0, bytes_per_second: float | None = None) -> None:
        """From the next piece on: let each piece, of at most 64 KiB, wait so long, and pass at this pace; both ways."""
        self._latency_s, self._bytes_per_second = latency_s, bytes_per_second

    def mend(self) -> None:
        """Be a plain wire again; what hung goes on, and connections that were cut stay cut."""
        self.slow()
        self._loop.call_soon_threadsafe(self._flowing.set)
        self.run(self._listen())

    def _protocol(self) -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=self._loop), self._carry, loop=self._loop)

    def _transports(self) -> list[asyncio.WriteTransport]:
        return [writer.transport for writer in self._writers]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, from its first byte to the last of either side."""
        self._clients.add(writer)
        ends = [writer]
        self._writers.add(writer)
        try:
            if self._refusing:
                raise ConnectionResetError
            await self._flowing.wait()
            answers, requests = await asyncio.open_connection(self._host, self._port)
            ends.append(requests)
            self._writers.add(requests)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pass(reader, requests))
                ways.create_task(self._pass(answers, writer))
        except* OSError:
            for end in ends:
                reset(end.transport)
        finally:
            self._clients.discard(writer)
            for end in ends:
                self._writers.discard(end)
                end.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One way of a connection. That one side has said all does not end the other way."""
        while piece := await reader.read(_PIECE_BYTES):
            await self._wait()
            if self._bytes_per_second is None:
                writer.write(piece)
            else:
                async for part in paced(_once(piece), self._bytes_per_second):
                    writer.write(part)
            await writer.drain()
        await self._wait()
        with suppress(OSError):
            writer.write_eof()

    async def _wait(self) -> None:
        await self._flowing.wait()
        await asyncio.sleep(self._latency_s)


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece
