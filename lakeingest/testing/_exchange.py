"""One request to S3 on its way through the proxy, and its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from aiohttp import ClientResponse, ClientSession, web
from multidict import CIMultiDict
from yarl import URL

from lakeingest.testing._loop import paced, reset

Kind = Literal["PUT", "MULTIPART_CREATE", "PART", "COMPLETE", "ABORT", "LIST", "HEAD", "GET", "DELETE", "DELETE_MANY"]
_KINDS: Mapping[str, tuple[Kind, Kind]] = {
    "PUT": ("PUT", "PART"),
    "POST": ("MULTIPART_CREATE", "COMPLETE"),
    "GET": ("GET", "LIST"),
    "HEAD": ("HEAD", "HEAD"),
    "DELETE": ("DELETE", "ABORT"),
}
"""Method → what it is without and with the id of an upload."""
_TEXT_BYTES = 2**22
_PER_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True)
class Request:
    """One request as a rule sees it."""

    method: str
    bucket: str
    key: str
    """Decoded; "" where the request is for the bucket."""
    query: Mapping[str, str]
    kind: Kind
    """PUT is also a copy; LIST is every GET without a key, and that of an upload's parts."""
    size: int
    """Bytes of the body as they are sent, with the frames of aws-chunked; 0 where the client does not say."""
    text: str = field(default="", repr=False)
    """A Delta commit's lines (PUT of …_delta_log/….json of at most 4 MiB), else ""."""
    access_key: str = ""
    """The id of the key that signed it; "" where nobody did."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What else it says, by names in lower case: x-amz-server-side-encryption, …"""


class Exchange:
    """A request and its answer: what an act works with."""

    def __init__(self, raw: web.BaseRequest, upstream: str, session: ClientSession) -> None:
        self.request = _request(raw)
        self._raw = raw
        self._url = URL(upstream + raw.raw_path, encoded=True)
        self._session = session
        self._transport = raw.transport
        self._first_bytes = b""
        self._withheld = raw.headers.get("Expect", "").lower() == "100-continue"

    async def look(self) -> None:
        """Read what a rule may look into."""
        request = self.request
        if request.kind == "PUT" and "_delta_log/" in request.key and request.key.endswith(".json"):
            self._first_bytes = b"".join([piece async for piece in self._body(_TEXT_BYTES + 1)])
            if len(self._first_bytes) <= _TEXT_BYTES:
                self.request = _request(self._raw, _unframed(self._raw, self._first_bytes).decode(errors="replace"))

    @asynccontextmanager
    async def forward(self, bytes_per_second: float | None = None) -> AsyncIterator[ClientResponse]:
        """Send the request to the store; within, the store has answered, and the answer's body can be read."""
        headers = CIMultiDict(self._raw.headers)
        headers.pop("Transfer-Encoding", None)
        body = self._body() if bytes_per_second is None else paced(self._body(), bytes_per_second)
        async with self._session.request(
            self._raw.method,
            self._url,
            headers=headers,
            data=body if self._raw.body_exists else None,
            allow_redirects=False,
        ) as answer:
            yield answer

    async def pass_on(
        self, answer: ClientResponse, body: AsyncIterator[bytes] | None = None, whole: bool = True
    ) -> web.StreamResponse:
        """Give the client the store's answer.

        Args:
            body: instead of what can be read from `answer`.
            whole: False where `body` is less than the headers promise; the connection ends after it.
        """
        passed = web.StreamResponse(status=answer.status, reason=answer.reason)
        passed.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in _PER_HOP)
        if self._withheld:
            # Nobody asked for the body, and so nobody can say where on this connection the next request begins.
            passed.force_close()
        await passed.prepare(self._raw)
        async for piece in answer.content.iter_any() if body is None else body:
            await passed.write(piece)
        if not whole and self._transport is not None:
            # Not a reset, with which the client could lose what it is to see.
            self._transport.close()
        return passed

    async def refuse(self, status: int, code: str, message: str) -> web.StreamResponse:
        """Answer with an error as S3 words it; the store hears nothing."""
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{escape(message)}</Message>'
            f"<Resource>{escape(unquote(self._url.raw_path))}</Resource><RequestId>REHEARSAL</RequestId></Error>"
        )
        refusal = web.Response(status=status, text=text, content_type="application/xml")
        refusal.headers["x-amz-request-id"] = "REHEARSAL"
        if self._withheld:
            refusal.force_close()
        else:
            async for _ in self._raw.content.iter_any():
                pass
        return refusal

    def reset(self) -> web.StreamResponse:
        """Reset the client's connection; what is returned reaches nobody."""
        reset(self._transport)
        return web.Response()

    async def _body(self, enough: int | None = None) -> AsyncIterator[bytes]:
        """What is left of the body, from the moment that somebody wants it; stops at `enough` bytes or a bit more."""
        if self._withheld and self._transport is not None:
            self._withheld = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._first_bytes:
            yield self._first_bytes
            self._first_bytes = b""
        total = 0
        while (enough is None or total < enough) and (piece := await self._raw.content.readany()):
            yield piece
            total += len(piece)


def _request(raw: web.BaseRequest, text: str = "") -> Request:
    path, _, query_string = raw.raw_path.partition("?")
    bucket, _, key = path.lstrip("/").partition("/")
    query = dict(parse_qsl(query_string, keep_blank_values=True))
    kind = _kind(raw.method, key, query)
    signed = raw.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
    headers = {name.lower(): value for name, value in raw.headers.items()}
    return Request(
        raw.method, unquote(bucket), unquote(key), query, kind, raw.content_length or 0, text, signed, headers
    )


def _kind(method: str, key: str, query: Mapping[str, str]) -> Kind:
    if method == "POST" and "delete" in query:
        return "DELETE_MANY"
    if method == "GET" and not key:
        return "LIST"
    return _KINDS.get(method, _KINDS["GET"])["uploadId" in query]


def _unframed(raw: web.BaseRequest, body: bytes) -> bytes:
    """The content of an aws-chunked body: `size;signature CRLF bytes CRLF`, until size 0; a plain body as it is."""
    if "aws-chunked" not in raw.headers.get("Content-Encoding", ""):
        return body
    content = b""
    while body:
        head, _, rest = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if size == 0:
            break
        content, body = content + rest[:size], rest[size + 2 :]
    return content
