"""Lists of offsets, short enough for a receipt: the offsets of some records of a batch.

Of each topic-partition the differences between one offset and the next one, seven bits in a byte (as varints of
Protocol Buffers), compressed by zlib, in Base64. Of a million records of which 1 % are listed that is some 15 KB.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakeingest.delta.sums import Place


@dataclass(frozen=True)
class OffsetLists:
    """Coordinates of records.

    Attributes:
        by_partition: (topic, partition) → offsets, ascending.
    """

    by_partition: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Iterable[Place]) -> OffsetLists:
        """Of coordinates, in any order."""
        lists = dict[tuple[str, int], list[int]]()
        for topic, partition, offset in sorted(places):
            lists.setdefault((topic, partition), []).append(offset)
        return cls({place: tuple(offsets) for place, offsets in lists.items()})

    def __iter__(self) -> Iterator[Place]:
        return ((*place, offset) for place, offsets in self.by_partition.items() for offset in offsets)

    def __len__(self) -> int:
        return sum(map(len, self.by_partition.values()))

    def to_json(self) -> dict[str, dict[str, str]]:
        tree: dict[str, dict[str, str]] = {}
        for (topic, partition), offsets in self.by_partition.items():
            tree.setdefault(topic, {})[str(partition)] = _packed(offsets)
        return tree

    @classmethod
    def from_json(cls, tree: Mapping[str, Mapping[str, str]]) -> OffsetLists:
        return cls({(t, int(p)): _unpacked(text) for t, partitions in tree.items() for p, text in partitions.items()})


NO_OFFSETS = OffsetLists()


def _packed(offsets: tuple[int, ...]) -> str:
    packed, last = bytearray(), -1
    for offset in offsets:
        difference, last = offset - last - 1, offset
        while difference > 127:
            packed.append(difference & 127 | 128)
            difference >>= 7
        packed.append(difference)
    return b64encode(zlib.compress(bytes(packed), 9)).decode()


def _unpacked(text: str) -> tuple[int, ...]:
    offsets, last, difference, shift = list[int](), -1, 0, 0
    for byte in zlib.decompress(b64decode(text)):
        difference |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            last += difference + 1
            offsets.append(last)
            difference = shift = 0
    return tuple(offsets)
