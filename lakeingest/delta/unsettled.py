"""What quarantine does not say yet of replays, as the logs of both tables tell it. `replay_marks` settles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakeingest.delta.commit_log import Commit, CommitLog


@dataclass(frozen=True)
class Unsettled:
    """What quarantine does not say yet of the replays that the table's log has.

    Attributes:
        moved: the replays, the oldest first, whose records are in the table and not marked as moved. One that was
            killed as a rule; several where a RESTORE of quarantine took their marks back.
        standing: the newest replay that no RESTORE of the table took back, if one took others back; else None. What
            later ones moved is marked, and may be in the table no longer.
    """

    moved: tuple[Commit, ...] = ()
    standing: int | None = None

    @classmethod
    def of(cls, replays: CommitLog, marks_of: Callable[[], CommitLog]) -> Unsettled:
        """What quarantine does not say yet.

        Args:
            replays: as the table's log has them.
            marks_of: gives those of quarantine's log; it is asked where there is a replay.
        """
        number = replays.newest.receipt.sequence if replays.newest else 0
        standing = number if replays.taken_back else None
        if replays.newest is None:
            return cls(standing=standing)
        marks = marks_of()
        if marks.newest is None and not marks.complete:
            # Clean-up took the marks' receipts: what is known is that the last replay may have been killed.
            return cls((replays.newest,), standing)
        marked = marks.newest.receipt.sequence if marks.newest else 0
        return cls(tuple(each for each in replays.commits[::-1] if each.receipt.sequence > marked), standing)
