"""A pipeline that can be run, asked and audited: each method leads into `ingest` or `operations`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lakeingest import extend, gate
from lakeingest.config import PipelineConfig
from lakeingest.delta.maintenance.optimize import Compacted
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Counts, Run
from lakeingest.errors import UsageError
from lakeingest.ingest import endpoints
from lakeingest.ingest.batch_gate import BatchGate
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import CatalogUpdate, Progress
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.retry import Retry
from lakeingest.ingest.run import PipelineRun
from lakeingest.ingest.turns import Turns
from lakeingest.kafka.broker import Broker
from lakeingest.operations import audit, maintenance, offline, plan, refused, replay, schema_history, status
from lakeingest.operations.audit import Report
from lakeingest.operations.plan import Plan
from lakeingest.operations.replay import Replayed
from lakeingest.operations.schema_history import SchemaHistory
from lakeingest.operations.status import Status
from lakeingest.spark import s3a, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Pipeline:
    """A pipeline that can be run, asked and audited; made by `lakeingest.load`.

    Attributes:
        config: the pipeline file.
        writer: who commits, when this object runs the pipeline.
        allow_code: whether the classes of somebody's own may run that the file names.
        turns: shared with the other pipelines of a `Fleet`; None where it runs alone.

    Raises:
        PipelineFileError: the gate's suite is wrong.
        SetupError: the file gives no addresses and no embedded stack is running.
    """

    config: PipelineConfig
    writer: Run = field(default_factory=Run)
    turns: Turns | None = None
    allow_code: bool = False

    def __post_init__(self) -> None:
        self.suite = gate.load(self.config)
        self.bootstrap_servers, self.storage = endpoints.addresses(self.config)
        self.broker = Broker(self.config.source, self.bootstrap_servers)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that is active, or one of our own."""
        s3a.check_listens(self.storage, self.config.paths)
        spark = session.attach(self.storage, self.config.name, self.config.paths, self.config.names)
        if "avro" in (self.config.decode.value.format, self.config.decode.key.format):
            session.warn_of_avro(spark)
        return spark

    @cached_property
    def context(self) -> RunContext:
        """What its batches need.

        Raises:
            UsageError: the file names code, and nobody allowed it.
        """
        if self.config.code and not self.allow_code:
            raise UsageError(
                f"pipeline {self.config.name!r} names code to run: {', '.join(self.config.code)}",
                cure="if you trust the file, and that code, add --allow-code; in Python, "
                "lakeingest.load(FILE, allow_code=True)",
            )
        logs = session.log_session(self.spark, self.storage, self.config.paths)
        batch_gate = BatchGate(self.config, self.suite)
        return RunContext(self.config, self.spark, self.bootstrap_servers, self.suite, batch_gate, self.writer, logs)

    @cached_property
    def tables(self) -> PipelineTables:
        return PipelineTables(self.spark, self.config)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_retry: Callable[[Retry], None] = lambda _: None,
        on_catalog: Callable[[CatalogUpdate], None] = lambda _: None,
        stop: threading.Event | None = None,
        accept_dropped_topics: bool = False,
        accept_gap: bool = False,
        accept_held: str | None = None,
    ) -> Counts:
        """Take micro-batches until stopped, or until all is committed that Kafka held when the run began.

        A server that fails while the run goes is tried again as long as `retry.wait` says.

        Args:
            until_caught_up: end when the frontier reaches the offsets that were there at the start.
            on_progress: called after each commit, from this thread.
            on_retry: called before each pause, from this thread.
            on_catalog: called when the table's entry in a catalog has changed, or could not be brought up to date: that
                ends no run.
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
        context, listening = self.context, extend.listeners(self.config.listeners)
        heard = partial(extend.told, listening, self.config.name)
        return PipelineRun(
            context,
            self.broker,
            Accept(accept_dropped_topics, accept_gap, accept_held),
            until_caught_up,
            heard(on_progress),
            heard(on_retry),
            heard(on_catalog),
            stop or threading.Event(),
            self.turns.turn if self.turns else nullcontext,
        ).run()

    def status(self) -> Status:
        """Where the pipeline stands; see `status.Status`."""
        topics = self.broker.topics()
        return offline.answered(
            self.config,
            self.storage,
            lambda: offline.status(self.config, self.storage, topics),
            lambda: status.status(self.tables, topics),
        )

    def audit(self) -> Report:
        """The conservation proof; see `audit.Report`."""
        return audit.audit(self.tables)

    def plan(self, sample: int = 10_000, *, suggest: bool = False) -> Plan:
        """What a run would do with the next records, or with the newest if it is caught up; writes nothing.

        Args:
            sample: how many offsets to look at.
            suggest: whether to suggest a suite that the accepted records meet.

        Raises:
            UsageError: there are no records, or none that a table's columns could be told from.
        """
        # Before Spark starts: brokers that do not answer are told at once.
        topics = self.broker.topics()
        return plan.plan(self.context, topics, sample, suggest=suggest)

    def results(self, batches: int = 10) -> list[dict[str, Any]]:
        """What the gate found in the newest batches, a row for each expectation; see `gate.results` for the columns.

        Raises:
            UsageError: the pipeline has no gate, or there are no results yet.
        """
        if self.suite is None:
            raise UsageError(
                f"pipeline {self.config.name!r} has no gate", cure="name a suite as gate.suite in its file"
            )
        return offline.answered(
            self.config,
            self.storage,
            lambda: offline.results(self.config, self.storage, batches),
            lambda: refused.gate_results(self.tables, batches),
        )

    def schemas(self) -> SchemaHistory:
        """How the table came to its columns; see `schema_history.SchemaHistory`."""
        return schema_history.schema_history(self.tables)

    def quarantined(self, samples: int = 3) -> list[dict[str, Any]]:
        """Refused records by stage and reason: stage, reason, count, samples (coordinates, message).

        Raises:
            UsageError: there is no quarantine yet.
        """
        return offline.answered(
            self.config,
            self.storage,
            lambda: offline.reasons(self.config, self.storage, samples),
            lambda: refused.reasons(self.tables, samples),
        )

    def quarantined_record(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """One refused record as its row in quarantine, None if it is not there.

        Raises:
            UsageError: there is no quarantine yet.
        """
        return refused.record(self.tables, topic, partition, offset)

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
        return replay.replay(self.context, why, where, limit, dry_run=dry_run)

    def discard(self, why: str, *, where: str | None = None) -> int:
        """Give refused records up: they stay in quarantine, marked with who, when and why; how many they are.

        Args:
            where: a condition over quarantine's columns, in Spark SQL; all of them by default.

        Raises:
            UsageError: there is no quarantine yet, or the condition is none.
        """
        return replay.discard(self.tables, where, why)

    def compact(self, target_bytes: int, *, where: str | None = None, dry_run: bool = False) -> list[Compacted]:
        """Make large files of small ones, in the main table, in quarantine and in the gate's results.

        Args:
            target_bytes: about how large the new files become.
            where: a condition over the main table's partition columns, in Spark SQL.
            dry_run: look only.

        Raises:
            UsageError: there is no table yet, or the condition is none.
        """
        return maintenance.compact(self.tables, target_bytes, where, dry_run=dry_run)
