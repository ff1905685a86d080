"""Sums of coordinates: by them a batch's rows are known again, in whatever order and files they lie.

A sum is a count of rows, and the exclusive or of a number that each row's coordinates give (`mixed`). It is made in the
pass that writes the rows. Every coordinate is once in a batch: so a row too few, a row too many, one twice and another
one never, or a row with another offset changes the count or the number, but for one case in 2^62. An exclusive or
cannot overflow, and needs no order; a sum of offsets alone would not see two that are exchanged for two others.

The number is plain arithmetic below 2^63, which every SQL can do: of (topic, partition, offset), in two parts, for the
primes p = 2147483647 and p = 2147483629 with the factors c = 1664525 and c = 22695477:

    s = (crc32(topic) * 2^20 + partition) % p * c % p
    x = (offset % p + s) % p
    y = x * x % p
    z = y * (y + x) % p

It is z of the first prime, times 2^31, plus z of the second.

Each topic-partition of its own would cost two aggregates of every row. So there is one word beside the number for where
a difference is: eight parts of seven bits, each the exclusive or of the numbers (modulo 128) of the partitions which
have one remainder when they are divided by 8. Of a topic with up to eight partitions it names the partition, of others
those with that remainder; of 128 differences one shows nowhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeingest.record import DROPPED, OFFSET, PARTITION, REFUSED, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition, offset."""
_LANES = ((2147483647, 1664525), (2147483629, 22695477))
"""The primes and their factors."""
PRIMES = tuple(prime for prime, _ in _LANES)
PARTS, _BITS = 8, 7
"""Parts of `Sums.placed`, and the bits of each."""
PART = 2**_BITS
"""So many values has a part."""
_XS, _NUMBER, _MIXED, _PLACED = ("_raw_x_1", "_raw_x_2"), "_raw_number", "_raw_mixed", "_raw_placed"


@dataclass(frozen=True)
class Sums:
    """The sums of some rows.

    Attributes:
        rows: how many.
        mixed: exclusive or of the rows' numbers, 0 of none; below 2^62.
        placed: in which partitions: eight parts of seven bits; below 2^56.
    """

    rows: int = 0
    mixed: int = 0
    placed: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, self.mixed ^ other.mixed, self.placed ^ other.placed)

    def to_json(self) -> dict[str, Any]:
        # JSON's numbers are exact below 2^53 alone.
        return {"rows": self.rows, "mixed": f"{self.mixed:016x}", "placed": f"{self.placed:014x}"}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Sums:
        return cls(tree["rows"], int(tree["mixed"], 16), int(tree["placed"], 16))

    def differs_at(self, other: Sums) -> frozenset[int]:
        """The remainders, of partitions divided by 8, whose rows differ; none where only the rest tells."""
        differing = self.placed ^ other.placed
        return frozenset(part for part in range(PARTS) if differing >> (_BITS * part) & (PART - 1))


@dataclass(frozen=True)
class BatchSums:
    """What both tables took of a batch.

    Attributes:
        sequence: the batch.
        table, quarantine: the sums of what each took; None where nobody knows them any more.
    """

    sequence: int
    table: Sums | None = None
    quarantine: Sums | None = None

    def to_json(self) -> dict[str, Any]:
        table, quarantine = (each and each.to_json() for each in (self.table, self.quarantine))
        return {"sequence": self.sequence, "table": table, "quarantine": quarantine}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> BatchSums:
        sums = (Sums.from_json(tree[name]) if tree[name] else None for name in ("table", "quarantine"))
        return cls(tree["sequence"], *sums)


def seeds(topic: str, partition: int) -> tuple[int, int]:
    """What stands for a topic-partition: s of the first prime, and of the second."""
    place = zlib.crc32(topic.encode()) * 2**20 + partition
    first, second = (place % prime * factor % prime for prime, factor in _LANES)
    return first, second


def factor(partition: int) -> int:
    """What moves seven bits to the part that a partition has in `Sums.placed`."""
    return int(2 ** (_BITS * (partition % PARTS)))


def number(offset: str, first: str, second: str) -> str:
    """SQL, of Spark's and of DuckDB's: the number of an offset (BIGINT), from a topic-partition's `seeds`."""
    return _number(*(f"({_x(offset, seed, prime)})" for (prime, _), seed in zip(_LANES, (first, second), strict=True)))


def _x(offset: str, seed: str, prime: int) -> str:
    return f"({offset} % {prime} + {seed}) % {prime}"


def _number(*xs: str) -> str:
    ys = [f"({x} * {x} % {prime})" for x, (prime, _) in zip(xs, _LANES, strict=True)]
    first, second = (f"{y} * ({y} + {x}) % {prime}" for x, y, (prime, _) in zip(xs, ys, _LANES, strict=True))
    return f"{first} * {2**31} + {second}"


def of(coordinates: Iterable[Place]) -> Sums:
    """The sums of some coordinates, in Python; for many rows see `number`."""
    total = Sums()
    for topic, partition, offset in coordinates:
        mixed = 0
        for (prime, _), seed in zip(_LANES, seeds(topic, partition), strict=True):
            x = (offset % prime + seed) % prime
            y = x * x % prime
            mixed = mixed * 2**31 + y * (y + x) % prime
        total += Sums(1, mixed, mixed % PART * factor(partition))
    return total


# While rows are written -----------------------------------------------------------------------------------------------


def of_accepted(decided: DataFrame) -> DataFrame:
    """The frame with the columns of which `aggregates` make the sums of what is neither refused nor dropped."""
    # As columns: what is observed is interpreted. In steps, so that Spark computes once what the next one has twice.
    mapped = decided.selectExpr("*", *(f"{x} AS {name}" for x, name in zip(_row_xs(), _XS, strict=True)))
    numbered = mapped.selectExpr("*", f"{_number(*_XS)} AS {_NUMBER}")
    accepted = f"NOT {REFUSED} AND NOT {DROPPED}"
    return numbered.selectExpr(
        "*",
        f"CASE WHEN {accepted} THEN {_NUMBER} END AS {_MIXED}",
        f"CASE WHEN {accepted} THEN {_part(_NUMBER)} END AS {_PLACED}",
    )


def aggregates() -> tuple[Column, ...]:
    """What has to be observed of a frame that `of_accepted` gave; `observed` reads it."""
    return _aggregates(_MIXED, _PLACED)


def aggregates_of_rows() -> tuple[Column, ...]:
    """The same of a few rows, by their coordinates."""
    mixed = _number(*(f"({x})" for x in _row_xs()))
    return _aggregates(mixed, _part(f"({mixed})"))


def observed(metrics: Mapping[str, Any], rows: int) -> Sums:
    """What was observed.

    Args:
        rows: how many they were.
    """
    return Sums(rows, metrics["mixed"] or 0, metrics["placed"] or 0)


def of_batch(metrics: Mapping[str, Any], rows: int) -> Sums | None:
    """What was observed of a batch's accepted rows; None unless Delta says that it wrote as many.

    Args:
        rows: those that it wrote.
    """
    accepted = metrics["consumed"] - metrics["refused"] - metrics["dropped"]
    return observed(metrics, rows) if accepted == rows else None


def _aggregates(mixed: str, placed: str) -> tuple[Column, ...]:
    from pyspark.sql import functions as F

    return F.expr(f"bit_xor({mixed})").alias("mixed"), F.expr(f"bit_xor({placed})").alias("placed")


def _row_xs() -> list[str]:
    """SQL of Spark's: x of both primes, of a row's coordinates."""
    place = f"(crc32({TOPIC}) * {2**20} + {PARTITION})"
    return [_x(OFFSET, f"{place} % {prime} * {factor} % {prime}", prime) for prime, factor in _LANES]


def _part(mixed: str) -> str:
    return f"shiftleft({mixed} % {PART}, {_BITS} * ({PARTITION} % {PARTS}))"
