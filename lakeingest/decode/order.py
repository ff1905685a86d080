"""The order of a batch's records: within a partition offsets alone decide. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

TopicPartition = tuple[str, int]
Place = tuple[str, int, int]
"""Coordinates: topic, partition, offset."""
Kind = TypeVar("Kind", bound=Hashable)


def in_order(firsts: Mapping[Kind, Mapping[TopicPartition, tuple[int, int]]]) -> dict[Kind, tuple[int, Place]]:
    """The first place of each kind of records: the partitions are read together, each by its offsets.

    The next record that brings a new kind is the one with the earliest timestamp among the partitions' next ones. So
    for one partition timestamps do not count.

    Args:
        firsts: of each kind, the first record in each partition: offset, timestamp in microseconds.
    """
    queues: dict[TopicPartition, list[tuple[int, int, Kind]]] = {}
    for kind, places in firsts.items():
        for partition, (offset, time) in places.items():
            queues.setdefault(partition, []).append((offset, time, kind))
    for queue in queues.values():
        queue.sort(reverse=True)
    first_places: dict[Kind, tuple[int, Place]] = {}
    while queues:
        partition = min(queues, key=lambda each: (queues[each][-1][1], each))
        offset, _, kind = queues[partition].pop()
        first_places.setdefault(kind, (len(first_places), (*partition, offset)))
        if not queues[partition]:
            del queues[partition]
    return first_places
