"""The first receipt of a pipeline in a table that something else wrote: it says where the pipeline goes on.

It is committed with the columns that the table lacks and no row, and consumes nothing: its ranges are empty, at the
offsets where the pipeline goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeingest.delta.receipt import JobFields, Receipt
from lakeingest.ingest import preflight
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier, OffsetRanges


def adopt(
    execution: MicroBatchExecution, sequence: int, topics: Topics, frontier: Frontier, adopted: Mapping[str, Any]
) -> int:
    """Commit the receipt; the version.

    Args:
        execution: it follows the pipeline file.
        frontier: where the pipeline goes on.
        adopted: what the receipt says (see `JobFields.adopted`).

    Raises:
        Fenced: another run committed this sequence number; nothing was written.
        TableMismatch: the table is another than the file says; or somebody has added rows since it was looked at.
    """
    tables, config = execution.context.tables, execution.config
    receipt = Receipt(
        config.known_as,
        sequence,
        execution.context.run,
        topics.cluster,
        topics.ids,
        OffsetRanges.none_at(frontier),
        tables.quarantine.identifier,
        JobFields("adoption", adopted=adopted),
    )
    tables.ensure_quarantine()
    version = execution.reader.readable(lambda: _commit(execution, receipt))
    preflight.check_adopted(tables, tables.commit_logs()[0])
    return version


def _commit(execution: MicroBatchExecution, receipt: Receipt) -> int:
    execution.ensure_table()
    batch = execution.plan(strict=False)
    no_rows = batch.accepted(batch.decide(execution.reader.frame(receipt.ranges)))
    commit = execution.commit_rows(batch.rows(no_rows), receipt, batch)
    execution.writer.keep(execution.evolution.ledger)
    execution.writer.keep_adoption(receipt)
    return commit.version
