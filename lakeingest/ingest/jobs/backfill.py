"""Takes offsets that lie behind a pipeline, batch after batch, beside its run and under receipts of its own.

1. The number of the next batch is read first. Another backfill that commits from then on has that number, and one of
   the two is fenced. The pipeline's run has numbers of its own, and is not.
2. What is left is what was asked for, without what the receipts of the pipeline and of earlier backfills say was
   consumed. It always lies before the frontier: what follows that, the pipeline takes.
3. A batch goes the way of any other (`MicroBatchExecution.execute`), and is settled like any other. Records that a
   table has already are left out by their coordinates, so that nothing is double where clean-up took the receipts.
4. The table's columns and its ledger of schemas are the run's alone: a record whose schema would change them ends the
   backfill.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from lakeingest.delta import coordinates
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Counts, JobFields, of_backfill
from lakeingest.delta.table import Table
from lakeingest.errors import OffsetsLost, UsageError, number_of
from lakeingest.ingest import preflight, restores
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed
from lakeingest.ingest.job import Follower, Logs, Take
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import NO_RANGES, Frontier, OffsetRanges
from lakeingest.spark.failures import storage_failures

Request = Callable[[Frontier, Topics], OffsetRanges]
"""Says which offsets are asked for, by the pipeline's frontier and what Kafka holds; some may be consumed already."""


def remaining(
    context: RunContext, logs: Logs, topics: Topics, request: Request, goal: OffsetRanges | None = None
) -> OffsetRanges:
    """What is to be taken.

    Args:
        goal: what an attempt before this one was to take; None for the first.

    Raises:
        UsageError: what is asked for makes no sense.
        SourceChanged, TableMismatch: the source, or the tables, are not those of the pipeline.
        OffsetsLost: Kafka no longer has a part of it.
    """
    preflight.check(context.config, logs.run, logs.run_accounts, topics, Accept(dropped_topics=True))
    preflight.check_records(context.tables, BatchReader(context), logs.run, topics)
    frontier = logs.run.frontier
    target = request(frontier, topics) if goal is None else goal
    consumed = restores.consumed_ranges(logs.run, logs.job)
    rest = target.shared(OffsetRanges.up_to(frontier)).without(consumed)
    _check_adopted(logs.run, rest)
    check_kept(rest, topics)
    return rest


def _check_adopted(log: CommitLog, rest: OffsetRanges) -> None:
    """Notice that coordinates cannot tell which records the table has: it was adopted with rows that have none.

    Raises:
        UsageError: so it is.
    """
    adoption = next((c.receipt for c in log.commits if c.receipt.job.adopted.get("without")), None)
    if adoption is not None and rest.before(adoption.ranges.frontier).ranges:
        raise UsageError(
            f"the table was adopted with {number_of(adoption.job.adopted['without'], 'row')} without coordinates: "
            "what lies before "
            "the adoption may be among them, and would be there twice",
            cure="name a beginning behind the adoption; or rebuild the table from Kafka",
        )


def check_kept(rest: OffsetRanges, topics: Topics) -> None:
    """Notice that Kafka no longer has offsets that are to be taken.

    Raises:
        OffsetsLost: it names them, and where Kafka begins.
    """
    lost = rest.before(topics.first)
    if lost.ranges:
        begins = ", ".join(f"{t}-{p}:{topics.first[t, p]}" for t, p in sorted({(s.topic, s.partition) for s in lost}))
        raise OffsetsLost(
            f"Kafka no longer has {lost}, and no receipt says that they were read",
            cure=f"ask for what is left: --from earliest, or from where Kafka begins ({begins}); what batches before "
            "this have committed stays",
        )


def existing_records(tables: PipelineTables, ranges: OffsetRanges) -> tuple[int, OffsetRanges]:
    """How many records within these ranges the tables have already, and from which offset to which.

    So it is where clean-up took the receipts that told of them, or a RESTORE those of a backfill.
    """
    if not ranges.ranges:
        return 0, ranges
    with storage_failures(tables.main.identifier):
        rows = tables.coordinates(ranges)
        return rows.count(), coordinates.extent(rows)


@dataclass(frozen=True)
class Limits:
    """What a backfill may take of the cluster.

    Attributes:
        records: most offsets of a batch; None for as many as trigger.max_records says.
        rate: most offsets in a second, on average; None for as many as can be.
    """

    records: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """
        Raises:
            UsageError: one of them lets nothing through.
        """
        for option, value in (("--max-records", self.records), ("--rate", self.rate)):
            if value is not None and not value > 0:
                raise UsageError(f"{option} {value} lets nothing through", cure="write a number above 0")


@dataclass
class BackfillJob:
    """A backfill, which ends when all is taken that was asked for.

    Attributes:
        request: what is asked for.
        goal: what it is to take; None before the tables' logs were read.
        existing: how many records of it the tables had already.
        rest: what it has not taken.
        commits: how many batches it has committed.
    """

    context: RunContext
    request: Request
    limits: Limits
    goal: OffsetRanges | None = None
    existing: int = 0
    rest: OffsetRanges = NO_RANGES
    commits: int = 0
    evolves: bool = field(default=False, init=False)
    bounded: bool = field(default=True, init=False)
    followers: Sequence[Follower] = field(default=(), init=False)
    _existing: OffsetRanges = field(default=NO_RANGES, init=False)

    def __post_init__(self) -> None:
        self.name = of_backfill(self.context.config.known_as)

    def read(self, tables: PipelineTables, new: Collection[Table]) -> Logs:
        """See `Job.read`."""
        return Logs.of_others(tables, self.name)

    def check(self, logs: Logs, topics: Topics, accept: Accept) -> None:
        """See `Job.check`."""
        self.rest = remaining(self.context, logs, topics, self.request, self.goal)

    def begin(self, attempt: Attempt) -> None:
        """See `Job.begin`."""
        count, self._existing = existing_records(self.context.tables, self.rest)
        if self.goal is None:
            self.goal, self.existing = self.rest, count

    def look(self, topics: Topics) -> Topics:
        """See `Job.look`."""
        return self.context.source.topics()

    def next(self, attempt: Attempt) -> Take | None:
        """See `Job.next`."""
        if not self.rest.ranges:
            return None
        check_kept(self.rest, attempt.topics)
        # A receipt has one range of each partition.
        first = OffsetRanges(tuple({(s.topic, s.partition): s for s in reversed(self.rest.ranges)}.values()))
        starts = {(s.topic, s.partition): s.start for s in first}
        most = self.limits.records or self.context.config.trigger.max_records
        ranges = offsets.next_ranges(starts, first.frontier, most).merged
        fields = JobFields("backfill", remaining=self.rest.without(ranges).offsets)
        return Take(attempt.receipt(ranges, fields), ranges.shared(self._existing))

    def committed(self, attempt: Attempt, take: Take, batch: Committed) -> None:
        """See `Job.committed`."""
        self.rest = self.rest.without(take.receipt.ranges)
        if take.receipt.whole(batch.written.rows):
            # Else that began while rows were committed to quarantine.
            self.context.prefetch(self.context.tables.main)

    def reported(self, attempt: Attempt, batch: Committed) -> Committed:
        """See `Job.reported`: a batch without the records that the tables had already, which are no new ones; its lag
        is what is left.
        """
        self.commits += 1
        accepted, refused, dropped = batch.counts.accepted, sum(batch.refused.values()), batch.counts.dropped
        new = Counts(accepted + refused + dropped, accepted, refused, dropped)
        # The numbers in the ledger of schemas are those of the pipeline's batches.
        return replace(batch, counts=new, lag=self.rest.offsets, schemas=())

    def pause_s(self, batch: Committed | None, seconds: float) -> float:
        """See `Job.pause_s`: so that it takes no more offsets in a second than it may."""
        if batch is None or self.limits.rate is None or not self.rest.ranges:
            return 0.0
        return batch.ranges.offsets / self.limits.rate - seconds
