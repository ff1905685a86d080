"""Refused records get a second chance: what passes today's rules moves from quarantine into the table, exactly once.

1. What another replay, or a RESTORE, left open is closed (`restores.undo`, `replay_marks.settle`).
2. The replay takes its number.
3. The kept bytes are decoded and checked again, as a batch of Kafka's is. Records whose coordinates the table has
   already are left out, so that nothing is ever there twice; so are those that the pipeline's run is to read again.
   Another replay that commits from here on has this number: of two at once one loses.
4. What passes is committed to the table, under a receipt of its own with that number. It is not taken for moved if
   somebody restored the table meanwhile: what comes next takes it back. Then the rows in quarantine are marked: who,
   when, why.

Between the two commits a record is in both tables; `audit` knows that from the receipts, and counts it once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta import commit, commit_log, coordinates, quarantine, replay_marks, sealing
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Job, Receipt, Run, of_replay, somebody
from lakeingest.ingest import preflight, restores
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.operations.results.replay import Replayed
from lakeingest.record import COORDINATES, HEADERS, RAW_KEY, RAW_VALUE, REFUSED, TIMESTAMP, Frontier, OffsetRanges
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def replay(context: RunContext, why: str, where: str | None, limit: int | None, *, dry_run: bool) -> Replayed:
    """See `Pipeline.replay`."""
    tables = context.tables
    columns = tables.main.existing().schema
    tables.quarantine.existing()
    tables.ensure_quarantine()
    with storage_failures(tables.quarantine.identifier), ExitStack() as kept:

        def keep(frame: DataFrame) -> DataFrame:
            kept.callback(frames.release, frame)
            return frames.keep(frame)

        return _replay(context, why, where, limit, keep, columns=columns, dry_run=dry_run)


def _replay(
    context: RunContext,
    why: str,
    where: str | None,
    limit: int | None,
    keep: Callable[[DataFrame], DataFrame],
    *,
    columns: StructType,
    dry_run: bool,
) -> Replayed:
    config, tables = context.config, context.tables
    # 1.
    log, refused = tables.commit_logs()
    if not dry_run:
        while restores.undo(tables, log):
            columns = tables.main.existing().schema
            log, refused = tables.commit_logs()
        replay_marks.settle(tables)
    # 2. The number comes before the candidates: whatever another replay commits from now on has it, and is noticed.
    receipt = replace(_receipt(tables, context.run, why), base=log.version)
    preflight.check_tables(config, log, refused)
    execution = MicroBatchExecution(context, columns, log, follows=False)
    if not dry_run:
        execution.check_declared(log, columns)
    # 3.
    kafka = keep(_candidates(tables, log.frontier, where, limit))
    execution.discover_schemas(kafka, log.last_sequence)
    execution.check_unchanged()
    batch = execution.plan(strict=False)
    # Kept, so that each record is decoded once; what is kept is a barrier too (see `batch_plan.observed`).
    decided = keep(batch.decide(kafka))
    accepted, looked = batch.accepted(decided), decided.count()
    rows = quarantine.rows(decided.where(REFUSED), batch.refusals, config.known_as, 0, batch.now)
    still = tuple(quarantine.reasons(keep(rows.drop("key", "value", "headers")), 1))
    moved = accepted.count()
    # 4.
    if moved and not dry_run:
        execution.writer.limit_statistics(batch.layout.columns)
        newest = commit.append(tables.main, accepted, receipt, config.table.compression)
        execution.writer.check_not_restored(tables.main, newest)
        replay_marks.settle(tables)
    return Replayed(context.config.name, dry_run, looked, moved, still)


def _candidates(tables: PipelineTables, frontier: Frontier, where: str | None, limit: int | None) -> DataFrame:
    """Rows of quarantine that may be moved, as `kafka.reader.frame` has records: not discarded, not in the table, and
    behind the pipeline, whose run withdraws the others.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    rows = replay_marks.asked(tables, where).where("discarded IS NULL").where(~coordinates.not_before(frontier))
    rows = sealing.opened(rows, tables.config.quarantine)
    held = tables.main.coordinates(coordinates.extent(rows))
    # A record that was refused, moved, taken back by a RESTORE and refused again may have two rows.
    found = rows.join(held, list(COORDINATES), "left_anti").dropDuplicates(list(COORDINATES))
    chosen = found if limit is None else found.orderBy(*COORDINATES).limit(limit)
    return chosen.select(
        *COORDINATES,
        TIMESTAMP,
        F.col("key").alias(RAW_KEY),
        F.col("value").alias(RAW_VALUE),
        F.col("headers").alias(HEADERS),
    )


def _receipt(tables: PipelineTables, run: Run, why: str) -> Receipt:
    """The receipt of the next replay."""
    name = of_replay(tables.config.known_as)
    number = commit_log.numbered(tables.main, commit_log.read(tables.main, name)).last_sequence + 1
    accepted = {"who": somebody(), "why": why}
    where = tables.quarantine.identifier
    return Receipt(name, number, run, "", {}, OffsetRanges(()), where, Job("replay", accepted=accepted))


def discard(tables: PipelineTables, where: str | None, why: str) -> int:
    """See `Pipeline.discard`."""
    tables.quarantine.existing()
    tables.ensure_quarantine()
    return replay_marks.discard(tables, where, why)
