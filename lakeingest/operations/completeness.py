"""Until when a table is complete, as its table of completeness says.

A row counts as long as the batch that it names stands: of what a RESTORE of the main table took back nothing is said,
also before the next run takes the row away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakeingest.config import PipelineConfig
from lakeingest.config import periods as partition_periods
from lakeingest.config.periods import Periods
from lakeingest.delta.commit_log import CommitLog
from lakeingest.errors import UsageError
from lakeingest.operations.readers import PipelineReader

_ROWS = "SELECT period_start, complete_since, records, sequence FROM {rows} WHERE pipeline = :pipeline"


@dataclass(frozen=True)
class Row:
    """What is said of one period: since when it is complete, its rows then, and the pipeline's last batch then."""

    since: datetime
    records: int
    sequence: int


@dataclass(frozen=True)
class Complete:
    """What is said of a pipeline's periods: local start → row; empty where nothing is."""

    rows: Mapping[datetime, Row] = field(default_factory=dict)

    @property
    def newest(self) -> datetime | None:
        return max(self.rows, default=None)

    def of(self, start: datetime) -> Row | None:
        """What is said of a period; None if it is not complete.

        A period without a row is complete since the next one is, and had no records then: periods are complete one
        after another, and the first rows are those of periods with records.
        """
        if start in self.rows:
            return self.rows[start]
        later = min((each for each in self.rows if each > start), default=None)
        return None if later is None else replace(self.rows[later], records=0)

    def standing(self, log: CommitLog) -> Complete:
        """What is said of batches that stand.

        Args:
            log: what the pipeline committed to the main table.
        """
        return Complete({start: row for start, row in self.rows.items() if log.stands(row.sequence)})

    def late(self, counts: Mapping[datetime, int]) -> dict[datetime, int]:
        """The rows that came to periods which were complete: period → how many.

        Args:
            counts: the rows that the main table has of each period now.
        """
        newest = self.newest
        if newest is None:
            return {}
        counted = {start: self.rows[start].records if start in self.rows else 0 for start in counts if start <= newest}
        return {start: counts[start] - before for start, before in sorted(counted.items()) if counts[start] > before}


def followed(config: PipelineConfig) -> tuple[Periods, timedelta]:
    """The periods of a pipeline whose contract has completeness, and how late a record may be.

    Raises:
        UsageError: it has none.
    """
    promised, periods = (
        config.contract.completeness if config.contract else None,
        partition_periods.of(config.partition),
    )
    if promised is None or periods is None:
        raise UsageError(
            f"pipeline {config.name!r} does not follow until when its table is complete",
            cure="write contract: {completeness: {}} into its file, and let it run",
        )
    return periods, promised.late


def declared(reader: PipelineReader) -> Complete:
    """All that is said of the periods, also of batches that a RESTORE took back.

    Raises:
        Unreadable, StorageUnreachable: the table cannot be read.
    """
    of, _ = followed(reader.config)
    table = reader.completeness
    if not table.exists:
        return Complete()
    rows = table.scan(_ROWS, pipeline=reader.config.known_as)
    return Complete(
        {of.of(row["period_start"]): Row(row["complete_since"], row["records"], row["sequence"]) for row in rows}
    )


def periods(reader: PipelineReader) -> tuple[Complete, dict[datetime, int]]:
    """What is said of the periods, of batches that stand, and how many rows the main table has of each now.

    Raises:
        Unreadable, StorageUnreachable: a table cannot be read.
    """
    of, _ = followed(reader.config)
    complete = declared(reader)
    if not complete.rows:
        return complete, {}
    counts: dict[datetime, int] = {}
    for values, count in reader.main.partition_counts(of.columns).items():
        start = of.parse(values)
        if start is not None:
            counts[start] = counts.get(start, 0) + count
    return complete.standing(reader.standing()), counts
