"""A pipeline that can be run, asked and audited: each method leads into `ingest` or `operations`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lakeingest import extend, gate
from lakeingest.config import PipelineConfig
from lakeingest.delta import quarantine
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import Counts, Run, of_backfill
from lakeingest.errors import UsageError
from lakeingest.ingest import endpoints, preflight
from lakeingest.ingest.batch_gate import BatchGate
from lakeingest.ingest.bronze import BronzeSource
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Committed, Event, Maintained, Started
from lakeingest.ingest.jobs.backfill import BackfillJob, Limits
from lakeingest.ingest.jobs.run import RunJob
from lakeingest.ingest.listeners import lineage
from lakeingest.ingest.loop import Loop, announced
from lakeingest.ingest.maintenance import Task
from lakeingest.ingest.preflight import Accept
from lakeingest.ingest.progress_bar import ProgressBar
from lakeingest.ingest.source import source_of
from lakeingest.ingest.turns import Turns
from lakeingest.kafka.broker import Broker
from lakeingest.operations import (
    adopt,
    backfill,
    compare,
    database,
    full_audit,
    history,
    maintenance,
    plan,
    refused,
    replay,
    schema_history,
    status,
)
from lakeingest.operations.adoption import FrontierOrigin
from lakeingest.operations.export import exports
from lakeingest.operations.export.request import ExportRequest
from lakeingest.operations.readers import answer
from lakeingest.operations.results import pipeline_file
from lakeingest.operations.results.adopt import Adopted
from lakeingest.operations.results.audit import Report
from lakeingest.operations.results.backfill import Backfilled
from lakeingest.operations.results.compare import Comparison
from lakeingest.operations.results.export import Exported, ExportFormat
from lakeingest.operations.results.gate import GateResults
from lakeingest.operations.results.maintenance import MaintenanceResult
from lakeingest.operations.results.plan import Plan
from lakeingest.operations.results.refusals import Reasons
from lakeingest.operations.results.replay import Replayed
from lakeingest.operations.results.schema_history import SchemaHistory
from lakeingest.operations.results.status import Status
from lakeingest.spark import s3a, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


@dataclass(repr=False)
class Pipeline:
    """A pipeline that can be run, asked and audited; made by `lakeingest.load`. Spark starts when it is needed.

    - `run` ingests. `plan` tells beforehand what a run would do. `adopt` lets it go on in a table that others wrote.
    - `table`, `quarantine` and `history` are Spark frames.
    - `status`, `audit`, `schemas`, `quarantined` and `results` tell what was done. A notebook shows what they give as
      tables, and `to_pandas` and `to_arrow` give these as frames.
    - `backfill` takes what lies behind it: history before its start, and accepted gaps.
    - `replay` and `discard` decide about refused records, `maintain` keeps the tables in shape, `export` writes what
      is new as files of other formats.

    Attributes:
        config: the pipeline file.
        writer: who commits, when this object runs the pipeline.
        allow_code: whether the classes of somebody's own may run that the file names.
        turns: shared with the other pipelines of a `Fleet`; None where it runs alone.
        brief: whether this process ends within a minute (see `session.attach`).

    Raises:
        PipelineFileError: the gate's suite is wrong.
        SetupError: the file gives no addresses and no embedded stack is running.
    """

    config: PipelineConfig
    writer: Run = field(default_factory=Run)
    turns: Turns | None = None
    allow_code: bool = False
    brief: bool = False

    def __post_init__(self) -> None:
        self.suite = gate.load(self.config)
        self.bootstrap_servers, self.storage = endpoints.addresses(self.config)
        self.source = source_of(self.config, self.bootstrap_servers, self.storage, lambda: self.spark)

    def __repr__(self) -> str:
        return f"<Pipeline {pipeline_file.headline(self.config)}>"

    def _repr_html_(self) -> str:
        return pipeline_file.as_html(self.config, self.source.address)

    @cached_property
    def spark(self) -> SparkSession:
        """The session that is active, or one of our own."""
        s3a.check_listens(self.storage, self.config.paths)
        spark = session.attach(self.storage, self.config.name, self.config.paths, self.config.names, brief=self.brief)
        if "avro" in (self.config.decode.value.format, self.config.decode.key.format):
            session.warn_of_avro(spark)
        return spark

    @cached_property
    def context(self) -> RunContext:
        """What its batches need.

        Raises:
            UsageError: the file names code, and nobody allowed it.
        """
        self._check_code()
        few_rows, batch_gate = session.few_rows_session(self.spark), BatchGate(self.config, self.suite)
        return RunContext(self._whole, self.spark, self.source, self.suite, batch_gate, self.writer, few_rows)

    def _check_code(self) -> None:
        if self.config.code and not self.allow_code:
            raise UsageError(
                f"pipeline {self.config.name!r} names code to run: {', '.join(self.config.code)}",
                cure="if you trust the file, and that code, add --allow-code; in Python, "
                "lakeingest.load(FILE, allow_code=True)",
            )

    @cached_property
    def tables(self) -> PipelineTables:
        return PipelineTables(self.spark, self._whole)

    @cached_property
    def _whole(self) -> PipelineConfig:
        """The file, with the topics that it leaves to source.table to tell."""
        if isinstance(self.source, BronzeSource) and not self.config.source.topics:
            return self.config.reading(self.source.names())
        return self.config

    def run(
        self,
        *,
        until_caught_up: bool = False,
        progress: bool = False,
        on_progress: Callable[[Committed], None] = lambda _: None,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: threading.Event | None = None,
        accept_dropped_topics: bool = False,
        accept_gap: bool = False,
        accept_held: str | None = None,
        accept_log_restart: bool = False,
    ) -> Counts:
        """Take micro-batches until stopped, or until all is committed that Kafka held when the run began.

        A server that fails while the run goes is tried again as long as `retry.wait` says.

        Args:
            until_caught_up: end when the frontier reaches the offsets that were there at the start.
            progress: show a bar while it goes, in a notebook or a terminal (stderr).
            on_progress: called after each commit, from this thread.
            on_event: called with all that happens, the commits too, from this thread; see `ingest.events`.
            stop: when set, the batch in hand is finished, and the run ends.
            accept_dropped_topics: go on although a topic that the table was fed from is no longer in source.topics.
            accept_gap: go on although Kafka has deleted offsets that were never read; the receipt names them.
            accept_held: why the first batch that the gate would hold is let through; its receipt says who and why.
            accept_log_restart: go on although a database's log begins anew, as its change events show.

        Returns:
            The counts of all batches of this run.

        Raises:
            UsageError: the contract lets others accept.
            BatchHeld: a batch breaks an expectation that keeps it back.
            Fenced: another run of the pipeline has taken over.
            SourceError, StorageError: see their subclasses; nothing is lost, a later run goes on from the frontier.

        Example:
            pipeline.run(until_caught_up=True, progress=True)
        """
        accept = Accept(accept_dropped_topics, accept_gap, accept_held, accept_log_restart)
        preflight.check_accept(self.config, accept)
        stop = stop or threading.Event()
        with ProgressBar(until_caught_up=until_caught_up) if progress else nullcontext() as bar:

            def heard(event: Event) -> None:
                on_event(event)
                if isinstance(event, Committed):
                    on_progress(event)

            with self._announced(self.config.name, heard, stop, bar) as tell:
                job = RunJob(self.context, tell, until_caught_up=until_caught_up)
                return Loop(self.context, job, accept, tell, stop, self.turns.turn if self.turns else nullcontext).run()

    @contextmanager
    def _announced(
        self, name: str, heard: Callable[[Event], None], stop: threading.Event, *more: extend.Listener | None
    ) -> Iterator[Callable[[Event], None]]:
        """Tell the listeners of the file, and more, that something begins and ends under this name; gives what tells of
        what is between.
        """
        self._check_code()
        from_file = extend.listeners(self.config.listeners)
        listening = [each for each in (*from_file, lineage.listener(), *more) if each is not None]

        def tell(event: Event) -> None:
            extend.tell(listening, name, event)
            heard(event)

        config = self.config
        started = Started(
            self.writer,
            tuple(config.source.topics),
            self.bootstrap_servers,
            config.table.identifier,
            config.quarantine.identifier,
            config.trigger.every.total_seconds(),
            config.source.table or "",
        )
        with announced(started, tell, stop) as tell_all:
            yield tell_all

    def backfill(
        self,
        since: str | datetime | Sequence[str] | None = None,
        until: str | datetime | Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        max_records: int | None = None,
        rate: float | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: threading.Event | None = None,
        accept_gap: bool = False,
        accept_held: str | None = None,
    ) -> Backfilled:
        """Take what lies behind the pipeline and was never read, exactly once, beside its run or without one.

        Its commits have receipts of their own. It goes on where one that was killed has ended. It never changes the
        table's columns.

        Args:
            since: where it begins: a time (in UTC unless it has a zone), or offsets such as "flights-0:1500"; None, or
                "earliest", for where Kafka begins.
            until: where it ends, the end not included; None for where the pipeline stands.
            dry_run: look only.
            max_records: most offsets of a batch; as trigger.max_records says by default.
            rate: most offsets in a second, on average; None for as many as can be.
            on_event: called with all that happens, from this thread; see `ingest.events`.
            stop: when set, the batch in hand is finished, and the backfill ends.
            accept_gap: settle a batch that was cut off, although Kafka has deleted records of it; quarantine's commit
                names them.
            accept_held: why the first batch that the gate would hold is let through; its receipt says who and why.

        Raises:
            UsageError: what is asked for makes no sense, a record would change the table's columns, there is no table
                yet, or the contract lets others accept.
            OffsetsLost: Kafka no longer has offsets that were named.
            BatchHeld: a batch breaks an expectation that keeps it back.
            Fenced: another backfill of the pipeline has taken over.
            SourceError, StorageError: see their subclasses; nothing is lost, the next backfill goes on.

        Example:
            pipeline.backfill("2026-11-01", dry_run=True)
        """
        accept = Accept(gaps=accept_gap, held_reason=accept_held)
        preflight.check_accept(self.config, accept)
        if self.config.source.table is not None:
            raise UsageError(
                f"pipeline {self.config.name!r} reads {self.config.source.table}, and no topic: what comes into that "
                "table late, its runs take themselves",
                cure="backfill the pipeline that writes that table; `lakeingest rebuild` begins at its beginning",
            )
        interval, limits = backfill.Interval.of(since, until, datetime.now(UTC)), Limits(max_records, rate)
        if dry_run:
            return backfill.plan(self.context, interval, rate)
        stop = stop or threading.Event()
        with self._announced(of_backfill(self.config.name), on_event, stop) as tell:
            job = BackfillJob(self.context, backfill.request(self.source, interval), limits)
            return backfill.run(Loop(self.context, job, accept, tell, stop), job)

    def table(self, version: int | None = None) -> DataFrame:
        """The table's rows as a Spark frame, as they stand now, or stood in a version of the table.

        Small ones become frames of pandas or Arrow by Spark's own `toPandas()` and `toArrow()`.

        Args:
            version: one that `history` has; the newest by default.

        Raises:
            UsageError: there is no table yet, or it has no such version.

        Example:
            pipeline.table().groupBy("origin").count().toPandas()
        """
        return self.tables.main.existing(version)

    def quarantine(self, *, closed: bool = False) -> DataFrame:
        """The pipeline's refused records as a Spark frame: those that `lakeingest quarantine list` counts.

        Its columns: coordinates, key and value as bytes, stage, reason, message, moved, discarded and more.

        Args:
            closed: with the records that were moved into the table or discarded.

        Raises:
            UsageError: there is no quarantine yet.

        Example:
            pipeline.quarantine().groupBy("reason").count()
        """
        rows = self.tables.existing_refused()
        return rows if closed else quarantine.open_rows(rows)

    def history(self) -> DataFrame:
        """The commits of the table as a Spark frame, the newest first, as far back as its log reaches.

        Its columns: version BIGINT, timestamp TIMESTAMP, operation STRING; rows, files and bytes BIGINT that a write
        wrote; and of the pipeline's own commits sequence BIGINT, offsets BIGINT that were consumed, refused and dropped
        BIGINT, writer STRING, backfill BOOLEAN: whether a backfill made it. What is not known is null.

        Raises:
            UsageError: there is no table yet.

        Example:
            pipeline.history().select("version", "operation", "rows").show()
        """
        return history.history(self.tables)

    def status(self) -> Status:
        """Where the pipeline stands: frontier and lag, the newest commits, rows and files of its tables.

        Raises:
            UsageError: there is no table yet.
            SourceError, StorageError: Kafka or a table cannot be read.
        """
        return status.of_pipeline(self, self.source, gated=self.suite is not None)

    def audit(
        self,
        against: str | None = None,
        accept_deletes: str | None = None,
        *,
        deep: bool = False,
        since: bool = False,
        sign: str | None = None,
    ) -> Report:
        """Prove that each consumed record is in the table, in quarantine or a declared drop, once.

        What is wrong is in the report and raises nothing: see `conserved`.

        Args:
            against: with what each key of a table of mode upsert is compared too, row by row: "source", for what the
                pipeline reads, or a bronze table or changelog that has the same records.
            accept_deletes: why the rows may be gone that others deleted: these are counted as deleted from now on.
            deep: whether to read the coordinates of every row, where the log alone would prove them, too.
            since: whether to go on from the newest verdict beside the table, and to keep one; see `verdicts`.
            sign: the same, signed by the key in this file; see `signing.SigningKey`.

        Raises:
            UsageError: there is no table yet, `against` makes no sense, or nobody has deleted rows.
            StorageError: a table cannot be read.

        Example:
            assert pipeline.audit().conserved
        """
        return full_audit.run(self, lambda: self.context, against, accept_deletes, deep=deep, since=since, sign=sign)

    compare_database = database.compare

    def compare(self, prefix: str) -> Comparison:
        """What Connect's S3 sink wrote below a prefix, held against the tables; see `results.compare.Comparison`.

        Args:
            prefix: s3a://bucket/folder, s3:// too, or a local path.

        Raises:
            UsageError: the sink wrote nothing there of these topics, or there is no table yet.
            StorageUnreachable: a table, or an object, cannot be read.
        """
        return compare.compare(self.tables, prefix)

    def plan(self, sample: int = 10_000, *, suggest: bool = False) -> Plan:
        """What a run would do with the next records, or with the newest if it is caught up; writes nothing.

        Args:
            sample: how many offsets to look at.
            suggest: whether to suggest a suite that the accepted records meet.

        Raises:
            UsageError: there are no records, or none that a table's columns could be told from.

        Example:
            pipeline.plan().to_pandas("columns")
        """
        # Before Spark starts: brokers that do not answer are told at once.
        topics = self.source.topics()
        return plan.plan(self.context, topics, sample, suggest=suggest)

    def results(self, batches: int = 5) -> GateResults:
        """What the gate found in the newest batches, a row for each expectation; see `gate.results` for the columns.

        Args:
            batches: how many of the newest batches.

        Raises:
            UsageError: the pipeline has no gate, or there are no results yet.
        """
        if self.suite is None:
            raise UsageError(
                f"pipeline {self.config.name!r} has no gate", cure="name a suite as gate.suite in its file"
            )
        return GateResults(self.config, answer(self, partial(refused.gate_results, batches=batches)))

    def schemas(self) -> SchemaHistory:
        """How the table came to its columns: each schema that was seen, and what the table made of it.

        Raises:
            UsageError: there is no table yet.
            StorageError: a table cannot be read.
        """
        return answer(self, schema_history.schema_history)

    def quarantined(self, samples: int = 3) -> Reasons:
        """Refused records by stage and reason: stage, reason, count, samples (coordinates, message).

        Those that were moved into the table or discarded are left out.

        Args:
            samples: how many messages for each reason.

        Raises:
            UsageError: there is no quarantine yet.

        Example:
            pipeline.quarantined().to_pandas()
        """
        return Reasons(self.config, answer(self, partial(refused.reasons, samples=samples)))

    def quarantined_record(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """One refused record as its row in quarantine, None if it is not there.

        Args:
            topic, partition, offset: its coordinates.

        Raises:
            UsageError: there is no quarantine yet.

        Example:
            pipeline.quarantined_record("flights", 2, 1041)
        """
        return answer(self, partial(refused.record, topic=topic, partition=partition, offset=offset))

    def adopt(
        self,
        *,
        coordinates: Mapping[str, str] | None = None,
        frontier: Mapping[tuple[str, int], int] | None = None,
        group: str | None = None,
        dry_run: bool = False,
        yes: bool = False,
    ) -> Adopted:
        """Let the pipeline go on in a table that something else wrote: its first receipt says from which offsets.

        By default the coordinates are in the columns that lakeingest writes, as a copy or a clone of its table has
        them.

        Args:
            coordinates: topic, partition, offset → the column that has it; a topic in quotes is the topic itself.
                Without a topic it is the pipeline's only one.
            frontier: (topic, partition) → the first offset that is not in the table, of each topic-partition.
            group: a consumer group whose committed offsets are that frontier.
            dry_run: look only.
            yes: adopt it although there are `doubts`.

        Raises:
            UsageError: there is no table, the pipeline has commits in it already, or what was told makes no sense; or
                there are doubts.
            TableMismatch: the table cannot become the pipeline's; or others have added rows meanwhile: then no run
                goes on before it is adopted again.
            SourceChanged: Kafka does not reach so far.
            Fenced: another adoption of this pipeline was faster.

        Example:
            pipeline.adopt(coordinates={"topic": "'flights'", "partition": "part", "offset": "off"}, dry_run=True)
        """
        if sum(way is not None for way in (coordinates, frontier, group)) > 1:
            raise UsageError(
                "coordinates, frontier and group exclude each other", cure="say in one way where the pipeline goes on"
            )
        if group and self.config.source.table:
            raise UsageError(
                f"a consumer group has offsets in Kafka, and this pipeline reads the table {self.config.source.table}",
                cure="say with --frontier or --coordinates where it goes on",
            )
        start = Broker(self.config.source, self.bootstrap_servers).committed(group) if group else frontier
        origin = FrontierOrigin(coordinates, start, group)
        return adopt.adopt(self.context, self.source.topics(), origin, dry_run=dry_run, yes=yes)

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
            UsageError: the contract lets others replay; there is no such table, or the condition is none; or records
                bring a schema that the table has not seen.
            Fenced: another replay of this pipeline committed meanwhile; nothing of this one was written.

        Example:
            pipeline.replay("the columns were too strict", where="reason = 'WRONG_TYPE'", dry_run=True)
        """
        if not dry_run:
            preflight.check_user(self.config, "replay")
        return replay.replay(self.context, why, where, limit, dry_run=dry_run)

    def discard(self, why: str, *, where: str | None = None) -> int:
        """Give refused records up: they stay in quarantine, marked with who, when and why; how many they are.

        Args:
            why: the reason, kept with each of them.
            where: a condition over quarantine's columns, in Spark SQL; all of them by default.

        Raises:
            UsageError: the contract lets others discard; or there is no quarantine yet, or the condition is none.

        Example:
            pipeline.discard("a broken test", where="reason = 'BROKEN_JSON'")
        """
        preflight.check_user(self.config, "replay")
        return replay.discard(self.tables, where, why)

    def maintain(
        self,
        only: Task | None = None,
        *,
        dry_run: bool = False,
        most_time: timedelta | None = None,
        most_bytes: int | None = None,
        i_know: bool = False,
        on_event: Callable[[Maintained], None] = lambda _: None,
    ) -> MaintenanceResult:
        """Keep the tables in shape: take out old rows, make large files of small ones, delete files that nobody needs.

        What `maintenance` and `retention` in the file say holds, for the main table and those beside it. Listeners that
        the file names hear of each table that is done, where their code is allowed.

        Args:
            only: "expire", "compact" or "vacuum"; all by default.
            dry_run: look only.
            most_time, most_bytes: the most that is done; by default as maintenance.most says.
            i_know: whether a VACUUM may delete files that are younger than 7 days.
            on_event: called with each table that is done.

        Raises:
            UsageError: there is no table yet, or maintenance.vacuum.after is less than 7 days; or a listener cannot be
                made.
            StorageError: a table's log cannot be read.

        Example:
            pipeline.maintain("compact").check()
        """
        request = maintenance.request_of(self.config, only, most_time, most_bytes, dry_run=dry_run, i_know=i_know)
        return maintenance.maintain(self, request, on_event, allow_code=self.allow_code)

    def export(
        self,
        to: str,
        *,
        format: ExportFormat = "jsonl",
        partition_by: Sequence[str] | None = None,
        compression: str = "none",
        dry_run: bool = False,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> Exported:
        """Write the rows that came since the last export into that place, each once, as objects of a format.

        What was exported stands in the Delta table `_lakeingest_export` of the place, with the paths of the objects.

        Args:
            to: a folder of its own: s3a://bucket/folder, or a local path from /.
            format: "jsonl", "csv", "avro" or "parquet".
            partition_by: columns that become folders; the table's own partition columns by default.
            compression: of jsonl and csv, "none" or "gzip".
            dry_run: look only.
            on_step: called with what is done next.

        Raises:
            UsageError: there is no table yet; the place holds something else, or exports of another pipeline, table or
                format; or exported rows were taken back by a RESTORE.
            Fenced: another export into the place was made meanwhile; nothing of this one counts.
            FilesLost: a VACUUM deleted files that the new rows are compared with.
            StorageUnreachable, UnsafeStore: the object store.

        Example:
            pipeline.export("s3a://lake/handed-on/flights", format="csv", compression="gzip")
        """
        by = None if partition_by is None else tuple(partition_by)
        request = ExportRequest(place=to, format=format, partition_by=by, compression=compression, tell=on_step)
        return exports.export(self.tables, self.storage, request, dry_run=dry_run)
