"""What the values of one field in a sample are, and the type that takes them. Pure, and without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Literal, TypeAlias

from lakeingest.schema.ddl import Atomic
from lakeingest.schema.json_values import Texts, fits
from lakeingest.schema.observed_types import ANYTHING, VOID, Type, join

NEARLY = 0.9
"""The share of values, or records, that says what the others should have been."""
STRING, DATE, TIMESTAMP = Atomic("string"), Atomic("date"), Atomic("timestamp")

Kind = Literal[
    "boolean",
    "bigint",
    "millis",
    "double",
    "large",
    "quoted bigint",
    "quoted double",
    "date",
    "timestamp",
    "string",
]
"""What a value is: a number by the type that holds it (none: large), or millis where it may be a time; a text that is a
number, quoted."""
_TYPES = {"millis": "BIGINT", "quoted bigint": "BIGINT", "quoted double": "DOUBLE", "large": ANYTHING}
"""A kind → the type of its values, where it is not the kind itself."""
_MILLIS = range(10**12, 22 * 10**11)
"""Milliseconds since 1970, of the years 2001 to 2039: 13 digits, as most other numbers do not have."""
_NUMBERS: tuple[Kind, ...] = ("bigint", "millis", "double")
_QUOTED: tuple[Kind, ...] = ("quoted bigint", "quoted double")
_IN_QUOTES = Texts(quotes=True)


@dataclass(frozen=True)
class Values:
    """Values without parts, as a type that is not decided yet.

    Attributes:
        kinds: how many values of each kind there are.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)

    def __add__(self, other: Values) -> Values:
        return Values(self.kinds + other.kinds)

    @property
    def type(self) -> Atomic:
        """The type that takes all of them, as `decode` reads them: STRING takes any."""
        if set(self.kinds) == {"millis"}:
            return TIMESTAMP
        if self.kinds.keys() & {*_QUOTED} and not self.in_quotes:
            return STRING
        return Atomic(reduce(join, (_TYPES.get(kind, kind.upper()) for kind in self.kinds)).lower())

    @property
    def in_quotes(self) -> bool:
        """Whether they are numbers, a few of them in quotes; where most are, they may be codes."""
        kinds = set(self.kinds)
        return bool(kinds & {*_QUOTED}) and kinds <= {*_NUMBERS, *_QUOTED} and self._nearly_numbers

    @property
    def _nearly_numbers(self) -> bool:
        return sum(self.kinds[kind] for kind in _NUMBERS) >= NEARLY * self.kinds.total()

    def note(self, name: str) -> str | None:
        """What somebody should know of the type; None if it says all.

        Args:
            name: the field's name.
        """
        count = self.kinds.total()
        numbers = sum(self.kinds[kind] for kind in _NUMBERS)
        if set(self.kinds) == {"millis"}:
            return (
                f"Milliseconds since 1970: {name} could be that in each of {count:,} values, and is a TIMESTAMP; "
                "write BIGINT if it is no time"
            )
        if self.in_quotes:
            return (
                f"Numbers in quotes: {name} has them in {count - numbers:,} of {count:,} values, which "
                "numbers_in_quotes takes"
            )
        if self.type == STRING and numbers and self._nearly_numbers:
            return (
                f"Nearly numbers: {name} is one in {numbers:,} of {count:,} values, and STRING takes the others too; "
                "write DOUBLE, or DECIMAL(p,s), for a run to refuse these"
            )
        return None


Sample: TypeAlias = "Type[Values | Atomic]"
"""The type of a field in a sample."""


def of(value: Any) -> Sample:
    """The type of a JSON value without parts; of null, none."""
    return VOID if value is None else Values(Counter([_kind(value)]))


def time_text(value: Any) -> str:
    """A time as ISO 8601, milliseconds since 1970 too; empty where there is none."""
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat()
    return value if isinstance(value, str) else ""


def _kind(value: Any) -> Kind:
    match value:
        case bool():
            return "boolean"
        case int() if fits(value, "long"):
            return "millis" if value in _MILLIS else "bigint"
        case Decimal() if fits(value, "double"):
            return "double"
        case str():
            return _kind_of_text(value)
    return "large"


def _kind_of_text(text: str) -> Kind:
    """A text of digits alone is no time: it may be any number."""
    if fits(text, "date"):
        return "date"
    if text[4:5] == "-" and fits(text, "timestamp"):
        return "timestamp"
    if fits(text, "long", _IN_QUOTES):
        return "quoted bigint"
    return "quoted double" if fits(text, "double", _IN_QUOTES) else "string"
