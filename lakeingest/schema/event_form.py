"""Where an event of a database's changes has its parts, whoever wrote it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lakeingest.schema import debezium


@dataclass(frozen=True)
class EventForm:
    """The form of events.

    Attributes:
        after: the path of the row as it is now; through objects, joined by dots.
        before: that of the row which a delete took away.
        op: that of what was done.
        changes: what stands at `op` → the value of _change, one of `debezium.CHANGES`.
    """

    after: str
    before: str
    op: str
    changes: Mapping[str, str]

    def ops(self, changes: Collection[str]) -> list[str]:
        """What stands at `op` for these values of _change."""
        return [op for op, change in self.changes.items() if change in changes]


DEBEZIUM = EventForm(debezium.AFTER, debezium.BEFORE, debezium.OP, debezium.CHANGES)


def conflicts(paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """A path, and another one that leads into what stands there: nothing can be read as both."""
    for outer in paths:
        yield from ((outer, inner) for inner in paths if inner.startswith(f"{outer}."))
