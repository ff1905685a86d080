"""Avro schema JSON in the one form that fastavro validates well. Pure.

Avro's Java library, which the registry and Spark use, lets pass what fastavro refuses: invalid decimals, whole numbers
as defaults of a double, types in a needless object. It refuses what fastavro lets pass: unions in unions, fields twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lakeingest.schema.model import SchemaError
from lakeingest.schema.paths import ELEMENT, VALUE, step

MAX_DEPTH = 100
"""Levels of records, arrays, maps and unions within each other."""

MAX_FIXED = 1 << 24
"""Bytes of a fixed: Avro makes room for it before it reads the first one."""

_SIMPLE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum")


def normalise(tree: Any, path: str = "", depth: int = 0) -> Any:
    """A copy of a schema's tree in one form.

    Raises:
        SchemaError: for what is no schema at all, with its path.
    """
    if depth > MAX_DEPTH:
        raise SchemaError(f"{path}: nested deeper than {MAX_DEPTH} levels")
    if isinstance(tree, dict):
        _check_named(tree, path or "the schema")
    normal: Any
    match tree:
        case str():
            normal = tree
        case list():
            normal = _union(tree, path, depth)
        case {"type": "record" | "error", "fields": list(fields)}:
            normal = {**_without_marks(tree), "fields": _fields(fields, path, depth)}
        case {"type": "array", "items": items}:
            normal = {**_without_marks(tree), "items": normalise(items, path + ELEMENT, depth + 1)}
        case {"type": "map", "values": values}:
            normal = {**_without_marks(tree), "values": normalise(values, path + VALUE, depth + 1)}
        case {"type": "record" | "error" | "array" | "map" as kind}:
            part = {"array": "items", "map": "values"}.get(kind, "fields")
            raise SchemaError(f"{path or 'the schema'}: {kind} without {part}")
        case {"type": str() as kind} if kind in _SIMPLE:
            ignored = () if tree.get("logicalType") != "decimal" or _is_decimal(tree) else ("logicalType",)
            normal = {key: value for key, value in _without_marks(tree).items() if key not in ignored}
        case {"type": inner}:
            # {"type": {"type": "string"}} and {"type": "Address"}: an object about nothing but a type.
            normal = normalise(inner, path, depth + 1)
        case _:
            raise SchemaError(f"{path or 'the schema'}: {_short(tree)} is no Avro schema")
    return normal


def _union(branches: list[Any], path: str, depth: int) -> list[Any]:
    normal = [normalise(branch, path, depth + 1) for branch in branches]
    if not normal or any(isinstance(branch, list) for branch in normal):
        raise SchemaError(f"{path or 'the schema'}: a union is empty, or directly within a union")
    kinds = [str(branch if isinstance(branch, str) else branch.get("name", branch["type"])) for branch in normal]
    if len(kinds) > len(set(kinds)):
        raise SchemaError(f"{path or 'the schema'}: a union with a branch twice: {', '.join(kinds)}")
    return normal


def _fields(fields: list[Any], path: str, depth: int) -> list[Any]:
    normal: list[Any] = []
    names: set[str] = set()
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise SchemaError(f"{path or 'the schema'}: a field needs a name and a type: {_short(field)}")
        below = step(path, field["name"])
        _check_name(field["name"], below)
        _check_aliases(field, below)
        if field["name"] in names:
            raise SchemaError(f"{below}: two fields of that name")
        names.add(field["name"])
        kind = normalise(field["type"], below, depth + 1)
        normal.append({**field, "type": kind, **_default(field, kind)})
    return normal


def _default(field: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """A whole number as a default of a floating one."""
    default = field.get("default")
    real = (kind if isinstance(kind, str) else kind.get("type") if isinstance(kind, dict) else None) in (
        "float",
        "double",
    )
    return {"default": float(default)} if real and isinstance(default, int) and not isinstance(default, bool) else {}


def _check_named(tree: Mapping[str, Any], path: str) -> None:
    """Refuse what Avro's Java library would stop a batch for."""
    kind, name, size, symbols = (tree.get(word) for word in ("type", "name", "size", "symbols"))
    if kind in ("record", "error", "enum", "fixed") and isinstance(name, str):
        _check_name(name.rpartition(".")[2], path)
    if kind == "fixed" and "size" in tree and not (type(size) is int and 0 <= size <= MAX_FIXED):
        raise SchemaError(f"{path}: a fixed of size {_short(size)}; it is a number up to {MAX_FIXED:,}")
    if kind == "enum":
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise SchemaError(f"{path}: an enum whose symbols are no list of texts")
        if tree.get("default") not in (None, *symbols):
            raise SchemaError(f"{path}: an enum whose default {_short(tree['default'])} is none of its symbols")
    _check_aliases(tree, path)


def _check_aliases(tree: Mapping[str, Any], path: str) -> None:
    aliases = tree.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise SchemaError(f"{path}: aliases that are no list of texts")


def _check_name(name: str, path: str) -> None:
    letters = name.replace("_", "a")
    plain = all((c.isalpha() or c.isdecimal()) and c <= "\uffff" for c in letters)
    if not plain or not letters[:1].isalpha():
        raise SchemaError(f"{path}: {_short(name)} is no name in Avro: letters, digits and _, no digit first")


def _is_decimal(tree: Mapping[str, Any]) -> bool:
    """Whether a decimal is one by Avro's rules; another is to be read as the bytes that it is."""
    precision, scale, size = tree.get("precision"), tree.get("scale", 0), tree.get("size")
    numbers = all(type(n) is int for n in (precision, scale))
    if tree["type"] not in ("bytes", "fixed") or not numbers:
        return False
    assert isinstance(precision, int)
    if tree["type"] == "fixed" and (not isinstance(size, int) or precision > math.log10(2) * (8 * size - 1)):
        return False
    return precision > 0 and 0 <= scale <= precision


def _without_marks(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Without fastavro's own marks, by which it would take a text's word for having been parsed."""
    return {key: value for key, value in tree.items() if not key.startswith("__")}


def _short(tree: Any) -> str:
    text = repr(tree)
    return text if len(text) <= 60 else text[:60] + "…"
