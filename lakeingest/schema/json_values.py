"""Values of a JSON text, and whether they fit a type of Spark's. Plain Python: it runs on executors, by value.

It comes to the same verdict as Spark's parser and `fitted` do, value by value.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

from lakeingest.schema.time_patterns import CLOCK, DAY, DAYS, EPOCH_UNITS, OFFSET

_RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}
SHOWN = 80
"""Characters of a value in a message."""
_MANY_DIGITS = 20
"""Of a number that no integer's type holds."""
_LONGEST_NUMBER = 1000
"""Characters; Spark's parser reads no longer one."""
_EXPONENT = re.compile(r"[eE][+-]?0*[1-9]\d{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SECONDS = (-62_135_596_800, 253_402_300_800)
"""The beginning of the years 0001 and 10000."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pattern:
    """What a date or time may look like, and how it is written anew in ISO 8601, some of its numbers with one digit.

    Attributes:
        written: as the pipeline file says it. Of "iso" there is nothing else.
        sought: a regular expression of the whole text, with `table` put behind it.
        instead: what is written, with $1 for the first group.
        table: where the expression finds the number of a month's name, and of an hour up to 12.
        zoned: whether an offset is in it.
    """

    written: str
    sought: str = ""
    instead: str = ""
    table: str = ""
    zoned: bool = False


ISO = (Pattern("iso"),)


@dataclass(frozen=True)
class Texts:
    """The rules by which a text becomes a value: the options of format json.

    Attributes:
        zone: of timestamps that name none.
        rounds: whether a decimal of too many places is rounded.
        quotes: whether an integer, FLOAT or DOUBLE may stand in quotes.
        wholes: whether an integer may be written with a point or an exponent, as JSON Schema has it: 2.0 is 2.
        dates: the patterns that a DATE is tried with.
        times: those of a TIMESTAMP or TIMESTAMP_NTZ.
        epoch: the unit of a number that is a TIMESTAMP, of `EPOCH_UNITS`.
        debezium: whether days and local times are also written as Debezium does: as a number since 1970, of days or
            of that unit; or in ISO 8601 with a Z behind it that means no zone.
        base64: whether a DECIMAL is base64 of the bytes of its number without the point.
    """

    zone: str = "UTC"
    rounds: bool = False
    quotes: bool = False
    wholes: bool = False
    dates: tuple[Pattern, ...] = ISO
    times: tuple[Pattern, ...] = ISO
    epoch: str = "millis"
    debezium: bool = False
    base64: bool = False

    def patterns(self, kind: str) -> tuple[Pattern, ...]:
        """Of a type of Spark's."""
        if kind == "date":
            return self.dates
        return self.times if kind.startswith("timestamp") else ISO


AS_IT_IS = Texts()


class Object(dict[str, Any]):
    """A JSON object with every one of its fields: the last of a name holds, but Spark looks at all of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def lone_surrogate(value: Any, place: str = "") -> tuple[str, str] | None:
    """The first text that has half of a character, which UTF-8 cannot write: its place, and its beginning."""
    surrogates: Iterator[tuple[str, str] | None]
    match value:
        case str():
            return (place or "the value", value) if _SURROGATE.search(value) else None
        case Object():
            before = f"{place}." if place else ""
            names = (lone_surrogate(name, f"a name in {place or 'the object'}") for name, _ in value.pairs)
            surrogates = chain(names, (lone_surrogate(each, before + name) for name, each in value.pairs))
        case list():
            surrogates = (lone_surrogate(each, f"{place}[{i}]") for i, each in enumerate(value))
        case _:
            return None
    return next((each for each in surrogates if each), None)


def read(value: bytes) -> Any:
    """A record's JSON, its numbers as int and Decimal.

    Raises:
        ValueError: it is no JSON, or has a number that nothing holds.
    """
    return json.loads(
        bytes(value).decode("utf-8"),
        parse_int=_whole,
        parse_float=_real,
        parse_constant=_no_constant,
        object_pairs_hook=Object,
    )


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a number of {len(text)} digits") from None


def _real(text: str) -> Decimal:
    if _EXPONENT.search(text):
        raise ValueError(f"a number with an exponent that nothing holds: {text[:SHOWN]}")
    return Decimal(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def fits(value: Any, kind: str, texts: Texts = AS_IT_IS, *, exact: bool = False) -> bool:
    """Whether a value that was read has a type of Spark's that has no parts.

    Args:
        exact: whether a DOUBLE has to be the number that is written.
    """
    if kind in _RANGES or kind in ("float", "double"):
        value = _out_of_quotes(value, kind) if texts.quotes else value
    if kind in _RANGES:
        if texts.wholes and isinstance(value, Decimal) and extent(value)[1] == 0 and extent(value)[0] < _MANY_DIGITS:
            value = int(value)
        return type(value) is int and -_RANGES[kind] <= value < _RANGES[kind]
    if kind.startswith("decimal"):
        if texts.base64:
            return _fits_unscaled(value, kind)
        return _fits_decimal(value, kind, texts.rounds)
    if kind in _SHAPES:
        return _fits_time(value, kind, texts)
    return _FITS[kind](value) and not (exact and kind == "double" and not comes_back(value))


def _out_of_quotes(value: Any, kind: str) -> Any:
    """The number that a text is; any other text as it is."""
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        return value
    if kind in _RANGES:
        return int(value) if re.fullmatch(r"[+-]?\d+", value, re.ASCII) else value
    number = re.fullmatch(_NUMBER, value, re.ASCII) and not _EXPONENT.search(value)
    return Decimal(value) if number else value


def _fits_decimal(value: Any, kind: str, rounds: bool) -> bool:
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    number = exact(value)
    if number is None:
        return False
    whole, places = extent(number, scale if rounds else None)
    return places <= scale and whole <= precision - scale


def _fits_unscaled(value: Any, kind: str) -> bool:
    number = base64.b64decode(value) if _FITS["binary"](value) else b""
    precision = int(kind[len("decimal(") :].partition(",")[0])
    return number != b"" and abs(int.from_bytes(number, "big", signed=True)) < 10**precision


def exact(value: Any) -> Decimal | None:
    """The number that a value is, in quotes or without; None where it is none that a DECIMAL could hold."""
    text = str(value)
    if isinstance(value, bool) or len(text) > _LONGEST_NUMBER or _EXPONENT.search(text):
        return None
    return Decimal(text) if re.fullmatch(_NUMBER, text) else None


def extent(number: Decimal, places: int | None = None) -> tuple[int, int]:
    """The number of digits before the point and behind it; rounded to so many places first, if they are given.

    By digits and exponent: Decimal's own arithmetic raises where a number has more digits than its context.
    """
    digits, exponent = number.as_tuple()[1:]
    value, power = int("".join(map(str, digits))), int(exponent)
    if places is not None and -power > places:
        cut = 10 ** (-power - places)
        value, power = (value + cut // 2) // cut, -places
    written = str(value).rstrip("0")
    if not written:
        return 0, 0
    power += len(str(value)) - len(written)
    return max(0, len(written) + power), max(0, -power)


def comes_back(number: int | Decimal) -> bool:
    """Whether the shortest number that a DOUBLE is read back as is this one."""
    return Decimal(repr(float(number))) == number


def _number(pack: str) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            return False
        try:
            (number,) = struct.unpack(pack, struct.pack(pack, float(value)))
        except OverflowError:
            return False
        return math.isfinite(number) and (number != 0 or value == 0)

    return fits


_BASE64 = r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*"


_FITS: dict[str, Callable[[Any], bool]] = {
    "boolean": lambda v: isinstance(v, bool),
    "double": _number("<d"),
    "float": _number("<f"),
    "binary": lambda v: isinstance(v, str) and re.fullmatch(_BASE64, v) is not None,
}
_SHAPES = {"date": DAY, "timestamp": rf"{DAY}({CLOCK}({OFFSET})?)?", "timestamp_ntz": f"{DAY}({CLOCK})?"}


def _fits_time(value: Any, kind: str, texts: Texts) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return False
    if (counted := since_1970(value, kind, texts)) is not None:
        return _SECONDS[0] <= counted < _SECONDS[1]
    if texts.debezium and kind != "timestamp":
        value = str(value).rstrip("Z")
    return any(_parses(_rewritten(str(value), pattern), kind) for pattern in texts.patterns(kind))


def since_1970(value: Any, kind: str, texts: Texts) -> Decimal | None:
    """The seconds since 1970 of a value that may count them, parts of them, or days; None where it does not."""
    per_second, shape, _ = EPOCH_UNITS[texts.epoch]
    if isinstance(value, bool) or ISO[0] not in texts.patterns(kind):
        return None
    if kind != "timestamp" and not texts.debezium:
        return None
    if kind == "date":
        return Decimal(str(value)) * 86_400 if re.fullmatch(DAYS, str(value), re.ASCII) else None
    return Decimal(str(value)) / per_second if re.fullmatch(shape, str(value), re.ASCII) else None


def _rewritten(text: str, pattern: Pattern) -> str:
    """A text in a pattern as ISO 8601; empty where it is not in it."""
    if not pattern.sought:
        return text
    match = re.search(pattern.sought, text + pattern.table, re.ASCII)
    written = match.expand(pattern.instead.replace("$", "\\")) if match else ""
    return re.sub(r"(?<![\d.])(\d)(?!\d)", r"0\1", written)


def _parses(text: str, kind: str) -> bool:
    if not re.fullmatch(_SHAPES[kind], text, re.ASCII):
        return False
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text))
    except ValueError:
        return False
    offset = moment.utcoffset() or timedelta()
    seconds = (moment.replace(tzinfo=UTC) - _EPOCH - offset) // timedelta(seconds=1)
    return abs(offset) <= timedelta(hours=18) and _SECONDS[0] <= seconds < _SECONDS[1]
