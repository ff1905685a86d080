"""A place in a database's log, up to which a table of its change events holds everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BINLOGS = 2**20
"""No server of MySQL has so many binlogs, and the log of PostgreSQL begins behind this number."""


@dataclass(frozen=True)
class LogPosition:
    """Up to which place a table holds everything.

    Attributes:
        place: commit, event and row; None where nothing can be claimed.
        at: when the database committed the event there; None where that is not known.
        reason: why nothing can be claimed.
    """

    place: tuple[int, ...] | None = None
    at: datetime | None = None
    reason: str = ""

    def reaches(self, target: Sequence[int]) -> bool:
        """Whether the table holds everything up to a place: see `database_position.parse`.

        Transactions come in the order of their commits. So an event behind a place, which is before its own commit,
        says that all has come which was committed up to there.
        """
        if self.place is None:
            return False
        commit, event, _ = self.place
        if len(target) > 1:
            return (commit, event) >= tuple(target)
        return commit > target[0] or (commit >= BINLOGS and event >= target[0])

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.place is None:
            return f"no place in the database's log can be named: {self.reason}"
        commit, event, _ = self.place
        if commit < BINLOGS:
            place = f"position {event} of binlog {commit}"
        else:
            place = str(end := max(commit, event))
            if end < 2**64:
                place += f" ({end >> 32:X}/{end & 0xFFFFFFFF:X} as PostgreSQL writes it)"
        at = f"; the database committed its newest event at {self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at else ""
        return f"the table holds all that Kafka has of the database's log up to {place}{at}"

    def to_json(self) -> dict[str, Any]:
        """commit, event, row, at; or reason."""
        if self.place is None:
            return {"commit": None, "event": None, "row": None, "at": None, "reason": self.reason}
        names = ("commit", "event", "row")
        return {**dict(zip(names, self.place, strict=True)), "at": self.at and self.at.isoformat()}
