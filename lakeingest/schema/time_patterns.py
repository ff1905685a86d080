"""How times are written: Java's patterns, in which Spark and Joda have one grammar, and the parts of ISO 8601. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

DAY, CLOCK, OFFSET = r"\d{4}-\d{2}-\d{2}", r"[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?", r"Z|[+-]\d{2}:?\d{2}"
"""ISO 8601, as regular expressions of Python and of Java: the parts that are taken."""
MILLIS = r"-?\d{1,19}"
"""Milliseconds since 1970 as a text."""
DAYS = r"-?\d{1,7}"
"""Days since 1970 as a text."""
EPOCH_UNITS: Mapping[str, tuple[int, str, str]] = {
    "seconds": (1, r"-?\d{1,19}(?:\.\d{1,9})?", "seconds"),
    "millis": (10**3, MILLIS, "milliseconds"),
    "micros": (10**6, MILLIS, "microseconds"),
    "nanos": (10**9, MILLIS, "nanoseconds"),
}
"""A unit of times since 1970 → how many are a second, what such a number looks like, and the unit's name."""
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<run>([A-Za-z])\3*|[\[\]{}#])|(?P<text>[^'])", re.DOTALL)


def tokens(pattern: str) -> list[tuple[str, str]]:
    """A pattern's parts: a run of one letter, or a sign that Java reserves; else text as it is, and an empty run."""
    matches = _TOKEN.finditer(pattern)
    return [(m["run"] or "", m["text"] or (m["quoted"] or "'").replace("''", "'")) for m in matches]


def runs(pattern: str) -> list[str]:
    """The runs of letters, and the reserved signs, of a pattern."""
    return [run for run, _ in tokens(pattern) if run]


def from_joda(pattern: str) -> str:
    """A pattern of Joda's in Spark's letters: YYYY is Joda's year of era, and Spark's year of a week."""
    return _TOKEN.sub(lambda token: token[0].replace("Y", "y") if token["run"] else token[0], pattern)
