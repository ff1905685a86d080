"""What a batch's sums notice, and where they say that it is."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from lakeingest.delta import range_sums, sums
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.record import OffsetRange

ROWS = [("t", partition, offset) for partition in range(8) for offset in range(100, 150)]


def test_sums_survive_json() -> None:
    """Of both tables, and what is not known is null."""
    made = BatchSums(7, sums.of(ROWS), None)
    assert made.to_json()["quarantine"] is None
    assert BatchSums.from_json(made.to_json()) == made


def test_order_and_parts_do_not_matter() -> None:
    """Sums of parts add up."""
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    assert sums.of(shuffled) == sums.of(ROWS) == sums.of(ROWS[:30]) + sums.of(ROWS[30:])
    assert sums.of([]) == Sums()


@pytest.mark.parametrize(
    ("taken", "put", "parts"),
    [
        ([("t", 3, 120)], [], {3}),
        ([], [("t", 3, 120)], {3}),
        ([("t", 3, 120)], [("t", 3, 121)], {3}),
        ([("t", 3, 120)], [("t", 3, 190)], {3}),
        ([("t", 3, 120)], [("t", 4, 120)], {3, 4}),
        ([("t", 3, 120)], [("u", 3, 120)], {3}),
        # The sum of offsets stays, as does that of their squares where three are exchanged.
        ([("t", 3, 110), ("t", 3, 140)], [("t", 3, 90), ("t", 3, 160)], {3}),
        ([("t", 3, 101), ("t", 3, 105), ("t", 3, 106)], [("t", 3, 152), ("t", 3, 156), ("t", 3, 4)], {3}),
        ([("t", 3, 110), ("t", 3, 140)], [("t", 3, 111), ("t", 3, 111)], {3}),
        ([("t", 3, 110), ("t", 5, 140)], [("t", 5, 110), ("t", 3, 140)], {3, 5}),
    ],
)
def test_what_is_noticed(taken: list[sums.Place], put: list[sums.Place], parts: set[int]) -> None:
    """A row too few, too many, at another offset, in another partition or topic; and where it is."""
    there = [row for row in ROWS if row not in taken] + put
    assert sums.of(there) != sums.of(ROWS)
    assert sums.of(there).differs_at(sums.of(ROWS)) == parts


def test_no_small_change_goes_unnoticed() -> None:
    """No two, and no four, of neighbouring offsets cancel each other out."""
    numbers = [sums.of([("t", 0, offset)]).mixed for offset in range(2000)]
    pairs = [a ^ b for a, b in combinations(numbers, 2)]
    assert len({*numbers}) == len(numbers)
    assert len({*pairs}) == len(pairs)


def test_each_bit_is_as_often_set() -> None:
    """Of neighbouring offsets, which have most bits in common."""
    numbers = [sums.of([("t", 0, offset)]).mixed for offset in range(20_000)]
    shares = [sum(number >> bit & 1 for number in numbers) / len(numbers) for bit in range(62)]
    assert all(0.48 < share < 0.52 for share in shares)


def test_a_million_names() -> None:
    """Topic-partitions have seeds of their own."""
    made = {sums.seeds(f"topic_{name}", partition) for name in range(500) for partition in range(2000)}
    assert len(made) == 1_000_000


@pytest.mark.parametrize(
    "ranges",
    [
        [("t", 0, 0, 1)],
        [("t", 0, 5, 5)],
        # More than are made together, and a border within a range; and places where x begins again at 0.
        [("t", 3, 10, 40), ("ü", 1027, 7, 40_000), ("t", 4, 2**31 - 50_000, 2**31 + 50_000)],
        [("t", p, 2**62 + 13 * p, 2**62 + 13 * p + 11) for p in range(40)],
    ],
)
def test_sums_of_ranges_are_those_of_their_offsets(ranges: list[tuple[str, int, int, int]]) -> None:
    """The quick way gives what one counts offset by offset."""
    each = [OffsetRange(*r) for r in ranges]
    expected = sums.of((s.topic, s.partition, offset) for s in each for offset in range(s.start, s.end))
    assert range_sums.of([each, [], each[:1]])[:2] == [expected, Sums()]
    assert range_sums.of([each[:1], each])[1] == expected
