"""How old records were when they were committed, as the statistics of the files tell that each commit added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeingest.delta import commit_log
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.reader.contract import TableReader
from lakeingest.delta.reader.log import DataFile, Unreadable
from lakeingest.operations.readers import PipelineReader

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Ages:
    """How old the records of a table's commits were.

    Attributes:
        of: version → ages of its newest and oldest record when it was committed, in seconds; without those whose files'
            statistics do not tell.
        created: when the table was made; None where that is not known.
    """

    of: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    created: datetime | None = None


@dataclass(frozen=True)
class Worst:
    """The batch whose oldest record was the oldest when it was committed.

    Attributes:
        age: of that record then.
        batches: among how many.
        since: when the first of these was committed.
    """

    age: timedelta
    sequence: int
    batches: int
    since: datetime


def ages(entries: Sequence[Mapping[str, Any]], table: TableReader) -> Ages:
    """Of commits as `TableReader.recent` has them.

    Raises:
        Unreadable: the table cannot be read without Spark.
    """
    return Ages(dict(_ages(entries)), table.created)


def worst_of(reader: PipelineReader, back: int) -> Worst | None:
    """See `worst`: among so many of the newest commits. Spark's history has no statistics of files: None by Spark."""
    entries = reader.main.recent(back)
    if entries is None:
        return None
    log = commit_log.of_history(reader.config.known_as, entries, reader.main)
    return worst(log, ages(entries, reader.main), datetime.now(UTC))


def worst(log: CommitLog, ages: Ages, now: datetime) -> Worst | None:
    """The worst batch of the last day, as far as the log was read; None where that is not known.

    A batch with records that are older than the table is left out: what waited before there was a table, the pipeline
    cannot have been late for.
    """
    oldest_of_batches = list[tuple[float, int, datetime]]()
    for commit in log.commits:
        at, (_, oldest_s) = commit.time.astimezone(UTC), ages.of.get(commit.version, (0.0, None))
        if oldest_s is None or now - at > DAY:
            continue
        if ages.created is None or at - timedelta(seconds=oldest_s) >= ages.created:
            oldest_of_batches.append((oldest_s, commit.receipt.sequence, at))
    if not oldest_of_batches:
        return None
    oldest_s, sequence, _ = max(oldest_of_batches)
    return Worst(
        timedelta(seconds=max(oldest_s, 0)), sequence, len(oldest_of_batches), min(at for _, _, at in oldest_of_batches)
    )


def _ages(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, tuple[float, float]]]:
    for entry in entries:
        at = entry["timestamp"].astimezone(UTC)
        ends = [_ends(file) for file in entry["added"]]
        ends_present = [end for end in ends if end is not None]
        if ends_present and len(ends_present) == len(ends):
            newest, oldest = max(end for _, end in ends_present), min(start for start, _ in ends_present)
            yield entry["version"], ((at - newest).total_seconds(), (at - oldest).total_seconds())


def _ends(file: DataFile) -> tuple[datetime, datetime] | None:
    """The times of a file's oldest and newest record; None where its statistics do not tell."""
    try:
        ends = [file.statistics[name]["_timestamp"] for name in ("minValues", "maxValues")]
        start, end = (datetime.fromisoformat(each) for each in ends)
    except (Unreadable, LookupError, TypeError, ValueError):
        return None
    return (start, end) if start.tzinfo and end.tzinfo else None
