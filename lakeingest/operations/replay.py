"""Replays and discards of refused records, and what is told of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakeingest.delta import replay_marks
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.jobs.replay import ReplayJob
from lakeingest.operations.results.replay import Replayed
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def replay(context: RunContext, why: str, where: str | None, limit: int | None, *, dry_run: bool) -> Replayed:
    """See `Pipeline.replay`."""
    with storage_failures(context.tables.quarantine.identifier), ExitStack() as stack:

        def keep(frame: DataFrame) -> DataFrame:
            stack.callback(frames.release, frame)
            return frames.keep(frame)

        result = ReplayJob(context, why, where, limit, keep).run(dry_run=dry_run)
    return Replayed(context.config.name, dry_run, result.looked, result.moved, result.reasons)


def discard(tables: PipelineTables, where: str | None, why: str) -> int:
    """See `Pipeline.discard`."""
    tables.quarantine.existing()
    tables.ensure_quarantine()
    return replay_marks.discard(tables, where, why)
