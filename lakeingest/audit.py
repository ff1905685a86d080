"""The conservation proof: every consumed offset is in the table, in quarantine, or a declared drop, exactly once.

It needs nothing but the two tables. The log says which offsets were consumed, commit by commit; a commit that has a
row for each of its offsets proves itself, any other is accounted for by quarantine's commit of the same sequence
number, which counts what was consumed, refused and dropped. The rows' coordinates say what is really there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeingest import quarantine, replay, table
from lakeingest.commit import Commit, Counts, Ledger
from lakeingest.config import Pipeline
from lakeingest.record import OFFSET, PARTITION, TOPIC, Span, Spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMED = 20
"""Most coordinates that a report names of each kind."""


@dataclass(frozen=True)
class Report:
    """What an audit found, in records unless it says offsets.

    Attributes:
        consumed: records that the log says were consumed: table + quarantine + dropped, if all is well.
        table, quarantine: records that are there, within the consumed offsets.
        dropped: declared drops (tombstones under on_null: ignore).
        missing: consumed, and nowhere.
        duplicated: rows too many: in one table twice, or in both.
        unexpected: rows of these topics at offsets that the log never consumed.
        gaps: offsets that hold no record (compaction, transaction markers).
        lost: offsets that Kafka had deleted unread, and whose loss was accepted (`run --accept-gap`).
        commits: how many commits were audited.
        breaks: spans of offsets that the chain of commits jumps over or takes twice.
        named: coordinates of the first 20 of each kind that is not as it should be.
    """

    pipeline: str
    consumed: int
    table: int
    quarantine: int
    dropped: int
    missing: int
    duplicated: int
    unexpected: int
    gaps: int
    lost: int
    commits: int
    breaks: tuple[str, ...] = ()
    named: dict[str, list[str]] = field(default_factory=dict)

    @property
    def conserved(self) -> bool:
        return not (self.missing or self.duplicated or self.unexpected or self.breaks)

    def to_json(self) -> dict[str, Any]:
        return {"conserved": self.conserved, **vars(self)}


def audit(spark: SparkSession, pipeline: Pipeline) -> Report:
    """Prove the pipeline's conservation, or say what is missing or double. Reads the coordinates of every row once.

    Raises:
        StorageUnreachable: a table cannot be read.
    """
    ledger, refused = table.ledgers(spark, pipeline, back=None)
    whole = _whole(ledger)
    counts = list(_accounts(ledger, refused))
    found = _found(spark, pipeline, whole)
    # What a replay has committed to the table, and not marked in quarantine yet, is in both.
    pending = replay.pending(spark, pipeline)
    moving = pending.rows if pending else 0
    rows = {name: sum(row[name] for row in found) for name in ("in_table", "in_quarantine", "distinct", "unexpected")}
    consumed = sum(c.consumed for c in counts)
    dropped = sum(c.dropped for c in counts)
    missing = consumed - dropped - rows["distinct"]
    rows["in_quarantine"] -= moving
    duplicated = rows["in_table"] + rows["in_quarantine"] - rows["distinct"]
    named = _named(spark, pipeline, whole, missing=missing, doubtful=duplicated + rows["unexpected"])
    accepted = [s for commit in ledger.commits for s in commit.receipt.gaps]
    if accepted:
        named["lost"] = [f"{s.topic}-{s.partition} offsets {s.start} to {s.end - 1}" for s in sorted(accepted)]
    lost = sum(s.end - s.start for s in accepted)
    return Report(
        pipeline.name,
        consumed,
        rows["in_table"],
        rows["in_quarantine"],
        dropped,
        missing,
        duplicated,
        rows["unexpected"],
        whole.offsets - lost - consumed,
        lost,
        len(ledger.commits),
        tuple(_breaks(ledger)),
        named,
    )


def _accounts(ledger: Ledger, refused: Ledger) -> Iterator[Counts]:
    """What each of the table's commits consumed."""
    receipts = {commit.receipt.sequence: commit.receipt.counts for commit in refused.commits}
    for commit in ledger.commits:
        receipt = commit.receipt
        counts = None if receipt.whole(commit.rows) else receipts.get(receipt.sequence)
        # Without an account nothing but whole offsets can be vouched for: what is not there shows as missing.
        yield counts or Counts(receipt.spans.offsets, commit.rows)


def _whole(ledger: Ledger) -> Spans:
    """From the first offset that the log knows of to the frontier, for each topic-partition."""
    ends = ledger.frontier
    starts: dict[tuple[str, int], int] = {}
    for commit in ledger.commits:
        for s in commit.receipt.spans:
            starts[s.topic, s.partition] = min(s.start, starts.get((s.topic, s.partition), s.start))
    return Spans(tuple(Span(*tp, start, ends.get(tp, start)) for tp, start in sorted(starts.items())))


def _breaks(ledger: Ledger) -> Iterator[str]:
    """Each commit must begin where the one before it ended."""
    reached: dict[tuple[str, int], int] = {}
    for commit in sorted(ledger.commits, key=_sequence):
        for s in (*commit.receipt.gaps, *commit.receipt.spans):
            end = reached.get((s.topic, s.partition), s.start)
            if s.start != end:
                what = "jumps over" if s.start > end else "takes again"
                low, high = sorted((s.start, end))
                yield f"commit {commit.receipt.sequence} {what} {s.topic}-{s.partition} offsets {low} to {high - 1}"
            reached[s.topic, s.partition] = s.end


def _sequence(commit: Commit) -> int:
    return commit.receipt.sequence


def _rows(spark: SparkSession, pipeline: Pipeline, whole: Spans) -> DataFrame:
    """Each coordinate that is anywhere, once: how often in the table and in quarantine, and if it was consumed."""
    from pyspark.sql import functions as F

    topics = sorted({s.topic for s in whole})
    parts = []
    for path, name in ((pipeline.table.path, "in_table"), (pipeline.quarantine.path, "in_quarantine")):
        there = table.read(spark, path)
        rows = quarantine.here(there) if name == "in_quarantine" else there
        rows = rows.where(F.col(TOPIC).isin(topics)).select(TOPIC, PARTITION, OFFSET)
        flags = {n: F.lit(int(n == name)) for n in ("in_table", "in_quarantine")}
        parts.append(rows.withColumns(flags))
    bounds = spark.createDataFrame(
        [(s.topic, s.partition, s.start, s.end) for s in whole], f"{TOPIC} STRING, {PARTITION} INT, low LONG, high LONG"
    )
    coordinate = [TOPIC, PARTITION, OFFSET]
    once = (
        parts[0]
        .union(parts[1])
        .groupBy(*coordinate)
        .agg(F.sum("in_table").alias("in_table"), F.sum("in_quarantine").alias("in_quarantine"))
    )
    inside = (F.col(OFFSET) >= F.col("low")) & (F.col(OFFSET) < F.col("high"))
    return once.join(F.broadcast(bounds), [TOPIC, PARTITION], "left").withColumn(
        "consumed", F.coalesce(inside, F.lit(False))
    )


def _found(spark: SparkSession, pipeline: Pipeline, whole: Spans) -> list[dict[str, int]]:
    from pyspark.sql import functions as F

    if not whole.spans:
        return []
    consumed = F.col("consumed")
    # Rows before the first commit that the log remembers (30 days by default) were proved while it did.
    later = F.col(OFFSET) >= F.coalesce(F.col("low"), F.lit(0))
    totals = _rows(spark, pipeline, whole).agg(
        F.coalesce(F.sum(F.when(consumed, F.col("in_table"))), F.lit(0)).alias("in_table"),
        F.coalesce(F.sum(F.when(consumed, F.col("in_quarantine"))), F.lit(0)).alias("in_quarantine"),
        F.count_if(consumed).alias("distinct"),
        F.count_if(~consumed & later).alias("unexpected"),
    )
    return [row.asDict() for row in totals.collect()]


def _named(
    spark: SparkSession, pipeline: Pipeline, whole: Spans, *, missing: int, doubtful: int
) -> dict[str, list[str]]:
    """The first coordinates of each kind, looked for only where there are some."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    named = {}
    if doubtful:
        rows = _rows(spark, pipeline, whole)
        double = rows.where("consumed AND in_table + in_quarantine > 1")
        stray = rows.where(f"NOT consumed AND {OFFSET} >= coalesce(low, 0)")
        named = {
            "duplicated": [f"{r[0]}-{r[1]} offset {r[2]}" for r in _first(double)],
            "unexpected": [f"{r[0]}-{r[1]} offset {r[2]}" for r in _first(stray)],
        }
    if missing:
        rows = _rows(spark, pipeline, whole).where("consumed").select(TOPIC, PARTITION, OFFSET)
        edges = [(s.topic, s.partition, edge) for s in whole if s.end > s.start for edge in (s.start - 1, s.end)]
        rows = rows.union(spark.createDataFrame(edges, rows.schema))
        before = F.lag(OFFSET).over(Window.partitionBy(TOPIC, PARTITION).orderBy(OFFSET))
        holes = rows.withColumn("before", before).where(f"{OFFSET} - before > 1")
        named["missing"] = [
            f"{r[0]}-{r[1]} offsets {r['before'] + 1} to {r[2] - 1}"
            for r in holes.orderBy(*holes.columns[:3]).take(_NAMED)
        ]
    return {kind: names for kind, names in named.items() if names}


def _first(rows: DataFrame) -> list[Any]:
    return rows.orderBy(TOPIC, PARTITION, OFFSET).take(_NAMED)
