"""What `_valid_from` and `_valid_to` promise a reader, by the model that the tables are held against."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.oracle.examples import searched
from support.oracle.version_ends import Version, ends, valid_at

_DRAWN = st.lists(st.tuples(st.sampled_from([None, 1, 1, 2, 2]), st.integers(0, 4), st.integers(0, 6), st.booleans()))


@searched(300)
@given(_DRAWN)
def test_a_moment_shows_the_latest_version_of_each_key(drawn: list[tuple[int | None, int, int, bool]]) -> None:
    """Whatever times the records name: also where a later one begins before an earlier one."""
    versions = [
        Version(key, (order, at), begins, deletes or key is None)
        for at, (key, order, begins, deletes) in enumerate(drawn)
    ]
    until = [*zip(versions, ends(versions), strict=True)]
    for moment in range(-1, 8):
        shown = {each for each, end in until if each.begins <= moment and (end is None or moment < end)}
        assert shown == valid_at(versions, moment)
    assert {each for each, end in until if end is None} == valid_at(versions, 100)
