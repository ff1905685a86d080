"""What the batches of a pipeline need, and what stays as it is while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.prefetch import prefetch_snapshots
from lakeingest.delta.receipt import Run
from lakeingest.delta.table import Table
from lakeingest.gate.suite import Suite
from lakeingest.ingest.batch_gate import BatchGate
from lakeingest.ingest.source import RecordSource
from lakeingest.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RunContext:
    """Configuration, session, servers and the gate.

    Attributes:
        source: where the records come from.
        run: who commits.
        few_rows: computes what has few rows; None where there can be no such session (see `few_rows_session`).
    """

    config: PipelineConfig
    spark: SparkSession
    source: RecordSource
    suite: Suite | None
    gate: BatchGate
    run: Run
    few_rows: SparkSession | None

    @cached_property
    def tables(self) -> PipelineTables:
        return PipelineTables(self.spark, self.config)

    @cached_property
    def merge_session(self) -> SparkSession:
        """See `session.merge_session`."""
        return session.merge_session(self.spark)

    def prefetch(self, *tables: Table) -> None:
        """Prepare the next commits to these tables, while there is nothing else to do."""
        if self.few_rows is not None:
            merges, quarantine = self.config.table.alters, self.tables.quarantine
            prefetch_snapshots(self.few_rows, {table: merges and table != quarantine for table in tables})
