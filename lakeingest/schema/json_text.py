"""JSON text, to the letters of Jackson, with which Spark and lakeingest's jar write it. Executors run it, alone."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
"""Jackson escapes what is no single character of UTF-16."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of an object in their order, also those of one name."""


def read(text: str) -> Any:
    """A JSON text with its numbers as they are written, and all members of its objects.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=Members)


def written(value: Any) -> str:
    """A value as JSON text, without blanks: None, bool, int, float, Decimal, str, `Number`, list, dict or `Members`."""
    match value:
        case Number() | Decimal():
            text = f"{value}" if isinstance(value, str) else f"{value:f}"
        case str():
            text = f'"{_ESCAPED.sub(_escape, value)}"'
        case dict():
            text = written(Members(value.items()))
        case Members():
            text = "{" + ",".join(f"{written(name)}:{written(each)}" for name, each in value) + "}"
        case list():
            text = "[" + ",".join(map(written, value)) + "]"
        case _:
            text = json.dumps(value)
    return text


def _escape(character: re.Match[str]) -> str:
    if character[0] in _SHORT:
        return _SHORT[character[0]]
    units = character[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04X}" for i in range(0, len(units), 2))
