"""The bounds around a batch's keys, which leave files out of a merge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from lakeingest.delta.latest import ComparedField

BITS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}


@given(data=st.data())
@pytest.mark.parametrize("kind", BITS, ids=lambda kind: kind.__name__)
def test_whole_numbers_lie_within(kind: type[T.DataType], data: st.DataObject) -> None:
    """The bounds are values of the type, and not much wider than the keys."""
    limit = 2 ** (BITS[kind] - 1)
    values = st.integers(-limit, limit - 1)
    least, greatest = sorted((data.draw(values), data.draw(values)))
    below, above = ComparedField("k", "`k`", kind()).around(least, greatest)
    assert -limit <= below <= least <= greatest <= above < limit
    assert above - below <= 1.5 * (greatest - least) + 1


def test_they_stay_where_keys_are_spread_alike() -> None:
    """Batches of any keys of a million have the same bounds, and so one statement."""
    field = ComparedField("k", "`k`", T.LongType())
    assert {field.around(least, 999_999 - rest) for least in (3, 70, 900) for rest in (0, 12, 400)} == {(0, 1_048_575)}
    assert field.around(7, 7) == (7, 7)
    assert field.around(None, None) == (None, None)
    assert ComparedField("k", "`k`", T.StringType()).around("a", "z") == ("a", "z")
