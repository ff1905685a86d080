"""Says what exactly is wrong with a JSON record that was refused. Plain Python: it runs on executors, by value.

The hot path only knows *that* Spark's parser refused a record; this reads the bytes again, slowly, and finds out why.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

_RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}
_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
_LONGEST = 80
_LONGEST_NUMBER = 1000
"""Characters; Spark's parser reads no longer one."""
_EXPONENT = re.compile(r"[eE][+-]?0*[1-9]\d{4}")
_LONGEST_MESSAGE = 500
_MILLIS = (-62_135_596_800_000, 253_402_300_799_999)
"""The years 0001 to 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Object(dict[str, Any]):
    """A JSON object with every one of its fields: the last of a name holds, but Spark looks at all of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def diagnose(value: bytes | None, schema: dict[str, Any]) -> tuple[str, str]:
    """Reason code and message for a refused record.

    Args:
        value: the record's bytes.
        schema: the declared columns, as Spark's schema JSON read into a dict.

    Returns:
        INVALID_UTF8, BROKEN_JSON, NOT_AN_OBJECT, WRONG_TYPE, REQUIRED_MISSING or REQUIRED_NULL with the place and the
        value that is wrong; UNREADABLE where Spark's parser refuses what this one finds nothing wrong with. The
        message has at most 500 characters, all of which UTF-8 can write.
    """
    try:
        reason, message = _diagnose(value, schema)
    except RecursionError:
        reason, message = "BROKEN_JSON", "nested too deep"
    message = message.encode("utf-8", "replace").decode()
    return reason, message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"


def _diagnose(value: bytes | None, schema: dict[str, Any]) -> tuple[str, str]:
    if value is None:
        return "NULL_VALUE", "the record has no value"
    try:
        text = bytes(value).decode("utf-8")
        record = json.loads(
            text, parse_int=_whole, parse_float=_real, parse_constant=_no_constant, object_pairs_hook=_Object
        )
    except UnicodeDecodeError as error:
        return "INVALID_UTF8", f"byte 0x{error.object[error.start]:02x} at position {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        return "BROKEN_JSON", f"{error.msg.removesuffix(' at')} at character {error.pos} of {len(error.doc)}"
    except ValueError as error:
        return "BROKEN_JSON", str(error)
    if not isinstance(record, _Object):
        return "NOT_AN_OBJECT", f"a JSON object is needed, this is {_kind(record)}: {_short(record)}"
    return next(_faults(record, schema, ""), ("UNREADABLE", "Spark's JSON parser refuses this record"))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a number of {len(text)} digits") from None


def _real(text: str) -> Decimal:
    if _EXPONENT.search(text):
        raise ValueError(f"a number with an exponent that nothing holds: {text[:_LONGEST]}")
    return Decimal(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _faults(record: _Object, struct: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for field in struct["fields"]:
        place = f"{path}{field['name']}"
        for name, value in record.pairs:
            if name == field["name"]:
                yield from _misfits(value, field["type"], place)
        if not field["nullable"] and record.get(field["name"]) is None:
            null = field["name"] in record
            yield (
                "REQUIRED_NULL" if null else "REQUIRED_MISSING",
                f"{place} is required, and {'null' if null else 'missing'}",
            )


def _misfits(value: Any, kind: Any, place: str) -> Iterator[tuple[str, str]]:
    if value is None or kind == "string":
        return
    if isinstance(kind, str):
        if not _fits(value, kind):
            yield "WRONG_TYPE", f"{place} = {_short(value)} is no {_spelled(kind)}"
    elif kind["type"] == "struct" and isinstance(value, _Object):
        yield from _faults(value, kind, place + ".")
    elif kind["type"] == "array" and isinstance(value, list):
        for i, element in enumerate(value):
            yield from _misfits(element, kind["elementType"], f"{place}[{i}]")
    elif kind["type"] == "map" and isinstance(value, _Object):
        for key, element in value.pairs:
            yield from _misfits(element, kind["valueType"], f"{place}.{key}")
    else:
        yield "WRONG_TYPE", f"{place} = {_short(value)} is no {kind['type'].upper()}"


def _fits(value: Any, kind: str) -> bool:
    if kind in _RANGES:
        return type(value) is int and -_RANGES[kind] <= value < _RANGES[kind]
    if kind.startswith("decimal"):
        return _fits_decimal(value, kind)
    return _FITS[kind](value)


def _fits_decimal(value: Any, kind: str) -> bool:
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    text = str(value)
    if isinstance(value, bool) or len(text) > _LONGEST_NUMBER or _EXPONENT.search(text):
        return False
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return False
    # By digits and exponent: Decimal's own arithmetic raises where a number has more digits than its context.
    digits, exponent = Decimal(text).as_tuple()[1:]
    written = "".join(map(str, digits)).lstrip("0")
    significant = written.rstrip("0")
    lowest = int(exponent) + len(written) - len(significant)
    return not significant or (lowest >= -scale and lowest + len(significant) <= precision - scale)


def _number(pack: str) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            return False
        try:
            number = float(value)
            struct.pack(pack, number)
        except OverflowError:
            return False
        return math.isfinite(number)

    return fits


_BASE64 = r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*"


_FITS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda v: isinstance(v, bool),
    "double": _number("<d"),
    "float": _number("<f"),
    "binary": lambda v: isinstance(v, str) and re.fullmatch(_BASE64, v) is not None,
    "date": lambda v: isinstance(v, str) and _parses(v, "date"),
    "timestamp": lambda v: isinstance(v, int | str) and not isinstance(v, bool) and _parses(v, "timestamp"),
    "timestamp_ntz": lambda v: isinstance(v, str) and _parses(v, "timestamp_ntz"),
}
_SHAPES = {
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"-?\d{1,19}|\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?",
    "timestamp_ntz": r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?",
}


def _parses(value: int | str, kind: str) -> bool:
    text = str(value)
    if not re.fullmatch(_SHAPES[kind], text, re.ASCII):
        return False
    if kind == "timestamp" and re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
        return _MILLIS[0] <= int(text) <= _MILLIS[1]
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text))
    except ValueError:
        return False
    offset = moment.utcoffset() or timedelta()
    millis = (moment.replace(tzinfo=UTC) - _EPOCH - offset) // timedelta(milliseconds=1)
    return abs(offset) <= timedelta(hours=18) and _MILLIS[0] <= millis <= _MILLIS[1]


def _spelled(kind: str) -> str:
    return _NAMES.get(kind, kind.upper())


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", Decimal: "a number"}
    return names.get(type(value), "null")


def _short(value: Any) -> str:
    text = (
        str(value)
        if isinstance(value, Decimal)
        else json.dumps(value, ensure_ascii=False, default=lambda d: float(d) if math.isfinite(d) else str(d))
    )
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
