"""The files of a table by size and by partition, and what a compaction would make of them. Pure, but for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any

from lakeingest.config.maintenance import TARGET
from lakeingest.delta.maintenance.due import CompactionRule, by_partition, due
from lakeingest.delta.reader.log import DataFile, OfflineLog

MIB = 2**20
_BOUNDS = (1, 8, 32, 128, 512)
"""Between the classes of sizes, in MiB."""
PARTITIONS = 30
"""Most partitions that are shown, the largest first."""
_MANY = 50
"""Files that a compaction must save, and half of all, to be due."""


def summary(name: str, log: OfflineLog, target: int = TARGET) -> dict[str, Any]:
    """What a report shows of a table's files.

    Args:
        name: table, quarantine or results.
        target: how large a compaction makes files.
    """
    every = log.state.files
    partitions = by_partition(every)
    largest = sorted(partitions.items(), key=lambda each: -sum(file.size for file in each[1]))
    sizes = [sum(file.size for file in files_of) for files_of in partitions.values()]
    return {
        "name": name,
        "path": log.identifier,
        "files": len(every),
        "bytes": sum(file.size for file in every),
        "sizes": [{"size": label, "files": count} for label, count in _classes(every)],
        "partitions": [
            {
                "partition": "/".join(f"{column}={value}" for column, value in values) or "(not partitioned)",
                "files": len(files_of),
                "bytes": sum(file.size for file in files_of),
                "rows": _rows(files_of),
            }
            for values, files_of in largest[:PARTITIONS]
        ],
        "partitions_left_out": max(0, len(partitions) - PARTITIONS),
        "skew": round(max(sizes) / max(median(sizes), 1), 1) if sizes else None,
        "compaction": _compaction(every, target),
    }


def _rows(files: Sequence[DataFile]) -> int | None:
    """As the statistics have them, if all files have some."""
    counts = [None if file.stats is None or file.masked else file.statistics.get("numRecords") for file in files]
    return None if None in counts else sum(count or 0 for count in counts)


def _classes(files: Sequence[DataFile]) -> Iterator[tuple[str, int]]:
    inner = {f"{low}–{high} MiB": (low, high) for low, high in pairwise(_BOUNDS)}
    classes = {f"< {_BOUNDS[0]} MiB": (0.0, _BOUNDS[0]), **inner, f"≥ {_BOUNDS[-1]} MiB": (_BOUNDS[-1], inf)}
    for label, (low, high) in classes.items():
        yield label, sum(low * MIB <= file.size < high * MIB for file in files)


def _compaction(files: Sequence[DataFile], target: int) -> dict[str, Any]:
    """What `lakeingest maintain` would do to the table if all its partitions were finished."""
    partitions = due(files, CompactionRule(target))
    removed, added = sum(each.removed for each in partitions), sum(each.added for each in partitions)
    saved = removed - added
    return {
        "removed": removed,
        "added": added,
        "bytes": sum(each.bytes for each in partitions),
        "due": saved >= _MANY and 2 * saved >= len(files),
    }
