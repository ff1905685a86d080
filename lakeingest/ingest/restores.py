"""Takes back what was committed over a RESTORE, which Delta lets happen: it jumps over what the RESTORE took back, or
doubles what it brought back.

Whoever begins looks first, a run or a backfill. tests/support/protocol_model.py explores what may happen, in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from lakeingest.delta import commit_log, replay_marks
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, of_backfill
from lakeingest.errors import TableMismatch
from lakeingest.record import OffsetRanges


def undo(tables: PipelineTables, log: CommitLog) -> bool:
    """Take back the newest batch of a run, or of a backfill, if it was committed over a RESTORE; whether it was.

    What a replay or a backfill has committed since is taken back too: the next one takes it again.

    Args:
        log: what the pipeline committed, as far as its newest batch.

    Raises:
        TableMismatch: others have changed rows since.
    """
    name, replays = tables.config.known_as, replay_marks.name_of(tables.config)
    if _undo(tables, log.newest, {replays, of_backfill(name)}):
        return True
    if not log.backfills or commit_log.over_a_restore(tables.main, log.backfills[0]) is None:
        return False
    back = (commit_log.read(tables.main, each, back=None) for each in (name, of_backfill(name)))
    return undo_backfill(tables, *back)


def undo_backfill(tables: PipelineTables, log: CommitLog, mine: CommitLog) -> bool:
    """The same for the newest batch of a backfill, if the pipeline has its records too, or will take them.

    Args:
        log, mine: all that the pipeline, and its backfills, committed.

    Raises:
        TableMismatch: others have changed rows since.
    """
    if mine.newest is None:
        return False
    ranges = mine.newest.receipt.ranges
    others = taken(log, replace(mine, commits=mine.commits[1:]))
    if not (ranges.shared(others).ranges or ranges.without(OffsetRanges.up_to(log.frontier)).ranges):
        return False
    return _undo(tables, mine.newest, {replay_marks.name_of(tables.config)})


def taken(*logs: CommitLog) -> OffsetRanges:
    """The offsets that receipts name, merged; accepted gaps are not among them."""
    return OffsetRanges(tuple(s for log in logs for commit in log.commits for s in commit.receipt.ranges)).merged


def _undo(tables: PipelineTables, newest: Commit | None, too: Collection[str]) -> bool:
    """
    Args:
        too: whose commits since then may be taken back with it, by the names of their receipts.
    """
    if newest is None or (first := commit_log.over_a_restore(tables.main, newest)) is None:
        return False

    def mine(entry: Mapping[str, Any]) -> bool:
        receipt = Receipt.from_json(entry["userMetadata"])
        return entry["version"] == newest.version or (receipt is not None and receipt.pipeline in too)

    if not TableHistory(tables.main).take_back(first, mine):
        raise TableMismatch(
            f"{tables.main} was restored while batch {newest.receipt.sequence} of {newest.receipt.pipeline!r} was on "
            f"its way (version {newest.version}), and others have changed rows since",
            cure=f"RESTORE TABLE {tables.main.sql} TO VERSION AS OF {first - 1}, make those changes "
            "again, and run again",
        )
    return True
