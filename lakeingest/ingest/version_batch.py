"""The commit of accepted rows that stay: in mode history it ends the versions before them, in the same commit.

1. The rows are computed once, and kept: a MERGE reads them twice, and their keys bound which files it reads.
2. They are merged: what the table has of their keys is read at its newest version.
3. If somebody else may have committed between that look and the commit, these keys are looked at once more (see
   `versions`). The receipt names the version that the batch was decided for, so that the next start of a job that was
   cut off behind 2 does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta import coordinates, versions
from lakeingest.delta.versions import KeyVersions
from lakeingest.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.commit_log import Commit
    from lakeingest.delta.receipt import Receipt
    from lakeingest.ingest.batch_plan import BatchPlan
    from lakeingest.ingest.microbatch import MicroBatchExecution


def commit_rows(execution: MicroBatchExecution, accepted: DataFrame, receipt: Receipt, batch: BatchPlan) -> Commit:
    """Commit accepted rows, each of which stays: as they are, or by the steps above."""
    latest, context = batch.latest, execution.context
    if latest is None or latest.dated_by is None:
        return execution.commit_rows(accepted, receipt, batch)
    rows = frames.keep(accepted)
    try:
        with execution.reader.failures(), frames.observing(context.spark):
            count, emptied, *extents = rows.agg(F.count(F.lit(1)), latest.newest_emptying, *latest.extents).collect()[0]
            receipt = execution.log_order.placed(rows, receipt, latest)
        if not count:
            return execution.commit_rows(rows, receipt, batch)
        bounds = tuple(latest.bounds(extents))
        mode = KeyVersions(latest, context.merge_session, execution.writer.version, bounds, emptied is not None)
        commit = execution.commit_rows(rows, receipt, batch, mode)
        if _may_lack_rows(commit):
            versions.mend(context.tables.main, context.merge_session, latest, rows, execution.config.known_as)
        return commit
    finally:
        frames.release(rows)


def mend_newest(execution: MicroBatchExecution, commit: Commit, plan: Callable[[], BatchPlan]) -> None:
    """Step 3 of a job's newest batch, whose writer may have ended before it could do so itself.

    Args:
        plan: gives a plan that has today's keys.
    """
    if not (execution.config.table.dated and _may_lack_rows(commit)):
        return
    latest, context, job = plan().latest, execution.context, commit.receipt.job
    assert latest is not None
    # Late records, and those of quarantine, may lie anywhere.
    is_spread = bool(job.late.ranges) or not commit.receipt.ranges.offsets
    rows = None if is_spread else coordinates.within(context.tables.main.read(), commit.receipt.ranges)
    versions.mend(context.tables.main, context.merge_session, latest, rows, execution.config.known_as)


def _may_lack_rows(commit: Commit) -> bool:
    """Whether others may have committed behind what the batch was decided for."""
    base = commit.receipt.base
    return commit.version != (0 if base is None else base) + 1
