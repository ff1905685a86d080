"""The commit of a batch of mode upsert: what became of its records is known before, and stands in the same commit.

1. The records are decided, once, and of those that are accepted the latest of each key is kept: a MERGE reads them
   twice.
2. They are merged into the table. The receipt names the records that were refused: rows of this mode do not stay, so
   that no difference of coordinates would tell which records a batch that was cut off has still to bring to quarantine.
3. What they delete is remembered. Whether it was, the coordinates in the table of deleted keys tell
   (`latest_recovery.remember`).

A job beside the run remembers first: its batches may be of any offsets, and another job may go on before it is started
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.delta.latest import LatestRows
from lakeingest.delta.offset_lists import NO_OFFSETS, OffsetLists
from lakeingest.delta.receipt import Account, Counts, Receipt
from lakeingest.delta.upsert import Upsert, latest_of
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.ingest.decided import Decided, certain
from lakeingest.record import COORDINATES, DELETES, count_where
from lakeingest.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.commit_log import Commit
    from lakeingest.ingest.microbatch import MicroBatchExecution


def write(
    execution: MicroBatchExecution, decided: Decided, kafka: DataFrame, receipt: Receipt, existing_count: int
) -> tuple[Commit, Account]:
    """Steps 1 to 3; the commit, and what became of the batch's records.

    Args:
        kafka: the records, where the refused ones have to be read again (see `Decided.set_aside`).
        existing_count: how many records of the batch one of the tables holds already; these are none of its own.
    """
    batch = decided.batch
    assert batch.latest is not None
    rows = frames.keep(newest_rows(execution, batch.latest, decided.accepted))
    try:
        with execution.reader.failures():
            deletes, bounds = _computed(rows, batch.latest)
            account = _account(execution, decided, kafka, receipt, deletes)
        receipt, mode = replace(receipt, account=account), Upsert(batch.latest, execution.context.merge_session, bounds)
        if receipt.job.name == "run":
            commit = execution.commit_rows(rows, receipt, batch, mode)
            remember(execution, rows, deletes, batch)
        else:
            remember(execution, rows, deletes, batch)
            commit = execution.commit_rows(rows, receipt, batch, mode)
    finally:
        frames.release(rows)
    return commit, replace(account, refused=NO_OFFSETS)


def merge_replayed(
    execution: MicroBatchExecution, latest: LatestRows, accepted: DataFrame, receipt: Receipt, batch: BatchPlan
) -> Commit:
    """Merge records of quarantine into the table; the receipt names them.

    Args:
        accepted: those that pass today's rules, kept.
    """
    rows = frames.keep(newest_rows(execution, latest, accepted))
    try:
        deletes, bounds = _computed(rows, latest)
        moved = OffsetLists.of(map(tuple, accepted.select(*COORDINATES).collect()))
        remember(execution, rows, deletes, batch)
        account = Account(Counts(len(moved), len(moved)), deletes=deletes)
        receipt = replace(receipt, account=account, job=replace(receipt.job, moved=moved))
        return execution.commit_rows(rows, receipt, batch, Upsert(latest, execution.context.merge_session, bounds))
    finally:
        frames.release(rows)


def newest_rows(execution: MicroBatchExecution, latest: LatestRows, accepted: DataFrame) -> DataFrame:
    """Of each key the latest of the accepted records, unless a later one deleted it before."""
    deleted_keys, rows = execution.context.tables.deleted_keys, latest_of(accepted, latest)
    return rows if deleted_keys is None else deleted_keys.without_superseded(rows, latest)


def remember(execution: MicroBatchExecution, rows: DataFrame, deletes: int, batch: BatchPlan) -> None:
    """Commit what records delete to the table of deleted keys, if they delete anything.

    Args:
        rows: as `newest_rows` gives them.
        deletes: how many of them delete.
    """
    deleted_keys = execution.context.tables.deleted_keys
    if deletes and deleted_keys is not None and batch.latest is not None:
        deleted_keys.remember(rows, batch.latest, batch.now)


def _computed(rows: DataFrame, latest: LatestRows) -> tuple[int, tuple[str, ...]]:
    """How many of the rows delete, and between which bounds their keys lie. It computes all of them."""
    deletes, *extents = rows.agg(count_where(F.col(DELETES)), *latest.extents).collect()[0]
    return deletes, tuple(latest.bounds(extents))


def _account(
    execution: MicroBatchExecution, decided: Decided, kafka: DataFrame, receipt: Receipt, deletes: int
) -> Account:
    """What becomes of the records, once the accepted ones are computed."""
    metrics = decided.observation.get
    consumed, refused, dropped = (metrics[name] for name in ("consumed", "refused", "dropped"))
    places = NO_OFFSETS
    if refused:
        aside = decided.set_aside(kafka, execution.config.known_as, receipt.sequence)
        places = OffsetLists.of(map(tuple, aside.select(*COORDINATES).collect()))
    counts, left_out = certain(
        receipt,
        Counts(consumed, consumed - refused - dropped, refused, dropped),
        transform.left_out(decided.batch.shape.stages, metrics),
    )
    return Account(counts, left_out, deletes=deletes, refused=places)
