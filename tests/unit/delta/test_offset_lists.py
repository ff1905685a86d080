"""Lists of offsets within a receipt: any of them comes back, and they are short."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeingest.delta.offset_lists import NO_OFFSETS, OffsetLists

PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2**62)), unique=True)


@given(PLACES)
def test_they_come_back(places: list[tuple[str, int, int]]) -> None:
    lists = OffsetLists.of(places)
    again = OffsetLists.from_json(json.loads(json.dumps(lists.to_json())))
    assert again == lists
    assert list(again) == sorted(places)
    assert len(again) == len(places)


def test_none() -> None:
    assert (OffsetLists.of([]), NO_OFFSETS.to_json(), list(NO_OFFSETS)) == (NO_OFFSETS, {}, [])


@pytest.mark.parametrize(("share", "most"), [(0.001, 3_000), (0.01, 16_000), (0.5, 210_000), (1.0, 2_000)])
def test_how_long_they_are(share: float, most: int) -> None:
    """Of a batch of a million records; what has to go into the log with the commit."""
    dice = random.Random(1)
    text = json.dumps(OffsetLists.of(("t", 0, n) for n in range(10**6) if dice.random() < share).to_json())
    assert len(text) < most
