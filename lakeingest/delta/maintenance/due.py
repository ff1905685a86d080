"""Which files of a table a compaction is to rewrite, as its log tells: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeingest.config import PipelineConfig, TimePartition
from lakeingest.delta.maintenance.inventory import Inventory
from lakeingest.delta.reader.log import DataFile
from lakeingest.schema import ddl

Partition = tuple[tuple[str, str | None], ...]
"""The values of a partition's columns, as texts."""


@dataclass(frozen=True)
class CompactionRule:
    """When a partition is due.

    Attributes:
        target: about how large the new files become, in bytes.
        finished_before: the time, in milliseconds since 1970, since which no file may have come to a partition; None
            where partitions are never finished.
        whole: whether all files of a partition are written anew, for their rows get an order.
    """

    target: int
    finished_before: int | None = None
    whole: bool = False

    @classmethod
    def of_main(cls, config: PipelineConfig, inventory: Inventory, now: datetime) -> CompactionRule:
        """What a pipeline file says of its main table."""
        compact = config.maintenance.compact
        by_time = any(isinstance(part, TimePartition) for part in config.partition)
        finished_before = int((now - compact.after).timestamp() * 1000) if by_time else None
        return cls(compact.target, finished_before, inventory.is_clustered or bool(compact.order_by))


@dataclass(frozen=True)
class DuePartition:
    """A partition that is due, or a whole table that has no partitions: one commit.

    Attributes:
        values: those of its columns; empty where the table has none.
        removed, added: files that are read and left behind, and files that take their place.
        bytes: of the files that are read.
    """

    values: Partition
    removed: int
    added: int
    bytes: int

    @property
    def where(self) -> str:
        """What holds of its partition columns, in Spark SQL; empty for a whole table."""
        return " AND ".join(
            f"{ddl.quoted(name)} IS NULL" if value is None else f"{ddl.quoted(name)} = {ddl.text(value)}"
            for name, value in self.values
        )

    def __str__(self) -> str:
        return "/".join(f"{name}={value}" for name, value in self.values) or "the whole table"


def by_partition(files: Iterable[DataFile]) -> dict[Partition, list[DataFile]]:
    """The files of each partition."""
    partitions: dict[Partition, list[DataFile]] = {}
    for file in files:
        partitions.setdefault(tuple(file.partition.items()), []).append(file)
    return partitions


def due(files: Iterable[DataFile], rule: CompactionRule) -> list[DuePartition]:
    """The partitions that are due: first those where a byte saves most files."""
    partitions = [
        each
        for values, files_of in by_partition(files).items()
        if _finished(files_of, rule) and (each := _due(values, files_of, rule)) is not None
    ]
    return sorted(partitions, key=lambda each: (each.added - each.removed) / max(each.bytes, 1))


def _finished(files: Sequence[DataFile], rule: CompactionRule) -> bool:
    return rule.finished_before is None or max(file.modified for file in files) <= rule.finished_before


def _due(values: Partition, files: Sequence[DataFile], rule: CompactionRule) -> DuePartition | None:
    if rule.whole:
        size = sum(file.size for file in files)
        # As many files as these has Delta made of them when it was here last; one more does not pay for the others.
        is_due = len(files) > max(1, -(-size // rule.target))
        return DuePartition(values, len(files), max(1, size // rule.target), size) if is_due else None
    joined = [bin_ for bin_ in _bins(files, rule.target) if len(bin_) > 1]
    if not joined:
        return None
    return DuePartition(values, sum(map(len, joined)), len(joined), sum(map(sum, joined)))


def _bins(files: Iterable[DataFile], target: int) -> Iterator[list[int]]:
    """The sizes of files that become one each: as Delta packs those that are smaller than the target, the smallest
    first.
    """
    bin_: list[int] = []
    for size in sorted(file.size for file in files if file.size < target):
        if bin_ and sum(bin_) + size > target:
            yield bin_
            bin_ = []
        bin_.append(size)
    if bin_:
        yield bin_
