"""Refused records get a second chance: what passes today's rules moves from quarantine into the table, exactly once.

1. What another replay left open is closed, by coordinates (`settle`).
2. The replay takes its number.
3. The kept bytes are decoded and checked again, as a batch of Kafka's is. Records whose coordinates the table has
   already are left out, so that nothing is ever there twice. Another replay that commits from here on has this number:
   of two at once one loses.
4. What passes is committed to the table, under a receipt of its own with that number. Then the rows in quarantine are
   marked: who, when, why.

Between the two commits a record is in both tables; `audit` knows that from the receipts, and counts it once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeingest.config import PipelineConfig
from lakeingest.delta import commit, quarantine, table
from lakeingest.delta.commit import Receipt, Run
from lakeingest.errors import UsageError
from lakeingest.record import (
    COORDINATES,
    HEADERS,
    OFFSET,
    PARTITION,
    RAW_KEY,
    RAW_VALUE,
    TIMESTAMP,
    TOPIC,
    OffsetRange,
    OffsetRanges,
)
from lakeingest.spark import session
from lakeingest.spark.failures import spark_failures, storage_failures, summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TRIES = 10
"""How often marks are tried where others write to the same quarantine at once."""


@dataclass(frozen=True)
class Replayed:
    """What became of the refused records that were asked for.

    Attributes:
        looked: records that were decoded and checked again.
        moved: those that passed, and are in the table now; in a dry run, those that would be.
        refused: why the others stay: stage, reason, count and samples.
    """

    looked: int
    moved: int
    refused: tuple[dict[str, Any], ...] = ()


def name_of(config: PipelineConfig) -> str:
    """What the receipts of replays are known by: a pipeline's own name has no colon."""
    return f"{config.known_as}:replay"


def candidates(spark: SparkSession, config: PipelineConfig, where: str | None, limit: int | None) -> DataFrame:
    """Rows of quarantine that may be moved, as `source.frame` has records: not discarded, and not in the table.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    from pyspark.sql import functions as F

    rows = _asked(spark, config, where).where("discarded IS NULL")
    there = table.coordinates(spark, config.table.path, _around(rows))
    # A record that was refused, moved, taken back by a RESTORE and refused again may have two rows.
    found = rows.join(there, list(COORDINATES), "left_anti").dropDuplicates(list(COORDINATES))
    chosen = found if limit is None else found.orderBy(*COORDINATES).limit(limit)
    return chosen.select(
        *COORDINATES,
        TIMESTAMP,
        F.col("key").alias(RAW_KEY),
        F.col("value").alias(RAW_VALUE),
        F.col("headers").alias(HEADERS),
    )


def _asked(spark: SparkSession, config: PipelineConfig, where: str | None) -> DataFrame:
    mine = _mine(spark, config)
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


def _mine(spark: SparkSession, config: PipelineConfig) -> DataFrame:
    return quarantine.of(quarantine.whole(table.read(spark, config.quarantine.path)), config.known_as)


def _around(rows: DataFrame) -> OffsetRanges:
    """The offsets from the first to the last of the rows, partition by partition: the table's statistics know these."""
    from pyspark.sql import functions as F

    ends = rows.groupBy(TOPIC, PARTITION).agg(F.min(OFFSET), F.max(OFFSET) + 1).collect()
    return OffsetRanges(tuple(OffsetRange(*row) for row in ends))


def receipt(spark: SparkSession, config: PipelineConfig, run: Run, why: str) -> Receipt:
    """The receipt of the next replay."""
    number = commit.numbered(spark, commit.read(spark, config.table.path, name_of(config))).last_sequence + 1
    accepted = {"who": commit.somebody(), "why": why}
    where = config.quarantine.path
    return Receipt(name_of(config), number, run, "", {}, OffsetRanges(()), where, accepted=accepted)


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


def unsettled(spark: SparkSession, config: PipelineConfig) -> Unsettled:
    """See `Unsettled`; nothing of it is there as a rule."""
    if table.schema(spark, config.table.path) is None:
        return Unsettled()
    done = commit.read(spark, config.table.path, name_of(config))
    number = done.newest.receipt.sequence if done.newest else 0
    found = Unsettled(standing=number if done.taken_back else None)
    if done.newest is None:
        return found
    marks = commit.read(spark, config.quarantine.path, name_of(config)).newest
    if marks is not None and marks.receipt.sequence >= number:
        return found
    return replace(found, moved=done.newest.receipt, rows=done.newest.rows)


def settle(spark: SparkSession, config: PipelineConfig) -> int:
    """Let quarantine's marks say what the tables' coordinates say; how many rows that changed.

    A record that is in the table is marked as moved, where a replay was killed before it did so, and whatever a
    `discard` did meanwhile. One that a RESTORE took out of the table again is in quarantine again.
    """
    left = unsettled(spark, config)
    count = 0
    if left.moved is not None:
        rows = quarantine.here(_mine(spark, config))
        both = rows.join(table.coordinates(spark, config.table.path, _around(rows)), list(COORDINATES), "left_semi")
        count += _mark(spark, config, both, left.moved)
    if left.standing is not None:
        rows = _mine(spark, config).where(f"moved.replay > {left.standing}")
        there = table.coordinates(spark, config.table.path, _around(rows))
        gone = rows.join(there, list(COORDINATES), "left_anti")
        count += _update(spark, config, gone, "q.moved IS NOT NULL", {"moved": "NULL"})
    return count


def _mark(spark: SparkSession, config: PipelineConfig, moved: DataFrame, of: Receipt) -> int:
    """Mark rows of quarantine as moved, in one commit that bears the replay's receipt."""
    from pyspark.sql import functions as F

    who, why = (F.lit(of.accepted[name]) for name in ("who", "why"))
    value = F.struct(
        F.current_timestamp().alias("at"),
        who.alias("who"),
        why.alias("why"),
        F.lit(of.sequence).cast("bigint").alias("replay"),
    )
    return _update(spark, config, moved, "q.moved IS NULL", {"moved": value}, of=of)


def discard(spark: SparkSession, config: PipelineConfig, where: str | None, why: str) -> int:
    """Mark rows of quarantine as discarded: they stay, and are not replayed or listed any more; how many they are.

    What a killed replay has moved is settled first: it is in the table, and cannot be discarded.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    from pyspark.sql import functions as F

    settle(spark, config)
    value = F.struct(F.current_timestamp().alias("at"), F.lit(commit.somebody()).alias("who"), F.lit(why).alias("why"))
    rows = quarantine.open_rows(_asked(spark, config, where))
    return _update(spark, config, rows, "q.moved IS NULL AND q.discarded IS NULL", {"discarded": value})


def _update(
    spark: SparkSession,
    config: PipelineConfig,
    rows: DataFrame,
    still: str,
    values: dict[str, str | Column],
    *,
    of: Receipt | None = None,
) -> int:
    """Update the pipeline's rows of quarantine with these coordinates, and how many they are.

    Args:
        still: what must hold of a row when it is updated, whatever others did since `rows` were read.
        of: the receipt that the commit bears; one is made for it, also where there are no rows.
    """
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F

    path = config.quarantine.path
    same = F.col("q.pipeline") == config.known_as
    for name in COORDINATES:
        same = same & (F.col(f"q.{name}") == F.col(f"r.{name}"))
    with storage_failures(path):
        found = rows.select(*COORDINATES).distinct().persist()
        try:
            count = found.count()
            if not count and of is None:
                return 0
            for left in reversed(range(_TRIES)):
                merge = DeltaTable.forPath(spark, path).alias("q").merge(found.alias("r"), same)
                try:
                    with session.setting(spark, {_USER_METADATA: of.to_json()} if of else {}):
                        merge.whenMatchedUpdate(still, values).execute()
                    break
                except spark_failures() as failed:
                    # Another pipeline, or a compaction, wrote to the same quarantine meanwhile.
                    if not left or "CONCURRENT" not in str(failed):
                        raise
            return count
        finally:
            found.unpersist()
