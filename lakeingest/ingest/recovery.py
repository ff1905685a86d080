"""Finishes the batch that a crash left open: its rows are in the table, its account is not in quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.receipt import Counts, Receipt
from lakeingest.errors import OffsetsLost, StorageError
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.ingest.bronze import Late
from lakeingest.ingest.microbatch import MicroBatchExecution, without_drops
from lakeingest.record import COORDINATES, DROPPED, Frontier, OffsetRanges, count_where
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def settle(
    execution: MicroBatchExecution, log: CommitLog, refused: CommitLog, first: Frontier, *, accept_gap: bool
) -> int:
    """Finish the newest batch, if its writer ended between the table's commit and quarantine's.

    A batch with a row for each offset is whole; any other is, if quarantine has its sequence number or a later one,
    because a run settles before it goes on. What is missing is a difference of coordinates, so it does not matter
    whether today's rules would decide as those of its time did.

    Args:
        log, refused: what the pipeline, or its backfills, committed to the table, and to quarantine.
        first: the first offsets that Kafka still has. What lies before them and is in neither table is lost.
        accept_gap: whether to go on without it.

    Returns:
        The number of the commit to quarantine; 0 if there was nothing to finish.

    Raises:
        OffsetsLost: something is, and that was not accepted.
        TableChanged: somebody restores the table at this moment.
    """
    newest = log.newest
    if newest is None or newest.receipt.whole(newest.rows):
        return 0
    number, last = newest.receipt.sequence, refused.last_sequence
    if last >= number:
        # Later numbers than the table's newest are those of batches that a RESTORE took back.
        if last == number or _accounted(execution, log.pipeline, number):
            return 0
        number = max(log.last_sequence, last) + 1
    with storage_failures(execution.context.tables.quarantine.identifier):
        execution.reader.readable(lambda: _settle(execution, newest, number, first, accept_gap=accept_gap))
    return number


def _accounted(execution: MicroBatchExecution, pipeline: str, batch: int) -> bool:
    """Whether quarantine's log has a batch's account, or no longer reaches back so far."""
    log = commit_log.read(execution.context.tables.quarantine, pipeline, back=None)
    return not log.complete or any(c.receipt.batch == batch for c in log.commits)


def _settle(execution: MicroBatchExecution, newest: Commit, number: int, first: Frontier, *, accept_gap: bool) -> None:
    """Bring the records of a batch to quarantine that are in neither table, with the batch's account."""
    tables, reader = execution.context.tables, execution.reader
    receipt, sequence = newest.receipt, newest.receipt.sequence
    if receipt.late.ranges:
        _settle_late(execution, newest, number)
        return
    gone, ranges = receipt.ranges.before(first), receipt.ranges.since(first)
    lost = gone.offsets - tables.coordinates(gone).count()
    if lost and not accept_gap:
        raise OffsetsLost(
            f"batch {sequence} was cut off between its two commits, and Kafka no longer has {gone}: {lost:,} of "
            "these offsets are in neither table; they were refused, dropped, or hold no record",
            cure="run once with --accept-gap to go on without them (`audit` will name them); make the topic's "
            "retention longer than any stop",
        )
    gaps = gone if lost else OffsetRanges(())
    with _left(execution, reader.frame(ranges), ranges, sequence) as (left, batch):
        missing = left.where(f"NOT {DROPPED}")
        dropped, left_out = _dropped(execution, left, batch)
        # Those that were there before: its own rows, and what it was not to take again after a RESTORE.
        refused = missing.count() + tables.coordinates(receipt.ranges).count() - newest.rows
        counts = Counts(newest.rows + refused + dropped, newest.rows, refused, dropped)
        account = replace(_account(execution, receipt, number), counts=counts, left_out=left_out, lost=lost, gaps=gaps)
        execution.quarantine(missing, batch, account)


def _settle_late(execution: MicroBatchExecution, newest: Commit, number: int) -> None:
    """The same of a batch whose records came into the source late: its rows are in the table."""
    late = Late(newest.receipt.late, newest.receipt.read_from)
    try:
        _settle_late_by(execution, newest, number, late)
    except StorageError:
        # The older version can no longer be read; or else this fails again.
        if late.inexact is None:
            raise
        _settle_late_by(execution, newest, number, late.inexact)


def _settle_late_by(execution: MicroBatchExecution, newest: Commit, number: int, late: Late) -> None:
    receipt = replace(newest.receipt, read_from=late.read_from)
    records = execution.reader.records(receipt)
    with _left(execution, records, receipt.late, receipt.sequence) as (left, batch):
        missing = left.where(f"NOT {DROPPED}")
        dropped, left_out = _dropped(execution, left, batch)
        refused = missing.count()
        counts = Counts(newest.rows + refused + dropped, newest.rows, refused, dropped)
        if "since" not in receipt.read_from:
            counts, left_out = without_drops(counts), {}
        account = replace(_account(execution, receipt, number), counts=counts, left_out=left_out)
        execution.quarantine(missing, batch, account)


@contextmanager
def _left(
    execution: MicroBatchExecution, records: DataFrame, ranges: OffsetRanges, sequence: int
) -> Iterator[tuple[DataFrame, BatchPlan]]:
    """The records of a batch that are in neither table, decided by today's rules, and kept within the block.

    By coordinates, and counted by jobs of their own: Kafka may have compacted what is in the tables already.
    """
    execution.discover_schemas(records, sequence)
    batch = execution.plan(strict=False)
    held = execution.context.tables.coordinates(ranges)
    left = frames.keep(batch.decide(records).join(held, list(COORDINATES), "left_anti"))
    try:
        yield left, batch
    finally:
        frames.release(left)


def _dropped(execution: MicroBatchExecution, left: DataFrame, batch: BatchPlan) -> tuple[int, dict[str, int]]:
    """How many of them are dropped, and by which conditions."""
    with execution.reader.failures():
        found = left.agg(count_where(F.col(DROPPED)).alias("all"), *batch.left_out).collect()[0].asDict()
    return found["all"], transform.left_out(batch.shape.stages, found)


def _account(execution: MicroBatchExecution, receipt: Receipt, number: int) -> Receipt:
    """The receipt of quarantine's commit, under the number that it has."""
    settles = receipt.sequence if number != receipt.sequence else 0
    return replace(receipt, sequence=number, run=execution.context.run, settles=settles)
