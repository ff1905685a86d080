"""Refused records get a second chance: what passes today's rules moves from quarantine into the table, exactly once.

1. What a replay that was killed left open is closed: its records are in the table, and are marked as moved.
2. The kept bytes are decoded and checked again, as a batch of Kafka's is. Records whose coordinates the table has
   already are left out, so that nothing is ever there twice.
3. What passes is committed to the table, under a receipt of its own with a number of its own: of two replays at once
   one loses. Then the rows in quarantine are marked: who, when, why.

Between the two commits a record is in both tables; `audit` knows that from the receipts, and counts it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeingest import commit, quarantine, session, table
from lakeingest.commit import Commit, Receipt, Run, spark_failures, unreachable
from lakeingest.config import Pipeline
from lakeingest.errors import NotConserved, UsageError
from lakeingest.record import COORDINATES, HEADERS, OFFSET, PARTITION, RAW_KEY, RAW_VALUE, TIMESTAMP, TOPIC, Span, Spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


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


def name_of(pipeline: Pipeline) -> str:
    """What the receipts of replays are known by: a pipeline's own name has no colon."""
    return f"{pipeline.name}:replay"


def candidates(spark: SparkSession, pipeline: Pipeline, where: str | None, limit: int | None) -> DataFrame:
    """Rows of quarantine that may be moved, as `source.frame` has records: not discarded, and not in the table.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    from pyspark.sql import functions as F

    rows = _asked(spark, pipeline, where).where("discarded IS NULL")
    there = table.coordinates(spark, pipeline.table.path, _around(rows))
    found = rows.join(there, list(COORDINATES), "left_anti")
    chosen = found if limit is None else found.orderBy(*COORDINATES).limit(limit)
    return chosen.select(
        *COORDINATES,
        TIMESTAMP,
        F.col("key").alias(RAW_KEY),
        F.col("value").alias(RAW_VALUE),
        F.col("headers").alias(HEADERS),
    )


def _asked(spark: SparkSession, pipeline: Pipeline, where: str | None) -> DataFrame:
    rows = quarantine.whole(table.read(spark, pipeline.quarantine.path))
    mine = rows.where(rows["pipeline"] == pipeline.name)
    if where is None:
        return mine
    try:
        chosen = mine.where(where)
        _ = chosen.schema
    except spark_failures() as failed:
        raise UsageError(
            f"--where {where!r} is no condition: {commit.in_a_line(failed)}",
            cure="write one over quarantine's columns, as in \"stage = 'gate' AND refused_at > '2026-11-01'\"",
        ) from failed
    return chosen


def _around(rows: DataFrame) -> Spans:
    """The offsets from the first to the last of the rows, partition by partition: the table's statistics know these."""
    from pyspark.sql import functions as F

    ends = rows.groupBy(TOPIC, PARTITION).agg(F.min(OFFSET), F.max(OFFSET) + 1).collect()
    return Spans(tuple(Span(*row) for row in ends))


def receipt(spark: SparkSession, pipeline: Pipeline, run: Run, why: str) -> Receipt:
    """The receipt of the next replay."""
    number = commit.read(spark, pipeline.table.path, name_of(pipeline)).last_sequence + 1
    accepted = {"who": commit.somebody(), "why": why}
    where = pipeline.quarantine.path
    return Receipt(name_of(pipeline), number, run, "", {}, Spans(()), where, accepted=accepted)


def pending(spark: SparkSession, pipeline: Pipeline) -> Commit | None:
    """The replay whose records are in the table, and not marked in quarantine yet; None as a rule."""
    newest = commit.read(spark, pipeline.table.path, name_of(pipeline)).newest
    if newest is None:
        return None
    marked = commit.read(spark, pipeline.quarantine.path, name_of(pipeline))
    return newest if newest.receipt.sequence > marked.last_sequence else None


def settle(spark: SparkSession, pipeline: Pipeline) -> int:
    """Mark what a replay that was killed has moved; how many records that were.

    Raises:
        NotConserved: the table holds more or less of quarantine's records than the replay moved.
    """
    left = pending(spark, pipeline)
    if left is None:
        return 0
    rows = quarantine.open_rows(table.read(spark, pipeline.quarantine.path))
    both = rows.join(table.coordinates(spark, pipeline.table.path, _around(rows)), list(COORDINATES), "left_semi")
    count = both.count()
    if count != left.rows:
        raise NotConserved(
            f"replay {left.receipt.sequence} moved {left.rows:,} records to {pipeline.table.path}, and {count:,} "
            "records are both there and in quarantine",
            cure="somebody restored or changed one of the tables: see their history, and `lakeingest audit`",
        )
    _mark(spark, pipeline, both, left.receipt)
    return count


def _mark(spark: SparkSession, pipeline: Pipeline, moved: DataFrame, of: Receipt) -> None:
    """Mark rows of quarantine as moved, in one commit that bears the replay's receipt."""
    from pyspark.sql import functions as F

    who, why = (F.lit(of.accepted[name]) for name in ("who", "why"))
    value = F.struct(
        F.current_timestamp().alias("at"),
        who.alias("who"),
        why.alias("why"),
        F.lit(of.sequence).cast("bigint").alias("replay"),
    )
    _update(spark, pipeline, moved, {"moved": value}, of)


def discard(spark: SparkSession, pipeline: Pipeline, where: str | None, why: str) -> int:
    """Mark rows of quarantine as discarded: they stay, and are not replayed or listed any more; how many they are.

    Raises:
        UsageError: the condition is no condition over quarantine's columns.
    """
    from pyspark.sql import functions as F

    rows = quarantine.open_rows(_asked(spark, pipeline, where)).persist()
    try:
        if count := rows.count():
            value = F.struct(
                F.current_timestamp().alias("at"), F.lit(commit.somebody()).alias("who"), F.lit(why).alias("why")
            )
            _update(spark, pipeline, rows, {"discarded": value}, None)
        return count
    finally:
        rows.unpersist()


def _update(
    spark: SparkSession, pipeline: Pipeline, rows: DataFrame, values: dict[str, str | Column], of: Receipt | None
) -> None:
    from delta.tables import DeltaTable

    path = pipeline.quarantine.path
    same = " AND ".join(f"q.{name} = r.{name}" for name in COORDINATES)
    merge = DeltaTable.forPath(spark, path).alias("q").merge(rows.select(*COORDINATES).alias("r"), same)
    try:
        with session.setting(spark, {_USER_METADATA: of.to_json()} if of else {}):
            merge.whenMatchedUpdate("q.moved IS NULL AND q.discarded IS NULL", values).execute()
    except spark_failures() as failed:
        raise unreachable(path, failed) from failed
