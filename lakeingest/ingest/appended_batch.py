"""The commit of a batch whose accepted records all become rows, which stay; but for mode history in the pass that
decides about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.delta.receipt import Account, Receipt
from lakeingest.ingest import version_batch
from lakeingest.ingest.decided import Decided, certain, counts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeingest.delta.commit_log import Commit
    from lakeingest.ingest.microbatch import MicroBatchExecution


def write(
    execution: MicroBatchExecution, decided: Decided, kafka: DataFrame, receipt: Receipt, existing_count: int
) -> tuple[Commit, Account]:
    """Commit the rows; and what became of the batch's records, which is known behind it.

    Args:
        kafka: the records, which need not be read again.
        existing_count: how many records of the batch one of the tables holds already.
    """
    chained = execution.sums_chain.chained(receipt)
    commit = version_batch.commit_rows(execution, decided.accepted, chained, decided.batch)
    metrics = decided.metrics
    counts = counts_of(metrics, commit.rows, existing_count)
    counts, left_out = certain(receipt, counts, decided.batch.drops(metrics))
    return commit, Account(counts, left_out, table=execution.sums_chain.committed(commit, metrics))
