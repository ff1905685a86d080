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

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lakeingest.delta import commit_log, coordinates
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Counts, Job, Receipt, of_backfill
from lakeingest.errors import OffsetsLost, UsageError, number_of
from lakeingest.ingest import preflight, recovery, restores
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Event
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.retry import RetryBudget
from lakeingest.ingest.run import tried_again
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier, OffsetRanges
from lakeingest.spark.failures import storage_failures

Asked = Callable[[Frontier, Topics], OffsetRanges]
"""Says which offsets are asked for, by the pipeline's frontier and what Kafka holds; some may be consumed already."""


@dataclass(frozen=True)
class Position:
    """What the tables' logs say, as far back as they reach.

    Attributes:
        log, refused: what the pipeline committed to the table, and to quarantine.
        mine, accounts: what its backfills committed to them.
    """

    log: CommitLog
    refused: CommitLog
    mine: CommitLog
    accounts: CommitLog

    @classmethod
    def read(cls, tables: PipelineTables) -> Position:
        """
        Raises:
            StorageUnreachable: a table cannot be read.
            TableMismatch: see `PipelineTables.commit_logs`.
        """
        name = of_backfill(tables.config.known_as)
        mine, accounts = (
            commit_log.numbered(table, commit_log.read(table, name, back=None))
            for table in (tables.main, tables.quarantine)
        )
        return cls(*tables.commit_logs(back=None), mine, accounts)

    @property
    def consumed(self) -> OffsetRanges:
        """The offsets that receipts name; accepted gaps are not among them."""
        return restores.taken(self.log, self.mine)

    @property
    def behind(self) -> OffsetRanges:
        """All offsets before the frontier."""
        return OffsetRanges.up_to(self.log.frontier)


def remaining(
    context: RunContext, at: Position, topics: Topics, asked: Asked, goal: OffsetRanges | None = None
) -> OffsetRanges:
    """What is to be taken.

    Args:
        goal: what an attempt before this one was to take; None for the first.

    Raises:
        UsageError: what is asked for makes no sense.
        SourceChanged, TableMismatch: the source, or the tables, are not those of the pipeline.
        OffsetsLost: Kafka no longer has a part of it.
    """
    preflight.check(context.config, at.log, at.refused, topics, Accept(dropped_topics=True))
    preflight.check_records(context.tables, BatchReader(context), at.log, topics)
    wanted = asked(at.log.frontier, topics) if goal is None else goal
    left = wanted.shared(at.behind).without(at.consumed)
    _check_known(at.log, left)
    check_kept(left, topics)
    return left


def _check_known(log: CommitLog, left: OffsetRanges) -> None:
    """Notice that coordinates cannot tell which records the table has: it was adopted with rows that have none.

    Raises:
        UsageError: so it is.
    """
    adoption = next((c.receipt for c in log.commits if c.receipt.job.adopted.get("without")), None)
    if adoption is not None and left.before(adoption.ranges.frontier).ranges:
        raise UsageError(
            f"the table was adopted with {number_of(adoption.job.adopted['without'], 'row')} without coordinates: "
            "what lies before "
            "the adoption may be among them, and would be there twice",
            cure="name a beginning behind the adoption; or rebuild the table from Kafka",
        )


def check_kept(left: OffsetRanges, topics: Topics) -> None:
    """Notice that Kafka no longer has offsets that are to be taken.

    Raises:
        OffsetsLost: it names them, and where Kafka begins.
    """
    lost = left.before(topics.first)
    if lost.ranges:
        begins = ", ".join(f"{t}-{p}:{topics.first[t, p]}" for t, p in sorted({(s.topic, s.partition) for s in lost}))
        raise OffsetsLost(
            f"Kafka no longer has {lost}, and no receipt says that they were read",
            cure=f"ask for what is left: --from earliest, or from where Kafka begins ({begins}); what batches before "
            "this have committed stays",
        )


def existing(tables: PipelineTables, ranges: OffsetRanges) -> tuple[int, OffsetRanges]:
    """How many records within these ranges the tables have already, and from which offset to which.

    So it is where clean-up took the receipts that told of them, or a RESTORE those of a backfill.
    """
    if not ranges.ranges:
        return 0, ranges
    with storage_failures(tables.main.identifier):
        rows = tables.coordinates(ranges)
        return rows.count(), coordinates.extent(rows)


@dataclass
class BackfillAttempt:
    """Where a backfill stands between two batches; it begins anew after a failure.

    Attributes:
        accept: what is accepted still.
        left: what is not committed yet.
        held: how many records of it the tables have already.
        sequence: the number of the last batch.
        settled: see `Attempt.settled`.
    """

    context: RunContext
    accept: Accept
    execution: MicroBatchExecution
    left: OffsetRanges
    held: int
    sequence: int
    _existing: OffsetRanges
    _last: Receipt | None
    settled: Committed | None = None

    @classmethod
    def begin(
        cls,
        context: RunContext,
        topics: Topics,
        asked: Asked,
        accept: Accept,
        *,
        goal: OffsetRanges | None = None,
        told: int | None = None,
    ) -> BackfillAttempt:
        """What comes before the first batch.

        1. Read the logs, and take back a batch that was made over a RESTORE, if it is there twice now or would be. 2.
        See what is to be taken. 3. Settle what a crash left open, last.

        Args:
            goal: see `remaining`.
            told: see `Attempt.begin`.

        Raises:
            UsageError: there is no table yet, or see `remaining`.
            SourceError, StorageError: see `remaining`, and `recovery.settle`.
        """
        tables = context.tables
        # 1.
        columns = tables.main.existing().schema
        tables.ensure_quarantine()
        at = Position.read(tables)
        while restores.undo_backfill(tables, at.log, at.mine):
            columns, at = tables.main.existing().schema, Position.read(tables)
        # 2.
        left = remaining(context, at, topics, asked, goal)
        # 3.
        execution = MicroBatchExecution(context, columns, at.log, at.accounts, follows=False)
        execution.check_declared(at.log, columns)
        held, extent = existing(tables, left)
        lost = recovery.may_lack_accounts(tables, at.mine, at.accounts)
        settled = recovery.settle(execution, at.mine, at.accounts, topics.first, looked=lost, accept_gap=accept.gaps)
        settled = settled or recovery.untold(execution, at.mine, told)
        sequence = max(at.mine.last_sequence, at.accounts.last_batch)
        last = at.log.newest.receipt if at.log.newest else None
        settled = None if settled is None else _new(settled, left.offsets)
        return cls(context, accept, execution, left, held, sequence, extent, last, settled)

    @property
    def outdated(self) -> bool:
        """Whether the pipeline's run has changed the table's columns since the attempt began."""
        return self.context.tables.main.schema() != self.execution.writer.columns

    def next_batch(self, topics: Topics, most: int) -> Committed:
        """Commit the next batch, of at most so many offsets; its lag is what is left then.

        Raises:
            OffsetsLost: Kafka no longer has what is left.
            SourceChanged: a topic was made anew meanwhile.
        """
        preflight.check_topics(self._last, topics)
        check_kept(self.left, topics)
        # A receipt has one range of each partition.
        first = OffsetRanges(tuple({(s.topic, s.partition): s for s in reversed(self.left.ranges)}.values()))
        starts = {(s.topic, s.partition): s.start for s in first}
        ranges = offsets.next_ranges(starts, first.frontier, most).merged
        self.sequence += 1
        rest = self.left.without(ranges)
        receipt = self._receipt(topics, ranges, rest)
        done = self.execution.execute(receipt, self.accept.held, existing=self._existing)
        if done.accepted_held:
            self.accept = replace(self.accept, held=None)
        self.left = rest
        self.context.prefetch(self.context.tables.main)
        return _new(done, rest.offsets)

    def _receipt(self, topics: Topics, ranges: OffsetRanges, rest: OffsetRanges) -> Receipt:
        config, run = self.context.config, self.context.run
        name, where = of_backfill(config.known_as), config.quarantine.identifier
        job = Job("backfill", remaining=rest.offsets)
        return Receipt(name, self.sequence, run, topics.cluster, topics.ids, ranges, where, job)


def _new(done: Committed, left: int) -> Committed:
    """A batch without the records that the tables had already: these are no new ones."""
    accepted, refused, dropped = done.counts.accepted, sum(done.refused.values()), done.counts.dropped
    new = Counts(accepted + refused + dropped, accepted, refused, dropped)
    # The numbers in the ledger of schemas are those of the pipeline's batches.
    return replace(done, counts=new, lag=left, schemas=())


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
class BackfillRun:
    """A backfill that goes on until all is taken that was asked for, or it is stopped.

    Attributes:
        asked: what is asked for.
        accept: what whoever started it accepts.
        tell: is told what happens, in this thread.
        stop: when set, the batch in hand is finished, and the backfill ends.
        goal: what it is to take; None before the tables' logs were read.
        held: how many records of it the tables had already.
        left: how many offsets it has not taken.
        commits: how many batches it has committed.
    """

    context: RunContext
    asked: Asked
    accept: Accept
    limits: Limits
    tell: Callable[[Event], None]
    stop: threading.Event
    goal: OffsetRanges | None = None
    held: int = 0
    left: int = 0
    commits: int = 0
    _told: int | None = None

    def __post_init__(self) -> None:
        self._budget = RetryBudget(self.context.config.retry.wait.total_seconds())

    def run(self) -> Counts:
        """The counts of all batches; for the errors see `Pipeline.backfill`."""
        return tried_again(self._batches, self._budget, self.context, self.tell, self.stop)

    def _begin(self, topics: Topics) -> BackfillAttempt:
        begun = BackfillAttempt.begin(self.context, topics, self.asked, self.accept, goal=self.goal, told=self._told)
        self._told = begun.sequence
        if self.goal is None:
            self.goal, self.held = begun.left, begun.held
        self.left = begun.left.offsets
        self._budget.underway()
        return begun

    def _batches(self) -> Iterator[Committed]:
        most, rate = self.limits.records or self.context.config.trigger.max_records, self.limits.rate
        now = self._begin(self.context.source.topics())
        if now.settled is not None:
            self.commits += 1
            yield now.settled
        while now.left.ranges and not self.stop.is_set():
            begun, topics = time.monotonic(), self.context.source.topics()
            if now.outdated:
                now = self._begin(topics)
                continue
            done = now.next_batch(topics, most)
            self.accept, self.left, self._told = now.accept, now.left.offsets, done.sequence
            self.commits += 1
            yield done
            if rate is not None and self.left:
                pause_s = done.ranges.offsets / rate - (time.monotonic() - begun)
                self.stop.wait(min(max(0.0, pause_s), threading.TIMEOUT_MAX))
        self.context.gate.wait(self.context.spark)
