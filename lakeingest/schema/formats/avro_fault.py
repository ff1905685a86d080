"""The reason why an Avro payload is none of its schema: the field, and its problem. Executors run it, alone.

Asked of refused records alone: what reads payloads says only that one cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_MOST = 100_000
"""Items that are looked at: a payload of a few bytes may claim any number of them."""
_DEEPEST = 200
_SIZES = {"null": 0, "float": 4, "double": 8, "boolean": 1}


class _AvroFault(ValueError):
    """A problem, and its place."""

    def __init__(self, path: str, text: str) -> None:
        self.place = f"field {path}" if path else "the value"
        super().__init__(f"{self.place}: {text}")


class _TooLarge(Exception):
    """Nobody looks further."""


def fault(text: str, references: Sequence[str] = (), *, withheld: bool = False) -> Callable[[bytes | None], str | None]:
    """A payload → what is wrong with it; None where that is not found, and for None.

    Args:
        text: the schema, as JSON.
        references: the texts that it refers to, dependencies first.
        withheld: whether it is told without any value of the payload.
    """

    def say(payload: bytes | None) -> str | None:
        if payload is None:
            return None
        try:
            types: dict[str, Any] = {}
            for each in (*references, text):
                _learn(json.loads(each), "", types)
            return _look(json.loads(text), bytes(payload), types, withheld=withheld)
        except (_TooLarge, ValueError, KeyError, TypeError, RecursionError):
            # A schema that is read here in another way than there: nothing is said rather than something wrong.
            return None

    return say


def _look(tree: Any, payload: bytes, types: Mapping[str, Any], *, withheld: bool) -> str | None:
    walk = _Walk(payload, types)
    try:
        walk.value(tree, "", "", 0)
    except _AvroFault as wrong:
        return f"{wrong.place} does not fit its type, or the payload is cut short" if withheld else str(wrong)
    rest = len(payload) - walk.at
    return f"{rest:,} bytes too many, or written with another schema" if rest else None


def _name(tree: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace within it."""
    name = str(tree["name"])
    within = name.rpartition(".")[0] if "." in name else str(tree.get("namespace", space))
    return (name if "." in name or not within else f"{within}.{name}"), within


def _learn(tree: Any, space: str, types: dict[str, Any]) -> None:
    """Take the named types of a schema."""
    if isinstance(tree, list):
        for each in tree:
            _learn(each, space, types)
    if not isinstance(tree, dict):
        return
    if "name" in tree and tree.get("type") in ("record", "error", "enum", "fixed"):
        full, space = _name(tree, space)
        types[full] = (tree, space)
    for part in ("type", "items", "values"):
        _learn(tree.get(part), space, types)
    for each in tree.get("fields", ()):
        _learn(each["type"], space, types)


class _Walk:
    """Goes through a payload; `at` is where it stands."""

    def __init__(self, payload: bytes, types: Mapping[str, Any]) -> None:
        self.at, self._payload, self._types, self._looked = 0, payload, types, 0

    def value(self, tree: Any, space: str, path: str, depth: int) -> None:
        """Step over one value.

        Raises:
            _Fault: it is none of the type.
        """
        self._looked += 1
        if self._looked > _MOST or depth > _DEEPEST:
            raise _TooLarge
        if isinstance(tree, list):
            self.value(tree[self._index(len(tree), "branches of the union", path)], space, path, depth + 1)
            return
        kind = tree["type"] if isinstance(tree, dict) else tree
        if not isinstance(kind, str):
            self.value(kind, space, path, depth + 1)
        elif kind in ("record", "error"):
            within = _name(tree, space)[1]
            for field in tree["fields"]:
                self.value(field["type"], within, f"{path}.{field['name']}".lstrip("."), depth + 1)
        elif kind in ("array", "map"):
            self._blocks(tree, kind, space, path, depth)
        elif kind == "enum":
            self._index(len(tree["symbols"]), f"symbols of the enum {tree['name']}", path)
        elif kind in ("bytes", "string", "fixed"):
            content = self._take(tree["size"] if kind == "fixed" else self._long(path), path)
            _decimal(tree, content, path)
        elif kind in ("int", "long"):
            number = self._long(path)
            if kind == "int" and not -(2**31) <= number < 2**31:
                raise _AvroFault(path, f"{number} is outside of int")
        elif kind in _SIZES:
            self._take(_SIZES[kind], path)
        else:
            inner, around = self._types.get(kind) or self._types[f"{space}.{kind}"]
            self.value(inner, around, path, depth + 1)

    def _blocks(self, tree: Any, kind: str, space: str, path: str, depth: int) -> None:
        while count := self._long(path):
            if count < 0:
                count, _ = -count, self._long(path)
            for _ in range(count):
                if kind == "map":
                    self._take(self._long(path), path)
                self.value(tree["items" if kind == "array" else "values"], space, f"{path}[]", depth + 1)

    def _index(self, count: int, unit: str, path: str) -> int:
        index = self._long(path)
        if not 0 <= index < count:
            raise _AvroFault(path, f"number {index} of {count} {unit}, or written with another schema")
        return index

    def _long(self, path: str) -> int:
        raw = 0
        for i in range(10):
            (byte,) = self._take(1, path)
            raw |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)
        raise _AvroFault(path, "a number of more than ten bytes, or written with another schema")

    def _take(self, size: int, path: str) -> bytes:
        rest = len(self._payload) - self.at
        if not 0 <= size <= rest:
            raise _AvroFault(path, f"{size:,} bytes asked, {rest:,} left: cut short, or written with another schema")
        self.at += size
        return self._payload[self.at - size : self.at]


def _decimal(tree: Any, content: bytes, path: str) -> None:
    if not isinstance(tree, dict) or tree.get("logicalType") != "decimal":
        return
    precision, digits = tree["precision"], len(str(abs(int.from_bytes(content, "big", signed=True))))
    if digits > precision:
        raise _AvroFault(path, f"a decimal of {digits} digits, and the schema says {precision}")
