"""A way through an Avro payload by its schema: its parts as Avro's own JSON encoding has them. Executors run it, alone.

A union's value is an object of its branch's name, but for null; bytes are text of the characters U+0000 to U+00FF. Of
a decimal, the encoding's bytes say nothing to people: it is a number here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

_DEEPEST = 200
_LONG_BYTES = 10
_ATOMIC = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum")
_KINDS = frozenset({*_ATOMIC, "record", "error", "array", "map"})


class AvroFault(ValueError):
    """A problem, and its place."""

    def __init__(self, path: str, text: str) -> None:
        self.place = f"field {path}" if path else "the value"
        super().__init__(f"{self.place}: {text}")


class TooLargeError(Exception):
    """Nobody looks further."""


def named_types(trees: Sequence[Any]) -> dict[str, Any]:
    """The named types of schemas: the full name → the tree, and the namespace that it stands in."""
    types: dict[str, Any] = {}
    for tree in trees:
        _learn(tree, "", types)
    return types


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


class AvroWalk:
    """Goes through a payload.

    Attributes:
        at: the position within the payload.
    """

    def __init__(self, payload: bytes, types: Mapping[str, Any], most: int) -> None:
        """`most`: values that are looked at: a payload of a few bytes may claim any number of them."""
        self.at, self._payload, self._types, self._values, self._most = 0, payload, types, 0, most

    def value(self, tree: Any, space: str, path: str, depth: int) -> Any:
        """The next value, of the schema `tree`, which stands in the namespace `space`.

        Raises:
            AvroFault: it is none of the type.
            TooLargeError: there are too many values, or they are nested too deep.
        """
        self._values += 1
        if self._values > self._most or depth > _DEEPEST:
            raise TooLargeError
        tree, space = self.resolved(tree, space)
        if isinstance(tree, list):
            branch = tree[self.index(len(tree), "branches of the union", path)]
            value = self.value(branch, space, path, depth + 1)
            return None if branch == "null" else {self._branch_name(branch, space): value}
        kind = tree if isinstance(tree, str) else tree["type"]
        if kind in ("record", "error"):
            within = self.namespace(tree, space)
            return {
                field["name"]: self.value(field["type"], within, f"{path}.{field['name']}".lstrip("."), depth + 1)
                for field in tree["fields"]
            }
        if kind == "array":
            return [*self._blocks(lambda: self.value(tree["items"], space, f"{path}[]", depth + 1), path)]
        if kind == "map":
            return dict(self._blocks(lambda: self._entry(tree["values"], space, path, depth), path))
        return self._atomic(tree, kind, path)

    def resolved(self, tree: Any, space: str) -> tuple[Any, str]:
        """The schema that a name, or an object about nothing but a type, stands for."""
        while not isinstance(tree, list):
            kind = tree if isinstance(tree, str) else tree["type"]
            if isinstance(kind, str) and kind in _KINDS:
                break
            if isinstance(kind, str):
                tree, space = self._types.get(kind) or self._types[f"{space}.{kind}"]
            else:
                tree = kind
        return tree, space

    def namespace(self, record: Any, space: str) -> str:
        """The namespace of the types within a record."""
        return _name(record, space)[1]

    def _branch_name(self, branch: Any, space: str) -> str:
        tree, space = self.resolved(branch, space)
        has_name = isinstance(tree, dict) and "name" in tree
        return _name(tree, space)[0] if has_name else str(tree if isinstance(tree, str) else tree["type"])

    def _entry(self, values: Any, space: str, path: str, depth: int) -> tuple[str, Any]:
        key = self._text(path)
        return key, self.value(values, space, f"{path}[]", depth + 1)

    def _blocks(self, read: Callable[[], Any], path: str) -> list[Any]:
        values = []
        while count := self.count(path):
            values += [read() for _ in range(min(count, self._most + 1))]
        return values

    def count(self, path: str) -> int:
        """The number of values in the next block of an array or map; 0 at its end."""
        count = self._long(path)
        if count < 0:
            count, _ = -count, self._long(path)
        return count

    def _atomic(self, tree: Any, kind: str, path: str) -> Any:
        value: Any = None
        match kind:
            case "boolean":
                value = self._take(1, path) == b"\x01"
            case "enum":
                symbols = tree["symbols"]
                value = symbols[self.index(len(symbols), f"symbols of the enum {tree['name']}", path)]
            case "string":
                value = self._text(path)
            case "bytes" | "fixed":
                content = self._take(tree["size"] if kind == "fixed" else self._long(path), path)
                value = _decimal(tree, content, path)
            case "int" | "long":
                value = self._long(path)
                if kind == "int" and not -(2**31) <= value < 2**31:
                    raise AvroFault(path, f"{value} is outside of int")
            case "float" | "double":
                value = _real(self._take(4 if kind == "float" else 8, path))
        return value

    def _text(self, path: str) -> str:
        # What is no UTF-8 is text to Avro's library, too, and none of JSON's.
        return self._take(self._long(path), path).decode(errors="surrogateescape")

    def index(self, count: int, unit: str, path: str) -> int:
        index = self._long(path)
        if not 0 <= index < count:
            raise AvroFault(path, f"number {index} of {count} {unit}, or written with another schema")
        return index

    def _long(self, path: str) -> int:
        raw = 0
        for i in range(_LONG_BYTES):
            (byte,) = self._take(1, path)
            raw |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)
        raise AvroFault(path, "a number of more than ten bytes, or written with another schema")

    def _take(self, size: int, path: str) -> bytes:
        rest = len(self._payload) - self.at
        if not 0 <= size <= rest:
            raise AvroFault(path, f"{size:,} bytes asked, {rest:,} left: cut short, or written with another schema")
        self.at += size
        return self._payload[self.at - size : self.at]


def _real(content: bytes) -> float | str:
    """The number, as the shortest one that it is read back from; text for what JSON has no number for."""
    pack = "<f" if len(content) == 4 else "<d"
    (number,) = struct.unpack(pack, content)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if pack == "<f":
        shortest = (float(f"{number:.{digits}g}") for digits in range(6, 10))
        return next(each for each in shortest if abs(each) < 2.0**128 and struct.pack(pack, each) == content)
    return float(number)


def _decimal(tree: Any, content: bytes, path: str) -> Decimal | str:
    if not isinstance(tree, dict) or tree.get("logicalType") != "decimal":
        return content.decode("latin-1")
    precision, unscaled = tree.get("precision"), int.from_bytes(content, "big", signed=True)
    if not isinstance(precision, int):
        return content.decode("latin-1")
    digits = len(str(abs(unscaled))) if len(content) < 1000 else 2 * len(content)
    if digits > precision:
        raise AvroFault(path, f"a decimal of {digits} digits, and the schema says {precision}")
    return Decimal(unscaled).scaleb(-tree.get("scale", 0), Context(prec=max(precision, 1)))
