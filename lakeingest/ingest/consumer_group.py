"""The consumer group to which a run commits the table's offsets, so that usual tools show its lag.

It follows the table and is never read: what is committed there is what the table's log says. So it may be behind the
table, and is never ahead of it, but between a RESTORE and the next run. A failure is told, and no run stops for it.
"""

from __future__ import annotations

from collections.abc import Callable

from lakeingest.errors import LakeingestError
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import GroupUpdate
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier


class ConsumerGroup:
    """Follows the frontier of a run's table."""

    def __init__(self, context: RunContext, tell: Callable[[GroupUpdate], None]) -> None:
        self._context, self._tell = context, tell
        self._group = context.config.source.commit_to_group
        self._holds: Frontier = {}
        self._told = ""

    def follow(self, frontier: Frontier, topics: Topics) -> None:
        """Commit the offsets at which the table stands, where they are others than at the last time that it went well.

        Args:
            frontier: what the table has committed already: the next offset of each partition.
            topics: what Kafka holds; what it has no longer is left out.
        """
        there = {tp: offset for tp, offset in frontier.items() if tp in topics.last}
        if self._group is None or not there or there == self._holds:
            return
        try:
            self._context.source.commit(self._group, there)
        except LakeingestError as failure:
            if str(failure) != self._told:
                self._tell(GroupUpdate(self._group, failure))
            self._told = str(failure)
            return
        self._holds = there
        if self._told:
            self._tell(GroupUpdate(self._group))
        self._told = ""
