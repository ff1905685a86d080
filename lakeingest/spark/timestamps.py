"""A record's time as local time in a zone, and the start of the period it lies in: columns, no Spark job.

A local time is held as a TIMESTAMP whose UTC digits are the digits on the wall in the zone, so every expression here
needs a session in UTC. Null stands for: no time. Nothing raises for any input, in ANSI mode either.

The rules are Confluent's TimeBasedPartitioner: the local time, divided by the period. Two differences: the division
rounds down before 1970 too, and a period that would begin within the hour that daylight saving skips is named by
that beginning (Joda moves it an hour on).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.schema.time_patterns import CLOCK, DAY, EPOCH_UNITS, MILLIS, OFFSET

if TYPE_CHECKING:
    from pyspark.sql import Column

TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType, T.IntegerType, T.LongType, T.StringType)
"""Types that hold a time; INT and BIGINT count milliseconds since 1970."""

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_DAY = 86_400_000_000

_DIGITS = rf"\A{MILLIS}\z"
_ZONE = rf"(?:{OFFSET})\z"
_COMMON = r"\A\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)\z"
_ISO = rf"\A{DAY}(?:{CLOCK}(?:{OFFSET})?)?\z"


def local(raw: Column, kind: T.DataType, zone: str) -> Column:
    """The time of a value as local time in `zone`; null if it is none, or outside of the years 0001 to 9999.

    Args:
        raw: the value. A string is 1 to 19 digits with an optional minus
            (milliseconds since 1970) or ISO-8601: a date, T or a blank, a time to the minute, second or fraction,
            and Z, an offset, or nothing for local time in `zone`.
        kind: the value's type, one of `TIMES`.
        zone: an IANA time zone.
    """
    if isinstance(kind, T.StringType):
        clock = F.coalesce(_shifted(_instant_of_text(raw), zone), local_from_text(raw).cast("timestamp"))
    elif isinstance(kind, T.IntegerType | T.LongType):
        clock = _shifted(_instant(raw.cast("bigint")), zone)
    elif isinstance(kind, T.DateType):
        clock = F.when(raw.between(F.lit("0001-01-01").cast("date"), F.lit("9999-12-31").cast("date")), raw).cast(
            "timestamp"
        )
    elif isinstance(kind, T.TimestampNTZType):
        clock = raw.cast("timestamp")
    else:
        clock = _shifted(raw, zone)
    return within_years(clock)


def within_years(time: Column) -> Column:
    """A TIMESTAMP; null outside of the years 0001 to 9999."""
    return _within(time, _FIRST, _LAST)


def from_text(raw: Column, zone: str, unit: str = "millis") -> Column:
    """The instant that a string means, as TIMESTAMP: see `local` for what it may look like; null if it is none.

    Args:
        unit: of a number, one of `EPOCH_UNITS`; seconds may have a fraction.
    """
    return within_years(F.coalesce(_instant_of_text(raw, unit), _instant_in(local_from_text(raw), zone)))


def from_iso(raw: Column, zone: str, *, zoned: bool) -> Column:
    """The instant of an ISO-8601 string that is known to have an offset, or none, as TIMESTAMP; null if it is none.

    A number may have one digit, and an offset no colon.
    """
    if zoned:
        return within_years(_with_colon(raw).try_cast("timestamp"))
    return within_years(_instant_in(raw.try_cast("timestamp_ntz"), zone))


def local_from_count(raw: Column, unit: str) -> Column:
    """The time on the clock that a text counts since 1970, as TIMESTAMP_NTZ; null if it is no count, or none of a time.

    Args:
        unit: one of `EPOCH_UNITS`.
    """
    counts = raw.rlike(rf"\A{EPOCH_UNITS[unit][1]}\z")
    return within_years(F.when(counts, _instant_of_count(raw, unit))).cast("timestamp_ntz")


def day_of_count(days: Column) -> Column:
    """The DATE so many days after 1970-01-01; null outside of the years 0001 to 9999."""
    day = F.date_from_unix_date(days)
    return F.when(day.between(F.lit("0001-01-01").cast("date"), F.lit("9999-12-31").cast("date")), day)


def _instant_in(clock: Column, zone: str) -> Column:
    """The instant at which it is that time in a zone."""
    instant = clock.cast("timestamp")
    return instant if zone == "UTC" else F.to_utc_timestamp(instant, zone)


def local_from_text(raw: Column) -> Column:
    """The time on the clock that an ISO-8601 string without an offset means, as TIMESTAMP_NTZ; null if it is none."""
    return F.when(raw.rlike(_ISO) & ~raw.rlike(_ZONE), raw.try_cast("timestamp_ntz"))


def _with_colon(time: Column) -> Column:
    """A text whose offset has a colon: Spark's cast knows no other."""
    return F.regexp_replace(time, r"([+-]\d{2})(\d{2})\z", "$1:$2")


def _instant_of_text(raw: Column, unit: str = "millis") -> Column:
    """An ISO-8601 time with an offset, or a count since 1970. The commonest form comes first: each test costs."""
    # Spark's cast knows no zone directly behind minutes.
    whole = _with_colon(F.regexp_replace(raw, r"([T ]\d{2}:\d{2})(Z|[+-])", "$1:00$2"))
    # Finding a zone by its name takes Spark longer than all else; the session's own, UTC, it knows.
    zone = F.when(raw.endswith("Z"), F.lit(1)).when(raw.endswith("+00:00"), F.lit(6)).otherwise(F.lit(0))
    clock = F.substring(raw, F.lit(1), F.octet_length(raw) - zone)
    return (
        F.when(raw.rlike(_COMMON), clock.try_cast("timestamp"))
        .when(raw.rlike(rf"\A{EPOCH_UNITS[unit][1]}\z"), _instant_of_count(raw, unit))
        .when(raw.rlike(_ISO) & raw.rlike(_ZONE), whole.try_cast("timestamp"))
    )


def start(local_time: Column, every: str | timedelta) -> Column:
    """The start of the period in which a local time lies.

    Args:
        local_time: a local time (see `local`).
        every: hour, day, month, year, or a positive duration that is counted from 1970-01-01T00:00 local time.
    """
    if isinstance(every, str):
        return F.date_trunc(every, local_time)
    micros = F.unix_micros(local_time)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(every // _MICROSECOND)))


def literal(now: datetime) -> Column:
    """An instant (aware) as a TIMESTAMP, whatever the time zone of this Python."""
    return F.timestamp_micros(F.lit((now - _EPOCH) // _MICROSECOND))


def why_not(raw: Column, kind: T.DataType) -> Column:
    """The reason why `local` is null for a value, as the end of a sentence that begins with the value's name."""
    value = F.concat(F.lit("is '"), F.substring(raw.cast("string"), 1, 200), F.lit("', "))
    reason: Column = F.lit("which lies outside of the years 0001 to 9999")
    if isinstance(kind, T.StringType):
        reason = (
            F.when(raw.rlike(_DIGITS), F.concat(F.lit("milliseconds since 1970, "), reason))
            .when(raw.rlike(_ISO), F.lit("which is no date and time that exists in the years 0001 to 9999"))
            .otherwise(F.lit("neither milliseconds since 1970 (1 to 19 digits) nor an ISO-8601 date or time"))
        )
    return F.when(raw.isNull(), F.lit("is null or missing")).otherwise(F.concat(value, reason))


def _instant_of_count(raw: Column, unit: str) -> Column:
    """The instant of a text that counts a unit since 1970, in whole microseconds: what is smaller is cut off."""
    if unit == "millis":
        return _instant(raw.try_cast("bigint"))
    if unit == "seconds":
        seconds = F.regexp_replace(raw, r"(\.\d{6})\d+", "$1").try_cast("decimal(25,6)")
        in_range = seconds.between(F.lit((_FIRST - _DAY) // 10**6), F.lit((_LAST + _DAY) // 10**6))
        return F.timestamp_seconds(F.when(in_range, seconds))
    if unit == "micros":
        return F.timestamp_micros(raw.try_cast("bigint"))
    return F.timestamp_micros((raw.try_cast("decimal(20,0)") / 1000).cast("bigint"))


def _instant(millis: Column) -> Column:
    # timestamp_millis raises on overflow in every mode, so that nothing beyond the years may reach it.
    in_range = millis.between(F.lit((_FIRST - _DAY) // 1000), F.lit((_LAST + _DAY) // 1000))
    return F.timestamp_millis(F.when(in_range, millis))


def _shifted(instant: Column, zone: str) -> Column:
    if zone == "UTC":
        return instant
    # A day more on both ends: a zone can bring such an instant back into the years.
    return F.from_utc_timestamp(_within(instant, _FIRST - _DAY, _LAST + _DAY), zone)


def _within(time: Column, first: int, last: int) -> Column:
    return F.when(time.between(F.timestamp_micros(F.lit(first)), F.timestamp_micros(F.lit(last))), time)
