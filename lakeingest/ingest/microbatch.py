"""The execution of one micro-batch. Start reading at `MicroBatchExecution.execute`.

Kafka → decode → gate → partition → commit; on refusal, at any stage, → quarantine
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Observation

from lakeingest.delta import commit, kinds, quarantine, sealing, sums
from lakeingest.delta.commit_log import Commit, CommitLog
from lakeingest.delta.partitioning import Layout
from lakeingest.delta.receipt import Account, Receipt
from lakeingest.delta.writer import TableWriter
from lakeingest.errors import PipelineFileError, UsageError
from lakeingest.ingest import appended_batch, endpoints, latest_batch, preflight, shape
from lakeingest.ingest.batch_gate import GateDecision
from lakeingest.ingest.batch_plan import BatchPlan, layout, plan_batch, set_aside
from lakeingest.ingest.batch_reader import BatchReader
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.decided import Decided, decide, time_of
from lakeingest.ingest.events import Committed, Written
from lakeingest.ingest.evolution import Discovery, Evolution
from lakeingest.ingest.fixed_columns import FixedColumns
from lakeingest.ingest.log_order import LogOrder
from lakeingest.ingest.sums_chain import SumsChain
from lakeingest.record import NO_RANGES, OffsetRanges, UnknownSchema
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark import frames, s3a
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lakeingest.decode import Shape

_SAMPLE = 1000
"""Offsets of each partition that show a run which schemas to expect; one that comes later is met as in any batch."""


class MicroBatchExecution:
    """Executes the batches of a run, from what the tables held when it was opened.

    Attributes:
        reader: reads the batches.
        writer: commits them.
        evolution: the schemas that are known by now.
        sums_chain: the sums of the newest batch that stands.
        fixed_columns: notices what would change the table; None where the job evolves it (see `Job.evolves`).
        log_order: notices that a database's log begins anew.
    """

    def __init__(
        self,
        context: RunContext,
        columns: StructType | None,
        log: CommitLog,
        refused: CommitLog | None = None,
        *,
        evolves: bool = True,
        batches: CommitLog | None = None,
    ) -> None:
        """`columns`, `log`: the table's columns, None if there is no table; and what its log says. `refused`: what
        quarantine's does; None where nothing is committed to it. `batches`: what the job's own batches committed to the
        table, where these are not the run's.

        Raises:
            TableMismatch: the table cannot become what the file declares.
        """
        self.context, self.config = context, context.config
        self.reader = BatchReader(context)
        self.writer = TableWriter(context.tables, log, columns, refused)
        self.sums_chain = SumsChain(context.tables, batches or log, refused)
        registry = partial(endpoints.registry, self.config)
        self.evolution = Evolution(self.config, log.schemas, registry, columns, follows=evolves)
        self.fixed_columns = None if evolves else FixedColumns(self.evolution)
        self.log_order = LogOrder.of(self.config, log)
        self._last: BatchPlan | None = None
        self._checked = False
        self._described: tuple[SchemaLedger, StructType | None] | None = None
        self._stages: dict[str, float] = {}

    def open(self, log: CommitLog) -> None:
        """Make or check the table, before the first batch; where only the records know the columns, that one does so.

        Args:
            log: what the execution was made with.

        Raises:
            UsageError: the file declares columns that the table lacks, and only the run may add them.
            TableMismatch: the table is another than the file says.
        """
        if self.fixed_columns is not None:
            self.fixed_columns.check_declared(log, self._columns())
            return
        if self.evolution.settled:
            self.ensure_table()
        self.writer.keep_adoption(log.newest.receipt if log.newest else None)

    def execute(
        self, receipt: Receipt, accept_held: str | None = None, existing: OffsetRanges = NO_RANGES
    ) -> Committed:
        """The way of the records of one micro-batch: the commit protocol.

        1. The ranges begin at the table's frontier, so that nothing is read that was committed.
        2. The accepted rows are written and committed; the same pass counts what it refuses and drops.
        3. Only if some were refused, these alone are decoded again (`Decided.set_aside`), and they are written to
           quarantine with the diagnosis. A batch that left any of its offsets without a row is accounted for there too,
           with the counts.

        `commit.write` makes sure of each commit that it is ours.

        Args:
            receipt: the batch's sequence number, and its offsets.
            accept_held: why the batch is let through if the gate would hold it; None if it is not.
            existing: see `Take.existing`.

        Raises:
            Fenced: another run committed this sequence number; nothing was written.
            BatchHeld: the gate keeps the batch back; nothing was written.
        """
        start_s, self._stages = time.monotonic(), {}
        batch = self.reader.readable(lambda: self._execute(receipt, accept_held, existing))
        return replace(batch, seconds=time.monotonic() - start_s, stages=self._stages)

    def _execute(self, receipt: Receipt, accept_held: str | None, existing: OffsetRanges) -> Committed:
        # 1.
        kafka, existing_count = self._records(receipt, existing)
        self.evolution.begin_batch()
        self.discover_sample(receipt.ranges, receipt.sequence)
        strict = self.evolution.discovery is Discovery.WHEN_MET
        if not strict:
            self.discover_schemas(kafka, receipt.sequence)
        try:
            return self._commit(kafka, receipt, existing_count, accept_held, strict=strict)
        except UnknownSchema:
            self.discover_schemas(kafka, receipt.sequence)
            return self._commit(kafka, receipt, existing_count, accept_held, strict=False)

    def _commit(
        self, kafka: DataFrame, receipt: Receipt, existing_count: int, accept_held: str | None, *, strict: bool
    ) -> Committed:
        """Steps 2 and 3 of `execute`.

        Args:
            existing_count: how many records of the batch one of the tables holds already.
            strict: whether a schema that is not known stops the batch.

        Raises:
            UnknownSchema: it did; nothing was written.
            UsageError: a record's schema would change the table, which does not follow; nothing was written.
        """
        self.check_columns()
        gate, decided = self.context.gate, decide(self.plan(strict=strict), kafka)
        decision: GateDecision | None = None
        try:
            if gate.decides:
                decided, decision = self._gated(decided, kafka, receipt, accept_held)
                receipt = replace(receipt, job=replace(receipt.job, accepted=decision.accepted))
            # 2.
            with self._timed("write"):
                write = latest_batch.write if decided.batch.merges else appended_batch.write
                own_commit, account = write(self, decided, kafka, receipt, existing_count)
        finally:
            if gate.decides:
                frames.release(decided.accepted)
        metrics, counts, left_out = decided.metrics, account.counts, account.left_out
        broken, reasons = dict[str, int](), dict[str, int]()
        # 3.
        if not receipt.whole(own_commit.rows):
            with self._timed("quarantine"):
                # Under the pipeline's own name, also where a backfill has found them.
                rows = decided.set_aside(kafka, self.config.known_as, receipt.sequence, self.context.few_rows)
                broken, reasons = self.quarantine(rows, receipt, account)
        if self.fixed_columns is None:
            self.writer.keep(self.evolution.ledger)
            self._describe()
        with self._timed("results"):
            results = gate.record(self.context.spark, decision, decided.batch, receipt, metrics=metrics, broken=broken)
        return Committed(
            receipt.sequence,
            own_commit.version,
            counts,
            accepted_held=bool(receipt.job.accepted),
            ranges=receipt.ranges,
            refused=reasons,
            left_out=left_out,
            bytes=metrics["bytes"] or 0,
            newest=time_of(metrics["newest"]),
            written=Written.of(own_commit, self.column_types),
            schemas=tuple(e for e in self.evolution.ledger.entries if e.sequence == receipt.sequence),
            gate=tuple(results),
        )

    def _gated(
        self, decided: Decided, kafka: DataFrame, receipt: Receipt, accept_held: str | None
    ) -> tuple[Decided, GateDecision]:
        """The batch as the gate lets it through, and what the gate found.

        Raises:
            BatchHeld: it does not.
        """
        with self._timed("gate"), self.reader.failures():
            decision = self.context.gate.check(
                decided.batch,
                decided.records,
                decided.batch.rows(frames.keep(decided.accepted)),
                decided.observation,
                receipt,
                accept_held=accept_held,
            )
        if not decision.aside:
            return decided, decision
        frames.release(decided.accepted)
        return decide(set_aside(decided.batch, decision.aside), kafka), decision

    def commit_rows(
        self, accepted: DataFrame, receipt: Receipt, batch: BatchPlan, mode: commit.Mode = commit.append
    ) -> Commit:
        """Commit accepted rows to the table (see `TableWriter.commit_rows`)."""
        loosened: Sequence[str] = ()
        if self.fixed_columns is None:
            loosened = self.evolution.loosened(self._columns(), batch.shape.table)
        partitions = batch.layout.columns
        return self.writer.commit_rows(accepted, receipt, self.evolution.ledger, loosened, partitions, mode=mode)

    def quarantine(self, rows: DataFrame, receipt: Receipt, account: Account) -> tuple[dict[str, int], dict[str, int]]:
        """Commit rows to quarantine; how many break which expectation, and how many have which reason."""
        # Meanwhile, so that the next batch need not wait for it.
        self.context.prefetch(self.context.tables.main)
        observation, suite = Observation(), self.context.suite
        by_expectation = quarantine.by_expectation([rule.name for rule in suite.refusing] if suite else [])
        rows = rows.observe(observation, quarantine.by_reason(), *by_expectation.values(), *sums.aggregates_of_rows())
        rows = sealing.sealed(rows, self.config.quarantine, self.config.steps)
        self.sums_chain.accounted(self.writer.set_aside(rows, receipt, account), metrics := observation.get)
        return {n: metrics[f"broken_{at}"] for at, n in enumerate(by_expectation)}, quarantine.reasons_of(metrics)

    def _records(self, receipt: Receipt, existing: OffsetRanges) -> tuple[DataFrame, int]:
        """The records of a batch, without those that a table has already, and how many of its offsets these are.

        Of records that came in late, those that are there already are no part of the batch.
        """
        records = self.reader.records(receipt)
        if not existing.ranges:
            return records, 0
        with storage_failures(self.context.tables.quarantine.identifier):
            count = 0 if receipt.job.late.ranges else self.context.tables.coordinates(existing).count()
            return self.reader.without_existing(records, existing), count

    def discover_sample(self, ranges: OffsetRanges, sequence: int) -> None:
        """Let most schemas of the run's first batch be known, from a part of it, before the batch is read.

        Raises:
            SourceUnreachable, RegistryUnreachable: see `discover_schemas`.
        """
        sample = ranges.first(_SAMPLE)
        if self.evolution.discovery is Discovery.SAMPLE_FIRST and sample != ranges:
            self.discover_schemas(self.reader.frame(sample), sequence)

    def discover_schemas(self, kafka: DataFrame, sequence: int) -> None:
        """Let the schemas of a batch be known before it is planned.

        Raises:
            SourceUnreachable: the batch cannot be read.
            RegistryUnreachable: a schema is not known, and the registry does not answer.
        """
        with self._timed("discover"), self.reader.failures():
            self.evolution.discover(kafka, sequence, self.writer.columns)

    def check_columns(self) -> None:
        """Make the table, if it is missing, for the schemas that are known by now; or notice that they would change it
        where only the run may do that.

        Raises:
            UsageError: they would; nothing was written.
        """
        if self.fixed_columns is not None:
            self.fixed_columns.check_unchanged()
        elif self.writer.columns is None:
            self.ensure_table()

    def plan(self, *, strict: bool) -> BatchPlan:
        """The plan of a batch under the columns that are known by now.

        Args:
            strict: whether a schema that is not known stops the batch: it need not where `discover_schemas` has seen
                all its records.

        Raises:
            PipelineFileError, UsageError: no table can be as the file says.
            TableMismatch: the table is another than the file says.
        """
        with self._timed("plan"), self._planning():
            batch_shape = self.evolution.shape(self.writer.columns, strict=strict)
            loosened = self._after_loosening(batch_shape)
            properties = self.writer.properties
            batch = plan_batch(
                self.config, batch_shape, self.context.suite, self._last, properties=properties, table=loosened
            )
        self._check_table(batch_shape, batch.layout)
        self._last = batch
        return batch

    def ensure_table(self, *, dry_run: bool = False) -> None:
        """Make the table if it is missing, under the columns that are known by now; else hold it to the file.

        Args:
            dry_run: take a table that is missing for made, and write nothing.

        Raises:
            TableMismatch: the table is another than the file says.
        """
        batch_shape, batch_layout = self.check_table()
        main, columns = self.context.tables.main, shape.table_columns(self.config, batch_shape)
        missing = self.writer.ensure(columns, batch_layout.columns, self.evolution.ledger, dry_run=dry_run)
        if dry_run:
            # A table that is not there cannot be held to the file.
            self._checked |= missing
            return
        if missing:
            self.context.prefetch(main)
            kinds.check(main, "table", self._columns().names, self.writer.properties)
            preflight.check_maker(self.config, self.writer.properties)
        for table in (main, self.context.tables.quarantine):
            if not table.by_path:
                s3a.check_file_system(self.context.spark, [table.location], stacklevel=2)
        self._describe(self.config.comment)

    def check_table(self) -> tuple[Shape, Layout]:
        """Hold the table to the file, if it is there; the columns of a batch, and how it is partitioned.

        Raises:
            TableMismatch: the table is another than the file says.
        """
        batch_shape = self.evolution.shape(None, strict=False)
        with self._planning():
            batch_layout = layout(self.config, batch_shape, self.context.suite, datetime.now(UTC))
        self._check_table(batch_shape, batch_layout)
        return batch_shape, batch_layout

    def _describe(self, comment: str | None = None) -> None:
        """Let the table have the contract of the file, and the comments of file and schema, where a commit may have
        brought others.
        """
        self.writer.promise()
        state = self.evolution.ledger, self.writer.columns
        if state != self._described:
            value = shape.described(self.config, self.evolution.ledger.documented("value"))
            self.writer.describe(value, comment)
            self._described = self.evolution.ledger, self.writer.columns

    def _columns(self) -> StructType:
        assert self.writer.columns is not None
        return self.writer.columns

    def _check_table(self, batch_shape: Shape, batch_layout: Layout) -> None:
        """Hold the table to the file, once."""
        if self.writer.columns is not None and not self._checked:
            columns = shape.table_columns(self.config, batch_shape)
            preflight.check_columns(
                self.context.tables, self._columns(), self.writer.properties, columns, batch_layout.columns
            )
            self._checked = True

    def _after_loosening(self, batch_shape: Shape) -> StructType | None:
        """The table's columns as they will be once the batch is committed; None while there is no table."""
        if self.writer.columns is None:
            return None
        return shape.loosened(self.writer.columns, self.evolution.loosened(self.writer.columns, batch_shape.value))

    @property
    def column_types(self) -> dict[str, str]:
        """Name → type, as SQL has it, of the table's columns."""
        return {field.name: field.dataType.simpleString() for field in self._columns()}

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add what the block takes to a stage's time."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self._stages[stage] = self._stages.get(stage, 0.0) + time.monotonic() - start_s

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
                "no record has brought a schema yet that a table could be made for: "
                f"{self.evolution.appearance or mistake.what}",
                cure="register the schema, or let a record of it come, and run again; nothing was consumed",
            ) from mistake
