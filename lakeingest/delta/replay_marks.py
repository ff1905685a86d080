"""The marks in quarantine that say which records a replay has moved into the table, or somebody has given up.

They follow the tables' coordinates: a replay that was killed before it marked its records, or taken back by a RESTORE,
is seen to by whatever comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta import additions, commit_log, coordinates, quarantine
from lakeingest.delta.commit_log import Commit
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, of_replay, somebody
from lakeingest.delta.table import Table
from lakeingest.delta.unsettled import Unsettled
from lakeingest.errors import FilesLost, UsageError
from lakeingest.record import COORDINATES
from lakeingest.spark import frames, session
from lakeingest.spark.failures import spark_failures, storage_failures, summary
from lakeingest.spark.settings import USER_METADATA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def unsettled(tables: PipelineTables) -> Unsettled:
    """See `Unsettled`; nothing of it is there as a rule."""
    if tables.main.schema() is None:
        return Unsettled()
    name = of_replay(tables.config.known_as)
    marks = cache(lambda: commit_log.read(tables.quarantine, name))
    newest = Unsettled.of(commit_log.read(tables.main, name), marks)
    return Unsettled.of(commit_log.read(tables.main, name, back=None), marks) if newest.moved else newest


def moved(tables: PipelineTables, replay: Commit) -> DataFrame:
    """The coordinates of the records that a replay brought to the table, as the version that it committed has them.

    So a record that came into both tables in another way is not taken for one that was moved. Where that version can
    no longer be read, all records that are in both are, if they are no more than the replay moved; else none is. A
    replay into a table of mode upsert names them itself.

    Returns:
        _topic STRING, _partition INT, _offset BIGINT
    """
    if places := replay.receipt.job.moved:
        return tables.spark.createDataFrame(list(places), coordinates.COLUMNS)
    with suppress(FilesLost, UsageError), storage_failures(tables.main.identifier):
        rows = additions.of_commit(tables.main, replay.version).select(*COORDINATES)
        # Whether the files are there is noticed when they are read.
        rows.count()
        return rows
    in_both = _in_both(tables).select(*COORDINATES)
    with storage_failures(tables.main.identifier):
        return in_both if in_both.count() <= replay.rows else in_both.limit(0)


def _in_both(tables: PipelineTables) -> DataFrame:
    """The rows of quarantine, not marked as moved, whose records the table has too."""
    rows = quarantine.unmoved(tables.refused())
    return rows.join(tables.main.coordinates(coordinates.extent(rows)), list(COORDINATES), "left_semi")


def settle(tables: PipelineTables) -> int:
    """Let quarantine's marks say what the tables' coordinates say; how many rows that changed.

    A record that a replay moved into the table is marked as moved, where the replay was killed before it did so, and
    whatever a `discard` did meanwhile. One that a RESTORE took out of the table again is in quarantine again.
    """
    open_replays = unsettled(tables)
    count = 0
    for each in open_replays.moved:
        candidates = quarantine.unmoved(tables.refused()) if each.receipt.job.moved else _in_both(tables)
        rows = candidates.join(moved(tables, each), list(COORDINATES), "left_semi")
        count += _mark(tables, rows, each.receipt)
    if open_replays.standing is not None:
        taken_out = tables.refused().where(f"moved.replay > {open_replays.standing}")
        if not tables.config.table.upserts:
            existing = tables.main.coordinates(coordinates.extent(taken_out))
            taken_out = taken_out.join(existing, list(COORDINATES), "left_anti")
        count += _update(tables, taken_out, "q.moved IS NOT NULL", "moved", F.lit(None))
    return count


def withdraw(tables: PipelineTables, rows: DataFrame) -> int:
    """Mark rows of quarantine, each by its batch, whose batch a RESTORE of the table took back; how many they are.

    Args:
        rows: the pipeline's own; another row of the same record stays as it is.
    """
    value = F.struct(
        F.current_timestamp().alias("at"),
        F.lit(somebody()).alias("who"),
        F.lit("a RESTORE of the table took its batch back: it is read again").alias("why"),
        F.lit(quarantine.WITHDRAWN).cast("bigint").alias("replay"),
    )
    return _update(tables, rows, "q.moved IS NULL", "moved", value, same=(*COORDINATES, "sequence"))


def _mark(tables: PipelineTables, rows: DataFrame, of: Receipt) -> int:
    """Mark rows of quarantine as moved, in one commit that bears the replay's receipt."""
    who, why = (F.lit(of.job.accepted[name]) for name in ("who", "why"))
    value = F.struct(
        F.current_timestamp().alias("at"),
        who.alias("who"),
        why.alias("why"),
        F.lit(of.sequence).cast("bigint").alias("replay"),
    )
    return _update(tables, rows, "q.moved IS NULL", "moved", value, of=of)


def rows_where(tables: PipelineTables, where: str | None) -> DataFrame:
    """The pipeline's rows of quarantine for which a condition in Spark SQL holds.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    rows = tables.refused()
    if where is None:
        return rows
    try:
        chosen = rows.where(where)
        _ = chosen.schema
    except spark_failures() as failed:
        raise UsageError(
            f"--where {where!r} is no condition: {summary(failed)}",
            cure="write one over quarantine's columns, as in \"stage = 'gate' AND refused_at > '2026-11-01'\"",
        ) from failed
    return chosen


def discard(tables: PipelineTables, where: str | None, why: str) -> int:
    """Mark rows of quarantine as discarded: they stay, and are not replayed or listed any more; how many they are.

    What a killed replay has moved is settled first: it is in the table, and cannot be discarded.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    settle(tables)
    value = F.struct(F.current_timestamp().alias("at"), F.lit(somebody()).alias("who"), F.lit(why).alias("why"))
    rows = quarantine.open_rows(rows_where(tables, where))
    return _update(tables, rows, "q.moved IS NULL AND q.discarded IS NULL", "discarded", value)


def _update(
    tables: PipelineTables,
    rows: DataFrame,
    still: str,
    column: str,
    value: Column,
    *,
    same: Sequence[str] = COORDINATES,
    of: Receipt | None = None,
) -> int:
    """Set a column of the pipeline's rows of quarantine with these coordinates, and how many they are.

    Args:
        still: what must hold of a row when it is updated, whatever others did since `rows` were read.
        same: the columns by which a row is one of `rows`.
        of: the receipt that the commit bears; one is made for it, also where there are no rows.
    """
    typed = value.cast(quarantine.schema()[column].dataType).alias(column)
    pipeline = F.lit(tables.config.known_as).alias("pipeline")
    with storage_failures(tables.quarantine.identifier):
        keys = frames.keep(rows.select(*same).distinct().select(*same, pipeline, typed))
        try:
            count = keys.count()
            if not count and of is None:
                return 0
            with session.statement_session(tables.spark, {USER_METADATA: of.to_json()} if of else {}) as spark:
                Table(spark, tables.quarantine.identifier).update(keys, ("pipeline", *same), still, column)
            return count
        finally:
            frames.release(keys)
