"""The sums of whole ranges of offsets (see `sums`), by NumPy: some nanoseconds for each offset, on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from lakeingest.delta import sums
from lakeingest.delta.sums import Sums
from lakeingest.record import OffsetRange

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.uint64]

_TOGETHER = 2**15
"""Offsets whose numbers are made together: so many fit into a core's cache."""


def of(batches: Sequence[Iterable[OffsetRange]]) -> list[Sums]:
    """The sums of all offsets of each batch.

    Args:
        batches: the ranges of each.
    """
    totals = [Sums()] * len(batches)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for pieces, mixed in pool.map(_of_pieces, _dealt(batches)):
            for (batch, piece), number in zip(pieces, mixed, strict=True):
                placed = number % sums.PART * sums.factor(piece.partition)
                totals[batch] += Sums(piece.end - piece.start, number, placed)
    return totals


_Pieces: TypeAlias = list[tuple[int, OffsetRange]]
"""Batches, and a part of each."""


def _dealt(batches: Sequence[Iterable[OffsetRange]]) -> Iterator[_Pieces]:
    """The ranges in pieces, as many as are made together."""
    pieces, offsets = _Pieces(), 0
    for batch, ranges in enumerate(batches):
        for s in ranges:
            start = s.start
            while start < s.end:
                end = min(s.end, start + _TOGETHER - offsets)
                pieces.append((batch, OffsetRange(s.topic, s.partition, start, end)))
                offsets += end - start
                start = end
                if offsets == _TOGETHER:
                    yield pieces
                    pieces, offsets = [], 0
    if pieces:
        yield pieces


def _of_pieces(pieces: _Pieces) -> tuple[_Pieces, list[int]]:
    """The pieces, and the exclusive or of the numbers of each one's offsets."""
    import numpy as np

    lengths = np.array([piece.end - piece.start for _, piece in pieces])
    begins = lengths.cumsum() - lengths
    seeds = [sums.seeds(piece.topic, piece.partition) for _, piece in pieces]
    mixed = [0] * len(pieces)
    for lane, prime in enumerate(sums.PRIMES):
        firsts = [(piece.start % prime + seed[lane]) % prime for (_, piece), seed in zip(pieces, seeds, strict=True)]
        shifts = np.array(firsts) - begins
        x = np.arange(lengths.sum()) + (shifts.repeat(lengths) if len(pieces) > 1 else shifts)
        each = np.bitwise_xor.reduceat(_lane(x.view(np.uint64), prime), begins).tolist()
        mixed = [number * 2**31 + part for number, part in zip(mixed, each, strict=True)]
    return pieces, mixed


def _lane(x: Numbers, prime: int) -> Numbers:
    """One part of the numbers, from x, which is below twice the prime and is written over.

    A division takes a processor longer than all else here. As 2^31 leaves a small remainder, the upper bits are added
    to the lower ones instead: twice, and what was below 2^64 is below twice the prime.
    """
    import numpy as np

    modulus, factor, upper = np.uint64(prime), np.uint64(2**31 - prime), np.empty_like(x)

    def fold(numbers: Numbers) -> None:
        for _ in range(2):
            np.right_shift(numbers, np.uint64(31), out=upper)
            if factor > 1:
                np.multiply(upper, factor, out=upper)
            np.bitwise_and(numbers, np.uint64(2**31 - 1), out=numbers)
            np.add(numbers, upper, out=numbers)

    def below_prime(numbers: Numbers) -> None:
        # What would be below zero is huge.
        np.minimum(numbers, np.subtract(numbers, modulus, out=upper), out=numbers)

    below_prime(x)
    y = x * x
    fold(y)
    np.add(x, y, out=x)
    np.multiply(x, y, out=x)
    fold(x)
    below_prime(x)
    return x
