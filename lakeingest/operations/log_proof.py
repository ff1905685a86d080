"""Which rows a table has, told by its log alone, as far as that is certain: no file is opened.

What a batch wrote is known for certain where the sums that its receipts have are those of its offsets without those of
its rows in quarantine: then these are the coordinates of its rows. The log says which files have all rows of such
batches and no others (see `delta.reader.lineage`). What the log cannot say is whether a file is still what was written:
its size is looked up, and its contents are believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeingest.delta import range_sums
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.reader import lineage
from lakeingest.delta.reader.contract import Condition
from lakeingest.delta.reader.lineage import RowGroup
from lakeingest.operations import batch_sums
from lakeingest.operations.batch_sums import Summed
from lakeingest.operations.readers import PipelineReader
from lakeingest.record import COORDINATES, NO_RANGES, TOPIC, OffsetRange, OffsetRanges

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeingest.delta.reader.log import DataFile


@dataclass(frozen=True)
class LogProof:
    """What the log tells of the rows of a table.

    Attributes:
        ranges: the coordinates of the rows in the files that need not be read.
        files: how many these are.
        rest: the other files; None for all, as Spark has no list of them.
        summed: the batches whose sums are known.
        batches: versions of the commits whose sums are right, of what they brought to quarantine too.
        replaced: files that are not in the store as the log has them: what a report says of each.
    """

    summed: Sequence[Summed]
    ranges: OffsetRanges = NO_RANGES
    files: int = 0
    rest: Sequence[DataFile] | None = None
    batches: Collection[int] = ()
    replaced: tuple[str, ...] = ()

    @property
    def runs(self) -> pa.Table:
        """The ranges as `delta.reader.runs` has them."""
        import pyarrow as pa

        names, kinds = (*COORDINATES[:2], "low", "high"), (pa.string(), pa.int32(), pa.int64(), pa.int64())
        rows = [dict(zip(names, (s.topic, s.partition, s.start, s.end), strict=True)) for s in self.ranges]
        return pa.Table.from_pylist(rows, pa.schema([*zip(names, kinds, strict=True)]))

    @classmethod
    def none(cls, log: CommitLog, refused: CommitLog) -> LogProof:
        """It tells nothing: all files have to be read. For the arguments see `of`."""
        return cls(batch_sums.with_sums(log, refused))


def of(
    reader: PipelineReader, log: CommitLog, refused: CommitLog, *, proved: Collection[int] = frozenset()
) -> LogProof:
    """What the log tells of the rows of the pipeline's table.

    Args:
        log, refused: what the pipeline, and its backfills, committed to the table and to quarantine.
        proved: versions of commits whose receipts' sums are known to be those of their offsets.

    Raises:
        Unreadable, StorageUnreachable: a log, or quarantine, cannot be read.
    """
    groups = reader.main.row_groups()
    if groups is None:
        return LogProof.none(log, refused)
    summed = batch_sums.with_sums(log, refused)
    batches = _proved_batches(reader, summed, proved)
    certain = [group for group in groups if _is_proved(group, batches)]
    sizes = reader.main.replaced([file for group in certain for file in group.files])
    # Whoever reads a file that is gone says so.
    certain = [group for group in certain if not any(sizes.get(file.path, 0) is None for file in group.files)]
    files = {file.path: file for group in certain for file in group.files}
    versions = frozenset[int]().union(*(group.versions for group in certain))
    return LogProof(
        summed,
        OffsetRanges(tuple(s for version in versions for s in batches[version])).merged,
        len(files),
        [file for group in groups for file in group.files if file.path not in files],
        batches,
        tuple(
            f"{files[path].path} has {size:,} bytes, and the log says {files[path].size:,}: it was replaced"
            for path, size in sizes.items()
            if path in files
        ),
    )


def _is_proved(group: RowGroup, batches: Mapping[int, OffsetRanges]) -> bool:
    if not group.is_exact or not all(version in batches for version in group.versions):
        return False
    return lineage.rows(group.files) == sum(batches[version].offsets for version in group.versions)


def _proved_batches(
    reader: PipelineReader, batches: Sequence[Summed], proved: Collection[int]
) -> dict[int, OffsetRanges]:
    """Version of a batch's commit → the coordinates of its rows, where the sums prove them."""
    in_quarantine = _Runs()
    if any(batch.quarantine.rows for batch in batches):
        topics = sorted({s.topic for batch in batches for s in batch.commit.receipt.ranges})
        # Those that a replay has moved, too: the batch brought them to quarantine.
        where: list[Condition] = [(TOPIC, "in", topics), ("pipeline", "=", reader.config.known_as)]
        in_quarantine = _Runs.of(reader.quarantine.runs(where))
    each = [(batch, *in_quarantine.divide(batch.commit.receipt.ranges)) for batch in batches]
    likely = [
        (batch, rows, refusals)
        for batch, rows, refusals in each
        if (rows.offsets, refusals.offsets) == (batch.table.rows, batch.quarantine.rows)
    ]
    new = [batch.commit for batch, *_ in likely if batch.commit.version not in proved]
    of_offsets = range_sums.of([commit.receipt.ranges for commit in new])
    sums = {commit.version: each for commit, each in zip(new, of_offsets, strict=True)}
    # What is left of a batch's offsets without its refusals has the sums that are left.
    return {
        batch.commit.version: rows
        for (batch, rows, _), of_refusals in zip(likely, range_sums.of([each[2] for each in likely]), strict=True)
        if of_refusals == batch.quarantine and sums.get(batch.commit.version, batch.committed) == batch.committed
    }


@dataclass(frozen=True)
class _Runs:
    """Runs of offsets: (topic, partition) → first offsets, and those one past the last, in order; none overlap."""

    by_partition: Mapping[tuple[str, int], tuple[list[int], list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: pa.Table) -> _Runs:
        by_partition = defaultdict[tuple[str, int], tuple[list[int], list[int]]](lambda: ([], []))
        for s in OffsetRanges(tuple(OffsetRange(*row.values()) for row in runs.to_pylist())).merged:
            starts, ends = by_partition[s.topic, s.partition]
            starts.append(s.start)
            ends.append(s.end)
        return cls(by_partition)

    def divide(self, ranges: OffsetRanges) -> tuple[OffsetRanges, OffsetRanges]:
        """What of these offsets lies in none of the runs, and what in one."""
        outside, inside = list[OffsetRange](), list[OffsetRange]()
        for s in ranges:
            starts, ends = self.by_partition.get((s.topic, s.partition), ([], []))
            begin, at = s.start, bisect_right(ends, s.start)
            while at < len(starts) and starts[at] < s.end:
                low, high = max(begin, starts[at]), min(ends[at], s.end)
                outside.append(OffsetRange(s.topic, s.partition, begin, low))
                inside.append(OffsetRange(s.topic, s.partition, low, high))
                begin, at = high, at + 1
            outside.append(OffsetRange(s.topic, s.partition, begin, s.end))
        return OffsetRanges(tuple(outside)), OffsetRanges(tuple(inside))
