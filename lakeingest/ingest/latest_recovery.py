"""Settles a batch of mode upsert that was cut off behind the table's commit: its receipt names what it refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakeingest.delta import coordinates, quarantine
from lakeingest.delta.offset_lists import NO_OFFSETS
from lakeingest.errors import OffsetsLost
from lakeingest.ingest.decided import refused_rows
from lakeingest.record import COORDINATES, NO_RANGES, Frontier
from lakeingest.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.commit_log import Commit
    from lakeingest.delta.receipt import Account, Receipt
    from lakeingest.ingest.microbatch import MicroBatchExecution


def settle(
    execution: MicroBatchExecution, newest: Commit, first: Frontier, still_open: int, *, accept_gap: bool
) -> tuple[Account, dict[str, int]]:
    """Bring the records to quarantine that the batch refused and that are not there, with its account; the account, and
    how many records were brought for which reason.

    Args:
        first, still_open, accept_gap: see `recovery.settle`.

    Raises:
        OffsetsLost: Kafka no longer has a record that is needed, and its loss was not accepted.
    """
    receipt = newest.receipt
    assert receipt.account is not None
    missing, deleted = _missing(execution, receipt, receipt.account), receipt.ranges.before(first)
    lost = coordinates.within(missing, deleted).count()
    if lost and not accept_gap:
        raise OffsetsLost(
            f"batch {receipt.sequence} was cut off behind its commit, and Kafka no longer has {deleted}: {lost:,} "
            "records that it refused are not in quarantine",
            cure="run once with --accept-gap to go on without them (`audit` will name them); make the topic's "
            "retention longer than any stop",
        )
    reader = execution.reader
    records = reader.records(receipt) if receipt.job.late.ranges else reader.frame(receipt.ranges.since(first))
    execution.discover_schemas(records, receipt.sequence)
    batch = execution.plan(strict=False)
    decided = frames.keep(batch.decide(records))
    try:
        refused = decided.join(missing, list(COORDINATES), "left_semi")
        rows = refused_rows(batch, refused, execution.config.known_as, receipt.sequence)
        gaps = deleted if lost else NO_RANGES
        account = replace(receipt.account, refused=NO_OFFSETS, lost=lost, gaps=gaps, open=still_open)
        _, reasons = execution.quarantine(rows, replace(receipt, run=execution.context.run), account)
    finally:
        frames.release(decided)
    return account, reasons


def _missing(execution: MicroBatchExecution, receipt: Receipt, account: Account) -> DataFrame:
    """The coordinates of refused records that are not in quarantine."""
    places = execution.context.spark.createDataFrame(list(account.refused), coordinates.COLUMNS)
    ranges = receipt.job.late if receipt.job.late.ranges else receipt.ranges
    existing = coordinates.of(quarantine.unmoved(execution.context.tables.refused()), ranges)
    return places.join(existing, list(COORDINATES), "left_anti")
