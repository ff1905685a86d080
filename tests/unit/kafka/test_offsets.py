"""Which offsets a micro-batch takes, what is refused of a source, and what its options mean to both clients."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakeingest.config import Source
from lakeingest.errors import OffsetsLost, SourceChanged, UsageError
from lakeingest.kafka.offsets import Topics, lag, next_ranges, starts
from lakeingest.record import OffsetRange, OffsetRanges


def source(**options: Any) -> Source:
    return Source.model_validate({"topics": ["a"], **options})


def topics(first: dict[tuple[str, int], int], last: dict[tuple[str, int], int]) -> Topics:
    return Topics("cluster", {topic: "id" for topic, _ in last}, first, last)


@pytest.mark.parametrize(
    ("begin", "end", "most", "taken"),
    [
        ({("a", 0): 0}, {("a", 0): 10}, 100, [(0, 10)]),
        ({("a", 0): 5}, {("a", 0): 10}, 3, [(5, 8)]),
        ({("a", 0): 0, ("a", 1): 0}, {("a", 0): 90, ("a", 1): 10}, 50, [(0, 45), (0, 5)]),
        ({("a", 0): 7, ("a", 1): 0}, {("a", 0): 7, ("a", 1): 10}, 4, [(7, 7), (0, 4)]),
        ({("a", 0): 0, ("a", 1): 0, ("a", 2): 0}, {("a", 0): 1, ("a", 1): 1, ("a", 2): 1}, 2, [(0, 0), (0, 1), (0, 1)]),
        ({("a", 0): 3, ("b", 0): 2}, {("a", 0): 3, ("b", 0): 2}, 5, [(3, 3), (2, 2)]),
        # A topic that the file no longer names keeps its frontier.
        ({("a", 0): 0, ("retired", 0): 8}, {("a", 0): 4}, 9, [(0, 4), (8, 8)]),
        ({}, {}, 5, []),
    ],
)
def test_a_batch_is_shared_out_by_backlog(
    begin: dict[tuple[str, int], int], end: dict[tuple[str, int], int], most: int, taken: list[tuple[int, int]]
) -> None:
    """Each partition gives in proportion to what it holds, and empty ranges carry the frontier on."""
    assert [(s.start, s.end) for s in next_ranges(begin, end, most)] == taken


@pytest.mark.parametrize("most", [1, 7, 99, 100, 1000, 10**9])
def test_a_batch_is_as_large_as_it_may_be(most: int) -> None:
    """However it is shared out, the ranges sum up to max_records or to the whole backlog, and none goes too far."""
    begin = {("a", p): p for p in range(37)}
    end = {tp: start + start**2 % 11 for tp, start in begin.items()}
    ranges = next_ranges(begin, end, most)
    assert ranges.offsets == min(most, sum(end.values()) - sum(begin.values()))
    assert all(begin[s.topic, s.partition] == s.start <= s.end <= end[s.topic, s.partition] for s in ranges)


@pytest.mark.parametrize(
    ("start", "frontier", "begin"),
    [
        ("earliest", {}, {("a", 0): 3, ("a", 1): 0}),
        ("latest", {}, {("a", 0): 9, ("a", 1): 5}),
        ("latest", {("a", 0): 4}, {("a", 0): 4, ("a", 1): 0}),
        ("latest", {("other", 0): 4}, {("a", 0): 9, ("a", 1): 5}),
        ("earliest", {("a", 0): 9, ("a", 1): 5}, {("a", 0): 9, ("a", 1): 5}),
        ("earliest", {("a", 0): 3, ("a", 1): 0}, {("a", 0): 3, ("a", 1): 0}),
        ({"a": {0: 7, 1: 5}}, {}, {("a", 0): 7, ("a", 1): 5}),
        ({"a": {0: 3, 9: 9}}, {}, {("a", 0): 3, ("a", 1): 0}),
        ({"a": {0: 7, 1: 5}}, {("a", 0): 4}, {("a", 0): 4, ("a", 1): 0}),
        ({"a": {0: 1, 1: 1}}, {("a", 0): 4, ("a", 1): 2}, {("a", 0): 4, ("a", 1): 2}),
    ],
)
def test_a_partition_starts(
    start: object, frontier: dict[tuple[str, int], int], begin: dict[tuple[str, int], int]
) -> None:
    """At its frontier; a new topic where source.start says; a new partition of a known topic at its first offset."""
    known = topics({("a", 0): 3, ("a", 1): 0}, {("a", 0): 9, ("a", 1): 5})
    assert starts(source(start=start), known, frontier) == begin


@pytest.mark.parametrize(
    ("stands", "error", "said"),
    [
        (2, OffsetsLost, "a-0: offsets 2 to 2 were never read"),
        (10, SourceChanged, "a-0: the table was fed up to offset 10, but the topic ends at 9"),
    ],
)
def test_a_frontier_outside_of_the_topic_is_refused(stands: int, error: type[Exception], said: str) -> None:
    """Lost offsets and a topic that was made anew are errors that name the place, and the cure."""
    with pytest.raises(error, match="(?s)" + said + ".*cure: "):
        starts(source(), topics({("a", 0): 3}, {("a", 0): 9}), {("a", 0): stands})


@pytest.mark.parametrize("offset", [2, 10])
def test_an_offset_to_start_at_has_to_be_there(offset: int) -> None:
    """Records that expired since would be missing in silence, and a typing error would skip others."""
    with pytest.raises(UsageError, match=rf"(?s)a-0 begin at offset {offset}, and Kafka holds 3 to 9.*cure: "):
        starts(source(start={"a": {0: offset}}), topics({("a", 0): 3}, {("a", 0): 9}), {})


def test_spans_survive_json() -> None:
    """What a commit carries is read back as it was, partitions in the order of numbers."""
    ranges = OffsetRanges((OffsetRange("a", 2, 0, 5), OffsetRange("a", 10, 7, 7), OffsetRange("b.c-d", 0, 1, 2**40)))
    tree = {"a": {"2": [0, 5], "10": [7, 7]}, "b.c-d": {"0": [1, 2**40]}}
    assert ranges.to_json() == tree
    assert OffsetRanges.from_json(tree) == ranges
    assert ranges.frontier == {("a", 2): 5, ("a", 10): 7, ("b.c-d", 0): 2**40}


def test_lag_counts_what_lies_beyond_the_frontier() -> None:
    """A partition that was never read lags from its beginning."""
    assert lag({("a", 0): 4}, {("a", 0): 9, ("a", 1): 3}) == 8


def test_secrets_are_never_shown() -> None:
    """No repr of a source tells the value of an option."""
    made = source(options={"sasl.password": "hush", "ssl.key.password": "quiet"})
    shown = f"{made!r} {made} {made.model_dump()} {made.model_dump_json()}"
    assert "hush" not in shown
    assert "quiet" not in shown


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.offset.reset", "key.deserializer"])
def test_an_option_that_spark_refuses(name: str) -> None:
    """What Spark's reader decides by itself is a mistake of the file, found before anything runs."""
    with pytest.raises(ValidationError, match=f"Kafka reader decides by itself: {name}; drop it"):
        source(options={name: "true"})
