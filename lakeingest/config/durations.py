"""Durations as users write them: 500 ms, 15 minutes, 1 week."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_MILLIS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
"""Spellings of a unit → milliseconds; single letters in lower case only, because M is a month for many."""
_SHOWN = ("day", "hour", "minute", "second", "millisecond")
_DURATION = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*", re.ASCII)
PERIODS = ("hour", "day", "month", "year")
_LONGEST = timedelta(days=3650)


def duration_text(value: timedelta) -> str:
    """A duration as one writes it in a file: 90 seconds, 15 minutes, 1 day."""
    millis = value // timedelta(milliseconds=1)
    unit = next(u for u in _SHOWN if millis % _MILLIS[u] == 0)
    count = millis // _MILLIS[unit]
    return f"{count} {unit}{'' if count == 1 else 's'}"


def duration(value: Any) -> Any:
    """A duration out of its text.

    Raises:
        ValueError: it is none, or longer than ten years.
    """
    if isinstance(value, timedelta):
        return value
    count, unit = _counted(str(value))
    if not unit or not count.strip("0"):
        raise ValueError(
            "not a duration; write a positive whole number and a unit, as in '500 ms', '90 seconds' (sec, s), "
            "'15 minutes' (min, m), '2 hours' (h), '1 day' (d), '1 week' (w)"
        )
    if len(count) > 15 or int(count) * unit > _LONGEST // timedelta(milliseconds=1):
        raise ValueError("longer than 10 years; write a shorter duration, as in '1 day'")
    return timedelta(milliseconds=int(count) * unit)


def _counted(text: str) -> tuple[str, int]:
    """The digits of a duration, and its unit in milliseconds; 0 where it is none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return "", 0
    return match[1], _MILLIS.get(match[2] if len(match[2]) == 1 else match[2].lower(), 0)


def wait(value: Any) -> Any:
    """A duration that may be nothing.

    Raises:
        ValueError: see `duration`.
    """
    count, unit = _counted(str(value))
    nothing = str(value).strip() == "0" or (unit and not count.strip("0"))
    return timedelta(0) if nothing else duration(value)


def period_of(value: Any) -> Any:
    """An hour, a day, a month, a year, or a duration of whole seconds.

    Raises:
        ValueError: it is none.
    """
    if value in PERIODS:
        return value
    try:
        period = duration(value)
    except ValueError:
        raise ValueError(
            f"not a period; write one of {', '.join(PERIODS)}, or a duration such as '15 minutes'"
        ) from None
    if period % timedelta(seconds=1):
        raise ValueError("no period that a partition can be named after; write one of whole seconds, as in '1 second'")
    return period
