"""Patterns of dates and times in texts, checked and translated without Spark: dd.MM.yyyy → ISO 8601.

The letters are those of Spark's datetime patterns (spark.apache.org, "Datetime Patterns for Formatting and Parsing"). A
pattern becomes a regular expression that means the same in Java and in Python, and what it writes in ISO 8601: so what
takes a value and what says why another is none cannot disagree, nothing raises for any text, and no setting of a
session (spark.sql.legacy.timeParserPolicy, ANSI) has a say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from lakeingest.schema.json_values import Pattern
from lakeingest.schema.time_patterns import tokens

Kind: TypeAlias = Literal["date", "timestamp"]

ISO = "iso"
"""The word for what is read where there is no pattern."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


class _TimeField(NamedTuple):
    """The part of a time that a run of letters reads, as a regular expression; whether the next digit may be its."""

    part: str
    regex: str
    varies: bool = False


_FIELDS = {
    "yyyy": _TimeField("year", r"(?!0000)\d{4}"),
    "yy": _TimeField("year", r"\d\d"),
    "MMM": _TimeField("month", f"(?i:{'|'.join(name[:3] for name in _MONTHS)})"),
    "MMMM": _TimeField("month", f"(?i:{'|'.join(_MONTHS)})"),
    **{"S" * most: _TimeField("fraction", rf"\d{{1,{most}}}", True) for most in range(1, 10)},
    "a": _TimeField("AM or PM", "(?i:AM|PM)"),
    "XXX": _TimeField("offset", r"Z|[+-]\d\d:\d\d"),
    "xxx": _TimeField("offset", r"[+-]\d\d:\d\d"),
    "XX": _TimeField("offset", r"Z|[+-]\d{4}"),
    **dict.fromkeys(("xx", "Z", "ZZ", "ZZZ"), _TimeField("offset", r"[+-]\d{4}")),
}
_TWO_DIGITS = {"M": "month", "d": "day", "H": "hour", "h": "hour of 12", "m": "minute", "s": "second"}
_FIELDS |= {letter: _TimeField(part, r"\d\d?", True) for letter, part in _TWO_DIGITS.items()}
_FIELDS |= {letter * 2: _TimeField(part, r"\d\d") for letter, part in _TWO_DIGITS.items()}
_HALVES = (("AM", 0), ("PM", 12))
_WRITTEN = {"year": "yyyy"} | {part: letter * 2 for letter, part in _TWO_DIGITS.items()}
_NEEDS = {
    "minute": (("hour", "hour of 12"), "write HH too"),
    "second": (("minute",), "write mm too"),
    "fraction": (("second",), "write ss too"),
    "hour of 12": (("AM or PM",), "write HH, or a too"),
    "AM or PM": (("hour of 12",), "write hh with it"),
    "offset": (("hour", "hour of 12"), "write HH too"),
}
"""A part of a time → those without one of which it says nothing, and the cure."""
_CURES = {
    "y": "no year that is read; write yyyy, or yy for 2000 to 2099",
    "M": "no month that is read; write MM, MMM (Jan) or MMMM (January)",
    **{letter: f"too long; write {letter * 2}" for letter in "dHhms"},
    "S": "more than nanoseconds; write SSSSSSSSS at most",
    "a": "too long; write a",
    **dict.fromkeys("XxZ", "no offset that is read; write XXX for +02:00, or XX for +0200"),
    "Y": "the year of a week; write yyyy",
    "u": "a year that may lie before Christ; write yyyy",
    "D": "the day of the year; write MM and dd",
    "L": "a month that stands alone; write MM, MMM or MMMM",
    "E": "a day of the week, which Spark reads from no text; let the producer leave it out",
    **dict.fromkeys("zVvO", "a zone by its name; write XXX for +02:00, or XX for +0200"),
    **dict.fromkeys("Kk", "an hour that is counted in another way; write HH, or hh with a"),
    **dict.fromkeys("[]", "for parts that may be missing; write a list of patterns, with the part and without"),
}
_EXAMPLE = {"date": "as in dd.MM.yyyy", "timestamp": "as in yyyy-MM-dd HH:mm:ss"}


def compiled(pattern: str, kind: Kind) -> Pattern:
    """The rule by which a text in this pattern is written anew in ISO 8601.

    Raises:
        ValueError: it is no pattern of a date or time; what is wrong with it, cure included.
    """
    if pattern == ISO:
        return Pattern(ISO)
    if not pattern:
        raise ValueError(f"empty; write a pattern, {_EXAMPLE[kind]}")
    if pattern.count("'") % 2:
        raise ValueError(f"{pattern!r}: a quote is never closed; close it, {_EXAMPLE[kind]}")
    parts = tokens(pattern)
    runs = [run for run, _ in parts if run]
    problem = next(_misread(parts, kind), None) or next(_gaps([_FIELDS[run].part for run in runs]), None)
    if problem:
        raise ValueError(f"{pattern!r}: {problem}, {_EXAMPLE[kind]}")
    shape = "".join(f"({_FIELDS[run].regex})" if run else re.escape(text) for run, text in parts)
    lookups, table = _table(runs)
    # Java and Python share no shorter sign for a text's end.
    sought = rf"\A{shape}{lookups}{re.escape(table)}(?![\s\S])"
    return Pattern(pattern, sought, _iso(runs), table, any(_FIELDS[run].part == "offset" for run in runs))


def _misread(parts: Sequence[tuple[str, str]], kind: Kind) -> Iterator[str]:
    """Problems with single letters."""
    for (run, _), (following, _) in pairwise([*parts, ("", "")]):
        field, then = _FIELDS.get(run), _FIELDS.get(following)
        if field and kind == "date" and field.part not in ("year", "month", "day"):
            yield f"{run} is the {field.part}, which a DATE has not; write MM for the month, or declare a TIMESTAMP"
        elif field and field.varies and then and then.regex.startswith((r"\d", "(?!")):
            yield f"{run} may take one digit or more, and {following} follows at once; put a sign between them"
        elif run and not field:
            yield f"{run} is {_CURES.get(run[0], f'no letter of a time; put text into quotes: {run!r}')}"


def _gaps(parts: Sequence[str]) -> Iterator[str]:
    """Problems: parts that are missing, or there twice."""
    for part in ("year", "month", "day"):
        if part not in parts:
            yield f"the {part} is missing; write {_WRITTEN[part]}"
    for part in parts:
        needed, cure = _NEEDS.get(part, ((), ""))
        if parts.count(part) > 1 or (part == "hour" and "hour of 12" in parts):
            yield f"the {part} is in it twice; write it once"
        if needed and not set(needed) & set(parts):
            yield f"the {part} says nothing without the {needed[0]}; {cure}"


def _table(runs: Sequence[str]) -> tuple[str, str]:
    """Groups that find a month by its name and an hour up to 12, and the text that they search."""
    place = {_FIELDS[run].part: number for number, run in enumerate(runs, 1)}
    lookups, table = "", ""
    if {"MMM", "MMMM"} & set(runs):
        lookups += rf"(?=[\s\S]*=(?i:\{place['month']}):(\d\d);)"
        length = 3 if "MMM" in runs else None
        table += "".join(f"={name[:length]}:{number:02};" for number, name in enumerate(_MONTHS, 1))
    if "a" in runs:
        lookups += rf"(?=[\s\S]*=0?\{place['hour of 12']}(?i:\{place['AM or PM']}):(\d\d);)"
        table += "".join(f"={hour:02}{half}:{hour % 12 + more:02};" for hour in range(1, 13) for half, more in _HALVES)
    return lookups, table and f"\n{table}"


def _iso(runs: Sequence[str]) -> str:
    """The text in ISO 8601, with groups of the pattern in it."""
    groups = [_FIELDS[run].part for run in runs]
    groups += [part for part, names in (("month", {"MMM", "MMMM"}), ("hour", {"a"})) if names & set(runs)]
    groups_by_part = {part: f"${place}" for place, part in enumerate(groups, 1)}
    date = f"{'20' if 'yy' in runs else ''}{groups_by_part['year']}-{groups_by_part['month']}-{groups_by_part['day']}"
    if "hour" not in groups_by_part:
        return date
    fraction = f".{groups_by_part['fraction']}" if "fraction" in groups_by_part else ""
    clock = (
        f"T{groups_by_part['hour']}:{groups_by_part.get('minute', '00')}:{groups_by_part.get('second', '00')}{fraction}"
    )
    return date + clock + groups_by_part.get("offset", "")
