"""The pipeline's own run: it follows the source from the frontier on, and takes what came into it late.

Its receipts are the pipeline's own, and it alone lets the table's columns follow the records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import JobFields
from lakeingest.delta.table import Table
from lakeingest.ingest import preflight, restores
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.catalog_entry import CatalogEntry
from lakeingest.ingest.completeness import Following
from lakeingest.ingest.consumer_group import ConsumerGroup
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Event, Looked
from lakeingest.ingest.job import Follower, Logs, Take
from lakeingest.ingest.jobs.late import LateRecords
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.quiet import QuietMaintenance
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.record import NO_RANGES, Frontier, OffsetRanges


@dataclass
class RunJob:
    """A run that goes on until it is stopped, or has committed all that the source held when it began.

    Attributes:
        tell: is told how catalog and consumer group follow, and what maintenance did.
        until_caught_up: whether it ends when the frontier reaches the offsets that were there at the start.
        goal: these offsets; None if it goes on for ever, and before it has begun.
    """

    context: RunContext
    tell: Callable[[Event], None]
    until_caught_up: bool
    goal: Frontier | None = None
    evolves: bool = field(default=True, init=False)
    _full: bool = field(default=False, init=False)
    _withdrawn: bool = field(default=False, init=False)
    _declares: bool = field(default=False, init=False)
    _removed: OffsetRanges = field(default=NO_RANGES, init=False)

    def __post_init__(self) -> None:
        self.name = self.context.config.known_as
        self.followers: Sequence[Follower] = (
            CatalogEntry(self.context, self.tell),
            ConsumerGroup(self.context, self.tell),
            Following(self.context, self.context.source),
            QuietMaintenance(self.context, self.tell, bounded=self.until_caught_up),
        )
        self._late = LateRecords(self.context)

    @property
    def bounded(self) -> bool:
        return self.until_caught_up

    def read(self, tables: PipelineTables, new: Collection[Table]) -> Logs:
        """See `Job.read`."""
        return Logs.of_run(tables, new)

    def check(self, logs: Logs, topics: Topics, accept: Accept) -> None:
        """See `Job.check`."""
        if self.until_caught_up and self.goal is None:
            self.goal = topics.last
        tables = self.context.tables
        preflight.check(self.context.config, logs.run, logs.run_accounts, topics, accept)
        preflight.check_records(tables, BatchReader(self.context), logs.run, topics)
        preflight.check_adopted(tables, logs.run)

    def begin(self, attempt: Attempt) -> None:
        """See `Job.begin`."""
        # What the file declares is committed without a record too: a replay waits for it.
        self._declares = attempt.last is not None and attempt.execution.evolution.declares
        self._full = self._withdrawn = False
        self._late.begin(attempt.last)
        self._removed = self.context.tables.removals.extent()

    def look(self, topics: Topics) -> Topics:
        """See `Job.look`: with a goal, what the source holds more is not the run's."""
        return self.context.source.topics() if self.goal is None else topics

    def next(self, attempt: Attempt) -> Take | None:
        """See `Job.next`.

        What came into the source late is taken first: before any batch whose receipt says that the source was looked at
        up to here.
        """
        if (late := self._late.next(attempt)) is not None:
            fields = self._fields(attempt, "late", late=late.ranges, read_from=late.read_from)
            return Take(attempt.receipt(OffsetRanges.none_at(attempt.frontier), fields), late.ranges)
        source, trigger, topics = self.context.config.source, self.context.config.trigger, attempt.topics
        gaps = offsets.gaps(topics, attempt.frontier) if attempt.accept.gaps else NO_RANGES
        starts = {**attempt.frontier, **gaps.frontier}
        starts |= offsets.starts(source, topics, starts)
        ranges = offsets.next_ranges(starts, self.goal or topics.last, trigger.max_records)
        attempt.tell(Looked(attempt.sequence, len(topics.last), offsets.lag(starts, topics.last)))
        self._full = ranges.offsets >= trigger.max_records
        if not (ranges.offsets or gaps.ranges or self._opens(attempt, starts)):
            return None
        self._declares = False
        self._withdraw(attempt, starts)
        receipt = attempt.receipt(ranges, self._fields(attempt, "run", gaps=gaps, read_from=topics.read_from))
        # As a rule it has none: what was taken out lies behind the frontier.
        return Take(receipt, ranges.shared(self._removed))

    def _fields(self, attempt: Attempt, name: Literal["run", "late"], **fields: Any) -> JobFields:
        """What a receipt of the run says besides: these fields, and the topics that the file no longer names."""
        before = attempt.last.all_topics if attempt.last else {}
        dropped = {topic: id_ for topic, id_ in before.items() if topic not in attempt.topics.ids}
        return JobFields(name, dropped_topics=dropped, **fields)

    def _opens(self, attempt: Attempt, starts: Frontier) -> bool:
        """Whether a commit without a record is due: so that where "latest" was is remembered before a record comes, or
        so that the table has what the file declares.
        """
        latest = self.context.config.source.start == "latest" and any(tp not in attempt.frontier for tp in starts)
        if not (latest or self._declares):
            return False
        if attempt.execution.evolution.columns_from_registry(attempt.sequence + 1):
            return True
        # No table can be made yet: "latest" is where it is now, as long as this run goes on.
        attempt.frontier = starts
        return False

    def _withdraw(self, attempt: Attempt, starts: Frontier) -> None:
        """Let quarantine have no row of what the first batch of the attempt, or a later one, is about to read."""
        accounts, run = attempt.logs.run_accounts, attempt.logs.run
        # A quarantine without commits has no row, and costs no look.
        if not self._withdrawn and (accounts.last_sequence or not accounts.complete or run.recovered):
            restores.withdraw(self.context.tables, run, starts)
        self._withdrawn = True

    def committed(self, attempt: Attempt, take: Take, batch: Committed) -> None:
        """See `Job.committed`."""
        receipt, tables = take.receipt, self.context.tables
        attempt.frontier = receipt.ranges.frontier
        if attempt.frontier != self.goal:
            # That of the table is prefetched while rows are committed to quarantine, if any are.
            table = tables.main if receipt.whole(batch.written.rows) else tables.quarantine
            self.context.prefetch(table, *([tables.deleted_keys.table] if tables.deleted_keys else []))

    def reported(self, attempt: Attempt, batch: Committed) -> Committed:
        """See `Job.reported`: its lag is that of the frontier."""
        return replace(batch, lag=offsets.lag(attempt.frontier, attempt.topics.last))

    def pause_s(self, batch: Committed | None, seconds: float) -> float:
        """See `Job.pause_s`: behind a full batch more is waiting."""
        every_s = self.context.config.trigger.every.total_seconds()
        return 0.0 if self._full or self.bounded else every_s - seconds
