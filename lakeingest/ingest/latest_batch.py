"""The commit of a batch of mode upsert: what became of its records is known before, and stands in the same commit.

1. The records are decided, once, and those that are accepted are kept: a MERGE reads them twice.
2. The latest of each key is merged into the table. The receipt names the records that were refused: rows of this mode
   do not stay, so that no difference of coordinates would tell which records a batch that was cut off has still to
   bring to quarantine.
3. What they delete is remembered. A batch that deletes a row has an account in quarantine, which comes behind that: so
   recovery sees that it may not have been.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.delta.latest import LatestRows
from lakeingest.delta.offset_lists import NO_OFFSETS, OffsetLists
from lakeingest.delta.receipt import Account, Counts, Receipt
from lakeingest.delta.upsert import Upsert
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
    rows, latest = frames.keep(decided.accepted), decided.batch.latest
    assert latest is not None
    try:
        with execution.reader.failures():
            deletes, bounds = _computed(rows, latest)
            account = _account(execution, decided, kafka, receipt, deletes)
        mode = Upsert(latest, execution.context.merge_session, bounds)
        commit = merge(execution, rows, replace(receipt, account=account), decided.batch, mode)
        _remember(execution, rows, deletes, mode, decided.batch)
    finally:
        frames.release(rows)
    return commit, replace(account, refused=NO_OFFSETS)


def merge_replayed(
    execution: MicroBatchExecution, latest: LatestRows, accepted: DataFrame, receipt: Receipt, batch: BatchPlan
) -> Commit:
    """Merge records of quarantine into the table; the receipt names them.

    What they delete is remembered first: a replay that is killed behind its commit has no account by which it would be
    seen.

    Args:
        accepted: those that pass today's rules, kept.
    """
    deletes, bounds = _computed(accepted, latest)
    moved = OffsetLists.of(map(tuple, accepted.select(*COORDINATES).collect()))
    mode = Upsert(latest, execution.context.merge_session, bounds)
    _remember(execution, accepted, deletes, mode, batch)
    account = Account(Counts(len(moved), len(moved)), deletes=deletes)
    receipt = replace(receipt, account=account, job=replace(receipt.job, moved=moved))
    return merge(execution, accepted, receipt, batch, mode)


def merge(execution: MicroBatchExecution, rows: DataFrame, receipt: Receipt, batch: BatchPlan, mode: Upsert) -> Commit:
    """Merge accepted records into the table.

    Args:
        receipt: with the account.
    """
    deleted_keys = execution.context.tables.deleted_keys
    newer = rows if deleted_keys is None else deleted_keys.without_superseded(rows, mode.latest)
    return execution.commit_rows(newer, receipt, batch, mode)


def _computed(rows: DataFrame, latest: LatestRows) -> tuple[int, tuple[str, ...]]:
    """How many of the records delete, and between which bounds their keys lie. It computes all of them."""
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


def _remember(execution: MicroBatchExecution, rows: DataFrame, deletes: int, mode: Upsert, batch: BatchPlan) -> None:
    deleted_keys = execution.context.tables.deleted_keys
    if deletes and deleted_keys is not None:
        deleted_keys.remember(rows, mode.latest, batch.now)
