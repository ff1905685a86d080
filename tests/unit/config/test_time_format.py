"""Patterns of dates and times: what is none is refused with the file, before any record comes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeingest.config import JsonValue, file
from lakeingest.config.time_format import Kind, compiled
from lakeingest.errors import PipelineFileError

FILE = """\
name: orders
source: {topics: [orders]}
schema: {columns: "d DATE"}
table: {path: "s3a://lake/orders"}
decode: {value: {format: json, date_format: YYYY-MM-dd}}
"""


@pytest.mark.parametrize(
    ("pattern", "kind", "said"),
    [
        ("yyyy-mm-dd", "date", "mm is the minute, which a DATE has not; write MM for the month"),
        ("DD.MM.yyyy", "date", "DD is the day of the year; write MM and dd"),
        ("dd.MM.YYYY", "date", "YYYY is the year of a week; write yyyy"),
        ("dd.MM", "date", "the year is missing; write yyyy"),
        ("dd.MM.yyy", "date", "yyy is no year that is read; write yyyy, or yy"),
        ("EEE dd MMM yyyy", "date", "EEE is a day of the week, which Spark reads from no text"),
        ("yyyy-MM-dd-dd", "date", "the day is in it twice; write it once"),
        ("yyyyMd", "date", "M may take one digit or more, and d follows at once"),
        ("ISO", "date", "I is no letter of a time; put text into quotes: 'I'"),
        ("", "date", "empty; write a pattern, as in dd.MM.yyyy"),
        ("yyyy-MM-dd hh:mm", "timestamp", "the hour of 12 says nothing without the AM or PM; write HH, or a too"),
        ("yyyy-MM-dd HH:mm a", "timestamp", "the AM or PM says nothing without the hour of 12; write hh with it"),
        ("yyyy-MM-dd HH hh a", "timestamp", "the hour is in it twice"),
        ("yyyy-MM-dd HH:ss", "timestamp", "the second says nothing without the minute; write mm too"),
        ("yyyy-MM-ddXXX", "timestamp", "the offset says nothing without the hour"),
        ("yyyy-MM-dd HH:mm z", "timestamp", "z is a zone by its name; write XXX for +02:00, or XX for +0200"),
        ("yyyy-MM-dd HH:mmX", "timestamp", "X is no offset that is read; write XXX"),
        ("yyyy-MM-ddTHH:mm", "timestamp", "T is no letter of a time; put text into quotes: 'T'"),
        ("yyyy-MM-dd[ HH:mm]", "timestamp", "[ is for parts that may be missing; write a list of patterns"),
        ("yyyy-MM-dd 'at", "timestamp", "a quote is never closed; close it"),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSSS", "timestamp", "is more than nanoseconds; write SSSSSSSSS at most"),
        ("yyyy-MM-dd HH{", "timestamp", "{ is no letter of a time; put text into quotes: '{'"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, kind: Kind, said: str) -> None:
    """A mistake is told with its letters and the cure."""
    with pytest.raises(ValueError, match="as in") as caught:
        compiled(pattern, kind)
    assert said in str(caught.value)
    assert repr(pattern) in str(caught.value) or not pattern


def test_a_reserved_sign_in_quotes_is_text() -> None:
    """As the message for one without quotes advises."""
    assert re.search(compiled("'{'dd'}' MM yyyy", "date").sought, "{31} 12 2026")


def test_one_pattern_or_a_list() -> None:
    """A single pattern is a list of one, and iso is one of them."""
    made = JsonValue.model_validate(
        {"format": "json", "date_format": "d.M.yyyy", "timestamp_format": ["iso", "d.M.yy HH:mm"]}
    )
    assert (made.date_format, made.timestamp_format) == (("d.M.yyyy",), ("iso", "d.M.yy HH:mm"))


def test_a_unit_of_numbers_needs_a_place_for_numbers(tmp_path: Path) -> None:
    """Where a time is read by patterns alone, no number is one."""
    decode = "{format: json, epoch: seconds, timestamp_format: [%s]}"
    path = tmp_path / "orders.yaml"
    path.write_text(FILE.replace("{format: json, date_format: YYYY-MM-dd}", decode % "yyyy-MM-dd"), encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        file.read(path, {})
    (problem,) = caught.value.problems
    assert "decode.value.epoch: no number is a time where timestamp_format is given without iso; add iso" in problem
    path.write_text(
        FILE.replace("{format: json, date_format: YYYY-MM-dd}", decode % "yyyy-MM-dd, iso"), encoding="utf-8"
    )
    file.read(path, {})


def test_a_bad_pattern_is_found_with_the_file(tmp_path: Path) -> None:
    """The check of a file names the line, the pattern and the cure."""
    (tmp_path / "orders.yaml").write_text(FILE, encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        file.read(tmp_path / "orders.yaml", {})
    (problem,) = caught.value.problems
    assert "orders.yaml:5: decode.value.date_format: " in problem
    assert "'YYYY-MM-dd': YYYY is the year of a week; write yyyy, as in dd.MM.yyyy" in problem
