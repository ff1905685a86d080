"""Until when a table is complete, as its table of completeness says; and what a period still waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig, Storage, periods
from lakeingest.config.periods import Periods
from lakeingest.delta import commit_log
from lakeingest.delta.offline import rows
from lakeingest.delta.offline.log import NoTable, OfflineLog, Unreadable, reading
from lakeingest.errors import LakeingestError, StorageUnreachable, UsageError
from lakeingest.kafka.broker import Broker
from lakeingest.kafka.offsets import Reach
from lakeingest.record import Frontier
from lakeingest.spark import s3a

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables

_BACK = 20
"""Commits of the main table among which the pipeline's newest, or a RESTORE, is looked for."""
_PAUSES_S = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Row:
    """What is said of one period: since when it is complete, its rows then, and the main table's version then."""

    since: datetime
    records: int
    version: int


@dataclass(frozen=True)
class Complete:
    """What is said of a pipeline's periods: local start → row; empty where nothing is."""

    rows: Mapping[datetime, Row] = field(default_factory=dict)

    @property
    def newest(self) -> datetime | None:
        return max(self.rows, default=None)

    def of(self, start: datetime) -> Row | None:
        """What is said of a period; None if it is not complete. One that is older than all others is complete, too."""
        if self.newest is None or start > self.newest:
            return None
        return self.rows.get(start) or self.rows[min(self.rows)]

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
    """What is said of the periods, read without Spark.

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
            columns=["period_start", "complete_since", "records", "version"],
            filter=ds.field("pipeline") == config.known_as,
        ).to_pylist()
    return Complete(
        {of.of(row["period_start"]): Row(row["complete_since"], row["records"], row["version"] or 0) for row in found}
    )


def online(tables: PipelineTables) -> tuple[Complete, dict[datetime, int]]:
    """What is said of the periods, and the rows that the main table has of each now, read by Spark.

    Raises:
        StorageUnreachable: a table cannot be read.
    """
    table = tables.completeness
    if table is None:
        return Complete(), {}
    said = Complete({start: Row(*row) for start, row in table.rows().items()})
    return said, table.counts(tables.main, None) if said.rows else {}


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


# To wait -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waiting:
    """What a period waits for.

    Attributes:
        text: in a sentence.
        missing: (topic, partition) → (the first offset not consumed, the one that is to be reached); empty where that
            is not it.
    """

    text: str
    missing: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


class Waiter:
    """Looks whether a period is complete, without Spark.

    Args:
        broker: made when what is missing is asked for first.

    Raises:
        UsageError: the contract has no completeness, or the table is known by a name alone.
    """

    def __init__(self, config: PipelineConfig, storage: Storage, start: datetime, broker: Callable[[], Broker]) -> None:
        self.config, self.storage, self.start = config, storage, start
        self.periods, late = followed(config)
        self.due = self.periods.end(start) + late
        self._broker, self._reach = broker, None

    _reach: Reach | None

    def wait(self, timeout_s: float | None, says: Callable[[str], None]) -> Row | Waiting:
        """Look until the period is complete, or the time is over: what is said of it, or what it waits for.

        Args:
            timeout_s: seconds; None for ever. It is looked once at least.
            says: told what is waited for each time that it is not complete.

        Raises:
            UsageError, StorageUnreachable: the tables cannot be read.
        """
        until, looks = None if timeout_s is None else time.monotonic() + timeout_s, 0
        while True:
            try:
                found = self.look()
                waiting = Waiting("") if found else self.waits_for()
            except StorageUnreachable as failed:
                # Whoever waits for hours does not give up for a store that is away for a minute.
                if not looks:
                    raise
                found, waiting = None, Waiting(failed.what)
            if found is not None:
                return found
            pause_s = _PAUSES_S[min(looks, len(_PAUSES_S) - 1)]
            if until is not None:
                if time.monotonic() >= until:
                    return waiting
                pause_s = min(pause_s, max(0.0, until - time.monotonic()))
            says(waiting.text)
            time.sleep(pause_s)
            looks += 1

    def look(self) -> Row | None:
        """What is said of the period; None while it is not complete.

        Raises:
            UsageError, StorageUnreachable: the table cannot be read.
        """
        s3a.check_listens(self.storage, self.config.paths)
        try:
            row = offline(self.config, self.storage, self.periods).of(self.start)
            return None if row is None or self._restored(row) else row
        except Unreadable as failed:
            raise self._unreadable(failed) from failed

    def _unreadable(self, failed: Unreadable) -> LakeingestError:
        if "is a name" in str(failed):
            return UsageError(
                f"the completeness of {self.config.name!r} cannot be read without Spark: {failed}",
                cure="give the table a path (contract.completeness.table), or ask the catalog's table in SQL",
            )
        return StorageUnreachable(
            f"the completeness of {self.config.name!r} cannot be read: {failed}",
            cure="look at the table, and run again",
        )

    def _restored(self, row: Row) -> bool:
        """Whether somebody restored the main table since that was said, and no run has seen to it yet."""
        try:
            history = self._log.history(_BACK)
        except Unreadable:
            # What is said is the best that is known.
            return False
        return any(entry["operation"] == "RESTORE" and entry["version"] > row.version for entry in history)

    @property
    def _log(self) -> OfflineLog:
        """The main table's, as it is now."""
        return OfflineLog(self.config.table.identifier, self.storage)

    def waits_for(self) -> Waiting:
        """Why the period is not complete."""
        what = f"{self.config.name} {self.periods.text(self.start)}"
        now = datetime.now(UTC)
        if now < self.due:
            return Waiting(f"{what}: its records may come until {self.due:%Y-%m-%d %H:%M:%S} UTC")
        try:
            if self._reach is None:
                self._reach = self._broker().reach(self.due)
            missing = self._reach.missing(self._frontier())
        except Unreadable as failed:
            return Waiting(f"{what}: how far the table is cannot be read: {failed}")
        except LakeingestError as failed:
            return Waiting(f"{what}: what is missing cannot be told: {failed.what}")
        if not missing:
            return Waiting(f"{what}: all its records are committed; the pipeline has not said so yet: does it run?")
        behind = [
            f"{topic}-{partition} is committed up to {begin:,} and has to come to {end:,}"
            for (topic, partition), (begin, end) in sorted(missing.items())
        ]
        more = f" and {len(behind) - 5:,} more partitions" if len(behind) > 5 else ""
        return Waiting(f"{what}: {'; '.join(behind[:5])}{more}", missing)

    def _frontier(self) -> Frontier:
        try:
            return commit_log.of_log(self._log, self.config.known_as, _BACK).frontier
        except NoTable:
            return {}
