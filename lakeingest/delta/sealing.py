"""The bytes of refused records as quarantine.keep_bytes lets them be kept: as they came, encrypted, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.config import Quarantine
from lakeingest.delta import quarantine
from lakeingest.errors import UsageError
from lakeingest.schema import hidden
from lakeingest.spark import secret

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakeingest.schema.transforms import TransformStep

ENCRYPTED, LEFT_OUT = "encrypted", "left out"
_BYTES = ("value", "key", "headers")
_PARTS = (("value",), ("value", "key"), ("value", "headers"), _BYTES)
"""Columns of bytes that may be encrypted, or left out; and which of them may be so in one row."""

_WITH = "_sealing_key"
"""A column for the key: where functions of elements stand Spark takes no subquery, which a secret is."""


def sealed(rows: DataFrame, config: Quarantine, steps: Sequence[TransformStep] = ()) -> DataFrame:
    """The rows with their bytes as the file lets them be kept; see `opened`.

    The value's, and those of the key and of headers where a step hides something of them: what the table has in the
    clear is in the clear here.
    """
    if config.keep_bytes not in (ENCRYPTED, "never"):
        return rows
    parts = _BYTES[:1] + tuple(part for part in _BYTES[1:] if hidden.paths(steps, f"_{part}"))
    # A null stays null: it says nothing.
    some = reduce(or_, (F.col(part).isNotNull() for part in parts))
    mark = F.lit(_mark(ENCRYPTED if config.keep_bytes == ENCRYPTED else LEFT_OUT, parts))

    if config.keep_bytes != ENCRYPTED:
        encrypted = {part: F.when(F.lit(False), F.col(part)) for part in parts}
    else:
        encrypted = {
            part: _each(part, lambda value: F.aes_encrypt(value, F.col(_WITH), F.lit("GCM"))) for part in parts
        }
        rows = rows.withColumn(_WITH, _key(rows, config))
    return rows.withColumns({"bytes": F.when(some, mark), **encrypted}).drop(_WITH)


def _mark(how: str, parts: Sequence[str]) -> str:
    """What the column `bytes` says: how, and of what if it is not of the value alone."""
    return how if len(parts) == 1 else f"{how}: {', '.join(parts)}"


def _each(part: str, change: Callable[[Column], Column]) -> Column:
    """A column of bytes, or the values of headers, changed."""
    if part != "headers":
        return change(F.col(part))
    return F.transform(part, lambda header: header.withField("value", change(header["value"])))


def opened(rows: DataFrame, config: Quarantine) -> DataFrame:
    """The rows whose bytes were kept, with them as they came.

    Raises:
        UsageError: some are encrypted, and the file has no key, or another one.
    """
    readable = quarantine.whole(rows).where(~F.coalesce(F.startswith("bytes", F.lit(LEFT_OUT)), F.lit(False)))
    encrypted = F.coalesce(F.startswith("bytes", F.lit(ENCRYPTED)), F.lit(False))
    if readable.where(encrypted).isEmpty():
        return readable
    key = _key(rows, config) if config.encryption_key else F.lit(None).cast("binary")
    read = readable.withColumn(_WITH, key).withColumns({f"_{part}": _opened(part) for part in _BYTES})
    if not read.where(encrypted & reduce(or_, (_unread(part) for part in _BYTES))).isEmpty():
        raise UsageError(
            "quarantine holds encrypted bytes that quarantine.encryption_key does not open",
            cure="write the key that they were encrypted with; or choose others with --where",
        )
    columns = {part: F.col(f"_{part}") for part in _BYTES}
    return read.withColumns(columns).drop(_WITH, *(f"_{part}" for part in _BYTES))


def _opened(part: str) -> Column:
    """The bytes as they came, where they are encrypted; null where the key does not open them."""
    marks = [_mark(ENCRYPTED, parts) for parts in _PARTS if part in parts]
    plain = _each(part, lambda value: F.try_aes_decrypt(value, F.col(_WITH), F.lit("GCM")))
    return F.when(F.col("bytes").isin(marks), plain).otherwise(F.col(part))


def _unread(part: str) -> Column:
    if part != "headers":
        return F.col(part).isNotNull() & F.col(f"_{part}").isNull()
    pairs = F.arrays_zip(F.col(part)["value"].alias("sealed"), F.col(f"_{part}")["value"].alias("plain"))
    return F.coalesce(F.exists(pairs, lambda p: p["sealed"].isNotNull() & p["plain"].isNull()), F.lit(False))


def _key(rows: DataFrame, config: Quarantine) -> Column:
    """BINARY, 32 bytes."""
    return F.unhex(F.sha2(secret.column(rows.sparkSession, config.secret).cast("binary"), 256))
