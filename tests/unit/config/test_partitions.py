"""How partitions are written in the file, and what is refused of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakeingest.config.partition_format import FormatError, Segment, mistakes, parse_format
from lakeingest.config.parts import Partition

LA = "America/Los_Angeles"


def part(**options: Any) -> Partition:
    return TypeAdapter(Partition).validate_python({"by": "time", **options})


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("'year'=yyyy/'month'=MM", [("year", "yyyy"), ("month", "MM")]),
        ("'year='yyyy/day=dd", [("year", "yyyy"), ("day", "dd")]),
        ("'d'=yyyy'/'MM", [("d", "yyyy'/'MM")]),
    ],
)
def test_format_is_cut_into_columns(text: str, segments: list[tuple[str, str]]) -> None:
    """A format is cut at the slashes that are not quoted, with or without quotes around its names."""
    assert parse_format(text) == tuple(Segment(*s) for s in segments)


@pytest.mark.parametrize(
    ("text", "locale", "problem"),
    [
        ("", "en_US", "empty"),
        ("  ", "en_US", "empty"),
        ("'year'=YYYY", "en_US", "write yyyy"),
        ("'year'=xxxx", "en_US", "week year in Joda"),
        ("'week'=ww", "en_US", "a part of a week"),
        ("'z'=yyyyZ", "en_US", "a zone"),
        ("'t'=yyyyT", "en_US", "T is no pattern"),
        ("'t'=yyyy[MM]", "en_US", "[ is no pattern"),
        ("'t'=ddd", "en_US", "write dd"),
        ("'t'=", "en_US", "without a pattern"),
        ("yyyy/MM/dd", "en_US", "without a name"),
        ("'year'=yyyy/", "en_US", "without a name"),
        ("'year'=yyyy//'day'=dd", "en_US", "without a name"),
        ("'year=yyyy", "en_US", "never closed"),
        ("'month'=MMM", "de_DE", "English only, not in de_DE"),
        ("'day'=E", "fr", "English only, not in fr"),
        ("'half'=a", "ja_JP", "English only, not in ja_JP"),
    ],
)
def test_format_refused(text: str, locale: str, problem: str) -> None:
    """What Spark would refuse or misread in the middle of a batch is refused before, with the cure."""
    with pytest.raises(FormatError) as error:
        parse_format(text, locale)

    assert problem in str(error.value)


def test_numbers_need_no_locale() -> None:
    """A format of numbers is the same in every language."""
    assert parse_format("'month'=MM", "de_DE") == (Segment("month", "MM"),)


@pytest.mark.parametrize(
    ("partition", "where", "problem"),
    [
        ({"every": timedelta(0)}, ("every",), "positive"),
        ({"every": timedelta(hours=-1)}, ("every",), "positive"),
        ({"extract": "field"}, ("field",), "name the field"),
        ({"locale": "xx_YY"}, ("locale",), "not a locale"),
        ({"format": ""}, ("format",), "empty"),
        ({"format": "'_t'=yyyy"}, ("format",), "begin with _"),
        ({"format": "'a b'=yyyy"}, ("format",), "no name for a Delta column"),
        ({"format": "'Carrier'=yyyy"}, ("format",), "already a column of the value"),
        ({"format": "'t'=yyyy/'T'=MM"}, ("format",), "already a column of partition[0]"),
        ({"by": "field", "field": "a.b", "name": "carrier"}, ("name",), "already a column of the value"),
        ({"by": "field", "field": "a.b", "name": "_x"}, ("name",), "begin with _"),
        ({"by": "field", "field": "m.two words"}, ("name",), "no name for a Delta column"),
    ],
)
def test_partition_refused_without_spark(partition: dict[str, Any], where: tuple[str, ...], problem: str) -> None:
    """Every mistake is found offline, says where it is, and how to put it right."""
    ((place, text),) = mistakes({0: part(**partition)}, ["carrier", "a", "m"])

    assert place == ("partition", 0, *where)
    assert problem in text


@pytest.mark.parametrize("field", ["a..b", ".field", "a.   .b"])
def test_blank_path_segments_refused(field: str) -> None:
    """An empty or blank part of a dotted name is refused when the file is read."""
    with pytest.raises(ValueError, match="without an empty part"):
        part(by="field", field=field)


def test_two_periods_need_two_names() -> None:
    """Two partitions cannot make the same column."""
    found = list(mistakes({0: part(), 1: part(timezone=LA)}, []))

    assert [place for place, _ in found] == [("partition", 1, "format")]
