"""The JSON text of parts of a record that no typed column can hold. Plain Python: it runs on executors, by value.

`JsonFunctions.java` does the same where a session has lakeingest's jar, to the same letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
"""Jackson, which Spark and the jar write with, escapes what is no single character of UTF-16."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object in their order, also those of one name."""


def texts(kind: dict[str, Any]) -> Callable[[bytes | None], dict[str, Any] | None]:
    """A record's bytes → the JSON texts in it; None where it is no JSON object.

    Args:
        kind: a struct that has nothing but such texts, as Spark's schema JSON read into a dict. A map is an array of
            its values.
    """

    def of_record(raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        try:
            tree = json.loads(
                bytes(raw).decode("utf-8"), parse_int=_Number, parse_float=_Number, object_pairs_hook=_Members
            )
            return _part(tree, kind) if isinstance(tree, _Members) else None
        except (ValueError, RecursionError):
            return None

    return of_record


def _part(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kind == "string":
        return _written(value)
    if kind["type"] == "struct" and isinstance(value, _Members):
        members = dict(value)
        return {f["name"]: _part(members.get(f["name"]), f["type"]) for f in kind["fields"]}
    if kind["type"] == "array" and isinstance(value, list):
        parts = [each for _, each in value] if isinstance(value, _Members) else value
        return [_part(each, kind["elementType"]) for each in parts]
    # The record does not fit its columns, and is refused for it.
    return None


def _written(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case str():
            return f'"{_ESCAPED.sub(_escape, value)}"'
        case _Members():
            return "{" + ",".join(f"{_written(name)}:{_written(each)}" for name, each in value) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


def _escape(character: re.Match[str]) -> str:
    if character[0] in _SHORT:
        return _SHORT[character[0]]
    units = character[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04X}" for i in range(0, len(units), 2))
