"""Prefetches the snapshot of a table: the state of its log, computed before the next commit asks for it.

A commit that bears a number has Delta look which numbers the table has seen, and for that Delta computes the state of
the whole log: from its last checkpoint, and each commit since (`OptimisticTransaction.txnVersion`, Delta 4.4). That is
most of what a small commit takes, and more the older a table is. A session keeps the state as long as nobody else
commits, and between two commits there is time. An append that goes without the state (see `numbered_append`) needs it
only behind a checkpoint, and behind what somebody else committed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakeingest.delta.numbered_append import needs_state
from lakeingest.spark import jvm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from threading import Thread

    from pyspark.sql import SparkSession

    from lakeingest.delta.table import Table


def prefetch_snapshots(logs: SparkSession, tables: Mapping[Table, bool]) -> Thread:
    """Begin to compute the states of these tables' logs as they stand now, as far as the next commits need them; a
    commit that comes earlier waits for its own.

    Whatever fails here, a commit meets too, and says.

    Args:
        logs: see `session.few_rows_session`.
        tables: table → whether its next commit looks for rows in its files, which takes the state in any case.

    Returns:
        The thread that computes; the process need not wait for it.
    """
    from pyspark import InheritableThread

    def compute() -> None:
        for table, merges in tables.items():
            # Not only what Spark raises: the process may end meanwhile, and its JVM with it.
            with suppress(Exception):
                # The jar's answer is null where only the whole state prepares an append.
                if merges or needs_state(table) or jvm.of_log(logs, "prefetch", table.identifier) is None:
                    # It tells how many files there are, which only the whole state tells.
                    logs.sql(f"DESCRIBE DETAIL {table.sql}").collect()

    thread = InheritableThread(target=compute, name="lakeingest-prefetch", daemon=True)
    thread.start()
    return thread
