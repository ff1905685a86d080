"""Names and patterns of partition columns, checked without Spark: `'year'=yyyy/'month'=MM` → (year, yyyy), (month, MM).

A format is Confluent's path.format with the pattern letters of Spark's `date_format`
(spark.apache.org, "Datetime Patterns for Formatting and Parsing"): what Spark would refuse in the middle of a batch,
or would format into something else than Joda, is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches

from lakeingest.config.parts import FieldPartition, KafkaPartition, Partition, TimePartition
from lakeingest.schema import time_patterns

KAFKA_PARTITION = "kafka_partition"
"""The column of `by: kafka_partition`."""

_DEFAULTS = {"year": ("year", "yyyy"), "month": ("month", "yyyy-MM"), "hour": ("hour", "yyyy-MM-dd-HH")}
_LONGEST = {"y": 6, "S": 9, "D": 3, "a": 1, **dict.fromkeys("MLEQG", 4), **dict.fromkeys("dhHkKms", 2)}
"""The longest run of each letter that Spark 4.1 formats (tried one by one)."""
_CURES = {
    **dict.fromkeys("Y", "a week year in Spark, wrong around New Year; write yyyy"),
    **dict.fromkeys("x", "a week year in Joda, but a zone offset in Spark; write yyyy"),
    **dict.fromkeys("zZXOVv", "a zone, which is the partition's own for every record; drop it"),
    **dict.fromkeys("wWuec", "a part of a week, which Spark does not format; write dates, as in yyyy-MM-dd"),
}
_NAME = r"'(?P<quoted>[^'=]+)'=|'(?P<inside>[^'=]+)='|(?P<plain>\w+)="
_SEGMENT = re.compile(f"(?P<name>{_NAME})?(?P<pattern>.*)", re.DOTALL)
_SLASH = re.compile(r"/(?=(?:[^']*'[^']*')*[^']*$)")
_UNSTORABLE = re.compile(r"[ ,;{}()=/\\.`'\"\x00-\x1f\x7f]")
_EXAMPLE = "as in 'year'=yyyy/'month'=MM/'day'=dd"


@dataclass(frozen=True)
class Segment:
    """One partition column of a time: its name, and the pattern of its text (None: a DATE)."""

    name: str
    pattern: str | None


class FormatError(ValueError):
    """A format that makes no partition columns; `problems` holds one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_format(text: str, locale: str = "en_US") -> tuple[Segment, ...]:
    """Cut a format at its slashes into named patterns; quotes around the names may be left out.

    Raises:
        FormatError: empty, a segment without a name or a pattern, a letter that Spark cannot format, or a pattern
            of words (MMM, EEE, a, …) in another language than English, the only one that Spark formats in.
    """
    if not text.strip():
        raise FormatError((f"empty; write names and patterns, {_EXAMPLE}",))
    if text.count("'") % 2:
        raise FormatError((f"{text!r}: a quote is never closed; close it, {_EXAMPLE}",))
    segments, problems = [], []
    for match in written_segments(text):
        part = match[0]
        if not match["name"]:
            problems.append(f"{part!r}: a path segment without a name; write name=pattern, {_EXAMPLE}")
            continue
        segment = Segment(match["quoted"] or match["inside"] or match["plain"], match["pattern"])
        segments.append(segment)
        problems += [f"{part!r}: {problem}" for problem in _pattern(match["pattern"], locale)]
    if problems:
        raise FormatError(tuple(problems))
    return tuple(segments)


def written_segments(text: str) -> Iterator[re.Match[str]]:
    """The segments between a format's slashes, each with its `pattern`, and the `name` before it if it has one."""
    return (match for segment in _SLASH.split(text) if (match := _SEGMENT.match(segment)))


def check_locale(locale: str) -> None:
    """Refuse a locale that does not exist.

    Raises:
        FormatError: not a language, or a language and country, that is known.
    """
    from locale import locale_alias

    languages = {alias.partition(".")[0].partition("@")[0] for alias in locale_alias.values()}
    languages |= {name.partition("_")[0] for name in languages}
    if locale.replace("-", "_") not in languages:
        close = get_close_matches(locale.replace("-", "_"), languages, n=1, cutoff=0.75)
        raise FormatError((f"not a locale; {f'did you mean {close[0]}?' if close else 'write one such as en_US'}",))


def segments(part: TimePartition) -> tuple[Segment, ...]:
    """The partition columns of a time: those of its format, or one that is named after its period.

    Raises:
        FormatError: see `parse_format`.
    """
    if part.format is not None:
        return parse_format(part.format, part.locale)
    if part.every == "day":
        return (Segment("day", None),)
    if isinstance(part.every, timedelta):
        seconds = "" if part.every % timedelta(minutes=1) == timedelta(0) else "-ss"
        return (Segment("time", f"yyyy-MM-dd-HH-mm{seconds}"),)
    return (Segment(*_DEFAULTS[part.every]),)


def field_name(part: FieldPartition) -> str:
    """The column of a field: its `name`, or the field's with the dots as underscores."""
    return part.name if part.name is not None else part.field.replace(".", "_")


def mistakes(
    partition: Mapping[int, Partition], columns: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every mistake in the partitions by position: where it is (option names, positions), and what, cure included.

    Args:
        partition: a position in the file's list → the part.
        columns: the names of the value's columns, which no partition column may bear (compared without case, as
            Spark does). A top-level field without a `name` partitions by the value column itself.
    """
    holders = {name.lower(): "a column of the value" for name in columns}
    for position, part in partition.items():
        where: tuple[str | int, ...] = ("partition", position)
        try:
            if isinstance(part, TimePartition):
                yield from (((*where, option), text) for option, text in _time(part))
            names = _names(part)
        except FormatError as error:
            yield from (((*where, "format"), problem) for problem in error.problems)
            continue
        for name in names:
            option = {"time": "format", "field": "name"}.get(part.by, "by")
            yield from (((*where, option), text) for text in _name(name, part, holders))
            holders[name.lower()] = f"a column of partition[{position}]"


def _time(part: TimePartition) -> Iterator[tuple[str, str]]:
    if isinstance(part.every, timedelta) and part.every <= timedelta(0):
        yield "every", f"{part.every} is no period; write a positive duration, as in '15 minutes'"
    if part.extract == "field" and not part.field:
        yield "field", "required by extract: field, and missing; name the field"
    try:
        check_locale(part.locale)
    except FormatError as error:
        yield "locale", f"{part.locale!r}: {error}"


def computed(part: Partition) -> tuple[str, ...]:
    """The partition columns that are no columns of the value itself."""
    names = _names(part)
    return () if isinstance(part, FieldPartition) and names == (part.field,) else names


def _names(part: Partition) -> tuple[str, ...]:
    if isinstance(part, TimePartition):
        return tuple(segment.name for segment in segments(part))
    return (KAFKA_PARTITION,) if isinstance(part, KafkaPartition) else (field_name(part),)


def _name(name: str, part: Partition, holders: Mapping[str, str]) -> Iterator[str]:
    itself = isinstance(part, FieldPartition) and name == part.field
    holder = holders.get(name.lower())
    if holder and not (itself and holder == "a column of the value"):
        yield f"{name!r} is already {holder}; give the partition column another name"
    if name.startswith("_"):
        yield f"{name!r}: names that begin with _ are lakeingest's own; give the column another name"
    if not name or _UNSTORABLE.search(name):
        yield (
            f"{name!r} is no name for a Delta column: it is empty, or has a blank, a quote or one of ,;{{}}()=/.; "
            "write another"
        )


def _pattern(pattern: str, locale: str) -> Iterator[str]:
    if not pattern:
        yield "a name without a pattern; write name=pattern, " + _EXAMPLE
    for run in time_patterns.runs(pattern):
        letter = run[0]
        if letter in _CURES:
            yield f"{run} is {_CURES[letter]}"
        elif letter not in _LONGEST:
            yield f"{run} is no pattern of Spark's date_format; put text into quotes, as in 'at'"
        elif len(run) > _LONGEST[letter]:
            yield f"{run} is too long for Spark's date_format; write {letter * _LONGEST[letter]}"
        elif (letter in "EaG" or (letter in "MLQ" and len(run) > 2)) and not locale.startswith("en"):
            yield f"{run} is a word, which Spark writes in English only, not in {locale}; write numbers, or en_US"
