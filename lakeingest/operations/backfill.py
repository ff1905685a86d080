"""Brings what lies behind a pipeline into its tables: history before its start, accepted gaps, a new topic's past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakeingest.delta.receipt import Counts, of_backfill
from lakeingest.errors import OffsetsLost, UsageError
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.job import Logs
from lakeingest.ingest.jobs import backfill
from lakeingest.ingest.jobs.backfill import BackfillJob
from lakeingest.ingest.loop import Loop
from lakeingest.ingest.source import RecordSource
from lakeingest.kafka.offsets import Topics
from lakeingest.operations.results.backfill import Backfilled
from lakeingest.record import NO_RANGES, Frontier, OffsetRange, OffsetRanges, coordinates_of

EARLIEST = "earliest"
Words = str | datetime | Sequence[str] | None
"""What names an edge: a time, `earliest`, or offsets of some partitions; None for as far as there is anything."""


@dataclass(frozen=True)
class Edge:
    """Where a backfill begins, or ends: at a time, or at offsets of some partitions, or as far as there is anything.

    Attributes:
        time: aware.
    """

    time: datetime | None = None
    offsets: Frontier = field(default_factory=dict)

    @classmethod
    def of(cls, option: str, words: Words, now: datetime) -> Edge:
        """
        Raises:
            UsageError: they name nothing, a partition twice, or a time that is still to come.
        """
        if isinstance(words, datetime):
            return cls(_past(option, words, now))
        texts = [words] if isinstance(words, str) else words
        if not texts or (option == "--from" and [*texts] == [EARLIEST]):
            return cls()
        places = [place for place in map(coordinates_of, texts) if place is not None]
        offsets = {(topic, partition): offset for topic, partition, offset in places}
        if len(offsets) == len(texts):
            return cls(offsets=offsets)
        if len(texts) > 1:
            raise _unreadable(option, ", ".join(texts))
        return cls(_past(option, _time(option, texts[0]), now))

    def offset(self, tp: tuple[str, int], at: Mapping[datetime, Frontier], otherwise: int) -> int:
        """Where it is in a partition; `at` says what its time is in offsets."""
        if tp in self.offsets:
            return self.offsets[tp]
        return at[self.time][tp] if self.time is not None else otherwise


@dataclass(frozen=True)
class Interval:
    """What is asked for: from one edge, up to and without another.

    Attributes:
        since, until: where either names partitions, the others are left out.
    """

    since: Edge
    until: Edge

    @classmethod
    def of(cls, since: Words, until: Words, now: datetime) -> Interval:
        """
        Raises:
            UsageError: see `Edge.of`; or the end lies before the beginning.
        """
        interval = cls(Edge.of("--from", since, now), Edge.of("--to", until, now))
        begin, end = interval.since.time, interval.until.time
        if begin is not None and end is not None and end < begin:
            raise _backwards(begin.isoformat(), end.isoformat())
        return interval

    @property
    def times(self) -> tuple[datetime, ...]:
        return tuple(edge.time for edge in (self.since, self.until) if edge.time is not None)

    def ranges(self, frontier: Frontier, topics: Topics, at: Mapping[datetime, Frontier]) -> OffsetRanges:
        """The offsets that are asked for, none of them behind the frontier.

        Args:
            frontier: the pipeline's; it has no partition that the pipeline has not begun.
            at: what `times` are in offsets.

        Raises:
            UsageError: a topic or a partition is not the pipeline's, or an offset is not there yet, or the pipeline's
                own to take; or the end lies before the beginning.
            OffsetsLost: Kafka begins behind the end.
        """
        edges = [*self.since.offsets.items(), *self.until.offsets.items()]
        for tp, offset in edges:
            _check_offset(tp, offset, frontier, topics)
        ranges_asked = list[OffsetRange]()
        for tp in sorted({tp for tp, _ in edges} or frontier.keys() & topics.last.keys()):
            start = self.since.offset(tp, at, topics.first[tp])
            end = min(frontier[tp], self.until.offset(tp, at, frontier[tp]))
            if end < start and tp in self.until.offsets and self.since == Edge():
                raise OffsetsLost(
                    f"Kafka no longer has {tp[0]}-{tp[1]} before offset {end}: it begins at {start}",
                    cure="name a later end, or leave the partition out",
                )
            if end < start and (tp in self.since.offsets or tp in self.until.offsets):
                raise _backwards(f"{tp[0]}-{tp[1]}:{start}", f"{tp[0]}-{tp[1]}:{end}")
            ranges_asked.append(OffsetRange(*tp, start, max(start, end)))
        return OffsetRanges(tuple(ranges_asked))


def _check_offset(tp: tuple[str, int], offset: int, frontier: Frontier, topics: Topics) -> None:
    """
    Raises:
        UsageError: the offset cannot be an edge.
    """
    topic, partition = tp
    if topic not in topics.ids:
        raise UsageError(f"{topic!r} is no topic of the pipeline", cure=f"name one of {', '.join(topics.ids)}")
    if tp not in topics.last:
        count = sum(each == topic for each, _ in topics.last)
        raise UsageError(f"{topic} has no partition {partition}", cure=f"it has {count}; the first one is 0")
    if offset > topics.last[tp]:
        raise UsageError(
            f"{topic}-{partition} ends at offset {topics.last[tp]}: {offset} is still to come",
            cure="name an offset that is there",
        )
    if tp not in frontier:
        raise UsageError(
            f"the pipeline has not begun {topic}-{partition} yet: nothing lies behind it there",
            cure="run the pipeline first (`lakeingest run FILE --until-caught-up`), which begins it",
        )
    if offset > frontier[tp]:
        raise UsageError(
            f"{topic}-{partition}: the pipeline stands at offset {frontier[tp]}, and takes what follows itself",
            cure=f"name an offset up to {frontier[tp]}; run the pipeline for what follows",
        )


def _time(option: str, word: str) -> datetime:
    try:
        return datetime.fromisoformat(word.strip())
    except ValueError:
        raise _unreadable(option, word) from None


def _past(option: str, time: datetime, now: datetime) -> datetime:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if aware > now:
        raise UsageError(
            f"{option} {aware.isoformat()} is still to come", cure="name a time that is over, or leave the option out"
        )
    return aware


def _unreadable(option: str, text: str) -> UsageError:
    earliest = f"{EARLIEST}, " if option == "--from" else ""
    return UsageError(
        f"{option} {text!r} names no place in Kafka",
        cure=f"write a time, as in 2026-11-01 or 2026-11-01T06:00+01:00 (in UTC unless it has a zone), {earliest}"
        f"or an offset of each partition once, as in {option} flights-0:1500 {option} flights-1:1480",
    )


def _backwards(begin: str, end: str) -> UsageError:
    return UsageError(f"--to {end} lies before --from {begin}", cure="name an end that lies behind the beginning")


def plan(context: RunContext, interval: Interval, rate: float | None) -> Backfilled:
    """What a backfill would take; writes nothing."""
    tables, topics = context.tables, context.source.topics()
    for table in (tables.main, tables.quarantine):
        table.existing()
    logs = Logs.of_others(tables, of_backfill(context.config.known_as))
    rest = backfill.remaining(context, logs, topics, request(context.source, interval))
    count, _ = backfill.existing_records(tables, rest)
    return Backfilled(context.config.name, _listed(rest), count, Counts(), 0, rest.offsets, dry_run=True, rate=rate)


def run(loop: Loop, job: BackfillJob) -> Backfilled:
    """See `Pipeline.backfill`."""
    counts, name = loop.run(), job.context.config.name
    return Backfilled(name, _listed(job.goal or NO_RANGES), job.existing, counts, job.commits, job.rest.offsets)


def request(source: RecordSource, interval: Interval) -> backfill.Request:
    """Lets Kafka say what the times are in offsets, when the tables' logs were read."""

    def ranges(frontier: Frontier, topics: Topics) -> OffsetRanges:
        if not frontier:
            raise UsageError(
                "the pipeline has committed nothing yet: nothing lies behind it",
                cure="run it first (`lakeingest run FILE --until-caught-up`); source.start says where it begins",
            )
        return interval.ranges(frontier, topics, {time: source.reach(time).targets for time in interval.times})

    return ranges


def _listed(ranges: OffsetRanges) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"topic": s.topic, "partition": s.partition, "start": s.start, "end": s.end, "offsets": s.end - s.start}
        for s in ranges.merged
    )
