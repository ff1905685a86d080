"""Avro payloads with JSON text in place of the parts that no typed column can hold. Executors run it, alone.

What is copied is read as any other payload. What Spark's reader of Avro cannot read (a record within itself, a union
with two branches of one name) is no part of the copy's schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakeingest.schema import json_text
from lakeingest.schema.formats.avro_walk import AvroFault, AvroWalk, TooLargeError, named_types

Plan = Any
"""What a part has of JSON text: `JSON`, None for nothing, or its kind (record, array, map, union) and the plans of its
parts."""
JSON = "json"
_MOST = 10_000_000
"""Values of one payload."""


def copier(text: str, references: Sequence[str], plan: Plan) -> Callable[[bytes | None], bytes | None]:
    """A payload → its copy; None where it is none of the schema, and for None.

    Args:
        text: the payload's schema, as JSON.
        references: the texts that it refers to, dependencies first.
        plan: of the whole payload.
    """
    trees = [json.loads(each) for each in (*references, text)]
    types = named_types(trees)

    def copied(payload: bytes | None) -> bytes | None:
        if payload is None:
            return None
        copy = _Copy(bytes(payload), types)
        try:
            copy.part(trees[-1], "", plan, 0)
        except (AvroFault, TooLargeError, RecursionError, UnicodeError):
            return None
        return copy.whole()

    return copied


class _Copy:
    """The copy of one payload, as far as it is made."""

    def __init__(self, payload: bytes, types: Mapping[str, Any]) -> None:
        self._payload = payload
        self._walk = AvroWalk(payload, types, _MOST)
        self._parts: list[bytes] = []

    def whole(self) -> bytes:
        """The copy, and what is behind the value, so that a payload that is too long stays so."""
        return b"".join([*self._parts, self._payload[self._walk.at :]])

    def part(self, tree: Any, space: str, plan: Plan, depth: int) -> None:
        """Copy the next value; see `AvroWalk.value`."""
        begin = self._walk.at
        if plan is None:
            self._walk.value(tree, space, "", depth)
            self._parts.append(self._payload[begin : self._walk.at])
            return
        if plan == JSON:
            self._parts.append(_text(self._walk.value(tree, space, "", depth)))
            return
        tree, space = self._walk.resolved(tree, space)
        kind, plans = plan
        if kind == "record":
            within = self._walk.namespace(tree, space)
            for field, below in zip(tree["fields"], plans, strict=True):
                self.part(field["type"], within, below, depth + 1)
        elif kind == "union":
            index = self._walk.index(len(tree), "branches of the union", "")
            self._parts.append(self._payload[begin : self._walk.at])
            self.part(tree[index], space, plans[index], depth + 1)
        else:
            self._blocks(tree, space, kind, plans[0], depth)

    def _blocks(self, tree: Any, space: str, kind: str, plan: Plan, depth: int) -> None:
        while count := self._walk.count(""):
            self._parts.append(_long(count))
            for _ in range(count):
                if kind == "map":
                    self.part("string", space, None, depth + 1)
                self.part(tree["items" if kind == "array" else "values"], space, plan, depth + 1)
        self._parts.append(_long(0))


def _text(value: Any) -> bytes:
    """The value of a union of null and string."""
    if value is None:
        return _long(0)
    text = json_text.written(value).encode()
    return _long(1) + _long(len(text)) + text


def _long(number: int) -> bytes:
    """As Avro writes it: zigzag, seven bits in a byte, the low ones first."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
