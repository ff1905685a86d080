"""Notices, before a batch is committed, that a database's log began anew (see `delta.log_ends`).

The order of a table is then no order any more: rows that the database has changed since would keep their old values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakeingest.delta.log_ends import NO_ENDS, BatchEvents, LogEnd, LogEnds, TopicPartition
from lakeingest.errors import SourceChanged
from lakeingest.record import OFFSET, PARTITION, TOPIC
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, CHANGES, POSITION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from lakeingest.config import PipelineConfig
    from lakeingest.delta.commit_log import CommitLog
    from lakeingest.delta.latest import LatestRows
    from lakeingest.delta.receipt import Receipt


@dataclass
class LogOrder:
    """How far the logs are known behind the run's newest batch.

    Attributes:
        ends: that.
        is_followed: whether there is an order to follow.
        accepts_restart: whether a log may begin anew.
    """

    ends: LogEnds
    is_followed: bool
    accepts_restart: bool = False

    @classmethod
    def of(cls, config: PipelineConfig, log: CommitLog) -> LogOrder:
        """As the run's newest receipt has it."""
        envelope = config.decode.envelope
        is_followed = envelope is not None and not envelope.several_databases
        return cls(log.newest.receipt.log_ends if log.newest and is_followed else NO_ENDS, is_followed)

    def placed(self, rows: DataFrame, receipt: Receipt, latest: LatestRows) -> Receipt:
        """The receipt of a batch, with the ends of the logs behind it.

        Args:
            rows: those that are about to be committed, kept.

        Raises:
            SourceChanged: a log began anew, and that was not accepted.
        """
        if self.is_followed and receipt.job.name == "run" and _is_ordered_by_log(latest, rows):
            events, ends = _events(rows), self.ends
            if self.accepts_restart:
                ends = LogEnds({where: end for where, end in ends.ends.items() if where not in events})
            else:
                _check(events, ends)
            self.ends = ends.behind(events)
        return replace(receipt, log_ends=self.ends)


def _is_ordered_by_log(latest: LatestRows, rows: DataFrame) -> bool:
    ordered = latest.order and latest.order[0].path.partition(".")[0].lower() == POSITION
    return bool(ordered) and {CHANGE, CHANGED_AT} <= set(rows.columns)


def _events(rows: DataFrame) -> dict[TopicPartition, BatchEvents]:
    """Of each partition. The rows of a snapshot are no events of the log: they say where it was when they were read."""
    place = F.struct(f"{POSITION}.*")
    at = F.unix_micros(CHANGED_AT)
    events = rows.where((F.col(CHANGE) != CHANGES["r"]) & F.col(CHANGED_AT).isNotNull())
    partitions = events.groupBy(TOPIC, PARTITION).agg(
        F.max(F.struct(place, OFFSET, at)), F.max(F.struct(at, OFFSET, place))
    )
    batch = dict[TopicPartition, BatchEvents]()
    for topic, partition, (far, far_offset, far_at), (late_at, late_offset, late) in partitions.collect():
        furthest, newest = LogEnd(tuple(map(int, far)), far_at), LogEnd(tuple(map(int, late)), late_at)
        batch[topic, partition] = BatchEvents(furthest, far_offset, newest, late_offset)
    return batch


def _check(events: Mapping[TopicPartition, BatchEvents], ends: LogEnds) -> None:
    for (topic, partition), batch in events.items():
        if (pair := batch.restart(ends.ends.get((topic, partition)))) is None:
            continue
        end, event = pair
        raise SourceChanged(
            f"the log of the database begins anew in {topic}-{partition}: an event lies at {_text(event)}, before one "
            f"at {_text(end)}, although it was committed later. Rows would keep values that the database has no more",
            cure="was the database restored from a backup, or did another server take over: let the connector make a "
            "new snapshot into other topics, and give the pipeline a new name and table. Was only its clock wrong: run "
            "once with --accept-log-restart. Do several databases write into the topic: set "
            "decode.envelope.several_databases",
        )


def _text(event: LogEnd) -> str:
    place = "/".join(map(str, event.place))
    return f"{place} ({event.time:%Y-%m-%d %H:%M:%S} UTC)"
