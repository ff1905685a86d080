"""What tests of records with schemas share: producers that register what they write, and records framed by hand.

The payloads are made by fastavro, json and protobuf, which owe lakeingest nothing.
"""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from fastavro.types import Schema as AvroSchema

from lakeingest.local import Addresses

Tree = dict[str, Any]


def record(name: str, /, **fields: Any) -> Tree:
    """An Avro record; a field's type stands for itself, a pair is a type and a default."""
    listed = [
        {"name": field, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": field, "type": kind}
        for field, kind in fields.items()
    ]
    return {"type": "record", "name": name, "namespace": "x", "fields": listed}


def maybe(kind: Any) -> tuple[Any, None]:
    """An optional type whose default is null."""
    return ["null", kind], None


def json_schema(*, required: Sequence[str] = (), **fields: Any) -> Tree:
    """A JSON Schema of an object; a field's type is a word or a schema."""
    properties = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in fields.items()}
    named = "http://json-schema.org/draft-07/schema#"
    return {"$schema": named, "type": "object", "properties": properties, "required": list(required)}


@cache
def client(stack: Addresses) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": stack.registry})


def register(
    stack: Addresses, subject: str, text: str, kind: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
) -> int:
    """Register a schema as the subject's next version, which need not fit those before it, and tell its id."""
    return client(stack).register_schema(subject, Schema(text, kind, [SchemaReference(*each) for each in references]))


def header(id_: int) -> bytes:
    return b"\0" + id_.to_bytes(4, "big")


@dataclass(frozen=True)
class Avro:
    """An Avro schema that a producer writes with.

    Attributes:
        id: the registry's; None for plain records.
        named: the types that the schema refers to.
    """

    tree: Any
    id: int | None = None
    named: tuple[Tree, ...] = ()

    @cached_property
    def _parsed(self) -> AvroSchema:
        known: dict[str, Any] = {}
        for each in self.named:
            fastavro.parse_schema(each, known)
        return fastavro.parse_schema(self.tree, known)

    def payload(self, value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, value)
        return out.getvalue()

    def __call__(self, value: Any = None, **fields: Any) -> bytes:
        """A record as it lies in Kafka."""
        return (b"" if self.id is None else header(self.id)) + self.payload(fields if value is None else value)


def avro(stack: Addresses, subject: str, tree: Any, references: Mapping[str, tuple[Tree, str, int]] = {}) -> Avro:
    """A producer whose schema is registered; references: name → (tree, subject, version)."""
    listed = [(name, subject_, version) for name, (_, subject_, version) in references.items()]
    id_ = register(stack, subject, json.dumps(tree), "AVRO", listed)
    return Avro(tree, id_, tuple(tree_ for tree_, _, _ in references.values()))


def zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    number, out = (number << 1) ^ (number >> 63), b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


class Proxy:
    """A line to the registry that can be cut: connections to it are refused then."""

    def __init__(self, behind: str) -> None:
        self._parts = urlsplit(behind)
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self._parts.path}"

    def up(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def down(self) -> None:
        assert self._server is not None
        # Closing alone does not wake the thread that accepts.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection((self._parts.hostname or "", self._parts.port or 80))
            self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pour, args=(one, other), daemon=True).start()


def _pour(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


@contextmanager
def proxied(stack: Addresses | str) -> Iterator[Proxy]:
    """To the stack's registry, or to a server of this URL."""
    proxy = Proxy(stack if isinstance(stack, str) else stack.registry)
    try:
        yield proxy
    finally:
        with suppress(OSError):
            proxy.down()
