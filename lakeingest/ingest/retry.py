"""How long a run that is under way waits for a server that fails, and how often it asks."""

from __future__ import annotations

import time

from lakeingest.errors import LakeingestError
from lakeingest.ingest.events import Retrying

LONGEST_PAUSE_S = 60.0


class RetryBudget:
    """Pauses that double from 1 s to 60 s, for `wait_s` seconds in all.

    A commit, or a look that finds nothing to commit, begins that time anew. A run that never came so far as to know
    where it stands has none: its addresses or keys may be wrong.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._underway = False
        self.renew()

    def underway(self) -> None:
        """The run knows where it stands."""
        self._underway = True

    def renew(self) -> None:
        """The run got on."""
        self._failures = 0
        self._since: float | None = None

    def after(self, failure: LakeingestError) -> Retrying | None:
        """Whether and when to try again; None where that would not help, or the time is over."""
        if not (failure.retry_helps and self._underway):
            return None
        now = time.monotonic()
        if self._since is None:
            self._since = now
        remaining_s = self._since + self._wait_s - now
        if remaining_s <= 0:
            return None
        pause = min(2.0**self._failures, LONGEST_PAUSE_S, remaining_s)
        self._failures += 1
        return Retrying(failure, pause, remaining_s - pause)
