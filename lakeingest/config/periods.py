"""The periods of a time partition: where each begins and ends, on the clock of its zone and as instants. Pure.

A partition is all that one local period holds. Where the clock is set back, its hour lasts two hours; where it is set
forward, there is no such hour. The rules are those of `spark.timestamps`, which computes the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from lakeingest.config import partition_format
from lakeingest.config.parts import Partition, TimePartition
from lakeingest.schema import time_patterns

SHORTEST = timedelta(minutes=1)
"""A completeness table has a row for each period."""
RESERVED = ("pipeline", "period_start", "period_end", "complete_since", "records", "sequence", "version")
"""The columns of a completeness table besides the partition columns."""
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)
_YEARS = range(2, 9999)
"""Years within which no zone leads out of those that Python knows."""
_DIGITS = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
_WRITTEN = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}


@dataclass(frozen=True)
class Periods:
    """The periods of one partition of the pipeline file, each known by its local start, which has no zone."""

    part: TimePartition

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.part.timezone)

    @cached_property
    def _segments(self) -> tuple[partition_format.Segment, ...]:
        return partition_format.segments(self.part)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the partition columns."""
        return tuple(segment.name for segment in self._segments)

    @property
    def is_date(self) -> bool:
        """Whether the one column is a DATE; else all are STRING."""
        return self._segments[0].pattern is None

    # On the clock ------------------------------------------------------------------------------------------------

    def start(self, local: datetime) -> datetime:
        """The start of the period in which a local time lies."""
        match self.part.every:
            case timedelta() as every:
                return local - (local - _EPOCH) % every
            case "year":
                return datetime(local.year, 1, 1)
            case "month":
                return datetime(local.year, local.month, 1)
            case "day":
                return datetime(local.year, local.month, local.day)
            case _:
                return local.replace(minute=0, second=0, microsecond=0)

    def after(self, start: datetime) -> datetime:
        """The start of the next period."""
        match self.part.every:
            case timedelta() as every:
                return start + every
            case "year":
                return datetime(start.year + 1, 1, 1)
            case "month":
                return datetime(start.year + start.month // 12, start.month % 12 + 1, 1)
            case "day":
                return start + timedelta(days=1)
            case _:
                return start + timedelta(hours=1)

    # As instants -------------------------------------------------------------------------------------------------

    def begin(self, start: datetime) -> datetime:
        """The first instant of a period, in UTC."""
        return self._instant(start)

    def end(self, start: datetime) -> datetime:
        """The first instant behind the last one of a period, in UTC; not behind `begin` where the clock skips it."""
        # The last moment, the second time that the clock shows it.
        return self._instant((self.after(start) - _MICROSECOND).replace(fold=1)) + _MICROSECOND

    def of(self, instant: datetime) -> datetime:
        """The local start of the period in which an instant (aware) lies."""
        return self.start(instant.astimezone(self._zone).replace(tzinfo=None, fold=0))

    def ended(self, instant: datetime) -> datetime:
        """The local start of the newest period that an instant (aware) lies behind."""
        period = self.of(instant)
        while self.end(period) > instant or self._skipped(period):
            period = self.start(period - _MICROSECOND)
        return period

    def between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The periods from one to another, both included, without those that the clock skips."""
        while first <= last:
            if not self._skipped(first):
                yield first
            first = self.after(first)

    def _skipped(self, start: datetime) -> bool:
        """Whether the clock goes over the whole period."""
        return self.end(start) <= self.begin(start)

    def _instant(self, local: datetime) -> datetime:
        return local.replace(tzinfo=self._zone).astimezone(UTC)

    # As texts ----------------------------------------------------------------------------------------------------

    def values(self, start: datetime) -> tuple[str, ...]:
        """Values of the partition columns, as text."""
        return tuple(_formatted(segment.pattern or "yyyy-MM-dd", start) for segment in self._segments)

    def parse(self, values: Sequence[str | None]) -> datetime | None:
        """The period of the partition with these values; None where they are no period's."""
        digits: dict[str, str] = {}
        for segment, value in zip(self._segments, values, strict=True):
            pattern = segment.pattern or "yyyy-MM-dd"
            match = re.fullmatch(_expression(pattern), value or "")
            if match is None:
                return None
            digits |= match.groupdict()
        numbers = [int(digits.get(token, least)) for token, least in zip(_DIGITS, (1, 1, 1, 0, 0, 0), strict=True)]
        try:
            start = datetime(*numbers)  # type: ignore[arg-type]
        except ValueError:
            return None
        same = start.year in _YEARS and self.start(start) == start and not self._skipped(start)
        return start if same and self.values(start) == tuple(values) else None

    @property
    def _written(self) -> str:
        every = self.part.every
        return "%Y-%m-%dT%H:%M" if isinstance(every, timedelta) else _WRITTEN[every]

    def text(self, start: datetime) -> str:
        """A period as one asks for it: 2026-11-23T14."""
        # strftime() writes the year 999 with three digits.
        return start.isoformat()[: len(datetime.max.strftime(self._written))]

    def read(self, text: str) -> datetime:
        """The period that a text asks for.

        Raises:
            ValueError: it is none, with what is wrong and how one is written.
        """
        now = self.of(datetime.now(UTC))
        how = f"write one as in {self.text(now)}, in {self.part.timezone}"
        if not text.isascii():
            raise ValueError(f"no period of this table; {how}")
        try:
            start = datetime.strptime(text.strip(), self._written)
        except ValueError:
            raise ValueError(f"no period of this table; {how}") from None
        if start.year not in _YEARS:
            raise ValueError(f"outside of the years that a table is asked for; {how}")
        if self.start(start) != start:
            raise ValueError(f"within the period that begins at {self.text(self.start(start))}; {how}")
        if self._skipped(start):
            raise ValueError(f"a time that the clock skips in {self.part.timezone}; {how}")
        return start


def of(partition: Sequence[Partition]) -> Periods | None:
    """The periods of a table that is partitioned by one time, its records' or a field's; else None."""
    times = [part for part in partition if isinstance(part, TimePartition)]
    return Periods(times[0]) if len(times) == 1 and times[0].extract != "wallclock" else None


def told_apart(partition: Sequence[Partition]) -> Periods | None:
    """The same, if each period has partitions of its own; else None."""
    periods = of(partition)
    if periods is None:
        return None
    segments = partition_format.segments(periods.part)
    is_known = all(run in _DIGITS for segment in segments for run in time_patterns.runs(segment.pattern or ""))
    return periods if is_known and not _missing(periods.part.every, segments) else None


def mistakes(partition: Mapping[int, Partition]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Mistakes: reasons why the periods of a table's partitions cannot be told apart, or followed, cure included."""
    times = {at: part for at, part in partition.items() if isinstance(part, TimePartition)}
    if len(times) != 1:
        yield (
            ("contract", "completeness"),
            f"needs one partition by time, and partition has {len(times) or 'none'}; "
            + ("write one with a format, as in 'year'=yyyy/'month'=MM" if times else "write it, or drop completeness"),
        )
        return
    ((at, part),) = times.items()
    if part.extract == "wallclock":
        yield (
            ("partition", at, "extract"),
            '"wallclock" is when a batch ran, which says nothing of its records; write record or field, or drop '
            "contract.completeness",
        )
    every = part.every
    if isinstance(every, timedelta) and every < SHORTEST:
        yield ("partition", at, "every"), "too short for contract.completeness; write 1 minute or more"
        return
    try:
        segments = partition_format.segments(part)
    except partition_format.FormatError:
        return
    yield from _in_format(at, every, segments)


def _in_format(
    at: int, every: str | timedelta, segments: Sequence[partition_format.Segment]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for segment in segments:
        if segment.name.lower() in RESERVED:
            yield (
                ("partition", at, "format"),
                f"{segment.name!r} is a column of the completeness table; give the partition column another name",
            )
        for run in time_patterns.runs(segment.pattern or ""):
            if run not in _DIGITS:
                yield (
                    ("partition", at, "format"),
                    f"{run} cannot be followed by contract.completeness; write {', '.join(_DIGITS)}",
                )
    if missing := _missing(every, segments):
        yield (
            ("partition", at, "format"),
            f"does not tell the periods apart, as contract.completeness needs it; add {', '.join(missing)}",
        )


def _missing(every: str | timedelta, segments: Sequence[partition_format.Segment]) -> list[str]:
    """Tokens that a format lacks so that no two periods have the same values."""
    runs = {run for segment in segments for run in time_patterns.runs(segment.pattern or "yyyy-MM-dd")}
    return [run for run in _needed(every) if run not in runs]


def _needed(every: str | timedelta) -> list[str]:
    """Tokens that a format needs so that no two periods have the same values."""
    tokens = [*_DIGITS]
    if isinstance(every, timedelta):
        units = (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1))
        count = next((3 + at for at, unit in enumerate(units) if every % unit == timedelta(0)), 6)
        return tokens[:count]
    return tokens[: 1 + ("year", "month", "day", "hour").index(every)]


def _formatted(pattern: str, start: datetime) -> str:
    numbers = dict(zip(_DIGITS, start.timetuple(), strict=False))
    return "".join(f"{numbers[run]:0{_DIGITS[run]}}" if run else text for run, text in time_patterns.tokens(pattern))


def _expression(pattern: str) -> str:
    """A pattern as a regular expression with a group for each run of letters."""
    parts: list[str] = []
    for run, text in time_patterns.tokens(pattern):
        part = rf"(?P<{run}>[0-9]{{{_DIGITS[run]}}})" if run else re.escape(text)
        parts.append(f"(?P={run})" if run and part in parts else part)
    return "".join(parts)
