"""A database's log that begins anew shows in its events; those that a connector sends again do not look like it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakeingest.delta.log_ends import CLOCK_STEP, NO_ENDS, BatchEvents, LogEnd, LogEnds

_HERE = ("shop.public.orders", 0)
_LONG = (CLOCK_STEP + timedelta(seconds=1)) // timedelta(microseconds=1)


def _batch(events: Sequence[LogEnd], first: int = 0) -> BatchEvents:
    """Of these events in the order of their offsets."""
    numbered = [*enumerate(events, first)]
    far_offset, far = max(numbered, key=lambda each: (each[1].place, each[0]))
    late_offset, late = max(numbered, key=lambda each: (each[1].at, each[0]))
    return BatchEvents(far, far_offset, late, late_offset)


def _stops(events: Sequence[LogEnd], size: int) -> bool:
    """Whether a run stops that takes the events in batches of a size."""
    ends = NO_ENDS
    for at in range(0, len(events), size):
        batch = _batch(events[at : at + size], at)
        if batch.restart(ends.ends.get(_HERE)):
            return True
        ends = LogEnds.from_json(ends.behind({_HERE: batch}).to_json())
    return False


_LOGS = st.lists(st.tuples(st.integers(1, 9), st.integers(-3, 3 * _LONG)), min_size=1, max_size=12).map(
    lambda steps: [
        LogEnd((sum(s[0] for s in steps[: n + 1]), 0, 0), sum(s[1] for s in steps[: n + 1])) for n in range(len(steps))
    ]
)
"""Of a database whose clock goes back by a few microseconds at most."""


@given(log=_LOGS, size=st.integers(1, 5), cuts=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 6)), max_size=3))
def test_events_sent_again_are_of_the_same_log(log: list[LogEnd], size: int, cuts: list[tuple[int, int]]) -> None:
    """A connector that was killed goes back by some events, and sends these again."""
    stream = list[LogEnd]()
    end = 0
    for at, back in sorted(cuts):
        stream += log[end : at + 1]
        end = max(0, min(at + 1, len(log)) - back)
    stream += log[end:]
    assert not _stops(stream, size)


@given(log=_LOGS, size=st.integers(1, 5), quiet_us=st.integers(_LONG, 3 * _LONG))
def test_a_log_that_begins_anew_stops_the_run(log: list[LogEnd], size: int, quiet_us: int) -> None:
    """However the events are cut into batches; the new log's first event lies before the end of the old one."""
    newest = max(each.at for each in log)
    assert _stops([*log, LogEnd((0, 0, 0), newest + quiet_us)], size)


def test_another_log_shows_once_it_is_older_than_a_step_of_the_clock() -> None:
    """Its first events may be taken for those of a clock that was set: later ones are not."""
    events = [LogEnd((1, 0, n), 100 + n * _LONG // 3) for n in range(1, 5)]
    old = [LogEnd((9, 0, 0), 100)]
    assert not _stops([*old, *events[:2]], 1)
    assert _stops([*old, *events], 1)
