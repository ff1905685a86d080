"""Rows by the coordinates of their records: topic, partition, offset. Delta's statistics leave out other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC, Frontier, OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = f"{TOPIC} STRING, {PARTITION} INT, {OFFSET} BIGINT"
"""The coordinates as DDL."""


def of(rows: DataFrame, ranges: OffsetRanges) -> DataFrame:
    """The coordinates of the rows within `ranges`: _topic STRING, _partition INT, _offset BIGINT."""
    return within(rows, ranges).select(*COORDINATES)


def within(rows: DataFrame, ranges: OffsetRanges) -> DataFrame:
    """The rows whose coordinates lie within `ranges`."""
    return rows.where(inside(ranges))


def inside(ranges: OffsetRanges) -> Column:
    """BOOLEAN: whether a row's coordinates lie within `ranges`."""
    condition = F.lit(False)
    for r in ranges:
        if r.end > r.start:
            offsets = (F.col(OFFSET) >= r.start) & (F.col(OFFSET) < r.end)
            condition = condition | ((F.col(TOPIC) == r.topic) & (F.col(PARTITION) == r.partition) & offsets)
    return condition


def not_before(frontier: Frontier) -> Column:
    """BOOLEAN: whether a row's coordinates lie at the frontier, or further on; false for other partitions."""
    condition = F.lit(False)
    for (topic, partition), end in frontier.items():
        condition = condition | ((F.col(TOPIC) == topic) & (F.col(PARTITION) == partition) & (F.col(OFFSET) >= end))
    return condition


def extent(rows: DataFrame) -> OffsetRanges:
    """The offsets from the first to the last of the rows, partition by partition."""
    ends = rows.groupBy(TOPIC, PARTITION).agg(F.min(OFFSET), F.max(OFFSET) + 1).collect()
    return OffsetRanges(tuple(OffsetRange(*row) for row in ends))
