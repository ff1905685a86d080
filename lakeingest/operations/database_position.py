"""Up to which place in a database's log the table of its change events holds everything that Kafka has.

Transactions come in the order of their commits. An event lies in the log before the commit of its own transaction, so
that all which was committed up to the event has come, and no half of a transaction is claimed. PostgreSQL's events also
name the end of the transaction before (`_position.commit`), which may lie behind the event.

The newest event of a partition is told by the receipt of the newest batch (see `delta.log_ends`), or, where it tells of
none, by the rows: one that a transform drops does not show there, and the claim is earlier then, never later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from lakeingest.config import PipelineConfig
from lakeingest.delta.commit_log import CommitLog
from lakeingest.errors import UsageError
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import partition_lags
from lakeingest.operations.readers import PipelineReader
from lakeingest.operations.results import log_position
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.record import Frontier
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, CHANGES, POSITION

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_BINLOG = re.compile(r"(?:.*\D)?(\d+):(\d+)")
_ROWS = f"""
    SELECT _topic AS topic, _partition AS number, max(struct({POSITION}, _offset, {CHANGE}, {CHANGED_AT})) AS newest
    FROM {{rows}} WHERE {POSITION} IS NOT NULL GROUP BY _topic, _partition
"""


@dataclass(frozen=True)
class NewestEvent:
    """The event of a topic-partition that is the furthest in the database's log.

    Attributes:
        place: commit, event and row, as `_position` has them.
        is_of_snapshot: whether it is a row of a snapshot, whose place is that of the snapshot.
        at: when the database committed it; None where it does not say so.
    """

    place: tuple[int, ...]
    is_of_snapshot: bool = False
    at: datetime | None = None


def is_known(config: PipelineConfig) -> bool:
    """Whether the records of a pipeline say where they stand in the log of one database."""
    envelope = config.decode.envelope
    return envelope is not None and envelope.format == "debezium" and not envelope.several_databases


def check_known(config: PipelineConfig) -> None:
    """See `is_known`.

    Raises:
        UsageError: they do not.
    """
    if not is_known(config):
        raise UsageError(
            f"the records of {config.name!r} have no place in the log of one database",
            cure="write decode.envelope: {format: debezium}, without several_databases; or drop the position",
        )


def parse(text: str) -> tuple[int, ...]:
    """A place in a database's log: 0/16B3748 of PostgreSQL, mysql-bin.000003:1547 of MySQL, or a number.

    Raises:
        UsageError: it is none of these.
    """
    if lsn := _LSN.fullmatch(text):
        return (int(lsn[1], 16) << 32 | int(lsn[2], 16),)
    if binlog := _BINLOG.fullmatch(text):
        return int(binlog[1]), int(binlog[2])
    if text.isdecimal():
        return (int(text),)
    raise UsageError(
        f'"{text}" is no place in a database\'s log',
        cure="write it as 0/16B3748 (pg_current_wal_lsn() of PostgreSQL), mysql-bin.000003:1547 (SHOW BINARY LOG "
        "STATUS of MySQL), or as the number that _position.commit has",
    )


def lies_behind(target: Sequence[int], commit: str, event: str) -> str:
    """SQL: whether an event, of these columns, lies behind a place (`parse`): see `LogPosition.reaches`."""
    first, *more = target
    if more:
        return f"({commit} > {first} OR ({commit} = {first} AND {event} >= {more[0]}))"
    return f"({commit} > {first} OR ({commit} >= {log_position.BINLOGS} AND {event} >= {first}))"


def is_before(frontier: Frontier) -> str:
    """SQL: whether a record lies before these offsets; null or false of other topic-partitions."""
    each = (
        f"(_topic = '{topic}' AND _partition = {number} AND _offset < {offset})"
        for (topic, number), offset in sorted(frontier.items())
    )
    return " OR ".join(each) or "false"


def newest_events(reader: PipelineReader, log: CommitLog) -> dict[tuple[str, int], NewestEvent]:
    """The newest event of each topic-partition that the tables know of.

    Args:
        log: the pipeline's, with its newest commit.

    Raises:
        Unreadable, StorageUnreachable: a table cannot be read.
    """
    ends = log.newest.receipt.log_ends.ends if log.newest else {}
    if ends:
        return {where: NewestEvent(end.place, at=end.time) for where, end in ends.items()}
    newest = dict[tuple[str, int], NewestEvent]()
    for row in reader.main.scan(_ROWS):
        place, _, change, at = row["newest"].values()
        event = NewestEvent(tuple(map(int, place.values())), change == CHANGES["r"], at)
        newest[row["topic"], row["number"]] = event
    return newest


def of_topics(reader: PipelineReader, topics: Topics) -> LogPosition:
    """See `position`.

    Args:
        topics: what Kafka has; asked before the tables.
    """
    log = reader.standing()
    return position(reader, log, partition_lags.of(log, topics))


def position(reader: PipelineReader, log: CommitLog, partitions: Sequence[Mapping[str, Any]]) -> LogPosition:
    """Up to which place the table holds everything that Kafka has.

    Args:
        log: see `newest_events`.
        partitions: see `Status`; asked before the log.

    Raises:
        Unreadable, StorageUnreachable: a table cannot be read.
    """
    return claim(newest_events(reader, log), [(p["topic"], p["partition"]) for p in partitions if p["lag"]])


def claim(newest: Mapping[tuple[str, int], NewestEvent], waiting: Collection[tuple[str, int]]) -> LogPosition:
    """See `position`. The events of a connector come to each partition in the order of its log: so one where records
    wait reaches as far as its newest event, and one where none wait as far as any other.

    Args:
        waiting: the topic-partitions that have records which are not committed.
    """
    if not newest:
        return LogPosition(reason="no event was committed yet")
    if absent := [f"{topic}-{number}" for topic, number in waiting if (topic, number) not in newest]:
        return LogPosition(reason=f"records of {', '.join(absent)} wait, and no change was committed yet")
    events = [newest[each] for each in waiting]
    by_place = attrgetter("place")
    event = min(events, key=by_place) if events else max(newest.values(), key=by_place)
    if event.is_of_snapshot:
        return LogPosition(reason="a snapshot is under way, or nothing has changed since its end")
    if not any(event.place):
        return LogPosition(reason="the events of this connector do not say where they stand")
    return LogPosition(event.place, event.at)
