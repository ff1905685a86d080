"""A pipeline that can be run, asked and audited. Start reading at `Ingestion.run`; a batch goes the `corridor`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from lakeingest import (
    ahead,
    audit,
    commit,
    compact,
    gate,
    identity,
    plan,
    quarantine,
    replay,
    session,
    source,
    status,
    stores,
    table,
    timeline,
    whereabouts,
)
from lakeingest.attempt import Attempt
from lakeingest.audit import Report
from lakeingest.batch import REFUSED
from lakeingest.commit import Counts, Ledger, Run
from lakeingest.compact import Compacted
from lakeingest.config import Pipeline
from lakeingest.corridor import Corridor, Progress
from lakeingest.errors import LakeingestError, StorageError, UsageError
from lakeingest.failures import told_of
from lakeingest.gate import results
from lakeingest.gatekeeper import Gatekeeper
from lakeingest.identity import Consents
from lakeingest.patience import Patience, Retry
from lakeingest.plan import Plan
from lakeingest.record import Frontier, Spans
from lakeingest.replay import Replayed
from lakeingest.source import Topics
from lakeingest.status import Status
from lakeingest.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass
class Ingestion:
    """A pipeline that can be run, asked and audited; made by `lakeingest.load`.

    Raises:
        PipelineFileError: the gate's suite is wrong.
        SetupError: the file gives no addresses and no embedded stack is running.
    """

    _corridor: ClassVar[type[Corridor]] = Corridor
    config: Pipeline
    me: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        self.suite = gate.load(self.config)
        self.gate = Gatekeeper(self.config, self.suite)
        self.bootstrap_servers, self.storage = whereabouts.addresses(self.config)
        self.broker = source.Broker(self.config.source, self.bootstrap_servers)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that is active, or one of our own."""
        stores.check_listens(self.storage, self.config.paths)
        spark = session.attach(self.storage, self.config.name, self.config.paths)
        if "avro" in (self.config.decode.value.format, self.config.decode.key.format):
            session.warn_of_avro(spark)
        return spark

    @cached_property
    def _logs(self) -> SparkSession | None:
        return session.for_logs(self.spark, self.storage, self.config.paths)

    def look_ahead(self, *paths: str) -> None:
        """Prepare the next commits to these tables, while there is nothing else to do."""
        if self._logs is not None:
            ahead.look(self._logs, *paths)

    def open(self, there: StructType | None, ledger: Ledger) -> Corridor:
        """The corridor for the next batches, from the table's columns (None if there is no table), and its ledger."""
        return self._corridor(
            self.config,
            self.spark,
            self.bootstrap_servers,
            self.suite,
            self.gate,
            self.me,
            self.look_ahead,
            there,
            ledger,
        )

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
        """Commit batch after batch, by the pipeline's trigger, up to the goal if there is one; then wait for the gate's
        results.

        Args:
            patience: it is told when the first batch can begin, and when there is nothing to commit.
        """
        attempt = Attempt.begin(self, topics, consents)
        patience.underway()
        while not stop.is_set():
            begun = time.monotonic()
            progress = attempt.next_batch(topics, goal)
            if progress is not None:
                yield progress
            elif goal is not None:
                break
            else:
                self.gate.flush(self.spark)
                patience.renew()
            if goal is None:
                if not attempt.full:
                    stop.wait(max(0.0, self.config.trigger.every.total_seconds() - (time.monotonic() - begun)))
                topics = self.broker.topics()
                identity.check_topics(attempt.last, topics)
        self.gate.wait(self.spark)

    def status(self) -> Status:
        """Where the pipeline stands; see `status.Status`."""
        identity.check_there(self.spark, self.config)
        return status.status(self.spark, self.config, self.broker.topics())

    def audit(self) -> Report:
        """The conservation proof; see `audit.Report`."""
        identity.check_there(self.spark, self.config)
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
        ledger = Ledger(path, self.config.known_as)
        there = table.schema(self.spark, path)
        if there is None:
            identity.check_there(self.spark, self.config)
        else:
            ledger, refused = table.ledgers(self.spark, self.config)
            identity.check(self.config, ledger, refused, topics, Consents())
        starts = source.starts(self.config.source, topics, ledger.frontier)
        committed = starts == topics.last
        if committed:
            share = max(1, sample // max(len(starts), 1))
            starts = {tp: max(topics.first[tp], end - share) for tp, end in topics.last.items()}
        spans = source.next_spans(starts, topics.last, sample)
        if not spans.offsets:
            raise UsageError(
                f"{', '.join(self.config.source.topics)} holds no record, so that nothing can be told",
                cure="let some records come, and plan again",
            )
        corridor = self.open(there, ledger)
        return corridor.readable(
            lambda: self._plan(corridor, spans, there, ledger, committed=committed, suggest=suggest)
        )

    def _plan(
        self,
        corridor: Corridor,
        spans: Spans,
        there: StructType | None,
        ledger: Ledger,
        *,
        committed: bool,
        suggest: bool,
    ) -> Plan:
        kafka = corridor.read(spans).persist()
        try:
            with corridor.reading():
                kafka.count()
            corridor.look(kafka, ledger.last_sequence + 1)
            batch = corridor.planned(looked=True)
            entries = corridor.evolution.history.entries[len(ledger.schemas.entries) :]
            return plan.plan(
                self.config,
                self.suite,
                batch,
                kafka,
                spans=spans,
                there=there,
                schemas=entries,
                committed=committed,
                suggest=suggest,
            )
        finally:
            kafka.unpersist()

    def results(self, batches: int = 10) -> list[dict[str, Any]]:
        """What the gate found in the newest batches, a row for each expectation; see `gate.results` for the columns.

        Raises:
            UsageError: the pipeline has no gate, or there are no results yet.
        """
        if self.suite is None:
            raise UsageError(
                f"pipeline {self.config.name!r} has no gate", cure="name a suite as gate.suite in its file"
            )
        found = table.existing(self.spark, self.config.results)
        with told_of(self.config.results):
            return results.newest(found, self.config.known_as, batches)

    def schemas(self) -> Timeline:
        """How the table came to its columns; see `timeline.Timeline`."""
        return timeline.timeline(self.spark, self.config)

    def quarantined(self, samples: int = 3) -> list[dict[str, Any]]:
        """Refused records by stage and reason: stage, reason, count, samples (coordinates, message).

        Raises:
            UsageError: there is no quarantine yet.
        """
        with told_of(self.config.quarantine.path):
            return quarantine.reasons(self._refused(), samples)

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
        there = table.existing(self.spark, self.config.table.path).schema
        table.existing(self.spark, self.config.quarantine.path)
        table.ensure_quarantine(self.spark, self.config)
        with told_of(self.config.quarantine.path):
            return self._replay(there, why, where, limit, dry_run=dry_run)

    def _replay(self, there: StructType, why: str, where: str | None, limit: int | None, *, dry_run: bool) -> Replayed:
        if not dry_run:
            replay.settle(self.spark, self.config)
        # The number comes before the candidates: whatever another replay commits from now on has it, and is noticed.
        receipt = replay.receipt(self.spark, self.config, self.me, why)
        ledger, refused = table.ledgers(self.spark, self.config)
        identity.check_tables(self.config, ledger, refused)
        corridor = self.open(there, ledger)
        if corridor.evolution.declares and not dry_run:
            raise UsageError(
                "the pipeline file declares columns that the table does not have yet: "
                + ", ".join(corridor.evolution.history.entries[-1].changes),
                cure="run the pipeline first, which changes the table (`lakeingest run FILE --until-caught-up`)",
            )
        before = corridor.evolution.history.current
        with ExitStack() as kept:

            def keep(frame: DataFrame) -> DataFrame:
                kept.callback(frame.unpersist)
                return frame.persist()

            kafka = keep(replay.candidates(self.spark, self.config, where, limit))
            corridor.look(kafka, ledger.last_sequence)
            if corridor.evolution.history.current != before:
                raise UsageError(
                    "refused records bring a schema that would change the table",
                    cure="run the pipeline first: its batches alone change a table's columns",
                )
            batch = corridor.planned(looked=True)
            # Kept, so that each record is decoded once; what is kept is a barrier too (see `batch.observed`).
            decided = keep(batch.decide(kafka))
            accepted, looked = batch.accepted(decided), decided.count()
            rows = quarantine.rows(decided.where(REFUSED), batch.refusals, self.config.known_as, 0, batch.now)
            still = tuple(quarantine.reasons(keep(rows.drop("key", "value", "headers")), 1))
            moved = accepted.count()
            if moved and not dry_run:
                commit.append(self.spark, self.config.table.path, accepted, receipt, self.config.table.compression)
                replay.settle(self.spark, self.config)
            return Replayed(looked, moved, still)

    def discard(self, why: str, *, where: str | None = None) -> int:
        """Give refused records up: they stay in quarantine, marked with who, when and why; how many they are.

        Args:
            where: a condition over quarantine's columns, in Spark SQL; all of them by default.

        Raises:
            UsageError: there is no quarantine yet, or the condition is none.
        """
        table.existing(self.spark, self.config.quarantine.path)
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
        """One refused record as its row in quarantine, None if it is not there.

        Raises:
            UsageError: there is no quarantine yet.
        """
        with told_of(self.config.quarantine.path):
            return quarantine.record(self._refused(), topic, partition, offset)

    def _refused(self) -> DataFrame:
        """The pipeline's own rows of quarantine."""
        return quarantine.of(table.existing(self.spark, self.config.quarantine.path), self.config.known_as)
