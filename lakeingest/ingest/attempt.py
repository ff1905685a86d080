"""One attempt of a job: it begins from what the tables say, and commits batch after batch until it ends or fails.

A job that goes on after a failure begins another one, as after a crash: nothing is remembered but the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeingest.delta import kinds
from lakeingest.delta.receipt import JobFields, Receipt
from lakeingest.ingest import heal, preflight
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Event
from lakeingest.ingest.job import Job, Logs
from lakeingest.ingest.microbatch import MicroBatchExecution
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka.offsets import Topics
from lakeingest.record import Frontier, OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass
class Attempt:
    """Where a job stands between two batches.

    Attributes:
        accept: what is accepted still: a batch that was let through uses that up with its commit.
        topics: what the source held when the attempt looked last.
        sequence: the number of the job's last batch.
        last: the receipt of the pipeline's newest batch, or of the attempt's own; None before the first one.
        frontier: where the pipeline's next batch begins.
        settled: the batch that was under way when the attempt began, and that nobody has told of; None if there is
            none. Another run's is settled once, and so told once; of this run's own each attempt knows the last.
        tell: is told what there is to commit, before that is done.
    """

    job: Job
    context: RunContext
    accept: Accept
    execution: MicroBatchExecution
    logs: Logs
    topics: Topics
    sequence: int
    last: Receipt | None
    frontier: Frontier
    settled: Committed | None = None
    tell: Callable[[Event], None] = lambda _: None

    @classmethod
    def begin(
        cls,
        job: Job,
        context: RunContext,
        topics: Topics,
        accept: Accept,
        *,
        reported: int | None = None,
        tell: Callable[[Event], None] = lambda _: None,
    ) -> Attempt:
        """What comes before the first batch.

        1. Read the logs, and take back what was committed over a RESTORE. Then the job looks whether it may go on.
        2. Make or check the tables; where only the records know the columns, the first batch does so.
        3. Settle what is open: that comes last, so that it is told whatever fails.

        Args:
            topics: what the source holds now.
            reported: the newest batch that was there when the job began, or that it has told of; None at its beginning.

        Raises:
            UsageError: a job that does not make the table finds none, or see `Job.check`.
            SourceError, StorageError: see `Job.check` and `heal`.
        """
        # 1.
        columns, logs = _read(job, context)
        job.check(logs, topics, accept)
        # 2.
        execution = MicroBatchExecution(
            context, columns, logs.run, logs.accounts, evolves=job.evolves, batches=logs.job
        )
        execution.log_order.accepts_restart = accept.log_restart
        execution.open(logs.run)
        # 3.
        settled = heal.settle(execution, logs, topics.first, accept_gap=accept.gaps, reported=reported)
        newest, job_newest = logs.run.newest, logs.job.newest
        if job_newest is not None and job_newest.receipt.run.id == context.run.id and job_newest.receipt.job.accepted:
            # The attempt before this one failed behind its commit.
            accept = replace(accept, held_reason=None)
        # Numbers of quarantine's own are none of batches: of two jobs at once, both take the same next number.
        sequence = max(logs.job.last_sequence, logs.accounts.last_batch)
        last = newest.receipt if newest else None
        attempt = cls(job, context, accept, execution, logs, topics, sequence, last, logs.run.frontier, tell=tell)
        job.begin(attempt)
        attempt.settled = None if settled is None else job.reported(attempt, settled)
        return attempt

    @property
    def columns(self) -> StructType | None:
        """The table's; None while there is no table."""
        return self.execution.writer.columns

    @property
    def outdated(self) -> bool:
        """Whether the pipeline's run has changed the table's columns, beside a job that follows them."""
        return not self.job.evolves and self.context.tables.main.schema() != self.columns

    def receipt(self, ranges: OffsetRanges, job: JobFields) -> Receipt:
        """The receipt of the next batch.

        Args:
            job: what the job says of it.
        """
        context, topics, number = self.context, self.topics, self.sequence + 1
        where = context.config.quarantine.identifier
        return Receipt(self.job.name, number, context.run, topics.cluster, topics.ids, ranges, where, job)

    def next_batch(self, topics: Topics) -> Committed | None:
        """Commit the next batch; None if there is nothing to commit.

        Args:
            topics: what the source holds now.

        Raises:
            SourceChanged: a topic was made anew meanwhile.
            SourceError, StorageError, BatchHeld, Fenced: see `Job.next` and `MicroBatchExecution.execute`.
        """
        preflight.check_topics(self.last, topics)
        self.topics = topics
        take = self.job.next(self)
        if take is None:
            return None
        batch = self.execution.execute(take.receipt, self.accept.held_reason, take.existing)
        self.last, self.sequence = take.receipt, take.receipt.sequence
        if batch.accepted_held:
            self.accept = replace(self.accept, held_reason=None)
        self.job.committed(self, take, batch)
        return self.job.reported(self, batch)


def _read(job: Job, context: RunContext) -> tuple[StructType | None, Logs]:
    """The table's columns, and the logs, once what was committed over a RESTORE is taken back; makes the quarantine."""
    tables = context.tables
    columns = tables.main.schema() if job.evolves else tables.main.existing().schema
    new = {tables.quarantine} if tables.ensure_quarantine() else set()
    if columns is None:
        new.add(tables.main)
    else:
        context.prefetch(tables.main)
    logs, undone = heal.undo(tables, lambda: job.read(tables, new))
    if tables.quarantine not in new and kinds.KIND not in logs.run_accounts.properties:
        # An older version made it.
        tables.quarantine.set_properties(kinds.properties("quarantine"))
    return tables.main.schema() if undone else columns, logs
