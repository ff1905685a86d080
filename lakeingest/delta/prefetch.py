"""Prefetches the snapshot of a table: the state of its log, computed before the next commit asks for it.

A commit that bears a number has Delta look which numbers the table has seen, and for that Delta computes the state of
the whole log: from its last checkpoint, and each commit since (`OptimisticTransaction.txnVersion`, Delta 4.4). That is
half of what a small commit takes, and more the older a table is. A session keeps the state as long as nobody else
commits, and between two commits there is time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threading import Thread

    from pyspark.sql import SparkSession

    from lakeingest.delta.table import Table


def prefetch_snapshots(logs: SparkSession, *tables: Table) -> Thread:
    """Begin to compute the states of these tables' logs as they stand now; a commit that comes earlier waits for its
    own.

    Whatever fails here, a commit meets too, and says.

    Args:
        logs: see `session.log_session`.

    Returns:
        The thread that computes; the process need not wait for it.
    """
    from pyspark import InheritableThread

    def compute() -> None:
        for table in tables:
            # Not only what Spark raises: the process may end meanwhile, and its JVM with it.
            with suppress(Exception):
                # It tells how many files there are, which only the whole state tells.
                logs.sql(f"DESCRIBE DETAIL {table.sql}").collect()

    thread = InheritableThread(target=compute, name="lakeingest-prefetch", daemon=True)
    thread.start()
    return thread
