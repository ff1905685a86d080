"""The conservation proof: every consumed offset is in the table, in quarantine, or a declared drop, exactly once.

It needs nothing but the two tables. The log says which offsets were consumed, commit by commit; a commit that has a
row for each of its offsets proves itself, any other is accounted for by quarantine's commit of the same sequence
number, which counts what was consumed, refused and dropped. The rows' coordinates say what is really there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from lakeingest.config import PipelineConfig
from lakeingest.delta import coordinates, replay_marks
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables, without_coordinates
from lakeingest.delta.receipt import Counts
from lakeingest.delta.replay_marks import Unsettled
from lakeingest.errors import number_of
from lakeingest.ingest import preflight
from lakeingest.operations.results.audit import Report
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC, Frontier, OffsetRange, OffsetRanges
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FLAGS = ("in_table", "in_quarantine", "back", "moved")
NAMED = 20
"""Most coordinates that a report names of each kind."""


class Rows(Protocol):
    """The rows of both tables, as coordinates, and whether the log says that they were consumed."""

    def counted(self, unknown: OffsetRanges, skipped: OffsetRanges) -> dict[str, int]:
        """Rows in_table and in_quarantine, distinct coordinates of them, and known and spared: those of them within
        `unknown` and `skipped`; rows that are unexpected, and earlier than the log tells.
        """

    def without(self) -> int:
        """How many rows of the table have no coordinates."""

    def named(self, *, missing: int, doubtful: int) -> dict[str, list[str]]:
        """The first coordinates of each kind, looked for only where there are some."""


def audit(tables: PipelineTables) -> Report:
    """Prove the pipeline's conservation, or say what is missing or double. Reads the coordinates of every row once.

    Raises:
        StorageUnreachable: a table cannot be read.
        TableMismatch: which records its rows are is not known: it has to be adopted.
    """
    preflight.check_exists(tables)
    log, refused = tables.commit_logs(back=None)
    preflight.check_still_adopted(tables.config, log)
    unsettled = replay_marks.unsettled(tables)
    return of_logs(tables.config, log, refused, lambda known: _SparkRows(tables, known, unsettled))


@dataclass(frozen=True)
class Known:
    """What the log says was consumed.

    Attributes:
        whole: from the first offset that the log knows of to the frontier, and what backfills took; merged.
        begins: (topic, partition) → that first offset. What lies before it, and no backfill took, was consumed before
            the oldest commit that the log remembers, or never.
    """

    whole: OffsetRanges
    begins: Frontier

    @classmethod
    def of(cls, log: CommitLog) -> Known:
        own = _whole(log)
        backfilled = (s for commit in log.backfills for s in commit.receipt.ranges)
        whole = OffsetRanges((*own.ranges, *backfilled)).merged
        return cls(whole, {(s.topic, s.partition): s.start for s in own})


def of_logs(config: PipelineConfig, log: CommitLog, refused: CommitLog, rows_of: Callable[[Known], Rows]) -> Report:
    """The audit, of what was read.

    Args:
        log, refused: all that the pipeline, and its backfills, committed to the table and to quarantine.
        rows_of: gives the rows, where the log says what was consumed.
    """
    adopted, log = dict(log.adopted), log.since_adoption
    topics = {*config.source.topics, *(s.topic for commit in log.commits for s in commit.receipt.ranges)}
    # Quarantine's log tells the pipeline's last number also where clean-up took receipts, and not its backfills'.
    last = max((commit.receipt.sequence for commit in log.backfills), default=0)
    by_backfill = _Accounts.of(log.backfills, refused.backfills, last, complete=refused.complete)
    accounts = _Accounts.of(log.commits, refused.commits, refused.last_sequence, complete=refused.complete)
    known, accounts = Known.of(log), accounts + by_backfill
    rows = rows_of(known)
    found = rows.counted(accounts.unknown, accounts.accepted)
    # What was not read again since Kafka had deleted it may be there all the same, from before a RESTORE.
    consumed = accounts.counts.consumed + found["spared"]
    lost = accounts.accepted.offsets + accounts.lost - found["spared"]
    missing = consumed - accounts.counts.dropped - found["distinct"]
    # What the clean-up of quarantine's log leaves open is neither missing nor proved to be no record.
    unproved = min(max(missing, 0), accounts.unknown.offsets - found["known"])
    # Who writes rows without coordinates to a table that was adopted is the job that wrote it before.
    without = rows.without() if adopted else 0
    strange = max(0, without - adopted.get("without", 0))
    duplicated = found["in_table"] + found["in_quarantine"] - found["distinct"]
    named = rows.named(missing=missing - unproved, doubtful=duplicated + found["unexpected"])
    if strange:
        named.setdefault("unexpected", []).append(
            f"{number_of(strange, 'row')} without coordinates, added since the adoption"
        )
    every = (commit.receipt.account for commit in (*refused.commits, *refused.backfills))
    settled = (s for account in every if account for s in account.gaps)
    if accepted := [*accounts.accepted, *settled]:
        named["lost"] = [hole(s.topic, s.partition, s.start, s.end) for s in sorted(accepted)]
    return Report(
        pipeline=config.name,
        consumed=consumed - unproved,
        table=found["in_table"],
        quarantine=found["in_quarantine"],
        dropped=accounts.counts.dropped,
        left_out=dict(accounts.left_out),
        missing=missing - unproved,
        duplicated=duplicated,
        unexpected=found["unexpected"] + strange,
        gaps=known.whole.offsets - lost - consumed,
        lost=lost,
        unproved=unproved,
        earlier=found["earlier"] + without - strange,
        commits=len(log.commits),
        backfills=len(log.backfills),
        backfilled=by_backfill.counts.consumed,
        others={name: receipt.sequence for name, receipt in log.others_of(topics).items()},
        adopted=adopted,
        breaks=tuple(_breaks(log)),
        named=named,
        deleted=tuple(_deletes(log, refused)) if missing - unproved > 0 else (),
    )


def _deletes(*logs: CommitLog) -> Iterator[str]:
    for log in logs:
        for version, rows in log.deletes.items():
            yield f"version {version} of {log.path} is a DELETE (rows: {rows:,})"


@dataclass(frozen=True)
class _Accounts:
    """What the table's commits consumed, all together.

    Attributes:
        took: their offsets.
        accepted: those whose loss was accepted before a batch.
        lost: how many of a batch's own offsets were lost.
        unknown: the offsets of commits whose account is no longer in quarantine's log.
    """

    counts: Counts
    left_out: Counter[str]
    took: OffsetRanges
    accepted: OffsetRanges
    lost: int
    unknown: OffsetRanges

    @classmethod
    def of(cls, commits: Sequence[Commit], accounts: Sequence[Commit], last: int, *, complete: bool) -> _Accounts:
        """`accounts`: quarantine's commits; `last`: the newest number that it had; `complete`: whether all are left."""
        by_batch = {commit.receipt.batch: commit.receipt.account for commit in accounts}
        oldest = min(by_batch, default=last + 1)
        counts, left_out, unknown, lost = Counts(), Counter[str](), list[OffsetRange](), 0
        for commit in commits:
            receipt = commit.receipt
            account = None if receipt.whole(commit.rows) else by_batch.get(receipt.sequence)
            if account is not None:
                counts += account.counts
                left_out.update(account.left_out)
                lost += account.lost
                continue
            # Without an account nothing but whole offsets can be vouched for: what is not there shows as missing.
            counts += Counts(receipt.ranges.offsets or commit.rows, commit.rows)
            if not (receipt.whole(commit.rows) or complete) and receipt.sequence < oldest:
                unknown += receipt.ranges
        took = OffsetRanges(tuple(s for commit in commits for s in commit.receipt.ranges))
        accepted = OffsetRanges(tuple(s for commit in commits for s in commit.receipt.job.gaps))
        return cls(counts, left_out, took, accepted, lost, OffsetRanges(tuple(unknown)))

    def __add__(self, other: _Accounts) -> _Accounts:
        """Both, where the other one's took what this one's had accepted as lost."""
        return _Accounts(
            self.counts + other.counts,
            self.left_out + other.left_out,
            OffsetRanges((*self.took, *other.took)),
            self.accepted.without(other.took),
            self.lost + other.lost,
            OffsetRanges((*self.unknown, *other.unknown)),
        )


def _whole(log: CommitLog) -> OffsetRanges:
    """From the first offset that the log knows of to the frontier, for each topic-partition.

    What came late into the table that this one is fed from may lie before it; where the log is not whole, rows that it
    has forgotten would be taken for such ones.
    """
    ends = log.frontier
    starts: dict[tuple[str, int], int] = {}
    for commit in log.commits:
        # A gap before the oldest commit that is left is counted as lost.
        late = commit.receipt.job.late if log.complete else ()
        for s in (*commit.receipt.job.gaps, *commit.receipt.ranges, *late):
            starts[s.topic, s.partition] = min(s.start, starts.get((s.topic, s.partition), s.start))
    return OffsetRanges(tuple(OffsetRange(*tp, start, ends.get(tp, start)) for tp, start in sorted(starts.items())))


def _breaks(log: CommitLog) -> Iterator[str]:
    """Each commit must begin where the one before it ended, in the table that it was decided for."""
    reached: dict[tuple[str, int], int] = {}
    for commit in sorted(log.commits, key=_sequence):
        if commit.begins_anew:
            yield f"before commit {commit.receipt.sequence} the table was deleted, with all that it held"
        for s in (*commit.receipt.job.gaps, *commit.receipt.ranges):
            if s.end < s.start:
                yield f"commit {commit.receipt.sequence} goes back: {s.topic}-{s.partition} from {s.start} to {s.end}"
            end = reached.get((s.topic, s.partition), s.start)
            if s.start != end:
                what = "jumps over" if s.start > end else "takes again"
                low, high = sorted((s.start, end))
                yield f"commit {commit.receipt.sequence} {what} {s.topic}-{s.partition} offsets {low} to {high - 1}"
            reached[s.topic, s.partition] = s.end
    taken = OffsetRanges(tuple(s for commit in log.commits for s in commit.receipt.ranges))
    for commit in sorted(log.backfills, key=_sequence):
        again = commit.receipt.ranges.shared(taken)
        if again.ranges:
            yield f"batch {commit.receipt.sequence} of a backfill takes again {again}"
        taken = OffsetRanges((*taken, *commit.receipt.ranges)).merged


def _sequence(commit: Commit) -> int:
    return commit.receipt.sequence


def topics_of(config: PipelineConfig, known: Known) -> list[str]:
    """Whose rows are looked at."""
    return sorted({*(topic for topic, _ in known.begins), *(s.topic for s in known.whole)} or config.source.topics)


@dataclass(frozen=True)
class _SparkRows:
    """The rows of both tables, as Spark counts them.

    Attributes:
        known: what the log says was consumed.
        unsettled: what quarantine does not say yet of replays.
    """

    tables: PipelineTables
    known: Known
    unsettled: Unsettled

    def _parts(self) -> Iterator[DataFrame]:
        """Coordinates, and how often each is in_table, in_quarantine (not marked as moved), `back` (in quarantine too,
        unless the table has it), and `moved` by a replay that has not marked it yet.
        """
        from pyspark.sql import functions as F

        topics = topics_of(self.tables.config, self.known)
        refused, replay = self.tables.refused(), F.coalesce(F.col("moved.replay"), F.lit(0))
        standing = self.unsettled.standing
        # What a RESTORE took out of the table is in quarantine again, once the next run or replay has begun.
        taken_back = F.lit(False) if standing is None else replay > standing
        yield from (
            rows.where(F.col(TOPIC).isin(topics)).select(
                *COORDINATES, *(F.lit(1 if name == flag else 0).alias(name) for name in _FLAGS)
            )
            for rows, flag in (
                (self.tables.main.read(), "in_table"),
                (refused.where(replay == 0), "in_quarantine"),
                (refused.where(taken_back), "back"),
                *((replay_marks.moved(self.tables, each), "moved") for each in self.unsettled.moved),
            )
        )

    def _once(self) -> DataFrame:
        """Each coordinate that is anywhere, once: how often in the table and in quarantine, and if it was consumed."""
        from pyspark.sql import functions as F

        rows = reduce(lambda some, more: some.union(more), self._parts())
        summed = rows.groupBy(*COORDINATES).agg(*(F.sum(name).alias(name) for name in _FLAGS))
        # Of what a replay moved, quarantine says so, or will.
        here = F.when(F.col("in_table") == 0, F.col("in_quarantine") + F.col("back"))
        here = here.when(F.col("moved") > 0, F.lit(0)).otherwise(F.col("in_quarantine"))
        once = summed.select(*COORDINATES, "in_table", here.alias("in_quarantine")).where(
            "in_table + in_quarantine > 0"
        )
        spark, of_place = self.tables.spark, "topic STRING, partition INT"
        begins = [(*tp, begin) for tp, begin in self.known.begins.items()]
        begun = spark.createDataFrame(begins, f"{of_place}, begin LONG")
        ranges = [(s.topic, s.partition, s.start, s.end) for s in self.known.whole]
        taken = spark.createDataFrame(ranges, f"{of_place}, low LONG, high LONG")
        same = (F.col(TOPIC) == F.col("topic")) & (F.col(PARTITION) == F.col("partition"))
        # The ranges share no offset: a row is joined with one at most.
        inside = same & (F.col(OFFSET) >= F.col("low")) & (F.col(OFFSET) < F.col("high"))
        within = once.join(F.broadcast(taken), inside, "left").drop("topic", "partition", "high")
        # Rows before the first commit that the log remembers were proved while it did; all of them, if it knows none.
        first = F.coalesce("begin", F.lit(0 if begins else 2**63 - 1))
        joined = within.join(F.broadcast(begun), same, "left").drop("topic", "partition")
        return joined.withColumns({"begin": first, "consumed": F.col("low").isNotNull()})

    def counted(self, unknown: OffsetRanges, skipped: OffsetRanges) -> dict[str, int]:
        """See `Rows.counted`."""
        from pyspark.sql import functions as F

        consumed = F.col("consumed")
        earlier = ~consumed & (F.col(OFFSET) < F.col("begin"))
        totals = self._once().agg(
            F.coalesce(F.sum(F.when(consumed, F.col("in_table"))), F.lit(0)).alias("in_table"),
            F.coalesce(F.sum(F.when(consumed, F.col("in_quarantine"))), F.lit(0)).alias("in_quarantine"),
            F.count_if(consumed).alias("distinct"),
            F.count_if(consumed & coordinates.inside(unknown.merged)).alias("known"),
            F.count_if(consumed & coordinates.inside(skipped.merged)).alias("spared"),
            F.count_if(~consumed & ~earlier).alias("unexpected"),
            F.count_if(earlier).alias("earlier"),
        )
        with storage_failures(self.tables.main.identifier):
            return totals.collect()[0].asDict()

    def without(self) -> int:
        """See `Rows.without`."""
        with storage_failures(self.tables.main.identifier):
            return without_coordinates(self.tables.main.read()).count()

    def named(self, *, missing: int, doubtful: int) -> dict[str, list[str]]:
        """See `Rows.named`."""
        named = {}
        with storage_failures(self.tables.main.identifier):
            if doubtful:
                rows = self._once()
                double = rows.where("consumed AND in_table + in_quarantine > 1")
                stray = rows.where(f"NOT consumed AND {OFFSET} >= begin")
                named = {"duplicated": _first(double), "unexpected": _first(stray)}
            if missing:
                named["missing"] = self._holes()
        return {kind: names for kind, names in named.items() if names}

    def _holes(self) -> list[str]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rows = self._once().where("consumed").select(TOPIC, PARTITION, OFFSET, "low")
        edges = [(s.topic, s.partition, edge, s.start) for s in self.known.whole for edge in (s.start - 1, s.end)]
        rows = rows.union(self.tables.spark.createDataFrame(edges, rows.schema))
        before = F.lag(OFFSET).over(Window.partitionBy(TOPIC, PARTITION, "low").orderBy(OFFSET))
        holes = rows.withColumn("before", before).where(f"{OFFSET} - before > 1")
        return [hole(r[0], r[1], r["before"] + 1, r[2]) for r in holes.orderBy(*holes.columns[:3]).take(NAMED)]


def _first(rows: DataFrame) -> list[str]:
    return [place(r[0], r[1], r[2]) for r in rows.orderBy(TOPIC, PARTITION, OFFSET).take(NAMED)]


def place(topic: str, partition: int, offset: int) -> str:
    """A coordinate, as a report names it."""
    return f"{topic}-{partition} offset {offset}"


def hole(topic: str, partition: int, start: int, end: int) -> str:
    """Offsets from `start` to before `end`, as a report names them."""
    return f"{topic}-{partition} offsets {start} to {end - 1}"
