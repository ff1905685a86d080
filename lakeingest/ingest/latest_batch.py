"""The commit of a batch of mode upsert: what became of its records is known before, and stands in the same commit.

1. The records are decided, once, and of those that are accepted the latest of each key is kept: a MERGE reads them
   twice.
2. Those are left out whose key is deleted by a later record, as far as the memory of deletes tells.
3. What they delete is remembered. A batch that ends here is read again, and its deletes are remembered again.
4. They are merged into the table. The receipt names the records that were refused: rows of this mode do not stay, so
   that no difference of coordinates would tell which records a batch that was cut off has still to bring to quarantine.
5. If somebody else wrote to the memory of deletes since 2, rows that another job has deleted meanwhile are taken out
   again. The receipt names the version that was seen, so that the next start of a job that was cut off does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F

from lakeingest.delta.latest import LatestRows, struct_of
from lakeingest.delta.offset_lists import NO_OFFSETS, OffsetLists
from lakeingest.delta.receipt import Account, Counts, Receipt
from lakeingest.delta.upsert import TIED, Upsert, completed, latest_of
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.ingest.decided import Decided, certain
from lakeingest.record import COORDINATES, DELETES, count_where
from lakeingest.schema.debezium import UNAVAILABLE
from lakeingest.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.commit_log import Commit
    from lakeingest.ingest.microbatch import MicroBatchExecution


def write(
    execution: MicroBatchExecution, decided: Decided, kafka: DataFrame, receipt: Receipt, existing_count: int
) -> tuple[Commit, Account]:
    """Steps 1 to 5; the commit, and what became of the batch's records.

    Args:
        kafka: the records, where the refused ones have to be read again (see `Decided.set_aside`).
        existing_count: how many records of the batch one of the tables holds already; these are none of its own.
    """
    batch = decided.batch
    assert batch.latest is not None
    rows = latest_of(decided.accepted, batch.latest)
    try:
        with execution.reader.failures(), frames.observing(execution.context.spark):
            rows = frames.keep(rows)
            facts = _computed(rows, batch.latest)
            if facts.lacking:
                # Seldom: so a batch in which no value is missing is sorted once.
                rows = _completed(rows, decided.records, batch)
            account = _account(execution, decided, kafka, receipt)
            account = replace(account, deletes=facts.deletes, ties=facts.ties)
        commit = _merge(execution, rows, replace(receipt, account=account), batch, facts)
    finally:
        frames.release(rows)
    return commit, replace(account, refused=NO_OFFSETS)


def _completed(rows: DataFrame, decided: DataFrame, batch: BatchPlan) -> DataFrame:
    """The latest rows, with what they lack from earlier records of the batch.

    Args:
        rows: the latest rows, which are released.
        decided: all records of the batch.
    """
    assert batch.latest is not None
    frames.release(rows)
    accepted = batch.accepted(observed(decided, Observation()))
    return frames.keep(latest_of(completed(accepted, batch.latest), batch.latest))


def merge_replayed(execution: MicroBatchExecution, accepted: DataFrame, receipt: Receipt, batch: BatchPlan) -> Commit:
    """Merge records of quarantine into the table; the receipt names them.

    Args:
        accepted: those that pass today's rules, kept.
    """
    assert batch.latest is not None
    rows = frames.keep(latest_of(completed(accepted, batch.latest), batch.latest))
    try:
        facts = _computed(rows, batch.latest)
        moved = OffsetLists.of(map(tuple, accepted.select(*COORDINATES).collect()))
        account = Account(Counts(len(moved), len(moved)), deletes=facts.deletes, ties=facts.ties)
        receipt = replace(receipt, account=account, job=replace(receipt.job, moved=moved))
        return _merge(execution, rows, receipt, batch, facts)
    finally:
        frames.release(rows)


class _BatchFacts(NamedTuple):
    """What is known of the latest rows of a batch, once they are computed.

    Attributes:
        deletes: how many delete.
        ties: how many are tied.
        lacking: how many lack values (see `unlogged`).
        bounds, emptied: see `Upsert`.
    """

    deletes: int
    ties: int
    lacking: int
    bounds: tuple[str, ...]
    emptied: str


def _merge(
    execution: MicroBatchExecution, rows: DataFrame, receipt: Receipt, batch: BatchPlan, facts: _BatchFacts
) -> Commit:
    """Steps 2 to 5.

    Args:
        rows: of each key the latest record.
        receipt: with the account.
    """
    rows = rows.drop(TIED)
    deleted_keys, latest, account = execution.context.tables.deleted_keys, batch.latest, receipt.account
    assert latest is not None
    assert account is not None
    receipt = execution.log_order.placed(rows, receipt, latest)
    mode = Upsert(latest, execution.context.merge_session, facts.bounds, facts.emptied)
    if facts.emptied:
        rows = rows.where(f"{struct_of(latest.ordered)} >= {facts.emptied}")
    if deleted_keys is None:
        return execution.commit_rows(rows, receipt, batch, mode)
    read_version = deleted_keys.version()
    standing = deleted_keys.without_superseded(rows, latest, read_version)
    if account.deletes:
        read_version = deleted_keys.remember(rows, latest, batch.now, read_version)
    receipt = replace(receipt, account=replace(account, remembered=read_version))
    commit = execution.commit_rows(standing, receipt, batch, mode)
    take_out_deleted(execution, commit.receipt, lambda: batch)
    if account.deletes:
        deleted_keys.join_files()
    return commit


def take_out_deleted(execution: MicroBatchExecution, receipt: Receipt, plan: Callable[[], BatchPlan]) -> None:
    """Take out of the table the rows of a batch that another job had deleted before it was committed, if any.

    Args:
        receipt: the batch's.
        plan: gives a plan that has today's keys.
    """
    tables, account = execution.context.tables, receipt.account
    if tables.deleted_keys is None or account is None or not tables.deleted_keys.has_changed(account.remembered):
        return
    latest = plan().latest
    if latest is not None:
        is_spread = receipt.job.late.ranges or len(receipt.job.moved)
        ranges = None if is_spread else receipt.ranges
        tables.deleted_keys.take_out(tables.main, execution.context.merge_session, latest, ranges)


def _computed(rows: DataFrame, latest: LatestRows) -> _BatchFacts:
    """It computes all of the rows."""
    lacking = F.col(UNAVAILABLE).isNotNull() if latest.unlogged else F.lit(False)
    counts = (count_where(condition) for condition in (F.col(DELETES), F.col(TIED), lacking))
    deletes, ties, lacking_count, emptied, *extents = rows.agg(
        *counts, latest.newest_emptying, *latest.extents
    ).collect()[0]
    return _BatchFacts(deletes, ties, lacking_count, tuple(latest.bounds(extents)), latest.literal_order(emptied))


def _account(execution: MicroBatchExecution, decided: Decided, kafka: DataFrame, receipt: Receipt) -> Account:
    """What becomes of the records, once the accepted ones are computed."""
    metrics = decided.metrics
    consumed, refused, dropped = (metrics[name] for name in ("consumed", "refused", "dropped"))
    places = NO_OFFSETS
    if refused:
        aside = decided.set_aside(kafka, execution.config.known_as, receipt.sequence)
        places = OffsetLists.of(map(tuple, aside.select(*COORDINATES).collect()))
    counts, left_out = certain(
        receipt,
        Counts(consumed, consumed - refused - dropped, refused, dropped),
        decided.batch.drops(metrics),
    )
    return Account(counts, left_out, refused=places)
