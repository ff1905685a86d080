"""The rows that came to a table between two of its versions, by the coordinates of their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F

from lakeingest.record import COORDINATES, OFFSET
from lakeingest.schema import ddl
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakeingest.delta.table import Table

_RANGES = 50
"""Ranges of offsets that are asked for at once: each is a condition that Delta holds against every file."""
_SHAPE = "add STRUCT<path: STRING, size: BIGINT, stats: STRING>"
_STATS = f"numRecords BIGINT, minValues STRUCT<{OFFSET}: BIGINT>, maxValues STRUCT<{OFFSET}: BIGINT>"


@dataclass(frozen=True)
class Additions:
    """What commits added to a table; a compaction's files are among it, too.

    Attributes:
        files, bytes: the data files.
        offsets: the first and the last offset of these files' rows, as few ranges that hold them all; None where the
            statistics of one do not tell.
        names: of these files, without their folders.
    """

    files: int
    bytes: int
    offsets: tuple[tuple[int, int], ...] | None
    names: tuple[str, ...] = ()


def added(table: Table, since: int, until: int) -> Additions:
    """What the commits behind one version added, up to another one.

    Raises:
        StorageUnreachable, TableChanged: the log cannot be read.
    """
    commits = [f"{table.location}/_delta_log/{version:020}.json" for version in range(since + 1, until + 1)]
    if not commits:
        return Additions(0, 0, ())
    stats = F.from_json("add.stats", _STATS)
    ends = [stats.getField(name).getField(OFFSET) for name in ("minValues", "maxValues")]
    with storage_failures(table.identifier):
        actions = table.spark.read.schema(_SHAPE).json(commits).where("add IS NOT NULL")
        files = [tuple(row) for row in actions.select("add.path", "add.size", *ends).collect()]
    extents = [(first, last) for _, _, first, last in files if first is not None and last is not None]
    offsets = merged(extents, _RANGES) if len(extents) == len(files) else None
    names = tuple(unquote(path.rpartition("/")[2]) for path, *_ in files)
    return Additions(len(files), sum(size or 0 for _, size, *_ in files), offsets, names)


def of_commit(table: Table, version: int) -> DataFrame:
    """The rows that one commit added, as its version of the table has them.

    Raises:
        UsageError: the table has no such version any more.
        StorageUnreachable, TableChanged: the log cannot be read.
    """
    of = added(table, version - 1, version)
    return table.existing(version).where(_within(of.offsets)).where(F.col("_metadata.file_name").isin(*of.names))


def merged(ranges: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """Ranges (first, last) that hold all of these, in their order: `most` of them, where the widest gaps are."""
    apart = list[tuple[int, int]]()
    for first, last in sorted(ranges):
        if apart and first <= apart[-1][1] + 1:
            apart[-1] = (apart[-1][0], max(apart[-1][1], last))
        else:
            apart.append((first, last))
    gaps = sorted(range(1, len(apart)), key=lambda at: apart[at][0] - apart[at - 1][1], reverse=True)
    begins = [0, *sorted(gaps[: most - 1])]
    ends = [*begins[1:], len(apart)]
    return tuple((apart[begin][0], apart[end - 1][1]) for begin, end in zip(begins, ends, strict=True) if apart)


def rows(table: Table, since: int | None, until: int, offsets: tuple[tuple[int, int], ...] | None) -> DataFrame:
    """The rows that a version has of records of which another version has none.

    So a compaction, an UPDATE and a file that was written anew add nothing. Rows without coordinates are no records.

    Args:
        since: the older version; None for all rows.
        offsets: as `added` tells it. It only bounds which files are opened.

    Raises:
        UsageError: there is no table yet, or it has no such version any more.
    """
    whole = F.lit(True)
    for name in COORDINATES:
        whole = whole & F.col(name).isNotNull()
    condition = whole & _within(offsets)
    new = table.existing(until).where(condition)
    if since is None:
        return new
    old = table.existing(since).where(condition).select(*COORDINATES)
    return new.join(old, list(COORDINATES), "left_anti").select(*map(ddl.quoted, new.columns))


def _within(offsets: tuple[tuple[int, int], ...] | None) -> Column:
    if offsets is None:
        return F.lit(True)
    condition = F.lit(False)
    for first, last in offsets:
        condition = condition | F.col(OFFSET).between(first, last)
    return condition
