"""Finishes the batch that a crash left open: its rows are in the table, its account is not in quarantine."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.receipt import Counts
from lakeingest.errors import OffsetsLost
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.record import COORDINATES, DROPPED, Frontier, OffsetRanges, count_where
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures


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
    gone, ranges = receipt.ranges.before(first), receipt.ranges.since(first)
    lost = gone.offsets - tables.coordinates(gone).count()
    if lost and not accept_gap:
        raise OffsetsLost(
            f"batch {sequence} was cut off between its two commits, and Kafka no longer has {gone}: {lost:,} of "
            "these offsets are in neither table; they were refused, dropped, or hold no record",
            cure="run once with --accept-gap to go on without them (`audit` will name them); make the topic's "
            "retention longer than any stop",
        )
    kafka = reader.frame(ranges)
    execution.discover_schemas(kafka, sequence)
    batch = execution.plan(strict=False)
    # By coordinates, and counted by jobs of their own: Kafka may have compacted what is in the tables already.
    left = frames.keep(batch.decide(kafka).join(tables.coordinates(ranges), list(COORDINATES), "left_anti"))
    try:
        missing = left.where(f"NOT {DROPPED}")
        with reader.failures():
            dropped = left.agg(count_where(F.col(DROPPED)).alias("all"), *batch.left_out).collect()[0].asDict()
        # Those that were there before: its own rows, and what it was not to take again after a RESTORE.
        refused = missing.count() + tables.coordinates(receipt.ranges).count() - newest.rows
        counts = Counts(newest.rows + refused + dropped["all"], newest.rows, refused, dropped["all"])
        left_out = transform.left_out(batch.shape.stages, dropped)
        account = replace(
            receipt, sequence=number, run=execution.context.run, counts=counts, left_out=left_out, lost=lost
        )
        settles = sequence if number != sequence else 0
        gaps = gone if lost else OffsetRanges(())
        execution.quarantine(missing, batch, replace(account, settles=settles, gaps=gaps))
    finally:
        frames.release(left)
