"""The offsets of the next micro-batch: pure arithmetic of the broker's offsets and the table's frontier.

lakeingest names the offsets of a batch itself, starting at the frontier of the Delta log. There is no checkpoint that
could be lost, stale or another pipeline's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeingest.config import Source
from lakeingest.errors import OffsetsLost, SourceChanged, UsageError
from lakeingest.record import Frontier, OffsetRange, OffsetRanges


@dataclass(frozen=True)
class Topics:
    """The broker's description of the topics at one moment.

    Attributes:
        cluster: id of the Kafka cluster.
        ids: topic → topic id, "" where the cluster gives none; a topic that is deleted and made again has another one.
        first, last: (topic, partition) → first offset kept, and one past the last committed record.
        read_from: where it is a table that says it, instead of Kafka: table and version.
    """

    cluster: str
    ids: Mapping[str, str]
    first: Frontier
    last: Frontier
    read_from: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reach:
    """The offsets to reach so that nothing is missing before a moment of Kafka's time.

    Attributes:
        targets: (topic, partition) → the offset of its first record that is as late as the moment; of its end, as it
            was when the moment was over, where there is none.
        first: (topic, partition) → first offset kept.
    """

    targets: Frontier
    first: Frontier

    def missing(self, frontier: Frontier) -> dict[tuple[str, int], tuple[int, int]]:
        """Partitions behind: (topic, partition) → (the first offset not consumed, the offset to reach)."""
        stands = {tp: frontier.get(tp, self.first[tp]) for tp in self.targets}
        return {tp: (stands[tp], target) for tp, target in self.targets.items() if stands[tp] < target}


def reach(
    first: Frontier,
    last: Frontier,
    offsets: Mapping[tuple[str, int], tuple[int, datetime]],
    moment: datetime,
    now: datetime,
) -> Reach:
    """The offsets to reach for a moment that is over.

    A record whose timestamp is still to come proves nothing: a clock that is wrong by years would else stand for all
    the records behind it.

    Args:
        first, last: first offsets kept; ends, open transactions included.
        offsets: the first offset with a time as late as the moment, and the timestamp of the first record from there
            on; without partitions that have none. Where that record is earlier, the offset is a marker's, and the
            record to be found lies somewhere behind.
        moment: the one that is over.
        now: before Kafka was asked.
    """
    early = {tp: offset for tp, (offset, at) in offsets.items() if moment <= at <= now}
    return Reach({tp: min(end, early.get(tp, end)) for tp, end in last.items()}, first)


def topic_id(text: str | None) -> str:
    """A topic's id; "" for none, and for the one of zeros that stands for none (KIP-516)."""
    return text if text and text.strip("A=") else ""


def starts(source: Source, topics: Topics, frontier: Frontier) -> dict[tuple[str, int], int]:
    """The next offset of each topic-partition: its frontier, or as `source.start` says if its topic is new.

    A new partition of a topic that is known begins at its first offset, whatever `source.start` says.

    Raises:
        OffsetsLost: the frontier lies before the first offset that the broker still has.
        SourceChanged: the frontier lies after the last one, as it does when a topic was made anew.
        UsageError: Kafka does not hold the offset where source.start lets it begin.
    """
    consumed_topics = {topic for topic, _ in frontier}
    begin = {}
    for tp, last in topics.last.items():
        first = topics.first[tp]
        begin[tp] = (
            frontier[tp] if tp in frontier else _fresh(source, tp, first, last, is_new=tp[0] not in consumed_topics)
        )
        if begin[tp] < first:
            raise OffsetsLost(
                f"{tp[0]}-{tp[1]}: offsets {begin[tp]} to {first - 1} were never read, and Kafka no longer has them",
                cure="run once with --accept-gap to go on behind them (its commit and `audit` will name them), or "
                "begin a new table under another pipeline name; make the topic's retention longer than any stop",
            )
        if begin[tp] > last and topics.read_from:
            raise SourceChanged(
                f"{tp[0]}-{tp[1]}: the table was fed up to offset {begin[tp]}, but {topics.read_from['table']} ends at "
                f"{last}: somebody has restored it, or this table was fed from Kafka meanwhile",
                cure="run the pipeline of that table until it is caught up, then this one: nothing is taken twice",
            )
        if begin[tp] > last:
            raise SourceChanged(
                f"{tp[0]}-{tp[1]}: the table was fed up to offset {begin[tp]}, but the topic ends at {last}",
                cure="the topic was made anew or the cluster is another one: give the pipeline a new name and table",
            )
    return begin


def _fresh(source: Source, tp: tuple[str, int], first: int, last: int, *, is_new: bool) -> int:
    """The first offset of a topic-partition that the table has never seen."""
    if not is_new or source.start == "earliest":
        return first
    if source.start == "latest":
        return last
    topic, partition = tp
    offset = source.start.get(topic, {}).get(partition, first)
    if not first <= offset <= last:
        raise UsageError(
            f"source.start lets {topic}-{partition} begin at offset {offset:,}, and Kafka holds {first:,} to {last:,}",
            cure=f"write an offset that is there, or leave partition {partition} out to begin at {first:,}",
        )
    return offset


def gaps(topics: Topics, frontier: Frontier) -> OffsetRanges:
    """The offsets beyond the frontier that the broker no longer has."""
    lost = ((tp, end, topics.first.get(tp, end)) for tp, end in sorted(frontier.items()))
    return OffsetRanges(tuple(OffsetRange(*tp, end, first) for tp, end, first in lost if end < first))


def next_ranges(begin: Frontier, end: Frontier, max_records: int) -> OffsetRanges:
    """The next micro-batch: at most `max_records` offsets, shared out in proportion to each partition's backlog.

    Partitions without new records keep an empty range, so that the ranges always hold the whole frontier. So do those
    that are beyond `end`: another run may have committed more than this one set out for.
    """
    backlog = {tp: max(0, end.get(tp, start) - start) for tp, start in begin.items()}
    total = sum(backlog.values())
    room = min(total, max_records)
    ranges, before, running = [], 0, 0
    for (topic, partition), start in sorted(begin.items()):
        # Rounding the running sum, not each share, gives out exactly `room` in the end.
        running += backlog[topic, partition]
        upto = room * running // total if total else 0
        ranges.append(OffsetRange(topic, partition, start, start + upto - before))
        before = upto
    return OffsetRanges(tuple(ranges))


def lag(frontier: Frontier, last: Frontier) -> int:
    """The number of offsets that Kafka holds beyond the frontier."""
    return sum(end - frontier.get(tp, 0) for tp, end in last.items())
