"""How long, and how often, a run tries again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lakeingest.errors import Fenced, SourceUnreachable
from lakeingest.ingest.retry import RetryBudget

AWAY = SourceUnreachable("the broker is away", cure="start it")


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("lakeingest.ingest.retry.time", SimpleNamespace(monotonic=lambda: self.now))


def pauses(budget: RetryBudget, clock: Clock, attempt_s: float = 0.0) -> list[float]:
    """All pauses until it gives up, each attempt taking so long."""
    found = []
    while (retry := budget.after(AWAY)) is not None:
        found.append(retry.pause_s)
        clock.now += retry.pause_s + attempt_s
    return found


def test_pauses_grow_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """They double up to a minute, and sum up to the time that is allowed."""
    clock, budget = Clock(monkeypatch), RetryBudget(200.0)
    budget.underway()
    assert pauses(budget, clock) == [1, 2, 4, 8, 16, 32, 60, 60, 17]


def test_attempts_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that failing takes is part of it."""
    clock, budget = Clock(monkeypatch), RetryBudget(50.0)
    budget.underway()
    assert pauses(budget, clock, attempt_s=20.0) == [1, 2, 4]


def test_getting_on_renews(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit begins the time anew; attempts that each take longer than the time do not."""
    clock, budget = Clock(monkeypatch), RetryBudget(10.0)
    budget.underway()
    assert pauses(budget, clock) == [1, 2, 4, 3]
    budget.renew()
    assert pauses(budget, clock) == [1, 2, 4, 3]
    budget.renew()
    assert pauses(budget, clock, attempt_s=11.0) == [1]


def test_what_it_does_not_wait_for() -> None:
    """A run that never came up, a failure that waiting does not mend, and a file that says 0 seconds."""
    fresh, budget, none = RetryBudget(10.0), RetryBudget(10.0), RetryBudget(0.0)
    budget.underway()
    none.underway()
    assert (fresh.after(AWAY), none.after(AWAY)) == (None, None)
    assert budget.after(Fenced("lost", cure="none")) is None
