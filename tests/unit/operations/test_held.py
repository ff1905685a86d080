"""Whether a batch is held, of the rows of the gate's results."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakeingest.operations import held


def row(minute: int, sequence: int, outcome: str, name: str, *, success: bool = False) -> dict[str, Any]:
    time = datetime(2026, 11, 27, 4, minute, tzinfo=UTC)
    return {"time": time, "sequence": sequence, "outcome": outcome, "expectation": name, "success": success}


HELD = [row(9, 7, "held", "a"), row(9, 7, "held", "b", success=True), row(5, 7, "held", "a"), row(1, 6, "held", "x")]


def test_a_held_batch() -> None:
    """`status` showed no more than a lag: since when, why and the cure are told, as far as the results reach."""
    found = held.of_results(6, 2000, HELD)
    assert found is not None
    times = ("2026-11-27T04:05:00Z", "2026-11-27T04:09:00Z")
    assert (found["sequence"], found["since"], found["last"]) == (7, *times)
    assert (found["broken"], found["waiting"]) == (["a"], 2000)


def test_none_is_held() -> None:
    """It was committed since, or another batch behind it; or there are no results."""
    assert held.of_results(7, 0, HELD) is None
    assert held.of_results(6, 0, [row(10, 7, "accepted", "a"), *HELD]) is None
    assert held.of_results(0, 0, []) is None


def test_held_by_the_failure_budget() -> None:
    """All expectations are met: `status` said "held by" and nothing."""
    found = held.of_results(6, 3, [row(9, 7, "held", "a", success=True)])
    assert found is not None
    assert found["broken"] == ["quarantine.max_refused"]
