"""Mends what a crash, a RESTORE or another writer left open, before a job of any kind goes on.

1. What was committed over a RESTORE is taken back (`restores.undo`).
2. Marks of replays, and rows of late records, say what the tables say again.
3. Of mode upsert, what another job deleted behind the newest batch is taken out (`latest_batch.take_out_deleted`);
   of mode history, versions end where others' rows are behind them (`version_batch.mend_newest`); batches that have no
   account get one (`recovery.settle`).
4. Rows of quarantine whose batches a RESTORE took back are withdrawn, before the run's first batch reads their records
   again (`restores.withdraw`).

Between 1 and 2 the job looks whether it may go on. Behind this, no code knows of a RESTORE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lakeingest.delta import replay_marks
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.ingest import latest_batch, recovery, restores, version_batch
from lakeingest.ingest.events import Committed
from lakeingest.ingest.job import Logs
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.record import Frontier


def undo(tables: PipelineTables, read: Callable[[], Logs]) -> tuple[Logs, bool]:
    """The logs, in which nothing is committed over a RESTORE any more; and whether something was.

    Args:
        read: reads them.

    Raises:
        TableMismatch: others have changed rows since.
        StorageError: the tables cannot be read or written.
    """
    logs, undone = read(), False
    while restores.undo(tables, logs.run):
        logs, undone = read(), True
    return logs, undone


def settle(
    execution: MicroBatchExecution, logs: Logs, first: Frontier, *, accept_gap: bool, reported: int | None
) -> Committed | None:
    """Settle marks of replays, late records, remembered deletes and accounts.

    Args:
        first, accept_gap: see `recovery.settle`.
        reported: see `recovery.unreported`.

    Returns:
        What became of the batch that was under way, if nobody has told of it.

    Raises:
        OffsetsLost, TableChanged: see `recovery.settle`.
    """
    tables = execution.context.tables
    lost = recovery.may_lack_accounts(tables, logs.job, logs.accounts)
    if logs.run.restored or lost:
        replay_marks.settle(tables)
        restores.withdraw_late(tables, logs.run)
    if logs.job.newest is not None:
        plan = partial(execution.plan, strict=False)
        latest_batch.take_out_deleted(execution, logs.job.newest.receipt, plan)
        version_batch.mend_newest(execution, logs.job.newest, plan)
    settled = recovery.settle(execution, logs.job, logs.accounts, first, looked=lost, accept_gap=accept_gap)
    return settled or recovery.unreported(execution, logs.job, reported)
