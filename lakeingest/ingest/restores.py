"""Mends what a RESTORE of the table leaves open, before anything else is done with it.

1. What was committed over a RESTORE, which Delta lets happen, is taken back: it jumps over what the RESTORE took back,
   or doubles what it brought back.
2. Rows of quarantine whose batches the RESTORE took back are withdrawn: their records are read again.

Every job looks first (see `heal`). tests/support/oracle/protocol_model.py explores what may happen, in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakeingest.delta import commit_log, coordinates, quarantine, replay_marks, versions
from lakeingest.delta.commit_log import Commit, CommitLog, beside
from lakeingest.delta.history import TableHistory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, of_backfill, of_replay
from lakeingest.errors import TableMismatch
from lakeingest.record import Frontier, OffsetRanges
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def undo(tables: PipelineTables, log: CommitLog) -> bool:
    """Take back the newest batch of a run, the replay behind it, or the newest batch of a backfill, if it was committed
    over a RESTORE; whether one was.

    What a replay or a backfill has committed since is taken back too: the next one takes it again.

    Args:
        log: what the pipeline committed, as far as its newest batch.

    Raises:
        TableMismatch: others have changed rows since.
    """
    name = tables.config.known_as
    if _undo(tables, log.newest, beside(name)) or _undo(tables, _replay_since(log), beside(name)):
        return True
    if not log.backfills or commit_log.over_a_restore(tables.main, log.backfills[0]) is None:
        return False
    logs = (commit_log.read(tables.main, each, back=None) for each in (name, of_backfill(name)))
    return _undo_backfill(tables, *logs)


def _replay_since(log: CommitLog) -> Commit | None:
    """The newest replay that was committed behind all batches of the run; None if there is none."""
    newest = log.replays[0] if log.replays else None
    return newest if newest and (log.newest is None or log.newest.version < newest.version) else None


def _undo_backfill(tables: PipelineTables, log: CommitLog, backfills: CommitLog) -> bool:
    """The same for the newest batch of a backfill, if the pipeline has its records too, or will take them.

    Args:
        log, backfills: all that the pipeline, and its backfills, committed.

    Raises:
        TableMismatch: others have changed rows since.
    """
    if backfills.newest is None:
        return False
    ranges = backfills.newest.receipt.ranges
    consumed = consumed_ranges(log, replace(backfills, commits=backfills.commits[1:]))
    if not (ranges.shared(consumed).ranges or ranges.without(OffsetRanges.up_to(log.frontier)).ranges):
        return False
    return _undo(tables, backfills.newest, {of_replay(tables.config.known_as)})


def consumed_ranges(*logs: CommitLog) -> OffsetRanges:
    """The offsets that receipts name, merged; accepted gaps are not among them."""
    return OffsetRanges(tuple(s for log in logs for commit in log.commits for s in commit.receipt.ranges)).merged


def _undo(tables: PipelineTables, newest: Commit | None, names: Collection[str]) -> bool:
    """
    Args:
        names: whose commits since then may be taken back with it, as their receipts name them.
    """
    if newest is None or (first := commit_log.over_a_restore(tables.main, newest)) is None:
        return False

    def is_own(entry: Mapping[str, Any]) -> bool:
        metadata = entry["userMetadata"]
        if entry["version"] == newest.version or metadata == versions.mark(tables.config.known_as):
            return True
        receipt = Receipt.from_json(metadata)
        return receipt is not None and receipt.pipeline in names

    if not TableHistory(tables.main).take_back(first, is_own):
        raise TableMismatch(
            f"{tables.main} was restored while batch {newest.receipt.sequence} of {newest.receipt.pipeline!r} was on "
            f"its way (version {newest.version}), and others have changed rows since",
            cure=f"RESTORE TABLE {tables.main.sql} TO VERSION AS OF {first - 1}, make those changes "
            "again, and run again",
        )
    return True


def withdraw(tables: PipelineTables, log: CommitLog, starts: Frontier) -> int:
    """Withdraw the rows of quarantine, and forget the deletes that a RESTORE took back, from where the next batch
    begins: their batches stand in the table no more, and their records are about to be read again; how many rows of
    quarantine they are.

    Deletes of a batch that was cut off stay: another run may be about to commit it. They are remembered again.

    Quarantine is looked at before the table's log is read again: rows of a batch that another run commits meanwhile
    are not taken for such ones. That run's number ends this one.

    Args:
        log: what the pipeline committed to the table.
        starts: where the next batch begins; what Kafka no longer has lies before that, and stays.
    """

    def loose(version: int | None = None) -> DataFrame:
        # Delta's statistics leave out the files that end before it: as a rule all of them.
        return quarantine.unmoved(tables.refused(version)).where(coordinates.not_before(starts))

    deleted_keys = tables.deleted_keys
    deletes = deleted_keys.not_before(starts) if deleted_keys is not None and log.taken_back else None
    with storage_failures(tables.quarantine.identifier):
        if deletes is None and loose().isEmpty():
            return 0
    version = TableHistory(tables.quarantine).newest()
    if tables.main.schema() is not None and tables.commit_logs()[0].frontier != log.frontier:
        return 0
    if deleted_keys is not None and deletes is not None:
        deleted_keys.forget(deletes)
    return replay_marks.withdraw(tables, loose(version))


def withdraw_late(tables: PipelineTables, log: CommitLog) -> int:
    """The same of records that came into the source late, as the receipts that the RESTORE took back tell of them."""
    late = {
        number: receipt.job.late
        for number, receipt in log.undone_accounts.items()
        if receipt.job.late.ranges and log.taken_back
    }
    count = 0
    for number, ranges in late.items():
        rows = coordinates.within(quarantine.unmoved(tables.refused()), ranges).where(f"sequence = {number}")
        count += replay_marks.withdraw(tables, rows)
    return count
