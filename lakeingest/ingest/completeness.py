"""Follows until when a table is complete, and says so in the table of completeness.

A period of the table's time partition, which ends at an instant e, is complete when of each topic-partition all records
are consumed that stand before the first one with a Kafka timestamp ≥ e + late; where none has one, all records that
Kafka had when e + late was over. So no record of the period follows, if none is later than `late` allows.

1. What is asked of Kafka is asked once for a period: the offsets to be reached (`Broker.reach`). From then on it is
   arithmetic, whatever comes.
2. Periods are complete one after another: what the newest one must reach, each earlier one must.
3. It is said after the commits that hold the records. A crash between them makes it later, never wrong.
4. A writer that was overtaken says nothing wrong either: what it speaks of, it has committed itself. What a RESTORE of
   the table took back is taken away before the next batch is committed, and not counted until then (see
   `CommitLog.stands`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property

from lakeingest.delta.completeness import CompletenessTable
from lakeingest.errors import TableChanged
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.source import RecordSource
from lakeingest.kafka.offsets import Reach


class Following:
    """What the run of a pipeline knows of its periods."""

    def __init__(self, context: RunContext, source: RecordSource) -> None:
        self._context, self._source = context, source
        self._reaches: dict[datetime, Reach] = {}
        self._newest: datetime | None = None
        self._first: datetime | None = None

    @cached_property
    def _table(self) -> CompletenessTable | None:
        return self._context.tables.completeness

    def begin(self, attempt: Attempt) -> None:
        """Take up what was said before, without what a RESTORE took back. Called before an attempt's first batch.

        Raises:
            StorageError: see `CompletenessTable`.
        """
        table, log = self._table, attempt.logs.run
        if table is None:
            return
        self._first = None
        self._newest, sequence = table.newest()
        if sequence > log.standing:
            table.take_back(log.standing)
            self._newest, _ = table.newest()

    def follow(self, attempt: Attempt) -> None:
        """Say which periods are complete by now. Called each time that the run has looked for records, after a commit.

        Raises:
            SourceError, StorageError: see `Broker.reach` and `CompletenessTable`.
            TableChanged: somebody restored the main table meanwhile; nothing that was said stays.
        """
        table = self._table
        if table is None or attempt.columns is None:
            return
        ended = table.periods.ended(datetime.now(UTC) - table.late)
        if self._newest is not None and ended <= self._newest:
            return
        complete = self._complete(attempt, table, ended)
        if complete is not None:
            self._say(attempt, table, complete)

    def _complete(self, attempt: Attempt, table: CompletenessTable, ended: datetime) -> datetime | None:
        """The newest period that is complete and not said yet; None if there is none."""
        periods, low = table.periods, self._newest
        if self._reached(attempt, table, ended):
            return ended
        if low is None:
            low = self._oldest(attempt, table)
            if low is None or low >= ended or not self._reached(attempt, table, low):
                return None
        while (following := periods.after(low)) < ended:
            begins = periods.begin(low)
            middle = max(following, periods.of(begins + (periods.begin(ended) - begins) / 2))
            if self._reached(attempt, table, middle):
                low = middle
            else:
                ended = middle
        return low if low != self._newest else None

    def _oldest(self, attempt: Attempt, table: CompletenessTable) -> datetime | None:
        """The oldest period that the main table has a row of, where nothing was said yet."""
        if self._first is None:
            counts = table.counts(self._context.tables.main, attempt.execution.writer.version)
            self._first = min(counts, default=None)
        return self._first

    def _reached(self, attempt: Attempt, table: CompletenessTable, start: datetime) -> bool:
        if start not in self._reaches:
            self._reaches[start] = self._source.reach(table.due(start))
        return not self._reaches[start].missing(attempt.frontier)

    def _say(self, attempt: Attempt, table: CompletenessTable, complete: datetime) -> None:
        """Say it of all periods up to this one: of those without a row too, but for those before the first row.

        A RESTORE of the table may come while it is said. What was said is taken away again, and it is a batch's that
        the RESTORE took back: so our readers know, even if this process is killed before.
        """
        periods, writer, main = table.periods, attempt.execution.writer, self._context.tables.main
        writer.check_unchanged()
        if self._newest is None:
            counts = {start: n for start, n in table.counts(main, writer.version).items() if start <= complete}
            starts = sorted({*counts, complete})
        else:
            starts = [*periods.between(periods.after(self._newest), complete)]
            counts = table.counts(main, writer.version, starts)
        rows = {start: counts.get(start, 0) for start in starts}
        # An attempt whose first batch is still to come may know of a later number, which a RESTORE took back.
        sequence = attempt.last.sequence if attempt.last else attempt.sequence
        table.declare(rows, sequence=sequence, version=writer.version, now=datetime.now(UTC))
        try:
            writer.check_unchanged()
        except TableChanged:
            table.take_back(sequence, alone=True)
            raise
        self._newest = complete
        self._reaches = {start: reach for start, reach in self._reaches.items() if start > complete}
