"""Adopts a table that something else wrote: a first receipt says where the pipeline goes on, and what is not known.

1. The table is looked at as it stands in one version: its rows, and the coordinates that they bear.
2. What was told is held against Kafka, and the table against the pipeline file, as a run does.
3. The receipt is committed, with the columns that the table lacks and no row. It consumes nothing: its ranges are
   empty, at the offsets where the pipeline goes on.
4. Whoever added rows since 1 is noticed, and again when the first run begins: then the table is adopted anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import somebody
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.ingest import preflight
from lakeingest.ingest.batch_plan import BatchPlan
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.jobs import adoption as adoption_job
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import adoption
from lakeingest.operations.adoption import FrontierOrigin
from lakeingest.operations.results.adopt import Adopted
from lakeingest.record import TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def adopt(context: RunContext, topics: Topics, source: FrontierOrigin, *, dry_run: bool, yes: bool) -> Adopted:
    """See `Pipeline.adopt`."""
    config, tables = context.config, context.tables
    columns = tables.main.existing().schema
    new = {tables.quarantine} if tables.quarantine.schema() is None else set()
    log, refused = tables.commit_logs(new=new, adopting=True)
    _check_not_yet(tables, log)
    is_own = source.frontier is None and source.coordinates is None
    preflight.check_adoptable(config, log, refused, by_rows=is_own)
    # 1.
    contents = adoption.look(tables, log, source)
    # 2.
    frontier = adoption.frontier(tables, topics, source, contents)
    if is_own and TIMESTAMP in columns.names:
        preflight.check_times(tables, BatchReader(context), topics, adoption.last_records(contents))
    doubts = (*adoption.copies(tables, log), *adoption.doubles(contents))
    sequence = max(log.last_sequence, refused.last_sequence) + 1
    execution = _checked(context, columns, log, sequence)
    result = Adopted(
        config.name,
        tables.main.identifier,
        None,
        source.how,
        contents.rows,
        tuple(adoption.partitions(topics, contents, frontier)),
        doubts,
        tuple(adoption.unknown(tables, topics, source, contents, frontier)),
    )
    if dry_run:
        return result
    if doubts and not yes:
        raise UsageError(
            f"{tables.main} was not adopted, since {'; and '.join(doubts)}",
            cure="look at it, and say --yes if it is to be adopted all the same (in Python yes=True)",
        )
    # 3. and 4.
    adopted = {
        "version": contents.version,
        "rows": contents.rows,
        "without": contents.without,
        "how": source.how,
        "who": somebody(),
    }
    version = adoption_job.adopt(execution, sequence, topics, frontier, adopted)
    return replace(result, version=version)


def _check_not_yet(tables: PipelineTables, log: CommitLog) -> None:
    """Raises:
    UsageError: the pipeline has commits in the table already, and goes on by them.
    """
    newest, name = log.newest, tables.config.name
    if newest is None:
        return
    state, back = f"has commits of pipeline {name!r}, up to its batch {newest.receipt.sequence}", ""
    if newest.receipt.job.adopted:
        try:
            preflight.check_adopted(tables, log)
        except TableMismatch:
            return
        state = f"is adopted since version {newest.version}, by {newest.receipt.job.adopted['how']}"
        back = (
            f"; to adopt it otherwise, RESTORE TABLE {tables.main.sql} TO VERSION AS OF {newest.version - 1}, and "
            "adopt it then"
        )
    raise UsageError(
        f"{tables.main} {state}: there is nothing to adopt",
        cure=f"let the pipeline run: `lakeingest run FILE`{back}",
    )


def _checked(context: RunContext, columns: StructType, log: CommitLog, sequence: int) -> MicroBatchExecution:
    """What commits the receipt, once it was checked what the first run would check.

    Raises:
        TableMismatch: the table is another than the file says.
        UsageError: no record has brought a schema yet.
    """
    try:
        execution = MicroBatchExecution(context, columns, log)
        if not execution.evolution.columns_from_registry(sequence):
            raise UsageError(
                "no record has brought a schema yet, so that what the table's columns have to be is not known",
                cure="register the schema, or let a record of it come, and adopt the table then",
            )
        execution.check_table()
        batch = execution.plan(strict=False)
    except TableMismatch as mismatch:
        raise TableMismatch(
            mismatch.what,
            cure="let the pipeline file say what the table has (partition, schema.columns, transform), and look again: "
            "`lakeingest adopt FILE --dry-run`; or give the pipeline a table of its own",
        ) from mismatch
    if never := _never_filled(batch):
        columns_text = ", ".join(never)
        raise TableMismatch(
            f"{context.tables.main} demands NOT NULL of {columns_text}, which no record of the pipeline fills: "
            "each one would be refused",
            cure=f"let the column be null (ALTER TABLE … ALTER COLUMN {never[0]} DROP NOT NULL), or fill it "
            "(schema.columns, transform)",
        )
    return execution


def _never_filled(batch: BatchPlan) -> tuple[str, ...]:
    """The table's columns that may not be null, and that neither a record nor Delta fills."""
    if batch.constraints is None:
        return ()
    filled = {*batch.columns, *(column.name for column in batch.layout.columns)}
    return tuple(name for name in batch.constraints.not_null if name not in filled)
