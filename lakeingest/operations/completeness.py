"""Until when a table is complete, as its table of completeness says.

A row counts as long as the batch that it names stands: of what a RESTORE of the main table took back nothing is said,
also before the next run takes the row away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig, Storage, periods
from lakeingest.config.periods import Periods
from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.history import RECENT
from lakeingest.delta.reader import rows
from lakeingest.delta.reader.log import NoTable, OfflineLog, Unreadable, reading
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables


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
        known = {start: self.rows[start].records if start in self.rows else 0 for start in counts if start <= newest}
        return {start: counts[start] - before for start, before in sorted(known.items()) if counts[start] > before}


def followed(config: PipelineConfig) -> tuple[Periods, timedelta]:
    """The periods of a pipeline whose contract has completeness, and how late a record may be.

    Raises:
        UsageError: it has none.
    """
    promised, found = config.contract.completeness if config.contract else None, periods.of(config.partition)
    if promised is None or found is None:
        raise UsageError(
            f"pipeline {config.name!r} does not follow until when its table is complete",
            cure="write contract: {completeness: {}} into its file, and let it run",
        )
    return found, promised.late


def offline(config: PipelineConfig, storage: Storage, of: Periods) -> Complete:
    """All that is said of the periods, read without Spark.

    Raises:
        Unreadable: it cannot be.
    """
    from pyarrow import dataset as ds

    log = OfflineLog(config.completeness, storage)
    try:
        table = rows.dataset(log)
    except NoTable:
        return Complete()
    with reading(log.identifier):
        found = table.to_table(
            columns=["period_start", "complete_since", "records", "sequence"],
            filter=ds.field("pipeline") == config.known_as,
        ).to_pylist()
    return Complete(
        {of.of(row["period_start"]): Row(row["complete_since"], row["records"], row["sequence"]) for row in found}
    )


def log_of(main: OfflineLog, pipeline: str) -> CommitLog:
    """What the pipeline committed to its main table, read without Spark; nothing where there is no table.

    Raises:
        Unreadable: it cannot be.
    """
    try:
        found = commit_log.of_log(main, pipeline, RECENT)
    except NoTable:
        return CommitLog(main.identifier, pipeline)
    if found.newest is None and not found.complete:
        raise Unreadable("the log does not say how far the pipeline has come")
    return found


def of_spark(tables: PipelineTables) -> tuple[Complete, CommitLog]:
    """All that is said of the periods, and what the pipeline committed to the main table, read by Spark.

    Raises:
        StorageUnreachable: a table cannot be read.
    """
    table, main, pipeline = tables.completeness, tables.main, tables.config.known_as
    if table is None or main.schema() is None:
        return Complete(), CommitLog(main.identifier, pipeline)
    log = commit_log.numbered(main, commit_log.read(main, pipeline, back=RECENT))
    return Complete({start: Row(*row) for start, row in table.rows().items()}), log


def online(tables: PipelineTables) -> tuple[Complete, dict[datetime, int]]:
    """What is said of the periods, of batches that stand, and the rows that the main table has of each now, by Spark.

    Raises:
        StorageUnreachable: a table cannot be read.
    """
    said, log = of_spark(tables)
    table, standing = tables.completeness, said.standing(log)
    return standing, table.counts(tables.main, None) if table is not None and standing.rows else {}


def counts(log: OfflineLog, of: Periods) -> dict[datetime, int]:
    """How many rows a table has of each period, by its files' statistics.

    Raises:
        Unreadable: some have none.
    """
    found: dict[datetime, int] = {}
    for file in log.state.files:
        start = of.parse([file.partition.get(name) for name in of.columns])
        if start is not None:
            found[start] = found.get(start, 0) + int(file.statistics["numRecords"])
    return found
