"""The contract of a job: what differs between the kinds of batch.

A job says where it stands, what it takes next, and what follows its commits. All else is the same for all: `loop` goes
from batch to batch, `attempt` begins and mends what is open, `microbatch` executes a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Receipt
from lakeingest.delta.table import Table
from lakeingest.ingest.events import Committed
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka.offsets import Topics
from lakeingest.record import NO_RANGES, OffsetRanges

if TYPE_CHECKING:
    from lakeingest.ingest.attempt import Attempt


@dataclass(frozen=True)
class Logs:
    """What the logs of a pipeline's tables say.

    Attributes:
        run, run_accounts: what the pipeline's run committed to the table, and to quarantine.
        job, accounts: what the job itself committed to them; of the run, the same two.
    """

    run: CommitLog
    run_accounts: CommitLog
    job: CommitLog
    accounts: CommitLog

    @classmethod
    def of_run(cls, tables: PipelineTables, new: Collection[Table] = ()) -> Logs:
        """As far back as the pipeline's newest commit.

        Args:
            new: see `PipelineTables.commit_logs`, and for the errors.
        """
        run, accounts = tables.commit_logs(new=new)
        return cls(run, accounts, run, accounts)

    @classmethod
    def of_others(cls, tables: PipelineTables, name: str) -> Logs:
        """As far back as the logs reach.

        Args:
            name: what the job's receipts are known by.

        Raises:
            StorageUnreachable, TableMismatch: see `PipelineTables.commit_logs`.
        """
        job, accounts = (
            commit_log.numbered(table, commit_log.read(table, name, back=None))
            for table in (tables.main, tables.quarantine)
        )
        return cls(*tables.commit_logs(back=None), job, accounts)


@dataclass(frozen=True)
class Take:
    """What the next batch of a job takes.

    Attributes:
        receipt: the batch's, before its commit: its number, its offsets, and what the job says of them.
        existing: offsets of the batch of which a table may have records already: these are left out, by their
            coordinates.
    """

    receipt: Receipt
    existing: OffsetRanges = NO_RANGES


class Follower(Protocol):
    """Follows what a job commits, and is no part of it."""

    def begin(self, attempt: Attempt) -> None:
        """Take up what an attempt stands for, which has committed nothing yet."""

    def follow(self, attempt: Attempt) -> None:
        """Follow the attempt, which has looked for records, and committed what it took."""


class Job(Protocol):
    """A job that goes from batch to batch.

    Attributes:
        name: what its receipts are known by, and so Delta's txnAppId.
        evolves: whether the table's columns, its ledger of schemas and its comments follow the records: the pipeline's
            run alone lets them.
        bounded: whether it ends when there is nothing left to take.
        followers: what follows its commits.
    """

    name: str
    evolves: bool

    @property
    def bounded(self) -> bool: ...

    @property
    def followers(self) -> Sequence[Follower]: ...

    def read(self, tables: PipelineTables, new: Collection[Table]) -> Logs:
        """What the tables' logs say, as far back as the job needs them."""

    def check(self, logs: Logs, topics: Topics, accept: Accept) -> None:
        """Notice, before anything is mended or committed, that the job must not go on.

        Raises:
            UsageError, SourceError, StorageError: why.
        """

    def begin(self, attempt: Attempt) -> None:
        """Take up where the job stands, as an attempt has read it from the logs."""

    def look(self, topics: Topics) -> Topics:
        """What the source holds when the next batch is due.

        Args:
            topics: what it held at the last one.
        """

    def next(self, attempt: Attempt) -> Take | None:
        """What the next batch takes; None if there is nothing to commit now.

        Raises:
            SourceError, StorageError: what comes next cannot be had.
        """

    def committed(self, attempt: Attempt, take: Take, batch: Committed) -> None:
        """Stand behind a batch that was committed."""

    def reported(self, attempt: Attempt, batch: Committed) -> Committed:
        """What is told of a batch that this attempt has committed, or settled."""

    def pause_s(self, batch: Committed | None, seconds: float) -> float:
        """How long to wait before the next batch.

        Args:
            batch: the one that was committed; None if there was none.
            seconds: how long that took.
        """
