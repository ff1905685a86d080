"""Waits until a period of a pipeline's table is complete, or the table holds a database's log up to a place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakeingest.config import PipelineConfig, Storage
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.reader.log import ReadFailed
from lakeingest.errors import LakeingestError, SourceUnreachable, StorageUnreachable, UsageError
from lakeingest.ingest import endpoints
from lakeingest.kafka.broker import Broker
from lakeingest.kafka.offsets import Reach
from lakeingest.operations import completeness, database_position
from lakeingest.operations.completeness import Complete, Row
from lakeingest.operations.readers import PipelineReader, answer
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.operations.results.wait import Completion, PositionWait

if TYPE_CHECKING:
    from lakeingest.delta.pipeline_tables import PipelineTables

State = TypeVar("State")

_PAUSES_S = (1.0, 2.0, 5.0, 10.0)


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


def wait(config: PipelineConfig, period: str, timeout_s: float | None, says: Callable[[str], None]) -> Completion:
    """Wait until a period is complete, or the time is over.

    Args:
        period: as in 2026-11-23T14, in the time zone of the table's partition.
        timeout_s, says: see `until_reached`.

    Raises:
        UsageError: there is no such period, or the contract has no completeness.
        SetupError, StorageError: the tables cannot be read.
    """
    periods, _ = completeness.followed(config)
    try:
        start = periods.read(period)
    except ValueError as error:
        raise UsageError(f'--complete "{period}": {error}', cure="name a period of the table's partition") from None
    began, access = time.monotonic(), _Access(config)
    waiter = Waiter(config, access.storage, start, lambda: access.broker, lambda: access.tables)
    end = until_reached(waiter.look, timeout_s, says)
    state: dict[str, Any] = {"complete_since": end.since} if isinstance(end, Row) else {"waits_for": end.text}
    if isinstance(end, Waiting):
        state["missing"] = tuple(
            {"topic": topic, "partition": partition, "frontier": frontier, "needed": needed}
            for (topic, partition), (frontier, needed) in sorted(end.missing.items())
        )
    return Completion(
        pipeline=config.name,
        period=periods.text(start),
        timezone=periods.part.timezone,
        period_start=periods.begin(start).isoformat(),
        period_end=periods.end(start).isoformat(),
        waited_s=round(time.monotonic() - began, 1),
        **state,
    )


def wait_for_position(
    config: PipelineConfig, position: str, timeout_s: float | None, says: Callable[[str], None]
) -> PositionWait:
    """Wait until the table holds everything up to a place in the database's log, or the time is over.

    Args:
        position: as `database_position.parse` reads it.
        timeout_s, says: see `until_reached`.

    Raises:
        UsageError: it is no such place, or the records are no change events.
        SetupError, SourceError, StorageError: the tables, or Kafka, cannot be read.
    """
    database_position.check_known(config)
    target, access, began = database_position.parse(position), _Access(config), time.monotonic()

    def look() -> LogPosition | Waiting:
        topics = access.broker.topics()
        state = answer(access, partial(database_position.of_topics, topics=topics))
        return state if state.reaches(target) else Waiting(f"{config.name} {position}: {state.text}")

    end = until_reached(look, timeout_s, says)
    return PositionWait(
        pipeline=config.name,
        target=position,
        waited_s=round(time.monotonic() - began, 1),
        position=end if isinstance(end, LogPosition) else None,
        waits_for=end.text if isinstance(end, Waiting) else "",
    )


def until_reached(
    look: Callable[[], State | Waiting], timeout_s: float | None, says: Callable[[str], None]
) -> State | Waiting:
    """Look until there is nothing to wait for any more, or the time is over: what is seen then.

    Args:
        look: sees what is waited for, or what it waits for.
        timeout_s: seconds; None for ever. It is looked once at least.
        says: told what is waited for each time.

    Raises:
        SetupError, StorageError: the tables cannot be read.
    """
    end_s, looks = None if timeout_s is None else time.monotonic() + timeout_s, 0
    while True:
        try:
            state = look()
        except (StorageUnreachable, SourceUnreachable) as failed:
            # Whoever waits for hours does not give up for a store that is away for a minute.
            if not looks:
                raise
            state = Waiting(failed.what)
        if not isinstance(state, Waiting):
            return state
        pause_s = _PAUSES_S[min(looks, len(_PAUSES_S) - 1)]
        if end_s is not None:
            if time.monotonic() >= end_s:
                return state
            pause_s = min(pause_s, max(0.0, end_s - time.monotonic()))
        says(state.text)
        time.sleep(pause_s)
        looks += 1


@dataclass(frozen=True)
class _Access:
    """Where the tables and the records are; each is asked for when it is needed first."""

    config: PipelineConfig

    @cached_property
    def storage(self) -> Storage:
        return endpoints.storage(self.config)

    @cached_property
    def broker(self) -> Broker:
        return Broker(self.config.source, endpoints.addresses(self.config)[0])

    @cached_property
    def tables(self) -> PipelineTables:
        from lakeingest.delta.pipeline_tables import PipelineTables
        from lakeingest.spark import session

        config = self.config
        return PipelineTables(session.attach(self.storage, config.name, config.paths, config.names), config)


class Waiter:
    """Looks whether a period is complete: without Spark, where the tables can be read so.

    Args:
        broker: made when what is missing is asked for first.
        tables: made when Spark is needed first, as for tables that only a catalog knows.

    Raises:
        UsageError: the contract has no completeness.
    """

    def __init__(
        self,
        config: PipelineConfig,
        storage: Storage,
        start: datetime,
        broker: Callable[[], Broker],
        tables: Callable[[], PipelineTables],
    ) -> None:
        self.config, self.storage, self.start = config, storage, start
        self.periods, late = completeness.followed(config)
        self.due = self.periods.end(start) + late
        self._broker, self._tables, self._reach = broker, tables, None

    _reach: Reach | None

    def look(self) -> Row | Waiting:
        """What is said of the period, or what it waits for.

        Raises:
            SetupError, StorageError: the tables cannot be read.
        """
        complete, log = answer(self, _look)
        return complete.standing(log).of(self.start) or self._waits_for(log)

    @property
    def tables(self) -> PipelineTables:
        """Both tables, by Spark."""
        return self._tables()

    def _waits_for(self, log: CommitLog) -> Waiting:
        """Why the period is not complete."""
        period = f"{self.config.name} {self.periods.text(self.start)}"
        now = datetime.now(UTC)
        if now < self.due:
            return Waiting(f"{period}: its records may come until {self.due:%Y-%m-%d %H:%M:%S} UTC")
        try:
            if self._reach is None:
                self._reach = self._broker().reach(self.due)
        except LakeingestError as failed:
            return Waiting(f"{period}: what is missing cannot be told: {failed.what}")
        missing = self._reach.missing(log.frontier)
        if not missing:
            return Waiting(f"{period}: all its records are committed; the pipeline has not said so yet: does it run?")
        behind = [
            f"{topic}-{partition} is committed up to {begin:,} and has to come to {end:,}"
            for (topic, partition), (begin, end) in sorted(missing.items())
        ]
        more = f" and {len(behind) - 5:,} more partitions" if len(behind) > 5 else ""
        return Waiting(f"{period}: {'; '.join(behind[:5])}{more}", missing)


def _look(reader: PipelineReader) -> tuple[Complete, CommitLog]:
    try:
        return completeness.declared(reader), reader.standing()
    except ReadFailed as failed:
        # Spark would fail alike, and it may pass.
        raise StorageUnreachable(
            f"the completeness of {reader.config.name!r} cannot be read: {failed}",
            cure="look at the table, and run again",
        ) from failed
