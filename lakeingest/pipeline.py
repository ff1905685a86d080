"""The corridor: walks one micro-batch through the rooms. Start reading at `Ingestion.run`, then `Ingestion.batch`.

Kafka → decode → partition → commit; on refusal, at any stage, → quarantine
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeingest import audit, commit, decode, partition, quarantine, session, source, status, table
from lakeingest.audit import Report
from lakeingest.commit import Counts, Ledger, Receipt, Run
from lakeingest.config import Pipeline, Storage
from lakeingest.decode import Decoded
from lakeingest.errors import SetupError, SourceChanged, TableMismatch
from lakeingest.local import running
from lakeingest.record import COORDINATES, HEADERS, Frontier, Refusal, Spans
from lakeingest.source import Topics
from lakeingest.status import Status

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

_REFUSED = "_refused"
_DROPPED = "_dropped"


@dataclass(frozen=True)
class Progress:
    """What a run tells after each commit.

    Attributes:
        sequence, version: the batch's number, and the table version that holds it.
        counts: what became of its records.
        seconds: how long the batch took.
        lag: offsets beyond the frontier, as Kafka stood when the batch began.
    """

    sequence: int
    version: int
    counts: Counts
    seconds: float
    lag: int = 0


@dataclass(frozen=True)
class Batch:
    """How the records of one micro-batch are decided: its clock, the decoding, the layout, the table's columns."""

    now: datetime
    decoded: Decoded
    layout: partition.Layout
    columns: tuple[str, ...]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.decoded.refusals + self.layout.refusals

    def decide(self, kafka: DataFrame) -> DataFrame:
        """The frame with decoded columns, _refused and _dropped (BOOLEAN, never null)."""
        from pyspark.sql import functions as F

        parsed = kafka.withColumns(self.decoded.parsed) if self.decoded.parsed else kafka
        columns = {name: column for name, column in self.decoded.columns.items() if name != HEADERS}
        refused: Column = F.lit(False)
        for refusal in self.refusals:
            refused = refused | refusal.when
        return parsed.withColumns(columns).withColumns(
            {_DROPPED: self.decoded.dropped, _REFUSED: refused & ~self.decoded.dropped}
        )

    def accepted(self, decided: DataFrame) -> DataFrame:
        """The rows of the table: its columns, and the partition columns that Delta does not generate."""
        taken = decided.where(f"NOT {_REFUSED} AND NOT {_DROPPED}")
        computed = {c.name: c.value for c in self.layout.columns if c.value is not None}
        return taken.select(*self.columns, *(column.alias(name) for name, column in computed.items()))


def addresses(config: Pipeline) -> tuple[str, Storage]:
    """Brokers and storage: the file's own, or, where it names no brokers, the running embedded stack's.

    Raises:
        SetupError: the file names none, and no stack is running.
    """
    if config.source.bootstrap_servers is not None:
        return config.source.bootstrap_servers, config.storage
    stack = running()
    if stack is None:
        raise SetupError(
            f"pipeline {config.name!r} names no brokers, and no embedded stack is running",
            cure="start one with `lakeingest stack up`, or set source.bootstrap_servers (and storage)",
        )
    if config.storage.endpoint is not None or config.storage.access_key is not None:
        return stack.kafka, config.storage
    keys = {"access_key": stack.s3_access_key, "secret_key": stack.s3_secret_key}
    return stack.kafka, Storage.model_validate({"endpoint": stack.s3, **keys, "path_style": True})


@dataclass
class Ingestion:
    """A pipeline that can be run, asked and audited; made by `lakeingest.load`.

    Raises:
        SetupError: the file gives no addresses and no embedded stack is running.
    """

    config: Pipeline
    me: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        self.bootstrap_servers, self.storage = addresses(self.config)
        self.broker = source.Broker(self.config.source, self.bootstrap_servers)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that is active, or one of our own."""
        return session.attach(self.storage, self.config.name)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        on_progress: Callable[[Progress], None] = lambda _: None,
        stop: threading.Event | None = None,
        accept_dropped_topics: bool = False,
    ) -> Counts:
        """Take micro-batches until stopped, or until all is committed that Kafka held when the run began.

        1. Make or check the tables. 2. Read both frontiers, and check that the source is the one they were fed from.
        3. Settle what a crash left open. 4. Batch after batch, by the pipeline's trigger.

        Args:
            until_caught_up: end when the frontier reaches the offsets that were there at the start.
            on_progress: called after each commit, from this thread.
            stop: when set, the batch in hand is finished, and the run ends.
            accept_dropped_topics: go on although a topic that the table was fed from is no longer in source.topics.

        Returns:
            The counts of all batches of this run.

        Raises:
            Fenced: another run of the pipeline has taken over.
            SourceError, StorageError: see their subclasses; nothing is lost, a later run goes on from the frontier.
        """
        stop = stop or threading.Event()
        topics = self.broker.topics()
        table.ensure(self.spark, self.config, self._batch().layout.columns)
        ledger, refused = table.ledgers(self.spark, self.config)
        self._same_source(ledger, refused, topics, accept_dropped_topics)
        self._settle(ledger, refused)
        frontier, sequence = ledger.frontier, max(ledger.last_sequence, refused.last_sequence)
        goal, total = topics.last if until_caught_up else None, Counts()
        while not stop.is_set():
            begun = time.monotonic()
            begin = {**frontier, **source.starts(self.config.source, topics, frontier)}
            spans = source.next_spans(begin, goal or topics.last, self.config.trigger.max_records)
            if spans.offsets or self._opens(frontier, begin):
                sequence += 1
                progress = self.batch(self._receipt(sequence, topics, spans), refused.frontier)
                frontier, total = spans.frontier, total + progress.counts
                on_progress(replace(progress, lag=source.lag(frontier, topics.last)))
            elif until_caught_up:
                break
            if not until_caught_up:
                if spans.offsets < self.config.trigger.max_records:
                    stop.wait(max(0.0, self.config.trigger.every.total_seconds() - (time.monotonic() - begun)))
                topics = self.broker.topics()
                self._same_topics(topics, ledger)
        return total

    def status(self) -> Status:
        """Where the pipeline stands; see `status.Status`."""
        return status.status(self.spark, self.config, self.broker.topics())

    def audit(self) -> Report:
        """The conservation proof; see `audit.Report`."""
        return audit.audit(self.spark, self.config)

    def quarantined(self, samples: int = 3) -> list[dict[str, Any]]:
        """Refused records by stage and reason: stage, reason, count, samples (coordinates, message)."""
        return quarantine.reasons(table.read(self.spark, self.config.quarantine.path), samples)

    def quarantined_record(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """One refused record as its row in quarantine, None if it is not there."""
        return quarantine.record(table.read(self.spark, self.config.quarantine.path), topic, partition, offset)

    def batch(self, receipt: Receipt, behind: Frontier) -> Progress:
        """The way of the records of one micro-batch: the commit protocol.

        1. The spans begin at the table's frontier, so that nothing is read that was committed. Only where quarantine
           is ahead of the table (a RESTORE), what it holds already is left out, by coordinates.
        2. The accepted rows are written and committed; the same pass counts what it refuses and drops.
        3. Only if some were refused, their part is read again, and written to quarantine with the diagnosis. A batch
           that left any of its offsets without a row is accounted for there too, with the counts.

        `commit.append` makes sure of each commit that it is ours.

        Args:
            receipt: the batch's sequence number, and its offsets.
            behind: quarantine's frontier when the run began.

        Raises:
            Fenced: another run committed this sequence number; nothing was written.
        """
        from pyspark.sql import Observation

        begun = time.monotonic()
        batch = self._batch()
        kafka, known = self._unknown(self._read(receipt.spans), receipt.spans, behind)
        decided = batch.decide(kafka)
        seen = Observation()
        # 2.
        accepted = batch.accepted(_observed(decided, seen))
        done = commit.append(self.spark, self.config.table.path, accepted, receipt, self.config.table.compression)
        counts = _counts(seen, done.rows, known)
        # 3.
        if counts.accepted < receipt.spans.offsets:
            refused = _observed(decided, Observation()).where(_REFUSED) if counts.refused else decided.limit(0)
            self._set_aside(refused, batch, replace(receipt, counts=counts))
        return Progress(receipt.sequence, done.version, counts, time.monotonic() - begun)

    def _batch(self) -> Batch:
        now = datetime.now(UTC)
        layout = partition.layout(self.config.partition, decode.value_schema(self.config), now)
        return Batch(now, decode.decode(self.config), layout, tuple(table.columns(self.config).fieldNames()))

    def _read(self, spans: Spans) -> DataFrame:
        return source.frame(self.spark, self.config.source, self.bootstrap_servers, self.config.name, spans)

    def _receipt(self, sequence: int, topics: Topics, spans: Spans) -> Receipt:
        return Receipt(
            self.config.name, sequence, self.me, topics.cluster, topics.ids, spans, self.config.quarantine.path
        )

    def _set_aside(self, refused: DataFrame, batch: Batch, receipt: Receipt) -> None:
        rows = quarantine.rows(refused, batch.refusals, receipt.pipeline, receipt.sequence, batch.now)
        commit.append(self.spark, self.config.quarantine.path, rows, receipt, self.config.table.compression)

    def _unknown(self, kafka: DataFrame, spans: Spans, behind: Frontier) -> tuple[DataFrame, int]:
        """The records that quarantine does not hold yet, and how many it does."""
        if all(behind.get((s.topic, s.partition), 0) <= s.start for s in spans):
            return kafka, 0
        held = table.coordinates(self.spark, self.config.quarantine.path, spans)
        return kafka.join(held, list(COORDINATES), "left_anti"), held.count()

    def _settle(self, ledger: Ledger, refused: Ledger) -> None:
        """Finish the newest batch, if its writer ended between the table's commit and quarantine's.

        A batch with a row for each offset is whole; any other is, if quarantine has its sequence number. Older ones are
        whole, because a run settles before it goes on. What is missing is a difference of coordinates, so it does
        not matter whether today's rules would decide as those of its time did.
        """
        newest = ledger.newest
        if newest is None or newest.rows == newest.receipt.spans.offsets:
            return
        if any(commit.receipt.sequence == newest.receipt.sequence for commit in refused.commits):
            return
        from pyspark.sql import Observation

        spans, batch, seen = newest.receipt.spans, self._batch(), Observation()
        decided = _observed(batch.decide(self._read(spans)), seen)
        missing = decided
        for path in (self.config.table.path, self.config.quarantine.path):
            missing = missing.join(table.coordinates(self.spark, path, spans), list(COORDINATES), "left_anti")
        missing = missing.where(f"NOT {_DROPPED}").persist()
        refused_rows = missing.count()
        found = seen.get
        counts = Counts(found["consumed"], newest.rows, refused_rows, found["consumed"] - newest.rows - refused_rows)
        self._set_aside(missing, batch, replace(newest.receipt, run=self.me, counts=counts))
        missing.unpersist()

    def _opens(self, frontier: Frontier, begin: Frontier) -> bool:
        """Whether an empty commit is due, so that where "latest" was is remembered before a record arrives."""
        return self.config.source.start == "latest" and any(tp not in frontier for tp in begin)

    def _same_source(self, ledger: Ledger, refused: Ledger, topics: Topics, accept_dropped_topics: bool) -> None:
        """Notice that the pipeline file was changed to another table, quarantine, topic or cluster.

        Raises:
            SourceChanged, TableMismatch: with what to do about it.
        """
        if ledger.newest is None:
            if refused.newest is not None and not ledger.recovered:
                raise TableMismatch(
                    f"{self.config.table.path} holds nothing of pipeline {self.config.name!r}, but its quarantine "
                    f"{self.config.quarantine.path} does, up to sequence {refused.last_sequence}",
                    cure="put table.path back as it was, or give the pipeline a new name",
                )
            return
        last = ledger.newest.receipt
        if last.quarantine != self.config.quarantine.path:
            raise TableMismatch(
                f"pipeline {self.config.name!r} kept its refused records in {last.quarantine}, "
                f"the file now says {self.config.quarantine.path}",
                cure="put quarantine.path (or table.path) back as it was, or give the pipeline a new name and table",
            )
        self._same_topics(topics, ledger)
        dropped = sorted(set(last.topics) - set(topics.ids))
        if dropped and not accept_dropped_topics:
            raise SourceChanged(
                f"the table was fed from {', '.join(dropped)} too, which source.topics no longer names",
                cure="name it again, or run once with --accept-dropped-topics; its frontier stays remembered",
            )

    def _same_topics(self, topics: Topics, ledger: Ledger) -> None:
        if ledger.newest is None:
            return
        last = ledger.newest.receipt
        if last.cluster != topics.cluster:
            raise SourceChanged(
                f"the table was fed from Kafka cluster {last.cluster}, {self.bootstrap_servers} is {topics.cluster}: "
                "the same offsets are other records there",
                cure="correct source.bootstrap_servers, or give the pipeline a new name and table",
            )
        for name, identity in topics.ids.items():
            if last.topics.get(name, identity) != identity:
                raise SourceChanged(
                    f"topic {name!r} was deleted and made again (id {identity}, it was {last.topics[name]}): "
                    "its offsets begin anew",
                    cure="give the pipeline a new name and table for the new topic",
                )


def _observed(decided: DataFrame, seen: Observation) -> DataFrame:
    """The same rows, counted.

    What is observed is also a barrier: without it Spark pushes the filter that follows below the parse, and parses once
    for each use of a column (375 times was seen).
    """
    from pyspark.sql import functions as F

    return decided.observe(
        seen,
        F.count(F.lit(1)).alias("consumed"),
        F.count_if(F.col(_REFUSED)).alias("refused"),
        F.count_if(F.col(_DROPPED)).alias("dropped"),
    )


def _counts(seen: Observation, accepted: int, known: int) -> Counts:
    """`known` records are in quarantine already, from a batch that a RESTORE took back."""
    found = seen.get
    return Counts(found["consumed"] + known, accepted, found["refused"] + known, found["dropped"])
