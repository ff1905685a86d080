"""Periods of time partitions, on the clock and as instants, against every minute of some days."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeingest.config.parts import FieldPartition, TimePartition
from lakeingest.config.periods import Periods, of, told_apart

NEW_YORK, LORD_HOWE = "America/New_York", "Australia/Lord_Howe"
MINUTE = timedelta(minutes=1)


def periods(every: str = "hour", zone: str = "UTC", **options: Any) -> Periods:
    return Periods(TimePartition.model_validate({"by": "time", "every": every, "timezone": zone, **options}))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "zone", "first"),
    [
        ("hour", NEW_YORK, "2026-10-31T20:00"),
        ("hour", NEW_YORK, "2026-03-07T20:00"),
        ("15 minutes", NEW_YORK, "2026-10-31T20:00"),
        ("90 minutes", NEW_YORK, "2026-03-07T20:00"),
        ("day", NEW_YORK, "2026-10-30T20:00"),
        ("month", NEW_YORK, "2026-10-31T20:00"),
        ("hour", LORD_HOWE, "2026-04-04T06:00"),
        ("30 minutes", LORD_HOWE, "2026-10-03T06:00"),
        ("year", "Asia/Kolkata", "2025-12-31T00:00"),
        ("hour", "Pacific/Apia", "2011-12-29T20:00"),
    ],
)
def test_a_period_ends_behind_its_last_minute(every: str, zone: str, first: str) -> None:
    """Of 48 hours each minute, by its own local time: also where an hour is there twice, or not at all."""
    made, begin = periods(every, zone), utc(first)
    seen: dict[datetime, list[datetime]] = {}
    for minute in (begin + number * MINUTE for number in range(48 * 60)):
        local = minute.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
        assert made.of(minute) == made.start(local)
        seen.setdefault(made.start(local), []).append(minute)
    whole = [*seen][1:-1]
    for start in whole:
        assert made.begin(start) == seen[start][0]
        assert made.end(start) == seen[start][-1] + MINUTE
    if whole:
        assert [*made.between(whole[0], whole[-1])] == sorted(whole)


def test_the_newest_period_that_is_over() -> None:
    """An hour that is there twice is over when it has passed the second time."""
    made = periods("hour", NEW_YORK)
    for instant, ended in [
        ("2026-11-01T05:00", "2026-11-01T00:00"),
        ("2026-11-01T06:30", "2026-11-01T00:00"),
        ("2026-11-01T07:00", "2026-11-01T01:00"),
        ("2026-03-08T07:00", "2026-03-08T01:00"),
    ]:
        assert made.ended(utc(instant)) == datetime.fromisoformat(ended)


FORMATS = {
    "day": "'year'=yyyy/'month'=MM/'day'=dd",
    "hour": "'d'=yyyy-MM-dd/'h'=yyyy'T'HH",
    "15 minutes": "'t'=yyyyMMdd-HHmm'h'",
}


@given(
    st.datetimes(datetime(3, 1, 1), datetime(9998, 1, 1)),
    st.sampled_from(["year", "month", "day", "hour", "15 minutes", "36 hours"]),
    st.booleans(),
)
def test_what_is_written_is_read(local: datetime, every: str, formatted: bool) -> None:
    """Values of partition columns, and what one asks for."""
    options = {"format": FORMATS[every]} if formatted and every in FORMATS else {}
    made = periods(every, **options)
    start = made.start(local)
    assert made.parse(made.values(start)) == start
    assert made.read(made.text(start)) == start
    assert start <= local < made.after(start)


def test_two_quotes_in_a_format_are_one() -> None:
    """As Spark writes them."""
    made = periods("hour", format="'t'=yyyy-MM-dd' 'HH'o''clock'")
    assert made.values(datetime(2026, 1, 1, 5)) == ("2026-01-01 05o'clock",)


@pytest.mark.parametrize("value", ["", None, "2026-02-30-10", "2026-02-03-10 ", "0000-01-01-00", "٢٠٢٦-01-01-00", "x"])
def test_other_values_are_no_periods(value: str | None) -> None:
    """Somebody may have written them."""
    assert periods().parse([value]) is None


def test_values_that_contradict_each_other_are_no_period() -> None:
    """Two columns with a year each."""
    assert periods("hour", format=FORMATS["hour"]).parse(["2026-01-01", "2025T03"]) is None
    assert periods("15 minutes").parse(["2026-01-01-00-07"]) is None


@pytest.mark.parametrize(
    ("every", "zone", "text", "said"),
    [
        ("hour", "UTC", "2026-11-23", "no period"),
        ("hour", "UTC", "", "no period"),
        ("hour", "UTC", "2026-11-23T25", "no period"),
        ("day", "UTC", "2026-11-23T14", "no period"),
        ("hour", "UTC", "9999-12-31T23", "outside of the years"),
        ("hour", "UTC", "0001-01-01T00", "outside of the years"),
        ("15 minutes", "UTC", "2026-11-23T14:07", "begins at 2026-11-23T14:00"),
        ("hour", NEW_YORK, "2026-03-08T02", "skips"),
        ("hour", "UTC", "２０２６-11-23T14", "no period"),
    ],
)
def test_what_is_no_period_is_refused(every: str, zone: str, text: str, said: str) -> None:
    """With how one is written, in which zone."""
    with pytest.raises(ValueError, match=said) as wrong:
        periods(every, zone).read(text)
    assert re.search(r"write one as in \d{4}-", str(wrong.value))


def test_which_partitions_have_periods() -> None:
    """One time, the records' or a field's."""
    time, field = TimePartition(by="time"), FieldPartition(by="field", field="a")
    assert of([field, time]) == Periods(time)
    assert of([field]) is None
    assert of([time, time]) is None
    assert of([TimePartition(by="time", extract="wallclock")]) is None


@pytest.mark.parametrize(
    ("part", "is_apart"),
    [
        ({"by": "time", "every": "hour"}, True),
        ({"by": "time", "every": "day", "format": "'year'=yyyy/'month'=MM/'day'=dd"}, True),
        ({"by": "time", "every": "hour", "format": "'year'=yyyy/'month'=MM/'day'=dd"}, False),
        ({"by": "time", "every": "day", "extract": "wallclock"}, False),
        ({"by": "field", "field": "a"}, False),
    ],
)
def test_each_period_has_partitions_of_its_own(part: dict[str, Any], is_apart: bool) -> None:
    """Else an hour could not be told from its day."""
    kind = TimePartition if part["by"] == "time" else FieldPartition
    assert (told_apart([kind.model_validate(part)]) is not None) == is_apart
