"""What was refused and why: quarantine's records by reason, one of them, and what the gate found."""

from __future__ import annotations

from typing import Any

from lakeingest.delta import quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.gate import results
from lakeingest.operations.shown import Rows
from lakeingest.spark.failures import storage_failures

_OF_RESULTS = ("sequence", "time", "outcome", "expectation", "action", "success", "unexpected", "evaluated", "observed")


def reasons(tables: PipelineTables, samples: int) -> Rows:
    """See `Pipeline.quarantined`."""
    with storage_failures(tables.quarantine.identifier):
        found = quarantine.reasons(tables.existing_refused(), samples)
    return Rows(found, f"{tables.config.name}: refused records in {tables.quarantine}")


def record(tables: PipelineTables, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """See `Pipeline.quarantined_record`."""
    with storage_failures(tables.quarantine.identifier):
        return quarantine.record(tables.existing_refused(), topic, partition, offset)


def gate_results(tables: PipelineTables, batches: int) -> Rows:
    """See `Pipeline.results`."""
    found = tables.results.existing()
    with storage_failures(tables.results.identifier):
        newest = results.newest(found, tables.config.known_as, batches)
    return Rows(newest, f"{tables.config.name}: results of the gate in {tables.results}", _OF_RESULTS)
