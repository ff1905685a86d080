"""Finds the refused records of a batch again in its second read, without decoding all of them once more.

While a batch is written, each refused record sets one of 131,072 bits, by a hash of its coordinates: 16 KiB, however
large the batch is. Of a million records of which 1 % are refused, one in thirteen of the others shares such a bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.record import COORDINATES, REFUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_MAPS, _BITS = 4, 2**15
"""Spark's bitmaps have 4 KiB each."""
_SLOT = f"pmod(xxhash64({', '.join(COORDINATES)}), {_MAPS * _BITS})"
"""BIGINT: which bit stands for a record."""


def bits() -> dict[str, Column]:
    """The columns _refused_0, _refused_1, … (BIGINT): the bit that a refused record sets in each bitmap."""
    return {_mark(at): F.expr(_bit(at)) for at in range(_MAPS)}


def aggregates() -> tuple[Column, ...]:
    """What has to be observed of a batch that has `bits`, so that `maybe_refused` finds its refused records again."""
    return tuple(F.expr(f"bitmap_construct_agg({_mark(at)})").alias(f"refused_bitmap_{at}") for at in range(_MAPS))


def maybe_refused(kafka: DataFrame, metrics: Mapping[str, Any]) -> DataFrame:
    """All records of a batch that were refused, and some more: so that the others need not be decoded again.

    Args:
        kafka: the batch, as it was decided.
        metrics: what was `observed` of it, its `aggregates` included.
    """
    bits = F.lit(b"".join(bytes(metrics[f"refused_bitmap_{at}"]) for at in range(_MAPS)))
    slot = F.expr(_SLOT)
    at = F.shiftright(slot, 3).cast("int") + 1
    byte = F.conv(F.hex(F.substring(bits, at, F.lit(1))), 16, 10).cast("bigint")
    return kafka.where(F.getbit(byte, slot % 8) == 1)


def _mark(at: int) -> str:
    """The name of the column that has a refused record's bit within this bitmap."""
    return f"{REFUSED}_{at}"


def _bit(at: int) -> str:
    """BIGINT: the slot of a refused record within the bitmap that has it; null for other records and bitmaps.

    In SQL, because each Column is a call into the JVM, and there would be a hundred of them for each batch. One CASE
    within the other, because Spark computes what is used twice for all rows, unless it stands behind a THEN.
    """
    return f"CASE WHEN {REFUSED} THEN CASE WHEN {_SLOT} DIV {_BITS} = {at} THEN {_SLOT} % {_BITS} END END"
