"""The consumer group to which a run commits the table's offsets, so that usual tools show its lag.

It follows the table and is never read: what is committed there is what the table's log says. So it may be behind the
table, and is never ahead of it, but between a RESTORE and the next run. A failure is told, and no run stops for it.
"""

from __future__ import annotations

from collections.abc import Callable

from lakeingest.errors import LakeingestError
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import GroupUpdate
from lakeingest.record import Frontier


class ConsumerGroup:
    """Follows the frontier of a run's table."""

    def __init__(self, context: RunContext, tell: Callable[[GroupUpdate], None]) -> None:
        self._context, self._tell = context, tell
        self._group = context.config.source.commit_to_group
        self._holds: Frontier = {}
        self._last_failure = ""

    def begin(self, attempt: Attempt) -> None:
        """See `follow`."""
        self.follow(attempt)

    def follow(self, attempt: Attempt) -> None:
        """Commit the offsets at which the table stands, where they are others than at the last time that it went well.

        Partitions that Kafka has no longer are left out. Before its first commit an attempt may know offsets that no
        table stands for.
        """
        frontier = {tp: offset for tp, offset in attempt.frontier.items() if tp in attempt.topics.last}
        if self._group is None or attempt.last is None or not frontier or frontier == self._holds:
            return
        try:
            self._context.source.commit(self._group, frontier)
        except LakeingestError as failure:
            if str(failure) != self._last_failure:
                self._tell(GroupUpdate(self._group, failure))
            self._last_failure = str(failure)
            return
        self._holds = frontier
        if self._last_failure:
            self._tell(GroupUpdate(self._group))
        self._last_failure = ""
