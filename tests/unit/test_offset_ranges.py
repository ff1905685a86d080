"""Ranges of offsets as sets: what one computes of ranges is what one counts by hand, offset by offset."""

from __future__ import annotations

import random

import pytest

from lakeingest.record import OffsetRange, OffsetRanges, coordinates_of

Place = tuple[str, int, int]


def some(dice: random.Random) -> OffsetRanges:
    """Ranges in any order; some empty, some backwards, some within others."""
    return OffsetRanges(
        tuple(
            OffsetRange(dice.choice("tu"), dice.randrange(2), start, start + dice.randrange(-2, 12))
            for start in (dice.randrange(30) for _ in range(dice.randrange(7)))
        )
    )


def places(ranges: OffsetRanges) -> set[Place]:
    return {(s.topic, s.partition, offset) for s in ranges for offset in range(s.start, s.end)}


@pytest.mark.parametrize("seed", range(200))
def test_sets_of_offsets(seed: int) -> None:
    """What is left is merged: no range is empty, or touches the next."""
    dice = random.Random(seed)
    one, other = some(dice), some(dice)
    assert places(one.without(other)) == places(one) - places(other)
    assert places(one.shared(other)) == places(one) & places(other)
    for found in (one.without(other), one.shared(other)):
        assert found == found.merged


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("flights-2:1041", ("flights", 2, 1041)),
        ("a-b.c-0:0", ("a-b.c", 0, 0)),
        ("flights-2", None),
        ("flights:2", None),
        ("-2:1", None),
        ("flights-2:-1", None),
        ("flights-2:1.5", None),
        ("flights-²:1", None),
        ("", None),
    ],
)
def test_coordinates_in_a_text(text: str, found: Place | None) -> None:
    assert coordinates_of(text) == found
