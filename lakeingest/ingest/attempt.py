"""One attempt of a run: it begins from what the tables say, and commits batch after batch until it ends or fails.

A run that goes on after a failure begins another one, as after a crash: nothing is remembered but the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeingest.delta import kinds, replay_marks
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.receipt import Job, Receipt
from lakeingest.errors import StorageError
from lakeingest.ingest import preflight, recovery, restores
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.bronze import Late
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Event, Looked
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier, OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class Attempt:
    """Where a run stands between two batches.

    Attributes:
        accept: what is accepted still: a batch that was let through uses that up with its commit.
        sequence: the number of the last batch.
        last: its receipt; None before the first one.
        frontier: where the next batch begins.
        topics: what Kafka held when the attempt looked last.
        settled: the batch that was under way when the attempt began, and that nobody has told of; None if there is
            none. Another run's is settled once, and so told once; of this run's own each attempt knows the last.
        full: whether the last batch was as large as a batch may be, so that more is waiting.
    """

    context: RunContext
    accept: Accept
    execution: MicroBatchExecution
    log: CommitLog
    refused: CommitLog
    sequence: int
    last: Receipt | None
    frontier: Frontier
    topics: Topics
    settled: Committed | None = None
    full: bool = False
    _withdrawn: bool = False
    _declares: bool = False
    _late: list[Late] = field(default_factory=list)
    _read_from: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, context: RunContext, topics: Topics, accept: Accept, told: int | None = None) -> Attempt:
        """What comes before the first batch.

        1. Read both frontiers, take back a commit that was made over a RESTORE, and check that the source is the one
           that the tables were fed from. 2. Make or check the tables; where only the records know the columns, the
           first batch does so. 3. Settle what a RESTORE did to replays, and what a crash left open: that comes last, so
           that it is told whatever fails.

        Args:
            told: the newest batch that was there when the run began, or that it has told of; None where it begins.
        """
        config, tables = context.config, context.tables
        # 1.
        new = {tables.quarantine} if tables.ensure_quarantine() else set()
        columns = tables.main.schema()
        if columns is None:
            new.add(tables.main)
        else:
            context.prefetch(tables.main)
        log, refused = tables.commit_logs(new=new)
        while restores.undo(tables, log):
            columns = tables.main.schema()
            log, refused = tables.commit_logs(new=new)
        if tables.quarantine not in new and kinds.KIND not in refused.properties:
            # An older version made it.
            tables.quarantine.set_properties(kinds.properties("quarantine"))
        preflight.check(config, log, refused, topics, accept)
        preflight.check_records(tables, BatchReader(context), log, topics)
        preflight.check_adopted(tables, log)
        # 2.
        execution = MicroBatchExecution(context, columns, log, refused)
        if execution.evolution.settled:
            execution.ensure_table()
        execution.writer.keep_adoption(log.newest.receipt if log.newest else None)
        # 3.
        lost = recovery.may_lack_accounts(tables, log, refused)
        if log.restored or lost:
            replay_marks.settle(tables)
            restores.withdraw_late(tables, log)
        settled = recovery.settle(execution, log, refused, topics.first, looked=lost, accept_gap=accept.gaps)
        last = log.newest.receipt if log.newest else None
        if last is not None and last.run.id == context.run.id and last.job.accepted:
            # The attempt before this one failed behind its commit.
            accept = replace(accept, held=None)
        settled = settled or recovery.untold(execution, log, told)
        if settled is not None:
            settled = replace(settled, lag=offsets.lag(log.frontier, topics.last))
        # Numbers of quarantine's own are none of batches: of two runs at once, both take the same next number.
        sequence = max(log.last_sequence, refused.last_batch)
        attempt = cls(context, accept, execution, log, refused, sequence, last, log.frontier, topics, settled)
        # Without a record to commit too: a replay waits for it.
        attempt._declares = last is not None and execution.evolution.declares
        attempt._read_from = last.job.read_from if last is not None else {}
        return attempt

    @property
    def columns(self) -> StructType | None:
        """The table's; None while there is no table."""
        return self.execution.writer.columns

    def next_batch(
        self, topics: Topics, goal: Frontier | None, tell: Callable[[Event], None] = lambda _: None
    ) -> Committed | None:
        """Commit the next batch; None if there is nothing to commit.

        Args:
            topics: what Kafka holds now.
            goal: the offsets at which the run is to end; None if it goes on for ever.
            tell: is told what there is to commit, before that is done.
        """
        self.topics = topics
        if (done := self._late_batch(topics)) is not None:
            return done
        config, tables = self.context.config, self.context.tables
        gaps = offsets.gaps(topics, self.frontier) if self.accept.gaps else OffsetRanges(())
        starts = {**self.frontier, **gaps.frontier}
        starts |= offsets.starts(config.source, topics, starts)
        ranges = offsets.next_ranges(starts, goal or topics.last, config.trigger.max_records)
        tell(Looked(self.sequence, len(topics.last), offsets.lag(starts, topics.last)))
        self.full = ranges.offsets >= config.trigger.max_records
        opens = not ranges.offsets and (self._opens(starts) or self._declares)
        if opens and not self.execution.evolution.columns_from_registry(self.sequence + 1):
            # No table can be made yet: "latest" is where it is now, as long as this run goes on.
            self.frontier, opens = starts, False
        if not (ranges.offsets or opens or gaps.ranges):
            return None
        self.sequence += 1
        self._declares = False
        self.last = receipt = self._receipt(topics, ranges, Job(gaps=gaps, read_from=topics.read_from))
        self._withdraw(starts)
        done = self.execution.execute(receipt, self.accept.held)
        if done.accepted_held:
            self.accept = replace(self.accept, held=None)
        self.frontier = ranges.frontier
        if self.frontier != goal:
            also = () if receipt.whole(done.counts.accepted) else (tables.quarantine,)
            self.context.prefetch(tables.main, *also)
        return replace(done, lag=offsets.lag(self.frontier, topics.last))

    def _late_batch(self, topics: Topics) -> Committed | None:
        """Commit what came into the source below the frontier; None if nothing did.

        It comes before any batch whose receipt says that the source was looked at up to here.
        """
        while topics.read_from:
            while self._late:
                late = self._late.pop(0)
                try:
                    ranges = self.execution.not_yet_held(late)
                except StorageError:
                    # A VACUUM took files of the older version, or clean-up its log; on S3 none of them is logged.
                    if (inexact := late.inexact) is None:
                        raise
                    self._late.insert(0, inexact)
                    continue
                if not ranges.ranges:
                    continue
                self.sequence += 1
                stands = OffsetRanges.none_at(self.frontier)
                receipt = self._receipt(topics, stands, Job("late", late=ranges, read_from=late.read_from))
                done = self.execution.execute(receipt, self.accept.held)
                self.last = receipt
                if done.accepted_held:
                    self.accept = replace(self.accept, held=None)
                return replace(done, lag=offsets.lag(self.frontier, topics.last))
            if self._read_from == topics.read_from or not self.frontier:
                break
            self._late = [*self.context.source.late(self._read_from, self.frontier)]
            self._read_from = topics.read_from
        return None

    def _opens(self, begin: Frontier) -> bool:
        """Whether an empty commit is due, so that where "latest" was is remembered before a record arrives."""
        return self.context.config.source.start == "latest" and any(tp not in self.frontier for tp in begin)

    def _withdraw(self, starts: Frontier) -> None:
        """Let quarantine have no row of what the first batch of the attempt, or a later one, is about to read."""
        # A quarantine without commits holds nothing, and costs no look.
        if not self._withdrawn and (self.refused.last_sequence or not self.refused.complete or self.log.recovered):
            restores.withdraw(self.context.tables, self.log, starts)
        self._withdrawn = True

    def _receipt(self, topics: Topics, ranges: OffsetRanges, job: Job) -> Receipt:
        config, last = self.context.config, self.last
        ids = {**(last.topics if last else {}), **topics.ids}
        where = config.quarantine.identifier
        return Receipt(config.known_as, self.sequence, self.context.run, topics.cluster, ids, ranges, where, job)
