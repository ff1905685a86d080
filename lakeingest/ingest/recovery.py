"""Accounts for batches that stand in the table and have no account in quarantine: a crash cut one off between its two
commits, or quarantine has lost accounts that it had.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta import commit_log, quarantine
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import NO_BATCH, Account, Counts, Receipt
from lakeingest.errors import OffsetsLost, StorageError
from lakeingest.ingest import latest_recovery
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.ingest.bronze import Late
from lakeingest.ingest.decided import certain, refused_rows
from lakeingest.ingest.events import Committed, Written
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.record import COORDINATES, DROPPED, Frontier, OffsetRanges, count_where
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def may_lack_accounts(tables: PipelineTables, log: CommitLog, refused: CommitLog) -> bool:
    """Whether quarantine may have lost accounts of batches that stand, and with them what these refused: a RESTORE took
    them back, or the table was made anew. The logs tell, without a look at a row.

    Args:
        log, refused: what the pipeline, or its backfills, committed to the table, and to quarantine.
    """
    if log.newest is None:
        return False
    aside, standing = log.newest.receipt.aside, refused.standing_number
    # None of a batch that an older version wrote.
    fewer = refused.version is None if aside is None else standing is not None and standing < aside
    return fewer or refused.restored or (refused.newest is not None and _is_behind(tables, refused.newest))


def _is_behind(tables: PipelineTables, account: Commit) -> bool:
    """Whether an account was committed before all others that were gone, or over a RESTORE."""
    receipt = account.receipt
    is_not_last = receipt.account is not None and receipt.account.open > 0
    return is_not_last or commit_log.over_a_restore(tables.quarantine, account) is not None


def settle(
    execution: MicroBatchExecution,
    log: CommitLog,
    refused: CommitLog,
    first: Frontier,
    *,
    looked: bool,
    accept_gap: bool,
) -> Committed | None:
    """Account for each batch that stands in the table, and whose account is not in quarantine.

    That is the newest one, if its writer ended between the table's commit and quarantine's. Where accounts may
    be gone (`may_lack_accounts`), it is each batch whose account is gone: its refused records are read again. What is
    missing is a difference of coordinates, so it does not matter whether today's rules would decide as those of its
    time did.

    Args:
        log, refused: see `may_lack_accounts`.
        first: the first offsets that Kafka still has. What lies before them and is in neither table is lost.
        looked: whether accounts may be gone, so that all batches are looked at.
        accept_gap: whether to go on without what is lost.

    Returns:
        What became of the batch that was cut off; None if none was.

    Raises:
        OffsetsLost: something is, and that was not accepted.
        TableChanged: somebody restores a table at this moment.
    """
    tables, made_anew = execution.context.tables, refused.version is None
    if looked:
        log, refused = (
            commit_log.numbered(table, commit_log.read(table, log.pipeline, back=None))
            for table in (tables.main, tables.quarantine)
        )
    batches, settled = _every_open(log, refused) if looked else _open(execution, log, refused), None
    for still_open, batch in zip(reversed(range(len(batches))), batches, strict=True):
        had_account = looked and (made_anew or batch.receipt.sequence in refused.undone_batches)
        cut_off = batch is log.newest and not had_account
        before = refused.undone_accounts.get(batch.receipt.sequence)
        if before is not None and before.account is not None and _is_there(execution, before, before.account):
            no_rows = quarantine.no_rows(execution.context.spark)
            again = replace(before, run=execution.context.run)
            execution.writer.set_aside(no_rows, again, replace(before.account, open=still_open))
            continue
        batch_settled = _timed_settle(execution, batch, first, still_open, accept_gap=accept_gap, cut_off=cut_off)
        settled = batch_settled if cut_off else None
    if looked and not (batches or made_anew):
        _mark_looked(execution, log)
    return settled


def _is_there(execution: MicroBatchExecution, receipt: Receipt, account: Account) -> bool:
    """Whether all records are in one of the tables that an account tells of which was taken back: a batch that dropped
    some, and refused none, is known by its account alone, whatever Kafka still has.
    """
    counts, tables = account.counts, execution.context.tables
    if receipt.job.late.ranges:
        return False
    with storage_failures(tables.quarantine.identifier):
        return tables.coordinates(receipt.ranges).count() == counts.accepted + counts.refused


def _open(execution: MicroBatchExecution, log: CommitLog, refused: CommitLog) -> list[Commit]:
    """The newest batch, if it has no account."""
    newest = log.newest
    if newest is None or newest.receipt.whole(newest.rows):
        return []
    number = newest.receipt.sequence
    if any(commit.receipt.batch == number for commit in refused.commits):
        return []
    # Later numbers than the table's newest are those of batches that a RESTORE took back.
    accounted = refused.last_sequence >= number and _account_of(execution, log) is not None
    return [] if accounted else [newest]


def _every_open(log: CommitLog, refused: CommitLog) -> list[Commit]:
    """All batches that stand and have no account, the oldest first; without those whose account clean-up may have
    taken.

    Args:
        log, refused: as far back as the logs reach.
    """
    accounted = {commit.receipt.batch for commit in refused.commits}
    newest = log.newest.receipt.sequence if log.newest else 0
    numbers = [number for number in accounted | refused.undone_batches if number != NO_BATCH]
    oldest = 0 if refused.complete else min(numbers, default=newest)
    return [
        commit
        for commit in reversed(log.since_adoption.commits)
        if commit.receipt.sequence >= oldest
        and commit.receipt.sequence not in accounted
        and not commit.receipt.whole(commit.rows)
    ]


def _mark_looked(execution: MicroBatchExecution, log: CommitLog) -> None:
    """Commit to quarantine that no account is gone, so that the logs are not read from their beginnings again."""
    newest = log.newest
    assert newest is not None
    no_rows, no_ranges = quarantine.no_rows(execution.context.spark), OffsetRanges(())
    job = replace(newest.receipt.job, late=no_ranges)
    receipt = replace(newest.receipt, run=execution.context.run, ranges=no_ranges, job=job)
    execution.writer.set_aside(no_rows, receipt, Account(settles=NO_BATCH))


def _timed_settle(
    execution: MicroBatchExecution, batch: Commit, first: Frontier, still_open: int, *, accept_gap: bool, cut_off: bool
) -> Committed:
    start_s = time.monotonic()
    settle_one = partial(_settle, execution, batch, first, still_open, accept_gap=accept_gap, cut_off=cut_off)
    with storage_failures(execution.context.tables.quarantine.identifier):
        settled = execution.reader.readable(settle_one)
    return replace(settled, seconds=time.monotonic() - start_s)


def unreported(execution: MicroBatchExecution, log: CommitLog, reported: int | None) -> Committed | None:
    """What became of the newest batch, which is settled, as the tables tell: if this run has made it, and failed behind
    it.

    Args:
        reported: the newest batch that was there when the job began, or that it has told of; None where it begins.
    """
    newest = log.newest
    if newest is None or reported is None or newest.receipt.sequence <= reported:
        return None
    if newest.receipt.run.id != execution.context.run.id:
        return None
    if newest.receipt.whole(newest.rows):
        return _committed(execution, newest, Counts(newest.rows, newest.rows), {}, {})
    receipt = _account_of(execution, log)
    assert receipt is not None
    assert receipt.account is not None
    rows = execution.context.tables.refused().where(F.col("sequence") == receipt.batch)
    reasons = dict(map(tuple, rows.groupBy("reason").count().orderBy("reason").collect()))
    return _committed(execution, newest, receipt.account.counts, reasons, receipt.account.left_out)


def _account_of(execution: MicroBatchExecution, log: CommitLog) -> Receipt | None:
    """The account of the newest batch in quarantine's log, or one without counts where that reaches back no more."""
    newest = log.newest
    assert newest is not None
    accounts = commit_log.read(execution.context.tables.quarantine, log.pipeline, back=None)
    receipt = next((c.receipt for c in accounts.commits if c.receipt.batch == newest.receipt.sequence), None)
    return receipt if receipt or accounts.complete else newest.receipt


def _committed(
    execution: MicroBatchExecution,
    newest: Commit,
    counts: Counts,
    refused: Mapping[str, int],
    left_out: Mapping[str, int],
) -> Committed:
    """What is told of a batch that another attempt, or another run, has written."""
    receipt = newest.receipt
    return Committed(
        receipt.sequence,
        newest.version,
        counts,
        accepted_held=bool(receipt.job.accepted),
        ranges=receipt.ranges,
        refused=refused,
        left_out=left_out,
        written=Written.of(newest, execution.column_types),
        schemas=tuple(e for e in execution.evolution.ledger.entries if e.sequence == receipt.sequence),
    )


def _settle(
    execution: MicroBatchExecution, newest: Commit, first: Frontier, still_open: int, *, accept_gap: bool, cut_off: bool
) -> Committed:
    """Bring the records of a batch to quarantine that are in neither table, with the batch's account.

    Args:
        still_open: how many batches have no account yet behind this one.
        cut_off: whether its writer ended before it had an account; else it had one.
    """
    tables, reader = execution.context.tables, execution.reader
    receipt, sequence = newest.receipt, newest.receipt.sequence
    if receipt.account is not None:
        account, reasons = latest_recovery.settle(execution, newest, first, still_open, accept_gap=accept_gap)
        return _committed(execution, newest, account.counts, reasons, account.left_out)
    if receipt.job.late.ranges:
        return _settle_late(execution, newest, still_open)
    deleted, ranges = receipt.ranges.before(first), receipt.ranges.since(first)
    lost = deleted.offsets - tables.coordinates(deleted).count()
    if lost and not accept_gap:
        raise _offsets_lost(tables, sequence, deleted, lost, cut_off=cut_off)
    gaps = deleted if lost else OffsetRanges(())
    with _unaccounted_records(execution, reader.frame(ranges), ranges, sequence) as (rest, batch):
        missing = rest.where(f"NOT {DROPPED}")
        dropped, left_out = _dropped(execution, rest, batch)
        # Those that were there before: its own rows, and what it was not to take again after a RESTORE.
        refused = missing.count() + tables.coordinates(receipt.ranges).count() - newest.rows
        counts = Counts(newest.rows + refused + dropped, newest.rows, refused, dropped)
        account = Account(counts, left_out, lost, gaps, open=still_open)
        rows = refused_rows(batch, missing, execution.config.known_as, receipt.sequence)
        _, reasons = execution.quarantine(rows, replace(receipt, run=execution.context.run), account)
    return _committed(execution, newest, counts, reasons, left_out)


def _offsets_lost(
    tables: PipelineTables, sequence: int, deleted: OffsetRanges, lost: int, *, cut_off: bool
) -> OffsetsLost:
    where = (
        f"Kafka no longer has {deleted}: {lost:,} of these offsets are in neither table; they were refused, dropped, or"
    )
    go_on = "run once with --accept-gap to go on without them (`audit` will name them)"
    if cut_off:
        return OffsetsLost(
            f"batch {sequence} was cut off between its two commits, and {where} hold no record",
            cure=f"{go_on}; make the topic's retention longer than any stop",
        )
    table = tables.quarantine
    return OffsetsLost(
        f"{table} had an account of batch {sequence}, and has none any more (a RESTORE took it back, or the table was "
        f"made anew), and {where} hold no record",
        cure=f"bring back what it had, if DESCRIBE HISTORY {table.sql} still names that version (RESTORE TABLE "
        f"{table.sql} TO VERSION AS OF …), and run again; or {go_on}",
    )


def _settle_late(execution: MicroBatchExecution, newest: Commit, still_open: int) -> Committed:
    """The same of a batch whose records came into the source late: its rows are in the table."""
    late = Late(newest.receipt.job.late, newest.receipt.job.read_from)
    try:
        return _settle_late_by(execution, newest, late, still_open)
    except StorageError:
        # The older version can no longer be read; or else this fails again.
        if late.inexact is None:
            raise
        return _settle_late_by(execution, newest, late.inexact, still_open)


def _settle_late_by(execution: MicroBatchExecution, newest: Commit, late: Late, still_open: int) -> Committed:
    job = replace(newest.receipt.job, read_from=late.read_from)
    receipt = replace(newest.receipt, job=job)
    records = execution.reader.records(receipt)
    with _unaccounted_records(execution, records, job.late, receipt.sequence) as (rest, batch):
        missing = rest.where(f"NOT {DROPPED}")
        dropped, left_out = _dropped(execution, rest, batch)
        refused = missing.count()
        counts = Counts(newest.rows + refused + dropped, newest.rows, refused, dropped)
        counts, left_out = certain(receipt, counts, left_out)
        account = Account(counts, left_out, open=still_open)
        rows = refused_rows(batch, missing, execution.config.known_as, receipt.sequence)
        _, reasons = execution.quarantine(rows, replace(receipt, run=execution.context.run), account)
    return _committed(execution, newest, counts, reasons, left_out)


@contextmanager
def _unaccounted_records(
    execution: MicroBatchExecution, records: DataFrame, ranges: OffsetRanges, sequence: int
) -> Iterator[tuple[DataFrame, BatchPlan]]:
    """The records of a batch that are in neither table, decided by today's rules, and kept within the block.

    By coordinates, and counted by jobs of their own: Kafka may have compacted what is in the tables already.
    """
    execution.discover_schemas(records, sequence)
    batch = execution.plan(strict=False)
    existing_coordinates = execution.context.tables.coordinates(ranges)
    rest = frames.keep(batch.decide(records).join(existing_coordinates, list(COORDINATES), "left_anti"))
    try:
        yield rest, batch
    finally:
        frames.release(rest)


def _dropped(execution: MicroBatchExecution, rest: DataFrame, batch: BatchPlan) -> tuple[int, Mapping[str, int]]:
    """How many of them are dropped, and by which conditions."""
    with execution.reader.failures():
        observed = rest.agg(count_where(F.col(DROPPED)).alias("all"), *batch.left_out).collect()[0].asDict()
    return observed["all"], batch.drops(observed)
