"""What a backfill is asked for, and what it refuses to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lakeingest.errors import LakeingestError, OffsetsLost, UsageError
from lakeingest.ingest.jobs.backfill import Limits, check_kept
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.backfill import Interval
from lakeingest.record import OffsetRange, OffsetRanges

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
EARLY, LATE = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC)
TOPICS = Topics(
    "c",
    {"t-a": "", "u": ""},
    first={("t-a", 0): 100, ("t-a", 1): 0, ("u", 0): 0},
    last={("t-a", 0): 900, ("t-a", 1): 50, ("u", 0): 9},
)
FRONTIER = {("t-a", 0): 800, ("t-a", 1): 50}
"""The pipeline has not begun u yet."""
AT = {EARLY: {("t-a", 0): 300, ("t-a", 1): 10, ("u", 0): 0}, LATE: {("t-a", 0): 850, ("t-a", 1): 50, ("u", 0): 9}}


def ranges(since: Any, until: Any, frontier: Mapping[tuple[str, int], int] = FRONTIER) -> list[tuple[int, int, int]]:
    found = Interval.of(since, until, NOW).ranges(frontier, TOPICS, AT)
    assert {s.topic for s in found} <= {"t-a"}
    return [(s.partition, s.start, s.end) for s in found]


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (None, None, [(0, 100, 800), (1, 0, 50)]),
        ("earliest", None, [(0, 100, 800), (1, 0, 50)]),
        (["earliest"], [], [(0, 100, 800), (1, 0, 50)]),
        ("2026-11-01", None, [(0, 300, 800), (1, 10, 50)]),
        (EARLY, LATE, [(0, 300, 800), (1, 10, 50)]),
        (["2026-11-01T01:00+01:00"], None, [(0, 300, 800), (1, 10, 50)]),
        (datetime(2026, 11, 1), None, [(0, 300, 800), (1, 10, 50)]),
        (EARLY.astimezone(timezone(timedelta(hours=-5))), None, [(0, 300, 800), (1, 10, 50)]),
        # The pipeline takes what follows itself.
        (LATE, None, [(0, 850, 850), (1, 50, 50)]),
        (None, EARLY, [(0, 100, 300), (1, 0, 10)]),
        ("t-a-0:150", None, [(0, 150, 800)]),
        (["t-a-0:150", "t-a-1:7"], ["t-a-0:150"], [(0, 150, 150), (1, 7, 50)]),
        ("t-a-0:150", "2026-11-01", [(0, 150, 300)]),
        (None, "t-a-1:9", [(1, 0, 9)]),
        # What Kafka no longer has may have been consumed: that is not known here.
        ("t-a-0:5", "t-a-0:20", [(0, 5, 20)]),
        ("t-a-0:800", "t-a-0:800", [(0, 800, 800)]),
    ],
)
def test_what_is_asked_for(since: Any, until: Any, wanted: list[tuple[int, int, int]]) -> None:
    assert ranges(since, until) == wanted


@pytest.mark.parametrize(
    ("since", "until", "kind", "what", "cure"),
    [
        ("yesterday", None, UsageError, "--from 'yesterday' names no place", "flights-0:1500"),
        ("", None, UsageError, "--from '' names no place", "2026-11-01"),
        (None, "earliest", UsageError, "--to 'earliest' names no place", "or an offset"),
        (["2026-11-01", "t-a-0:5"], None, UsageError, "names no place", "an offset of each partition once"),
        (["t-a-0:5", "t-a-0:6"], None, UsageError, "names no place", "once"),
        ("t-a-0:-5", None, UsageError, "names no place", "flights-0:1500"),
        ("2026-11-26T13:00", None, UsageError, "2026-11-26T13:00:00+00:00 is still to come", "is over"),
        (None, datetime(2027, 1, 1), UsageError, "is still to come", "leave the option out"),
        ("2026-11-08", "2026-11-01", UsageError, "--to 2026-11-01T00:00:00+00:00 lies before --from", "behind"),
        ("t-a-0:500", "t-a-0:499", UsageError, "--to t-a-0:499 lies before --from t-a-0:500", "behind"),
        ("t-a-0:500", "2026-11-01", UsageError, "--to t-a-0:300 lies before --from t-a-0:500", "behind"),
        ("2026-11-01", "t-a-0:20", UsageError, "--to t-a-0:20 lies before --from t-a-0:300", "behind"),
        ("v-0:1", None, UsageError, "'v' is no topic of the pipeline", "name one of t-a, u"),
        ("t-a-7:1", None, UsageError, "t-a has no partition 7", "it has 2; the first one is 0"),
        ("t-a-0:901", None, UsageError, "t-a-0 ends at offset 900: 901 is still to come", "that is there"),
        ("t-a-0:850", None, UsageError, "the pipeline stands at offset 800", "up to 800"),
        (None, "t-a-0:900", UsageError, "the pipeline stands at offset 800", "up to 800"),
        ("u-0:1", None, UsageError, "the pipeline has not begun u-0 yet", "run the pipeline first"),
        (None, "t-a-0:50", OffsetsLost, "Kafka no longer has t-a-0 before offset 50: it begins at 100", "later end"),
    ],
)
def test_what_makes_no_sense(since: Any, until: Any, kind: type[LakeingestError], what: str, cure: str) -> None:
    """A sentence, and a cure."""
    with pytest.raises(kind) as refused:
        ranges(since, until)
    assert what in refused.value.what, refused.value.what
    assert cure in refused.value.cure, refused.value.cure


def test_what_kafka_no_longer_has_is_named() -> None:
    """With where Kafka begins; what it has is passed over in silence."""
    left = OffsetRanges((OffsetRange("t-a", 0, 5, 20), OffsetRange("t-a", 0, 90, 200), OffsetRange("t-a", 1, 0, 9)))
    with pytest.raises(OffsetsLost) as lost:
        check_kept(left, TOPICS)
    assert lost.value.what == (
        "Kafka no longer has t-a-0 offsets 5 to 19, t-a-0 offsets 90 to 99, and no receipt says that they were read"
    )
    assert "(t-a-0:100)" in lost.value.cure
    check_kept(OffsetRanges((OffsetRange("t-a", 0, 100, 200),)), TOPICS)


@pytest.mark.parametrize("limits", [{"records": 0}, {"rate": 0.0}, {"rate": float("nan")}, {"records": -5}])
def test_limits_that_let_nothing_through(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="lets nothing through"):
        Limits(**limits)
