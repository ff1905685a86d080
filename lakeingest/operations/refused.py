"""What was refused and why: quarantine's records by reason, one of them, and what the gate found."""

from __future__ import annotations

from typing import Any

from lakeingest.config import PipelineConfig
from lakeingest.delta import quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.gate import results
from lakeingest.operations.shown import Rows
from lakeingest.spark.failures import storage_failures

_OF_RESULTS = ("sequence", "time", "outcome", "expectation", "action", "success", "unexpected", "evaluated", "observed")


def reasons(tables: PipelineTables, samples: int) -> list[dict[str, Any]]:
    """See `Pipeline.quarantined`."""
    with storage_failures(tables.quarantine.identifier):
        return quarantine.reasons(tables.existing_refused(), samples)


def shown_reasons(config: PipelineConfig, found: list[dict[str, Any]]) -> Rows:
    """The same, as a notebook shows it."""
    return Rows(found, f"{config.name}: refused records in {config.quarantine.identifier}")


def record(tables: PipelineTables, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """See `Pipeline.quarantined_record`."""
    with storage_failures(tables.quarantine.identifier):
        return quarantine.record(tables.existing_refused(), topic, partition, offset)


def gate_results(tables: PipelineTables, batches: int) -> list[dict[str, Any]]:
    """See `Pipeline.results`."""
    found = tables.results.existing()
    with storage_failures(tables.results.identifier):
        return results.newest(found, tables.config.known_as, batches)


def shown_results(config: PipelineConfig, found: list[dict[str, Any]]) -> Rows:
    """The same, as a notebook shows it."""
    return Rows(found, f"{config.name}: results of the gate in {config.results}", _OF_RESULTS)
