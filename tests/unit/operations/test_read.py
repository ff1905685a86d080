"""What `lakeingest read` asks for, which files it opens for it, and how values become JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.delta.reader.log import DataFile
from lakeingest.errors import UsageError
from lakeingest.operations import read
from lakeingest.operations.read import RecordSelection


@pytest.mark.parametrize(
    ("text", "begin", "length"),
    [
        ("2026-11-23", "2026-11-23T00:00:00", timedelta(days=1)),
        ("2026-11-23T14", "2026-11-23T14:00:00", timedelta(hours=1)),
        ("2026-11-23 14:05", "2026-11-23T14:05:00", timedelta(minutes=1)),
        ("2026-11-23T14:05:09Z", "2026-11-23T14:05:09", timedelta(seconds=1)),
        ("2026-11-23T14:05:09.250", "2026-11-23T14:05:09.250", timedelta(milliseconds=1)),
        ("2026-11-23T00+02:00", "2026-11-22T22:00:00", timedelta(hours=1)),
        ("2026-11-23-05:30", "2026-11-23T05:30:00", timedelta(days=1)),
    ],
)
def test_a_time_is_as_long_as_it_is_written(text: str, begin: str, length: timedelta) -> None:
    """A day is a day, in UTC unless a zone is named."""
    start = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    assert read.within(text) == (start, start + length)


@pytest.mark.parametrize(
    "text", ["", "now", "2026", "2026-02-30", "2026-11-23T24", "2026-11-23T1", "9999-12-31", "٢٠٢٦-11-23"]
)
def test_what_is_no_time(text: str) -> None:
    """It is named, with what could be written."""
    with pytest.raises(UsageError, match=r"--at .* is no time") as caught:
        read.within(text)
    assert "as in 2026-11-23" in caught.value.cure


@pytest.mark.parametrize(("first", "end"), [(5, 5), (6, 5)])
def test_offsets_that_mean_nothing(first: int, end: int) -> None:
    """The end is the first that is not read."""
    with pytest.raises(UsageError, match=f"--to-offset {end} is not behind --from-offset {first}"):
        RecordSelection(first=first, end=end)


# Texts that differ behind what statistics keep of them, or only by a character beyond 16 bits.
TEXTS = st.sampled_from(["a", "b", "x" * 31, "x" * 32, "x" * 33, "x" * 32 + "a", "x" * 32 + "\U0001f600", "", "é"])
MICROS = st.integers(0, 5_000)
ROW = st.tuples(TEXTS, st.integers(0, 2), st.integers(0, 5), MICROS, st.none() | TEXTS)
START = datetime(2026, 11, 23, tzinfo=UTC)


def time_of(micros: int) -> datetime:
    return START + timedelta(microseconds=micros)


def cut(text: str, *, most: bool) -> str:
    """As Delta keeps texts: the beginning, and for the greatest one with a greater character behind it."""
    return text if len(text) <= 32 else text[:32] + ("\U0010ffff" if most else "")


def in_statistics(micros: int) -> str:
    return f"{time_of(micros // 1000 * 1000):%Y-%m-%dT%H:%M:%S}.{micros // 1000 % 1000:03}Z"


def file_of(rows: list[tuple[Any, ...]]) -> DataFile:
    ends = {}
    for end, which in (("minValues", min), ("maxValues", max)):
        most = end == "maxValues"
        topics, partitions, offsets, micros, keys = zip(*rows, strict=True)
        held = {
            "_topic": cut(which(topics), most=most),
            "_partition": which(partitions),
            "_offset": which(offsets),
            "_timestamp": in_statistics(which(micros)),
        }
        if there := [key for key in keys if key is not None]:
            held["_key"] = cut(which(there), most=most)
        ends[end] = held
    return DataFile("a.parquet", 1, {}, json.dumps({"numRecords": len(rows), **ends}))


WANTED = st.builds(
    lambda topic, partition, offsets, times, key: RecordSelection(topic, partition, *offsets, *times, key),
    st.none() | TEXTS,
    st.none() | st.integers(0, 2),
    st.tuples(st.none(), st.none()) | st.tuples(st.integers(0, 2), st.integers(3, 6)),
    st.tuples(st.none(), st.none()) | st.tuples(MICROS.map(time_of), MICROS.map(time_of)),
    st.none() | TEXTS,
)


@searched(300)
@given(st.lists(ROW, min_size=1, max_size=4), WANTED)
def test_no_file_with_a_wanted_record_stays_shut(rows: list[tuple[Any, ...]], wanted: RecordSelection) -> None:
    """Statistics are cut, texts and times alike: that hides no record."""

    def is_wanted(topic: str, partition: int, offset: int, micros: int, key: str | None) -> bool:
        return (
            wanted.topic in (None, topic)
            and wanted.partition in (None, partition)
            and (wanted.first is None or wanted.first <= offset)
            and (wanted.end is None or offset < wanted.end)
            and (wanted.since is None or wanted.since <= time_of(micros))
            and (wanted.until is None or time_of(micros) < wanted.until)
            and (wanted.key is None or wanted.key == key)
        )

    if any(is_wanted(*row) for row in rows):
        assert read.may_hold(file_of(rows), wanted, "_key")


@pytest.mark.parametrize(
    ("wanted", "opened"),
    [
        (RecordSelection(), True),
        (RecordSelection(first=11), False),
        (RecordSelection(end=4), False),
        (RecordSelection(first=10, end=11), True),
        (RecordSelection(partition=1), False),
        (RecordSelection(topic="other"), False),
        (RecordSelection(since=START + timedelta(seconds=1)), False),
        (RecordSelection(until=START), False),
        (RecordSelection(key="zz"), False),
    ],
)
def test_a_file_without_any_stays_shut(wanted: RecordSelection, opened: bool) -> None:
    """By each of its statistics."""
    rows = [("t", 0, 4, 1000, "a"), ("t", 0, 10, 3000, "k")]
    assert read.may_hold(file_of(rows), wanted, "_key") is opened


def test_partitions_and_missing_statistics() -> None:
    """A table that is partitioned by topic has no statistics of it; a file without any is opened."""
    parted = DataFile("a", 1, {"_topic": "t", "_partition": "3"}, '{"numRecords": 1}')
    assert read.may_hold(parted, RecordSelection(topic="t", partition=3), "_key")
    assert not read.may_hold(parted, RecordSelection(topic="u"), "_key")
    assert not read.may_hold(parted, RecordSelection(partition=0), "_key")
    assert read.may_hold(DataFile("a", 1, {}, None), RecordSelection(first=1, end=2, key="k"), "_key")


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (pa.binary(), b"text", "text"),
        (pa.binary(), b"\xff", {"base64": "/w=="}),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float64(), float("-inf"), "-Infinity"),
        (pa.float64(), 1.5, 1.5),
        (pa.decimal128(20, 2), Decimal("12345678901234567.10"), "12345678901234567.10"),
        (pa.decimal128(20, 10), Decimal("0E-10"), "0.0000000000"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006Z"),
        (pa.timestamp("us"), datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (pa.date32(), date(1, 1, 1), "0001-01-01"),
        (pa.list_(pa.binary()), [b"a", None], ["a", None]),
        (pa.struct([("a", pa.list_(pa.float64()))]), {"a": [float("inf")]}, {"a": ["Infinity"]}),
        (pa.map_(pa.int64(), pa.binary()), [(1, b"x"), (2, None)], {"1": "x", "2": None}),
        # As older tables may have it: the last one holds.
        (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", 2), ("a", 3)], {"a": 3, "b": 2}),
        (pa.bool_(), True, True),
    ],
)
def test_values_as_json_has_them(kind: Any, value: Any, plain: Any) -> None:
    """Nothing is lost: what JSON has no number for is text."""
    assert read._nullable(kind)(pa.array([value], kind).to_pylist()[0]) == plain
    assert read._nullable(kind)(None) is None
    json.dumps(plain, allow_nan=False)
