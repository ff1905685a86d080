"""What a receipt says of the batch before it: the sums of its coordinates, which its own receipt came too early for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakeingest.delta import sums
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader import own_rows
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.delta.receipt import Receipt
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.delta.table import Table
from lakeingest.errors import LakeingestError
from lakeingest.ingest import endpoints
from lakeingest.spark import session


class SumsChain:
    """The newest batch that stands, and the sums of its rows.

    Of a batch that this process wrote they were observed. Of one that another process wrote, or that was cut off, they
    are read from the files that its own commits wrote, without Spark, when the next batch is about to be committed:
    whatever was done to the tables since, these files say what was written. Where that cannot be read so they are null.
    """

    def __init__(self, tables: PipelineTables, log: CommitLog, refused: CommitLog | None) -> None:
        """`log`, `refused`: what the job's batches committed to the table, and to quarantine."""
        self._tables, self._newest = tables, log.newest
        self._account = refused.newest if refused is not None else None
        self._sums: BatchSums | None = None

    def committed(self, batch: Commit, metrics: Mapping[str, Any]) -> Sums | None:
        """The table has a new batch; the sums of its rows there.

        Args:
            metrics: what was observed of the batch.
        """
        table = sums.of_batch(metrics, batch.rows)
        quarantine = Sums() if batch.receipt.whole(batch.rows) else None
        self._newest, self._sums = batch, BatchSums(batch.receipt.sequence, table, quarantine)
        return table

    def accounted(self, account: Commit, metrics: Mapping[str, Any]) -> None:
        """Quarantine has a new account: of the newest batch, or of one that was left open.

        Args:
            metrics: what was observed of its rows.
        """
        self._account = account
        if self._sums and self._sums.sequence == account.receipt.batch and _holds_all(account):
            self._sums = replace(self._sums, quarantine=sums.observed(metrics, account.rows))

    def chained(self, receipt: Receipt) -> Receipt:
        """The receipt of the next batch, with the sums of the newest one."""
        if self._newest is not None and self._sums is None:
            self._sums = self._of_files(self._newest)
        return replace(receipt, before=self._sums)

    def _of_files(self, newest: Commit) -> BatchSums:
        receipt = newest.receipt
        account = self._account if self._account and self._account.receipt.batch == receipt.sequence else None
        became = account.receipt.account if account else None
        table = (became and became.table) or self._of_commit(self._tables.main, newest)
        quarantine = Sums() if receipt.whole(newest.rows) else None
        if account and _holds_all(account):
            quarantine = self._of_commit(self._tables.quarantine, account)
        return BatchSums(receipt.sequence, table, quarantine)

    def _of_commit(self, table: Table, commit: Commit) -> Sums | None:
        if not commit.rows:
            return Sums()
        if session.is_elsewhere(os.environ):
            return None
        with suppress(Unreadable, LakeingestError):
            log = OfflineLog(table.location, endpoints.storage(self._tables.config))
            of_rows = own_rows.of_commit(log, commit.version)
            return of_rows if of_rows.rows == commit.rows else None
        return None


def _holds_all(account: Commit) -> bool:
    """Whether an account's own commit brought every record to quarantine that its batch refused: others may have been
    there before, from a batch that a RESTORE took back.
    """
    became = account.receipt.account
    return became is not None and became.counts.refused == account.rows
