"""The corridor: walks one micro-batch through the rooms. Start reading at `Ingestion.run`, then `Ingestion.batch`.

Kafka → decode → gate → partition → commit; on refusal, at any stage, → quarantine
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lakeingest import (
    ahead,
    audit,
    commit,
    compact,
    fit,
    gate,
    identity,
    kept,
    plan,
    quarantine,
    replay,
    session,
    source,
    status,
    table,
    timeline,
    whereabouts,
)
from lakeingest.audit import Report
from lakeingest.batch import DROPPED, REFUSED, Batch, begin, layout, observed, set_aside, suspects
from lakeingest.commit import Counts, Ledger, Receipt, Run
from lakeingest.compact import Compacted
from lakeingest.config import Pipeline
from lakeingest.decode import Shape
from lakeingest.errors import LakeingestError, PipelineFileError, SourceUnreachable, StorageError, UsageError
from lakeingest.evolution import Evolution
from lakeingest.gate import results
from lakeingest.gatekeeper import Gatekeeper, Verdict
from lakeingest.identity import Consents
from lakeingest.patience import Patience, Retry
from lakeingest.plan import Plan
from lakeingest.record import COORDINATES, UNPLANNED, Frontier, Spans, Unplanned
from lakeingest.replay import Replayed
from lakeingest.schema.history import History
from lakeingest.source import Topics
from lakeingest.status import Status
from lakeingest.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SAMPLE = 1000
"""Offsets of each partition that show a run which schemas to expect; one that comes later is met as in any batch."""


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


@dataclass
class Ingestion:
    """A pipeline that can be run, asked and audited; made by `lakeingest.load`.

    Raises:
        PipelineFileError: the gate's suite is wrong.
        SetupError: the file gives no addresses and no embedded stack is running.
    """

    config: Pipeline
    me: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        self.suite = gate.load(self.config)
        self.gate = Gatekeeper(self.config, self.suite)
        self.bootstrap_servers, self.storage = whereabouts.addresses(self.config)
        self.broker = source.Broker(self.config.source, self.bootstrap_servers)
        self._there: StructType | None = None
        self._kept = History()
        self._begun: Batch | None = None
        self.evolution = self._evolution(History())

    def _evolution(self, history: History) -> Evolution:
        ask = partial(whereabouts.registry, self.config)
        return Evolution(self.config, history, ask, self._there)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that is active, or one of our own."""
        spark = session.attach(self.storage, self.config.name)
        if "avro" in (self.config.decode.value.format, self.config.decode.key.format):
            session.warn_of_avro(spark)
        return spark

    @cached_property
    def _logs(self) -> SparkSession | None:
        return session.for_logs(self.spark, self.storage)

    def _look_ahead(self, *paths: str) -> None:
        """Prepare the next commits to these tables, while there is nothing else to do."""
        if self._logs is not None:
            ahead.look(self._logs, *paths)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_retry: Callable[[Retry], None] = lambda _: None,
        stop: threading.Event | None = None,
        accept_dropped_topics: bool = False,
        accept_gap: bool = False,
        accept_held: str | None = None,
    ) -> Counts:
        """Take micro-batches until stopped, or until all is committed that Kafka held when the run began.

        A server that fails while the run goes is tried again as long as `retry.wait` says. Each time the run begins
        anew, from what the tables say, as after a crash: so there is one way to go on, and no other state.

        Args:
            until_caught_up: end when the frontier reaches the offsets that were there at the start.
            on_progress: called after each commit, from this thread.
            on_retry: called before each pause, from this thread.
            stop: when set, the batch in hand is finished, and the run ends.
            accept_dropped_topics: go on although a topic that the table was fed from is no longer in source.topics.
            accept_gap: go on although Kafka has deleted offsets that were never read; the receipt names them.
            accept_held: why the first batch that the gate would hold is let through; its receipt says who and why.

        Returns:
            The counts of all batches of this run.

        Raises:
            BatchHeld: a batch breaks an expectation that keeps it back.
            Fenced: another run of the pipeline has taken over.
            SourceError, StorageError: see their subclasses; nothing is lost, a later run goes on from the frontier.
        """
        stop, total, patience = stop or threading.Event(), Counts(), Patience(self.config.retry.wait.total_seconds())
        goal: Frontier | None = None
        consents = Consents(accept_dropped_topics, accept_gap)
        self.gate.reason = accept_held
        while True:
            try:
                topics = self.broker.topics()
                goal = topics.last if until_caught_up and goal is None else goal
                for progress in self._batches(topics, goal, stop, consents, patience):
                    total += progress.counts
                    session.exercised()
                    patience.renew()
                    on_progress(progress)
                return total
            except LakeingestError as failure:
                retry = patience.after(failure)
                if retry is None:
                    # A store that fails would only keep the process from ending.
                    if not isinstance(failure, StorageError):
                        with suppress(LakeingestError):
                            self.gate.flush(self.spark)
                    raise
                on_retry(retry)
                if stop.wait(retry.pause_s):
                    return total

    def _batches(
        self,
        topics: Topics,
        goal: Frontier | None,
        stop: threading.Event,
        consents: Consents,
        patience: Patience,
    ) -> Iterator[Progress]:
        """Commit batch after batch, up to the goal if there is one.

        1. Read both frontiers, and check that the source is the one they were fed from. 2. Make or check the tables;
           where only the records know the columns, the first batch does so. 3. Settle what a crash left open. 4. Batch
           after batch, by the pipeline's trigger; in the end wait for the gate's results.

        Args:
            patience: it is told when 1. to 3. are done, and when there is nothing to commit.
        """
        # 1.
        new = {self.config.quarantine.path} if table.ensure_quarantine(self.spark, self.config) else set()
        self._there = table.schema(self.spark, self.config.table.path)
        if self._there is None:
            new.add(self.config.table.path)
        else:
            self._look_ahead(self.config.table.path)
        ledger, refused = table.ledgers(self.spark, self.config, new=new)
        identity.check(self.config, ledger, refused, topics, consents)
        # 2.
        self._kept = ledger.kept
        self.evolution = self._evolution(ledger.schemas)
        if self.evolution.settled:
            self._ensure()
        # 3.
        self._settle(ledger, refused)
        frontier, sequence = ledger.frontier, max(ledger.last_sequence, refused.last_sequence)
        last = ledger.newest.receipt if ledger.newest else None
        behind: Frontier | None = None
        patience.underway()
        # 4.
        while not stop.is_set():
            begun = time.monotonic()
            gaps = source.gaps(topics, frontier) if consents.gaps else Spans(())
            starts = {**frontier, **gaps.frontier}
            starts |= source.starts(self.config.source, topics, starts)
            spans = source.next_spans(starts, goal or topics.last, self.config.trigger.max_records)
            opens = not spans.offsets and self._opens(frontier, starts)
            if opens and not self.evolution.foresees(sequence + 1):
                # No table can be made yet: "latest" is where it is now, as long as this run goes on.
                frontier, opens = starts, False
            if spans.offsets or opens or gaps.spans:
                sequence += 1
                last = replace(self._receipt(sequence, topics, spans, last), gaps=gaps)
                if behind is None:
                    # A quarantine without commits holds nothing, and costs no look.
                    behind = table.beyond(self.spark, self.config.quarantine.path, starts) if refused.newest else {}
                progress = self.batch(last, behind)
                frontier = spans.frontier
                if frontier != goal:
                    also = () if last.whole(progress.counts.accepted) else (self.config.quarantine.path,)
                    self._look_ahead(self.config.table.path, *also)
                yield replace(progress, lag=source.lag(frontier, topics.last))
            elif goal is not None:
                break
            else:
                self.gate.flush(self.spark)
                patience.renew()
            if goal is None:
                if spans.offsets < self.config.trigger.max_records:
                    stop.wait(max(0.0, self.config.trigger.every.total_seconds() - (time.monotonic() - begun)))
                topics = self.broker.topics()
                identity.check_topics(last, topics)
        self.gate.wait(self.spark)

    def status(self) -> Status:
        """Where the pipeline stands; see `status.Status`."""
        return status.status(self.spark, self.config, self.broker.topics())

    def audit(self) -> Report:
        """The conservation proof; see `audit.Report`."""
        return audit.audit(self.spark, self.config)

    def plan(self, sample: int = 10_000, *, suggest: bool = False) -> Plan:
        """What a run would do with the next records, or with the newest if it is caught up; writes nothing.

        Args:
            sample: how many offsets to look at.
            suggest: whether to suggest a suite that the accepted records meet.

        Raises:
            UsageError: there are no records, or none that a table's columns could be told from.
        """
        topics, path = self.broker.topics(), self.config.table.path
        ledger = Ledger(path, self.config.name)
        self._there = table.schema(self.spark, path)
        if self._there is not None:
            ledger, refused = table.ledgers(self.spark, self.config)
            identity.check(self.config, ledger, refused, topics, Consents())
        starts = source.starts(self.config.source, topics, ledger.frontier)
        if starts == topics.last:
            share = max(1, sample // max(len(starts), 1))
            starts = {tp: max(topics.first[tp], end - share) for tp, end in topics.last.items()}
        spans = source.next_spans(starts, topics.last, sample)
        if not spans.offsets:
            raise UsageError(
                f"{', '.join(self.config.source.topics)} holds no record, so that nothing can be told",
                cure="let some records come, and plan again",
            )
        self.evolution = self._evolution(ledger.schemas)
        before, kafka = len(self.evolution.history.entries), self._read(spans).persist()
        try:
            self._look(kafka, ledger.last_sequence + 1)
            batch = self._begin(self.evolution.shape(self._there, looked=True))
            entries = self.evolution.history.entries[before:]
            return plan.plan(
                self.config, self.suite, batch, kafka, spans=spans, there=self._there, schemas=entries, suggest=suggest
            )
        finally:
            kafka.unpersist()

    def results(self, batches: int = 10) -> list[dict[str, Any]]:
        """What the gate found in the newest batches, a row for each expectation; see `gate.results` for the columns."""
        return results.newest(table.read(self.spark, self.config.results), self.config.name, batches)

    def schemas(self) -> Timeline:
        """How the table came to its columns; see `timeline.Timeline`."""
        return timeline.timeline(self.spark, self.config)

    def quarantined(self, samples: int = 3) -> list[dict[str, Any]]:
        """Refused records by stage and reason: stage, reason, count, samples (coordinates, message)."""
        return quarantine.reasons(table.read(self.spark, self.config.quarantine.path), samples)

    def replay(
        self, why: str, *, where: str | None = None, limit: int | None = None, dry_run: bool = False
    ) -> Replayed:
        """Decode and check refused records again, and move those that pass into the table; see `replay`.

        Args:
            why: the reason, kept with each record that moves.
            where: a condition over quarantine's columns, in Spark SQL.
            limit: most records to look at, in the order of their coordinates.
            dry_run: look only.

        Raises:
            UsageError: there is no such table, or the condition is none, or records bring a schema that the table has
                not seen.
            Fenced: another replay of this pipeline committed meanwhile; nothing of this one was written.
        """
        table.ensure_quarantine(self.spark, self.config)
        self._there = table.read(self.spark, self.config.table.path).schema
        if not dry_run:
            replay.settle(self.spark, self.config)
        ledger, _ = table.ledgers(self.spark, self.config)
        self.evolution = self._evolution(ledger.schemas)
        before = self.evolution.history.current
        kafka = replay.candidates(self.spark, self.config, where, limit).persist()
        try:
            self._look(kafka, ledger.last_sequence)
            if self.evolution.history.current != before:
                raise UsageError(
                    "refused records bring a schema that would change the table",
                    cure="run the pipeline first: its batches alone change a table's columns",
                )
            batch = self._begin(self.evolution.shape(self._there, looked=True))
            decided = batch.decide(kafka)
            accepted, looked = batch.accepted(decided), kafka.count()
            rows = quarantine.rows(decided.where(REFUSED), batch.refusals, self.config.name, 0, batch.now)
            refused, moved = tuple(quarantine.reasons(rows, 1)), accepted.count()
            if moved and not dry_run:
                receipt = replay.receipt(self.spark, self.config, self.me, why)
                commit.append(self.spark, self.config.table.path, accepted, receipt, self.config.table.compression)
                replay.settle(self.spark, self.config)
            return Replayed(looked, moved, refused)
        finally:
            kafka.unpersist()

    def discard(self, why: str, *, where: str | None = None) -> int:
        """Give refused records up: they stay in quarantine, marked with who, when and why; how many they are.

        Args:
            where: a condition over quarantine's columns, in Spark SQL; all of them by default.

        Raises:
            UsageError: the condition is none.
        """
        table.ensure_quarantine(self.spark, self.config)
        return replay.discard(self.spark, self.config, where, why)

    def compact(self, target_bytes: int, *, where: str | None = None, dry_run: bool = False) -> list[Compacted]:
        """Make large files of small ones, in the main table, in quarantine and in the gate's results.

        Args:
            target_bytes: about how large the new files become.
            where: a condition over the main table's partition columns, in Spark SQL.
            dry_run: look only.

        Raises:
            UsageError: there is no table yet, or the condition is none.
        """
        paths = [self.config.table.path, self.config.quarantine.path]
        if table.schema(self.spark, self.config.results) is not None:
            paths.append(self.config.results)
        if dry_run:
            now = {path: compact.look(self.spark, path) for path in paths}
            return [Compacted(path, files, files) for path, files in now.items()]
        return [compact.compact(self.spark, p, target_bytes, where if p == paths[0] else None) for p in paths]

    def quarantined_record(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """One refused record as its row in quarantine, None if it is not there."""
        return quarantine.record(table.read(self.spark, self.config.quarantine.path), topic, partition, offset)

    def batch(self, receipt: Receipt, behind: Frontier) -> Progress:
        """The way of the records of one micro-batch: the commit protocol.

        1. The spans begin at the table's frontier, so that nothing is read that was committed. Only where quarantine
           is ahead of the table (a RESTORE), what it holds already is left out, by coordinates.
        2. The accepted rows are written and committed; the same pass counts what it refuses and drops.
        3. Only if some were refused, the batch is read again, these alone are decoded again (`suspects`), and they are
           written to quarantine with the diagnosis. A batch that left any of its offsets without a row is accounted
           for there too, with the counts.

        `commit.append` makes sure of each commit that it is ours.

        Args:
            receipt: the batch's sequence number, and its offsets.
            behind: how far quarantine's rows reached beyond the table's frontier when the run began (a RESTORE).

        Raises:
            Fenced: another run committed this sequence number; nothing was written.
        """
        begun = time.monotonic()
        kafka, known = self._unknown(self._read(receipt.spans), receipt.spans, behind)
        evolution = self.evolution
        if evolution.blank and (sample := receipt.spans.first(_SAMPLE)) != receipt.spans:
            self._look(self._read(sample), receipt.sequence)
        looked = evolution.blank or evolution.watchful or not evolution.settled
        if looked:
            self._look(kafka, receipt.sequence)
        try:
            progress = self._take(kafka, receipt, known, looked=looked)
        except Unplanned:
            self._look(kafka, receipt.sequence)
            progress = self._take(kafka, receipt, known, looked=True)
        return replace(progress, seconds=time.monotonic() - begun)

    def _look(self, kafka: DataFrame, sequence: int) -> None:
        """Let the schemas of a batch be known before it is planned.

        Raises:
            SourceUnreachable: the batch cannot be read.
            RegistryUnreachable: a schema is not known, and the registry does not answer.
        """
        with self._reading():
            self.evolution.look(kafka, sequence, self._there)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say what a failure of Spark means where it reads a batch and writes nothing.

        Raises:
            SourceUnreachable: the batch cannot be read.
            Unplanned: a record's schema is not among those that the batch was planned for.
        """
        try:
            yield
        except commit.spark_failures() as failed:
            if UNPLANNED in str(failed):
                raise Unplanned from failed
            raise SourceUnreachable(
                f"the batch cannot be read from Kafka at {self.bootstrap_servers}: {commit.in_a_line(failed)}",
                cure="look at the broker and its log; nothing was consumed, run again",
            ) from failed

    def _take(self, kafka: DataFrame, receipt: Receipt, known: int, *, looked: bool) -> Progress:
        """Steps 2 and 3 of `batch`, for records whose schemas are known, or were looked at.

        Raises:
            Unplanned: they were not, and one is not known; nothing was written.
        """
        from pyspark.sql import Observation

        begun = time.monotonic()
        if self._there is None:
            self._ensure()
        batch = self._begin(self.evolution.shape(self._there, looked=looked))
        decided, seen, path = batch.decide(kafka), Observation(), self.config.table.path
        accepted = batch.accepted(observed(decided, seen, *batch.metrics, *batch.marks))
        verdict: Verdict | None = None
        try:
            if self.gate.decides:
                with self._reading():
                    verdict = self.gate.judge(batch, decided, accepted.persist(), seen, receipt)
                receipt = replace(receipt, accepted=verdict.accepted)
                if verdict.aside:
                    accepted.unpersist()
                    batch, seen = set_aside(batch, verdict.aside), Observation()
                    decided = batch.decide(kafka)
                    accepted = batch.accepted(observed(decided, seen, *batch.metrics, *batch.marks))
            # 2.
            assert self._there is not None
            widened = table.widen(self.spark, path, self._there, accepted.schema)
            evolves = fit.lacks(self._there, accepted.schema)
            history = self.evolution.history
            receipt = replace(receipt, ledger=history.digest, schemas=History() if history == self._kept else history)
            done = commit.append(self.spark, path, accepted, receipt, self.config.table.compression, evolve=evolves)
        finally:
            if self.gate.decides:
                accepted.unpersist()
        if evolves or widened:
            self._there = table.read(self.spark, path).schema
        found = seen.get
        counts, broken = _counts(found, done.rows, known), dict[str, int]()
        # 3.
        if not receipt.whole(counts.accepted):
            refused = decided.limit(0)
            if counts.refused:
                again = batch.decide(suspects(kafka, found)) if batch.alone else decided
                refused = observed(again, Observation()).where(REFUSED)
            broken = self._set_aside(refused, batch, replace(receipt, counts=counts))
        if history != self._kept:
            kept.write(self.spark, path, self.config.name, history)
            self._kept = history
        self.gate.note(self.spark, verdict, batch, receipt, seen=found, broken=broken)
        return Progress(receipt.sequence, done.version, counts, time.monotonic() - begun)

    def _ensure(self) -> None:
        """Make or check the table, under the columns that are known by now."""
        shape, new = self.evolution.shape(None, looked=True), self._there is None
        with self._planning():
            columns = layout(self.config, shape, self.suite, datetime.now(UTC)).columns
        there, history = self._there, self.evolution.history
        self._there = table.ensure(self.spark, self.config, shape, columns, there=there, history=history)
        if new:
            self._look_ahead(self.config.table.path)
            self._kept = kept.read(self.spark, self.config.table.path, self.config.name)

    def _begin(self, shape: Shape) -> Batch:
        """A batch under the columns that are known by now."""
        with self._planning():
            self._begun = begin(self.config, shape, self.suite, self._begun)
        return self._begun

    @contextmanager
    def _planning(self) -> Iterator[None]:
        """Say why no table can be as the file says.

        Raises:
            PipelineFileError: the file asks what the columns cannot be.
            UsageError: no record has brought a schema yet.
        """
        try:
            yield
        except PipelineFileError as mistake:
            if self.evolution.settled:
                raise
            raise UsageError(
                f"no record has brought a schema yet that a table could be made for: {mistake.what}",
                cure="register the schema, or let a record of it come, and run again; nothing was consumed",
            ) from mistake

    def _read(self, spans: Spans) -> DataFrame:
        return source.frame(self.spark, self.config.source, self.bootstrap_servers, self.config.name, spans)

    def _receipt(self, sequence: int, topics: Topics, spans: Spans, last: Receipt | None = None) -> Receipt:
        left = {n: i for n, i in {**last.left, **last.topics}.items() if n not in topics.ids} if last else {}
        where = self.config.quarantine.path
        return Receipt(self.config.name, sequence, self.me, topics.cluster, topics.ids, spans, where, left=left)

    def _set_aside(self, refused: DataFrame, batch: Batch, receipt: Receipt) -> dict[str, int]:
        """Commit refused records to quarantine; how many break which expectation."""
        from pyspark.sql import Observation

        receipt, seen = replace(receipt, ledger="", schemas=History(), gaps=Spans(()), accepted={}), Observation()
        rows = quarantine.rows(refused, batch.refusals, receipt.pipeline, receipt.sequence, batch.now)
        named = quarantine.by_expectation([rule.name for rule in self.suite.refusing] if self.suite else [])
        if named:
            rows = rows.observe(seen, *named.values())
        commit.append(self.spark, self.config.quarantine.path, rows, receipt, self.config.table.compression)
        return {name: seen.get[f"broken_{at}"] for at, name in enumerate(named)} if named else {}

    def _unknown(self, kafka: DataFrame, spans: Spans, behind: Frontier) -> tuple[DataFrame, int]:
        """The records that quarantine does not hold yet, and how many it does."""
        if all(behind.get((s.topic, s.partition), 0) <= s.start for s in spans):
            return kafka, 0
        held = table.refused(self.spark, self.config, spans)
        return kafka.join(held, list(COORDINATES), "left_anti"), held.count()

    def _settle(self, ledger: Ledger, refused: Ledger) -> None:
        """Finish the newest batch, if its writer ended between the table's commit and quarantine's.

        A batch with a row for each offset is whole; any other is, if quarantine has its sequence number or a later
        one, because a run settles before it goes on. What is missing is a difference of coordinates, so it does
        not matter whether today's rules would decide as those of its time did.
        """
        newest = ledger.newest
        if newest is None or newest.receipt.whole(newest.rows):
            return
        if refused.last_sequence >= newest.receipt.sequence:
            return
        from pyspark.sql import Observation

        spans, seen = newest.receipt.spans, Observation()
        kafka = self._read(spans)
        self._look(kafka, newest.receipt.sequence)
        batch = self._begin(self.evolution.shape(self._there, looked=True))
        decided = observed(batch.decide(kafka), seen)
        there = table.coordinates(self.spark, self.config.table.path, spans)
        # Not empty where the batch read again what a RESTORE had taken back.
        held = table.refused(self.spark, self.config, spans)
        missing = decided
        for rows in (there, held):
            missing = missing.join(rows, list(COORDINATES), "left_anti")
        missing = missing.where(f"NOT {DROPPED}").persist()
        refused_rows = missing.count() + held.count()
        consumed = seen.get["consumed"]
        counts = Counts(consumed, newest.rows, refused_rows, consumed - newest.rows - refused_rows)
        self._set_aside(missing, batch, replace(newest.receipt, run=self.me, counts=counts))
        missing.unpersist()

    def _opens(self, frontier: Frontier, begin: Frontier) -> bool:
        """Whether an empty commit is due, so that where "latest" was is remembered before a record arrives."""
        return self.config.source.start == "latest" and any(tp not in frontier for tp in begin)


def _counts(found: Mapping[str, Any], accepted: int, known: int) -> Counts:
    """`known` records are in quarantine already, from a batch that a RESTORE took back."""
    return Counts(found["consumed"] + known, accepted, found["refused"] + known, found["dropped"])
