"""Times in text: ISO-8601, or epoch milliseconds as digits (CONFLUENT-SEMANTICS.md, section 2). Sessions are in UTC."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_LOCAL = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?"
_ZONED = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})"
_DIGITS = r"-?\d{1,19}"
# The years 1 to 9999: what ISO-8601 writes in four digits, and every reader of the table understands.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def from_millis(millis: Column) -> Column:
    """BIGINT epoch ms → TIMESTAMP; null outside the years 1 to 9999."""
    return F.when(millis.between(_FIRST_MS, _LAST_MS), F.timestamp_millis(millis))


def from_text(text: Column, zone: str) -> Column:
    """STRING → TIMESTAMP; a time without an offset is local in `zone`. Null where the text is no time."""
    local = text.try_cast("timestamp")
    return (
        F.when(text.rlike(f"^{_ZONED}$"), text.try_cast("timestamp"))
        .when(text.rlike(f"^{_LOCAL}$"), local if zone == "UTC" else F.to_utc_timestamp(local, zone))
        .when(text.rlike(f"^{_DIGITS}$"), from_millis(text.try_cast("bigint")))
    )


def local_from_text(text: Column) -> Column:
    """STRING → TIMESTAMP_NTZ, the time on the clock; null where the text is no such time, or has an offset."""
    return F.when(text.rlike(f"^{_LOCAL}$"), text.try_cast("timestamp_ntz"))
