"""Records that are too large are refused by their size, before anything parses them; quarantine keeps their bytes."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.record import Refusal, diagnosis
from lakeingest.schema.ledger import Side


def within(raw: Column, most: int) -> Column:
    """BINARY: the bytes, null where there are more than `most`."""
    return F.when(F.octet_length(raw) <= most, raw)


def refusal(side: Side, raw: Column, most: int) -> Refusal:
    """For a key or value of more than `most` bytes."""
    size = F.octet_length(raw)

    def why() -> Column:
        message = F.concat(F.lit(f"{side} has "), size.cast("string"), F.lit(f" bytes, decode.max_bytes is {most}"))
        return diagnosis("TOO_LARGE", message)

    return Refusal(side, F.coalesce(size > most, F.lit(False)), why, withheld=why)
