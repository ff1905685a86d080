"""How far a database's log is known from its change events: what a receipt says, so that a log that begins anew shows.

A connector sends the events of a partition in the order of the log, and, behind a failure, some of them again. So an
event that lies before the newest one, and was committed after it, is of another log: of a database that was restored
from a backup, or of another server that took over. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[int, ...]
"""Commit, event and row, as `_position` has them."""
CLOCK_STEP = timedelta(minutes=10)
"""By how much a database's clock may be set back and forth, and nobody thinks of another log."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP_US = CLOCK_STEP // timedelta(microseconds=1)


@dataclass(frozen=True)
class LogEnd:
    """The end of a log as a partition's events show it.

    Attributes:
        place: the greatest place of an event.
        at: the latest time of a commit up to that place, in microseconds since 1970.
    """

    place: Place
    at: int

    @property
    def time(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.at)


@dataclass(frozen=True)
class BatchEvents:
    """The events of a partition in a batch.

    Attributes:
        furthest: the one with the greatest place.
        latest: the one that was committed last.
        furthest_offset, latest_offset: theirs.
    """

    furthest: LogEnd
    furthest_offset: int
    latest: LogEnd
    latest_offset: int

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.furthest.place, max(self.furthest.at, self.latest.at))

    def restart(self, end_before: LogEnd | None) -> tuple[LogEnd, LogEnd] | None:
        """An event, and one of another log that was committed later and lies before it; None where there are none.

        Args:
            end_before: what the batches before have shown; None for none.
        """
        event = self.latest
        if end_before is not None and _is_of_another(event, end_before):
            return end_before, event
        is_behind = self.latest_offset > self.furthest_offset
        return (self.furthest, event) if is_behind and _is_of_another(event, self.furthest) else None


def _is_of_another(event: LogEnd, end: LogEnd) -> bool:
    return event.place < end.place and event.at > end.at + _STEP_US


@dataclass(frozen=True)
class LogEnds:
    """The ends of the logs that feed a table, by topic-partition."""

    ends: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)

    def behind(self, events: Mapping[TopicPartition, BatchEvents]) -> LogEnds:
        """What is known behind a batch."""
        ends = dict(self.ends)
        for where, batch in events.items():
            end = batch.end
            before = ends.setdefault(where, end)
            if end.place > before.place:
                ends[where] = LogEnd(end.place, max(end.at, before.at))
        return LogEnds(ends)

    def to_json(self) -> dict[str, Any]:
        """Topic → partition → commit, event, row and the time."""
        tree = dict[str, dict[str, list[int]]]()
        for (topic, partition), end in sorted(self.ends.items()):
            tree.setdefault(topic, {})[str(partition)] = [*end.place, end.at]
        return tree

    @classmethod
    def from_json(cls, tree: Mapping[str, Mapping[str, list[int]]]) -> LogEnds:
        return cls(
            {
                (topic, int(partition)): LogEnd(tuple(place), at)
                for topic, partitions in tree.items()
                for partition, (*place, at) in partitions.items()
            }
        )


NO_ENDS = LogEnds()
