"""The shared words: a record's coordinates, the names of its columns, ranges of offsets.

A record is known by its coordinates (topic, partition, offset). Everything that is exact in lakeingest
is exact because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

TOPIC = "_topic"
PARTITION = "_partition"
OFFSET = "_offset"
TIMESTAMP = "_timestamp"
KEY = "_key"
HEADERS = "_headers"
RESCUED = "_rescued"
SCHEMA_ID = "_schema_id"
"""The registry's id of the schema that the value was written with: INT, or STRING where AWS Glue has it."""

RAW_KEY = "_raw_key"
RAW_VALUE = "_raw_value"
RAW_HEADERS = "_raw_headers"
"""The headers as they came, where a step masks some in `HEADERS`."""
RAW_SEQUENCE, RAW_REFUSED_AT = "_raw_sequence", "_raw_refused_at"
"""The batch's number (BIGINT) and time (TIMESTAMP), on each refused record: as literals they would let Spark
compile its code for each batch.
"""
RAW_BYTES = "_raw_bytes"
"""Key and value as bytes, on their way: a table has decoded columns in their place, quarantine keeps them."""

COORDINATES = (TOPIC, PARTITION, OFFSET)
"""What makes a record itself: STRING, INT, BIGINT."""


def coordinates_of(text: str) -> tuple[str, int, int] | None:
    """The coordinates that a text names as topic-partition:offset; None if it names none."""
    place, _, offset = text.rpartition(":")
    topic, _, partition = place.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        return None
    return topic, int(partition), int(offset)


RESERVED = frozenset({TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS, SCHEMA_ID, RESCUED})
"""Columns that lakeingest adds to a table; a declared column may not bear such a name."""

UNDECODED = "_undecoded"
"""Whether key or value could not be decoded, or the record deletes a row: BOOLEAN, never null; what rules ask of a
record is asked of the others.
"""
DELETES = "_raw_deletes"
"""Whether a record deletes the row of its key: BOOLEAN, never null; there where records have a key alone."""
OPERATION = "_op"
"""Column of a table in which deletes are rows: what a record does to the row of its key: `UPSERT` or `DELETE`."""
UPSERT, DELETE = "upsert", "delete"
VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
"""Columns of a table of mode history, TIMESTAMP: a version of a key is valid from the one to before the other, which is
null for the newest.
"""

REFUSED, DROPPED = "_refused", "_dropped"
"""Whether a record is refused, or dropped as declared: BOOLEAN, never null."""

UNKNOWN_SCHEMA = "LAKEINGEST_UNPLANNED "
"""What a running batch fails with when it meets a schema that it was not planned for; it is planned anew then."""


class UnknownSchema(Exception):
    """A batch met `UNKNOWN_SCHEMA`. No error: it never leaves `ingest`."""


class UnreadableTime(Exception):
    """A batch has a record whose time Spark's reader cannot hold; it is read by another. No error: it never leaves
    `ingest`.
    """


_OVERFLOW = ("KafkaRecordToRowConverter", "long overflow")


def replan_reason(failed: Exception) -> UnknownSchema | UnreadableTime | None:
    """Why the batch has to be taken in another way, if that is what a failure of Spark says."""
    text = str(failed)
    if UNKNOWN_SCHEMA in text:
        return UnknownSchema()
    return UnreadableTime() if all(words in text for words in _OVERFLOW) else None


_WITHIN = ("_transform_", "_raw_", "_parsed_", "_key_", "_value_", "_refused", "_dropped", "_undecoded")


def is_reserved(name: str) -> bool:
    """Whether a field of that name would stand in the way of a column of lakeingest's own, in a table or a batch."""
    return name.lower() in RESERVED or name.lower().startswith(_WITHIN)


Frontier = Mapping[tuple[str, int], int]
"""(topic, partition) → the first offset that was not consumed yet."""


@dataclass(frozen=True, order=True)
class OffsetRange:
    """The offsets start ≤ offset < end of one topic-partition. Some may hold no record (see `OffsetRanges.offsets`)."""

    topic: str
    partition: int
    start: int
    end: int


in_order = attrgetter("topic", "partition", "start", "end")
"""The order of ranges, as a key of `sorted`: many times as fast as their comparison."""


@dataclass(frozen=True)
class OffsetRanges:
    """What one micro-batch consumes: a range for each topic-partition, empty ones included.

    As JSON: `{topic: {partition: [start, end]}}`, the form in which every commit carries it.
    """

    ranges: tuple[OffsetRange, ...]

    @classmethod
    def up_to(cls, frontier: Frontier) -> OffsetRanges:
        """All offsets that lie before a frontier."""
        return cls(tuple(OffsetRange(*tp, 0, end) for tp, end in sorted(frontier.items())))

    @classmethod
    def none_at(cls, frontier: Frontier) -> OffsetRanges:
        """No offset: the empty ranges by which a commit that consumes nothing keeps a frontier."""
        return cls(tuple(OffsetRange(*tp, end, end) for tp, end in sorted(frontier.items())))

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self.ranges)

    @property
    def offsets(self) -> int:
        """How many offsets lie within: at least as many as records, as compaction and transactions leave gaps."""
        return sum(s.end - s.start for s in self.ranges)

    @property
    def backwards(self) -> tuple[OffsetRange, ...]:
        """Those whose end lies before their start: no receipt may bear one."""
        return tuple(s for s in self.ranges if s.end < s.start)

    @property
    def merged(self) -> OffsetRanges:
        """The same offsets with as few ranges as can be, none of them empty."""
        ranges, last = list[OffsetRange](), None
        for s in sorted((s for s in self.ranges if s.end > s.start), key=in_order):
            if last and (last.topic, last.partition) == (s.topic, s.partition) and s.start <= last.end:
                last = OffsetRange(s.topic, s.partition, last.start, max(last.end, s.end))
                ranges[-1] = last
            else:
                last = s
                ranges.append(s)
        return OffsetRanges(tuple(ranges))

    def without(self, ranges: OffsetRanges) -> OffsetRanges:
        """These offsets without those of `ranges`, merged."""
        remaining = list[OffsetRange]()
        excluded = ranges.merged.ranges
        for s in self.merged:
            start = s.start
            for other in excluded:
                if (other.topic, other.partition) == (s.topic, s.partition) and other.end > start:
                    if other.start >= s.end:
                        break
                    if other.start > start:
                        remaining.append(replace(s, start=start, end=other.start))
                    start = other.end
            if start < s.end:
                remaining.append(replace(s, start=start))
        return OffsetRanges(tuple(remaining))

    def shared(self, ranges: OffsetRanges) -> OffsetRanges:
        """The offsets that `ranges` has too, merged."""
        return self.without(self.without(ranges))

    def before(self, first: Frontier) -> OffsetRanges:
        """What lies before these offsets, without empty ranges; of a topic-partition that is not named, nothing."""
        cut = (replace(s, end=min(s.end, first.get((s.topic, s.partition), s.start))) for s in self.ranges)
        return OffsetRanges(tuple(s for s in cut if s.end > s.start))

    def since(self, first: Frontier) -> OffsetRanges:
        """What lies at these offsets or behind them, empty ranges included."""
        begin = ((s, first.get((s.topic, s.partition), s.start)) for s in self.ranges)
        return OffsetRanges(tuple(replace(s, start=min(max(s.start, at), s.end)) for s, at in begin))

    def first(self, offsets: int) -> OffsetRanges:
        """The first so many offsets of each span."""
        return OffsetRanges(tuple(replace(s, end=min(s.end, s.start + offsets)) for s in self.ranges))

    @property
    def frontier(self) -> dict[tuple[str, int], int]:
        """Where consumption stands once these ranges are committed."""
        return {(s.topic, s.partition): s.end for s in self.ranges}

    def __str__(self) -> str:
        return ", ".join(f"{s.topic}-{s.partition} offsets {s.start} to {s.end - 1}" for s in sorted(self.ranges))

    def to_json(self) -> dict[str, dict[str, list[int]]]:
        tree: dict[str, dict[str, list[int]]] = {}
        for s in sorted(self.ranges):
            tree.setdefault(s.topic, {})[str(s.partition)] = [s.start, s.end]
        return tree

    @classmethod
    def from_json(cls, tree: Mapping[str, Mapping[str, Any]]) -> OffsetRanges:
        return cls(
            tuple(
                sorted(
                    OffsetRange(topic, int(partition), int(start), int(end))
                    for topic, partitions in tree.items()
                    for partition, (start, end) in partitions.items()
                )
            )
        )


NO_RANGES = OffsetRanges(())


@dataclass(frozen=True)
class Refusal:
    """One reason for which a record may be refused: a pure test, and what to say when it is true.

    Attributes:
        stage: what refuses: key, value, gate, partition.
        when: BOOLEAN over the batch's frame, never null; evaluated for every record.
        diagnosis: makes STRUCT<reason: STRING, message: STRING>, for a batch with refused records, and is evaluated for
            these alone: so it may be dear.
        rules: makes ARRAY<STRING>: the names of the expectations that the record breaks, if a gate refuses.
        withheld: makes the diagnosis where the pipeline masks fields: it names the field and the rule, and no value of
            the record. Where it is None, the reason alone is told.
    """

    stage: str
    when: Column
    diagnosis: Callable[[], Column]
    rules: Callable[[], Column] | None = None
    withheld: Callable[[], Column] | None = None

    @cached_property
    def explanation(self) -> Column:
        """STRUCT<stage: STRING, reason: STRING, message: STRING, rules: ARRAY<STRING>>, null for other records.

        It is made once, for all batches: a tenth of a second of calls into the JVM.
        """
        from pyspark.sql import functions as F

        diagnosis = self.diagnosis()
        rules = self.rules() if self.rules else F.lit(None).cast("array<string>")
        fields = (
            F.lit(self.stage).alias("stage"),
            diagnosis["reason"].alias("reason"),
            diagnosis["message"].alias("message"),
        )
        return F.when(self.when, F.struct(*fields, rules.alias("rules")))


def count_where(condition: Column) -> Column:
    """BIGINT: how many rows meet a condition. Spark makes a column, which each row carries, of one in `count_if`."""
    from pyspark.sql import functions as F

    return F.count(F.when(condition, F.lit(1)))


def diagnosis(reason: str, message: Column) -> Column:
    """A refusal's diagnosis."""
    from pyspark.sql import functions as F

    return F.struct(F.lit(reason).alias("reason"), message.alias("message"))
