"""The marks in quarantine that say which records a replay has moved into the table, or somebody has given up.

They follow the tables' coordinates: a replay that was killed before it marked its records, or taken back by a RESTORE,
is seen to by whatever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.config import PipelineConfig
from lakeingest.delta import commit_log, coordinates, quarantine
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt, somebody
from lakeingest.errors import UsageError
from lakeingest.record import COORDINATES
from lakeingest.spark import frames, session
from lakeingest.spark.failures import spark_failures, storage_failures, summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def name_of(config: PipelineConfig) -> str:
    """What the receipts of replays are known by: a pipeline's own name has no colon."""
    return f"{config.known_as}:replay"


@dataclass(frozen=True)
class Unsettled:
    """What quarantine does not say yet of the replays that the table's log has.

    Attributes:
        moved: the newest replay, whose records are in the table and not marked as moved; None as a rule.
        rows: how many records that replay moved.
        standing: the newest replay that no RESTORE of the table took back, if one took others back; else None. What
            later ones moved is marked, and may be in the table no longer.
    """

    moved: Receipt | None = None
    rows: int = 0
    standing: int | None = None


def unsettled(tables: PipelineTables) -> Unsettled:
    """See `Unsettled`; nothing of it is there as a rule."""
    if tables.main.schema() is None:
        return Unsettled()
    name = name_of(tables.config)
    return of_logs(commit_log.read(tables.main, name), lambda: commit_log.read(tables.quarantine, name))


def of_logs(done: CommitLog, marks: Callable[[], CommitLog]) -> Unsettled:
    """What quarantine does not say yet.

    Args:
        done: the replays, as the table's log has them.
        marks: the same of quarantine's log; it is asked where there is one.
    """
    number = done.newest.receipt.sequence if done.newest else 0
    found = Unsettled(standing=number if done.taken_back else None)
    if done.newest is None:
        return found
    newest = marks().newest
    if newest is not None and newest.receipt.sequence >= number:
        return found
    return replace(found, moved=done.newest.receipt, rows=done.newest.rows)


def settle(tables: PipelineTables) -> int:
    """Let quarantine's marks say what the tables' coordinates say; how many rows that changed.

    A record that is in the table is marked as moved, where a replay was killed before it did so, and whatever a
    `discard` did meanwhile. One that a RESTORE took out of the table again is in quarantine again.
    """
    left = unsettled(tables)
    count = 0
    if left.moved is not None:
        rows = quarantine.here(tables.refused())
        both = rows.join(tables.main.coordinates(coordinates.extent(rows)), list(COORDINATES), "left_semi")
        count += _mark(tables, both, left.moved)
    if left.standing is not None:
        rows = tables.refused().where(f"moved.replay > {left.standing}")
        there = tables.main.coordinates(coordinates.extent(rows))
        gone = rows.join(there, list(COORDINATES), "left_anti")
        count += _update(tables, gone, "q.moved IS NOT NULL", "moved", F.lit(None))
    return count


def _mark(tables: PipelineTables, moved: DataFrame, of: Receipt) -> int:
    """Mark rows of quarantine as moved, in one commit that bears the replay's receipt."""
    who, why = (F.lit(of.accepted[name]) for name in ("who", "why"))
    value = F.struct(
        F.current_timestamp().alias("at"),
        who.alias("who"),
        why.alias("why"),
        F.lit(of.sequence).cast("bigint").alias("replay"),
    )
    return _update(tables, moved, "q.moved IS NULL", "moved", value, of=of)


def asked(tables: PipelineTables, where: str | None) -> DataFrame:
    """The pipeline's rows of quarantine for which a condition in Spark SQL holds.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    mine = tables.refused()
    if where is None:
        return mine
    try:
        chosen = mine.where(where)
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
    rows = quarantine.open_rows(asked(tables, where))
    return _update(tables, rows, "q.moved IS NULL AND q.discarded IS NULL", "discarded", value)


def _update(
    tables: PipelineTables,
    rows: DataFrame,
    still: str,
    column: str,
    value: Column,
    *,
    of: Receipt | None = None,
) -> int:
    """Set a column of the pipeline's rows of quarantine with these coordinates, and how many they are.

    Args:
        still: what must hold of a row when it is updated, whatever others did since `rows` were read.
        of: the receipt that the commit bears; one is made for it, also where there are no rows.
    """
    typed = value.cast(quarantine.schema()[column].dataType).alias(column)
    mine = F.lit(tables.config.known_as).alias("pipeline")
    with storage_failures(tables.quarantine.identifier):
        found = frames.keep(rows.select(*COORDINATES).distinct().select(*COORDINATES, mine, typed))
        try:
            count = found.count()
            if not count and of is None:
                return 0
            with session.setting(tables.spark, {_USER_METADATA: of.to_json()} if of else {}):
                tables.quarantine.update(found, ("pipeline", *COORDINATES), still, column)
            return count
        finally:
            frames.release(found)
