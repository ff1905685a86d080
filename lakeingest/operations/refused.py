"""What was refused and why: quarantine's records by reason, one of them, and what the gate found."""

from __future__ import annotations

from typing import Any

from lakeingest.delta import quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.gate import results
from lakeingest.spark.failures import storage_failures


def reasons(tables: PipelineTables, samples: int) -> list[dict[str, Any]]:
    """See `Pipeline.quarantined`."""
    with storage_failures(tables.quarantine.identifier):
        return quarantine.reasons(tables.existing_refused(), samples)


def record(tables: PipelineTables, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """See `Pipeline.quarantined_record`."""
    with storage_failures(tables.quarantine.identifier):
        return quarantine.record(tables.existing_refused(), topic, partition, offset)


def gate_results(tables: PipelineTables, batches: int) -> list[dict[str, Any]]:
    """See `Pipeline.results`."""
    found = tables.results.existing()
    with storage_failures(tables.results.identifier):
        return results.newest(found, tables.config.known_as, batches)
