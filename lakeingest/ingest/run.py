"""One attempt of a run: it begins from what the tables say, and commits batch after batch until it ends or fails.

A run that goes on after a failure begins another one, as after a crash: nothing is remembered but the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from lakeingest.config import PipelineConfig
from lakeingest.delta import table
from lakeingest.delta.commit import CommitLog, Receipt, Run
from lakeingest.delta.history import TableHistory
from lakeingest.errors import TableMismatch
from lakeingest.ingest import preflight
from lakeingest.ingest.batch_gate import BatchGate
from lakeingest.ingest.microbatch import MicroBatchExecution, Progress
from lakeingest.ingest.preflight import Accept
from lakeingest.kafka import offsets
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import replay
from lakeingest.record import Frontier, OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class Context(Protocol):
    """What a run is made with; see `pipeline.Pipeline`."""

    config: PipelineConfig
    me: Run
    gate: BatchGate
    bootstrap_servers: str

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def look_ahead(self, *paths: str) -> None:
        """Prepare the next commits to these tables."""

    def open(self, there: StructType | None, ledger: CommitLog) -> MicroBatchExecution:
        """The way of a batch."""


@dataclass
class Attempt:
    """Where a run stands between two batches.

    Attributes:
        sequence: the number of the last batch.
        last: its receipt; None before the first one.
        frontier: where the next batch begins.
        full: whether the last batch was as large as a batch may be, so that more is waiting.
    """

    context: Context
    consents: Accept
    corridor: MicroBatchExecution
    ledger: CommitLog
    refused: CommitLog
    sequence: int
    last: Receipt | None
    frontier: Frontier
    full: bool = False
    _behind: Frontier | None = None
    _declares: bool = False

    @classmethod
    def begin(cls, context: Context, topics: Topics, consents: Accept) -> Attempt:
        """What comes before the first batch.

        1. Read both frontiers, take back a commit that was made over a RESTORE, and check that the source is the one
           that the tables were fed from. 2. Make or check the tables; where only the records know the columns, the
           first batch does so. 3. Settle what a crash left open, and what a RESTORE did to replays.
        """
        config, spark = context.config, context.spark
        # 1.
        new = {config.quarantine.path} if table.ensure_quarantine(spark, config) else set()
        there = table.schema(spark, config.table.path)
        if there is None:
            new.add(config.table.path)
        else:
            context.look_ahead(config.table.path)
        ledger, refused = table.ledgers(spark, config, new=new)
        if _made_over_a_restore(spark, config, ledger):
            there = table.schema(spark, config.table.path)
            ledger, refused = table.ledgers(spark, config, new=new)
        preflight.check(config, ledger, refused, topics, consents)
        preflight.check_records(spark, config, context.bootstrap_servers, ledger, topics)
        # 2.
        corridor = context.open(there, ledger)
        if corridor.evolution.settled:
            corridor.ensure()
        # 3.
        settled = corridor.settle(ledger, refused, topics.first, accept_gap=consents.gaps)
        if ledger.restored:
            replay.settle(spark, config)
        last = ledger.newest.receipt if ledger.newest else None
        if last is not None and last.run.id == context.me.id:
            # The attempt before this one may have failed behind its commit.
            context.gate.committed(last)
        sequence = max(ledger.last_sequence, refused.last_sequence, settled)
        attempt = cls(context, consents, corridor, ledger, refused, sequence, last, ledger.frontier)
        # Without a record to commit too: a replay waits for it.
        attempt._declares = last is not None and corridor.evolution.declares
        return attempt

    def next_batch(self, topics: Topics, goal: Frontier | None) -> Progress | None:
        """Commit the next batch; None if there is nothing to commit.

        Args:
            topics: what Kafka holds now.
            goal: the offsets at which the run is to end; None if it goes on for ever.
        """
        config = self.context.config
        gaps = offsets.gaps(topics, self.frontier) if self.consents.gaps else OffsetRanges(())
        starts = {**self.frontier, **gaps.frontier}
        starts |= offsets.starts(config.source, topics, starts)
        spans = offsets.next_ranges(starts, goal or topics.last, config.trigger.max_records)
        self.full = spans.offsets >= config.trigger.max_records
        opens = not spans.offsets and (self._opens(starts) or self._declares)
        if opens and not self.corridor.evolution.foresees(self.sequence + 1):
            # No table can be made yet: "latest" is where it is now, as long as this run goes on.
            self.frontier, opens = starts, False
        if not (spans.offsets or opens or gaps.spans):
            return None
        self.sequence += 1
        self._declares = False
        self.last = receipt = replace(self._receipt(topics, spans), gaps=gaps)
        progress = self.corridor.batch(receipt, self._beyond(starts))
        self.frontier = spans.frontier
        if self.frontier != goal:
            also = () if receipt.whole(progress.counts.accepted) else (config.quarantine.path,)
            self.context.look_ahead(config.table.path, *also)
        return replace(progress, lag=offsets.lag(self.frontier, topics.last))

    def _opens(self, begin: Frontier) -> bool:
        """Whether an empty commit is due, so that where "latest" was is remembered before a record arrives."""
        return self.context.config.source.start == "latest" and any(tp not in self.frontier for tp in begin)

    def _beyond(self, starts: Frontier) -> Frontier:
        """How far quarantine reached beyond the frontier when the attempt began."""
        if self._behind is None:
            # A quarantine without commits holds nothing, and costs no look.
            holds = self.refused.last_sequence or not self.refused.complete or self.ledger.recovered
            self._behind = table.beyond(self.context.spark, self.context.config, starts) if holds else {}
        return self._behind

    def _receipt(self, topics: Topics, spans: OffsetRanges) -> Receipt:
        config, last = self.context.config, self.last
        left = {n: i for n, i in {**last.left, **last.topics}.items() if n not in topics.ids} if last else {}
        where = config.quarantine.path
        return Receipt(
            config.known_as, self.sequence, self.context.me, topics.cluster, topics.ids, spans, where, left=left
        )


def _made_over_a_restore(spark: SparkSession, config: PipelineConfig, ledger: CommitLog) -> bool:
    """Take back the newest batch if somebody restored the table between its decision and its commit, which Delta lets
    happen: it jumps over what the RESTORE took back, or doubles what it brought back.

    Raises:
        TableMismatch: others have changed rows since.
    """
    newest, log = ledger.newest, TableHistory(spark, ledger.path)
    if newest is None or newest.receipt.base is None or not log.restored(newest.receipt.base, newest.version):
        return False

    def replayed(entry: Mapping[str, Any]) -> bool:
        receipt = Receipt.from_json(entry["userMetadata"])
        return receipt is not None and receipt.pipeline == replay.name_of(config)

    if not log.take_back(newest.version, replayed):
        raise TableMismatch(
            f"{ledger.path} was restored while batch {newest.receipt.sequence} was on its way (version "
            f"{newest.version}), and others have changed rows since",
            cure=f"RESTORE TABLE delta.`{ledger.path}` TO VERSION AS OF {newest.version - 1}, make those changes "
            "again, and run again",
        )
    return True
