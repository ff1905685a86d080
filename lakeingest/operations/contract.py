"""Whether a pipeline keeps what its contract promises, as far as that can be seen now, and by how much it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeingest.config import PipelineConfig, periods
from lakeingest.config.durations import duration_text
from lakeingest.ingest.source import RecordSource
from lakeingest.operations.completeness import Complete
from lakeingest.operations.freshness import Worst

_SECOND = timedelta(seconds=1)


def promises(
    config: PipelineConfig,
    source: RecordSource,
    partitions: Sequence[Mapping[str, Any]],
    periods_of: Callable[[], tuple[Complete, dict[datetime, int]]],
    worst_of: Callable[[], Worst | None],
) -> tuple[dict[str, Any], ...]:
    """See `state`.

    Args:
        partitions: see `Status`.
        periods_of: what is said of the table's periods, and the rows that it has of each now.
        worst_of: see `freshness.worst`.

    Raises:
        SourceError: Kafka does not say how old the waiting records are.
        StorageError: the tables do not say what is complete.
    """
    promised, now = config.contract, datetime.now(UTC)
    oldest, worst, complete, counts = None, None, Complete(), dict[datetime, int]()
    if promised is not None and promised.freshness is not None:
        waiting = {(p["topic"], p["partition"]): p for p in partitions if p["lag"] and p["frontier"] is not None}
        starts, ends = ({tp: p[name] for tp, p in waiting.items()} for name in ("frontier", "end"))
        times = source.times(starts, ends) if waiting else {}
        oldest, worst = min(times.values(), default=None), worst_of()
    if promised is not None and promised.completeness is not None:
        complete, counts = periods_of()
    return state(config, oldest=oldest, worst=worst, complete=complete, counts=counts, now=now)


def state(
    config: PipelineConfig,
    *,
    oldest: datetime | None,
    worst: Worst | None = None,
    complete: Complete,
    counts: Mapping[datetime, int],
    now: datetime,
) -> tuple[dict[str, Any], ...]:
    """One row a promise: promise, promised, kept (None where that cannot be seen), found, and by_s: the seconds by
    which it is broken, 0 where it is not.

    Args:
        oldest: the Kafka timestamp of the oldest record that is not committed; None if none waits.
        worst: the batch of the last day whose oldest record was the oldest; None where that is not known.
        complete: what is said of the table's periods.
        counts: the rows that the table has of each period now.
    """
    promised = config.contract
    if promised is None:
        return ()
    rows = []
    if promised.freshness is not None:
        rows.append(_freshness(promised.freshness, oldest, now))
        if worst is not None:
            rows.append(_of_last_day(promised.freshness, worst))
    if promised.completeness is not None:
        rows += _completeness(config, complete, counts, now)
    stated = {
        "compatibility": promised.compatibility,
        "readers": ", ".join(config.readers) or None,
        "retention": duration_text(promised.retention) if promised.retention else None,
        "owners": ", ".join(promised.owners) or None,
    }
    checked = {
        "compatibility": f"schema.compatibility is {config.compatibility}",
        "readers": "a run does nothing that shuts one out",
    }
    for name, text in stated.items():
        if text is not None:
            is_kept = True if name in checked else None
            rows.append(_row(name, text, checked.get(name, ""), is_kept=is_kept))
    return tuple(rows)


def _freshness(promised: timedelta, oldest: datetime | None, now: datetime) -> dict[str, Any]:
    age = now - oldest if oldest is not None else timedelta(0)
    text = f"the oldest record that waits is {_age(age)} old" if oldest is not None else "no record waits"
    return _row("freshness", duration_text(promised), text, is_kept=age <= promised, by=age - promised)


def _of_last_day(promised: timedelta, worst: Worst) -> dict[str, Any]:
    among = f"{worst.batches:,} batch{'es' * (worst.batches > 1)} since {worst.since:%Y-%m-%d %H:%M:%S} UTC"
    text = f"a record was {_age(worst.age)} old when batch {worst.sequence:,} was committed; of {among}"
    is_kept = worst.age <= promised
    return _row("freshness of the last day", duration_text(promised), text, is_kept=is_kept, by=worst.age - promised)


def _completeness(
    config: PipelineConfig, complete: Complete, counts: Mapping[datetime, int], now: datetime
) -> list[dict[str, Any]]:
    of = periods.of(config.partition)
    assert of is not None
    assert config.contract is not None
    assert config.contract.completeness is not None
    late = config.contract.completeness.late
    # A batch may begin just before the period is over, and takes its time.
    slack = config.contract.freshness or 2 * config.trigger.every
    newest = complete.newest
    if newest is None:
        return [_row("completeness", f"late {_promised(late)}", "no period is complete yet", is_kept=None)]
    due = of.end(of.after(newest)) + late + slack
    row = complete.rows[newest]
    text = f"complete up to {of.text(newest)}, since {row.since:%Y-%m-%d %H:%M:%S} UTC"
    rows = [_row("completeness", f"late {_promised(late)}", text, is_kept=now <= due, by=now - due)]
    if behind := complete.late(counts):
        first = ", ".join(f"{of.text(start)} {count:,}" for start, count in [*behind.items()][:3])
        more = ", …" if len(behind) > 3 else ""
        total = sum(behind.values())
        text = f"{total:,} came to {len(behind):,} complete period{'s' * (len(behind) > 1)}: {first}{more}"
        rows.append({**_row("late records", "0", text, is_kept=False), "late": total})
    return rows


def _promised(late: timedelta) -> str:
    return duration_text(late) if late else "0 seconds"


def _age(age: timedelta) -> str:
    return duration_text(max(age, _SECOND) // _SECOND * _SECOND)


def _row(
    promise: str, promised: str, state: str, *, is_kept: bool | None, by: timedelta = timedelta(0)
) -> dict[str, Any]:
    broken_s = max(0.0, round(by.total_seconds(), 1)) if is_kept is False else 0.0
    return {"promise": promise, "promised": promised, "kept": is_kept, "found": state, "by_s": broken_s}
