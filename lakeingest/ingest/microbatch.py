"""The corridor: walks one micro-batch through the rooms. Start reading at `Corridor.batch`.

Kafka → decode → gate → partition → commit; on refusal, at any stage, → quarantine
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import Observation
from pyspark.sql.types import StructField, StructType

from lakeingest.config import PipelineConfig
from lakeingest.decode import Shape
from lakeingest.delta import commit, quarantine, table, table_properties
from lakeingest.delta.commit import Commit, CommitLog, Counts, Receipt, Run
from lakeingest.delta.history import TableHistory
from lakeingest.delta.partitioning import Layout
from lakeingest.errors import OffsetsLost, PipelineFileError, SourceUnreachable, TableChanged, UsageError
from lakeingest.gate.suite import Suite
from lakeingest.ingest import endpoints, preflight
from lakeingest.ingest.batch_gate import BatchGate, GateDecision
from lakeingest.ingest.batch_plan import (
    DROPPED,
    REFUSED,
    BatchPlan,
    layout,
    maybe_refused,
    observed,
    plan_batch,
    set_aside,
)
from lakeingest.ingest.evolution import Evolution
from lakeingest.kafka import reader
from lakeingest.record import COORDINATES, Frontier, OffsetRanges, UnknownSchema, UnreadableTime, replan_reason
from lakeingest.schema import ddl
from lakeingest.schema.ledger import SchemaLedger
from lakeingest.spark import failures, types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
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
    seconds: float = 0
    lag: int = 0


@dataclass
class MicroBatchExecution:
    """The way of a pipeline's records, from what its tables hold: each run opens one, anew after a failure.

    Attributes:
        bootstrap_servers: Kafka's.
        me: who commits.
        look_ahead: prepares the next commits to the tables of these paths.
        there: the table's columns; None while there is no table.
        ledger: what the table's log says of its schemas when the corridor is opened.
        evolution: the schemas that are known by now.
    """

    config: PipelineConfig
    spark: SparkSession
    bootstrap_servers: str
    suite: Suite | None
    gate: BatchGate
    me: Run
    look_ahead: Callable[..., None]
    there: StructType | None
    ledger: InitVar[CommitLog]
    evolution: Evolution = field(init=False)

    def __post_init__(self, ledger: CommitLog) -> None:
        self.evolution = Evolution(self.config, ledger.schemas, partial(endpoints.registry, self.config), self.there)
        self._kept, self._properties, self._version = ledger.kept, ledger.properties, ledger.version
        self._begun: BatchPlan | None = None
        self._held = False
        self._slowly = False

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
        progress = self.readable(lambda: self._batch(receipt, behind))
        return replace(progress, seconds=time.monotonic() - begun)

    def _batch(self, receipt: Receipt, behind: Frontier) -> Progress:
        kafka, known = self._unknown(self.read(receipt.spans), receipt.spans, behind)
        evolution = self.evolution
        if evolution.blank and (sample := receipt.spans.first(_SAMPLE)) != receipt.spans:
            self.look(self.read(sample), receipt.sequence)
        looked = evolution.blank or evolution.watchful or not evolution.settled
        if looked:
            self.look(kafka, receipt.sequence)
        try:
            return self._take(kafka, receipt, known, looked=looked)
        except UnknownSchema:
            self.look(kafka, receipt.sequence)
            return self._take(kafka, receipt, known, looked=True)

    def _take(self, kafka: DataFrame, receipt: Receipt, known: int, *, looked: bool) -> Progress:
        """Steps 2 and 3 of `batch`, for records whose schemas are known, or were looked at.

        Raises:
            Unplanned: they were not, and one is not known; nothing was written.
        """
        if self.there is None:
            self.ensure()
        batch = self.planned(looked=looked)
        decided, accepted, seen = _decided(batch, kafka)
        verdict: GateDecision | None = None
        try:
            if self.gate.decides:
                with self.reading():
                    verdict = self.gate.judge(batch, decided, accepted.persist(), seen, receipt)
                receipt = replace(receipt, accepted=verdict.accepted)
                if verdict.aside:
                    accepted.unpersist()
                    batch = set_aside(batch, verdict.aside)
                    decided, accepted, seen = _decided(batch, kafka)
            # 2.
            self._check_restored()
            done = self._append(batch, accepted, replace(receipt, base=self._version))
            if done.receipt.base is not None and self._log.restored(done.receipt.base, done.version):
                raise self._restored
            self._version = done.version
            self.gate.committed(receipt)
        finally:
            if self.gate.decides:
                accepted.unpersist()
        found = seen.get
        counts, broken = _counts(found, done.rows, known), dict[str, int]()
        # 3.
        if not receipt.whole(counts.accepted):
            refused = decided.limit(0)
            if counts.refused:
                again = batch.decide(maybe_refused(kafka, found)) if batch.alone else decided
                refused = observed(again, Observation()).where(REFUSED)
            self._check_restored()
            broken = self._set_aside(refused, batch, replace(receipt, counts=counts, gaps=OffsetRanges(())))
        self._keep()
        self.gate.note(self.spark, verdict, batch, receipt, seen=found, broken=broken)
        return Progress(receipt.sequence, done.version, counts)

    @property
    def _log(self) -> TableHistory:
        return TableHistory(self.spark, self.config.table.path)

    @property
    def _restored(self) -> TableChanged:
        return TableChanged(
            f"somebody restored {self.config.table.path} to another version while {self.config.name!r} was running",
            cure="run again: what the RESTORE took back is read again",
        )

    def _check_restored(self) -> None:
        """Notice a RESTORE of the table since this run looked at it: what it is about to write was decided before that.

        Raises:
            TableChanged: nothing was written; the run begins anew from what the table says now.
        """
        if self._version is not None and self._log.restored(self._version):
            raise self._restored

    def _append(self, batch: BatchPlan, accepted: DataFrame, receipt: Receipt) -> Commit:
        """Commit the table's rows, its new columns and the ledger of schemas, all in one."""
        assert self.there is not None
        path, history = self.config.table.path, self.evolution.history
        altered = table.widen(self.spark, path, self.there, accepted.schema)
        altered |= table.loosen(self.spark, path, self.evolution.loosened(self.there, batch.shape.value))
        evolves = types.has_new_fields(self.there, accepted.schema)
        receipt = replace(receipt, ledger=history.digest, schemas=SchemaLedger() if history == self._kept else history)
        done = commit.append(self.spark, path, accepted, receipt, self.config.table.compression, evolve=evolves)
        if evolves or altered:
            self.there = table.read(self.spark, path).schema
        return done

    def _keep(self) -> None:
        """Keep the ledger of schemas, and the partitions, where the clean-up of the log does not take them."""
        history = self.evolution.history
        if history != self._kept or table_properties.partitions(self._properties, self.config.known_as) is None:
            wanted = table_properties.properties(self.config, history)
            table_properties.write(self.spark, self.config.table.path, wanted)
            self._kept, self._properties = history, {**self._properties, **wanted}

    def _set_aside(self, refused: DataFrame, batch: BatchPlan, receipt: Receipt) -> dict[str, int]:
        """Commit refused records to quarantine; how many break which expectation."""
        receipt, seen = replace(receipt, ledger="", schemas=SchemaLedger(), accepted={}), Observation()
        rows = quarantine.rows(refused, batch.refusals, receipt.pipeline, receipt.sequence, batch.now)
        named = quarantine.by_expectation([rule.name for rule in self.suite.refusing] if self.suite else [])
        if named:
            rows = rows.observe(seen, *named.values())
        commit.append(self.spark, self.config.quarantine.path, rows, receipt, self.config.table.compression)
        return {name: seen.get[f"broken_{at}"] for at, name in enumerate(named)} if named else {}

    def _unknown(self, kafka: DataFrame, spans: OffsetRanges, behind: Frontier) -> tuple[DataFrame, int]:
        """The records that neither table holds yet, and how many one of them does.

        After a RESTORE quarantine may hold records of the batch, and the table those that a replay has moved since.
        """
        if all(behind.get((s.topic, s.partition), 0) <= s.start for s in spans):
            return kafka, 0
        with failures.storage_failures(self.config.quarantine.path):
            held = self._rows(spans)
            return kafka.join(held, list(COORDINATES), "left_anti"), held.count()

    def settle(self, ledger: CommitLog, refused: CommitLog, first: Frontier, *, accept_gap: bool) -> int:
        """Finish the newest batch, if its writer ended between the table's commit and quarantine's.

        A batch with a row for each offset is whole; any other is, if quarantine has its sequence number or a later
        one, because a run settles before it goes on. What is missing is a difference of coordinates, so it does
        not matter whether today's rules would decide as those of its time did.

        Args:
            first: the first offsets that Kafka still has. What lies before them and is in neither table is lost.
            accept_gap: whether to go on without it.

        Returns:
            The number of the commit to quarantine; 0 if there was nothing to finish.

        Raises:
            OffsetsLost: something is, and that was not accepted.
            TableChanged: somebody restores the table at this moment.
        """
        newest = ledger.newest
        if newest is None or newest.receipt.whole(newest.rows):
            return 0
        number, last = newest.receipt.sequence, refused.last_sequence
        if last >= number:
            # Later numbers than the table's newest are those of batches that a RESTORE took back.
            if last == number or self._accounted(number):
                return 0
            number = max(ledger.last_sequence, last) + 1
        with failures.storage_failures(self.config.quarantine.path):
            self.readable(lambda: self._settle(newest, number, first, accept_gap=accept_gap))
        return number

    def _accounted(self, batch: int) -> bool:
        """Whether quarantine's log has a batch's account, or no longer reaches back so far."""
        ledger = commit.read(self.spark, self.config.quarantine.path, self.config.known_as, back=None)
        return not ledger.complete or any(c.receipt.batch == batch for c in ledger.commits)

    def _settle(self, newest: Commit, number: int, first: Frontier, *, accept_gap: bool) -> None:
        """Bring the records of a batch to quarantine that are in neither table, with the batch's account."""
        receipt, sequence = newest.receipt, newest.receipt.sequence
        gone, spans = receipt.spans.before(first), receipt.spans.since(first)
        lost = gone.offsets - self._rows(gone).count()
        if lost and not accept_gap:
            raise OffsetsLost(
                f"batch {sequence} was cut off between its two commits, and Kafka no longer has {gone}: {lost:,} of "
                "these offsets are in neither table; they were refused, dropped, or hold no record",
                cure="run once with --accept-gap to go on without them (`audit` will name them); make the topic's "
                "retention longer than any stop",
            )
        kafka = self.read(spans)
        self.look(kafka, sequence)
        batch = self.planned(looked=True)
        # By coordinates, and counted by jobs of their own: Kafka may have compacted what is in the tables already.
        left = batch.decide(kafka).join(self._rows(spans), list(COORDINATES), "left_anti").persist()
        try:
            missing = left.where(f"NOT {DROPPED}")
            with self.reading():
                dropped = left.where(DROPPED).count()
            # Those that were there before: its own rows, and what it was not to take again after a RESTORE.
            refused = missing.count() + self._rows(receipt.spans).count() - newest.rows
            counts = Counts(newest.rows + refused + dropped, newest.rows, refused, dropped)
            told = replace(receipt, sequence=number, run=self.me, counts=counts, lost=lost)
            settles = sequence if number != sequence else 0
            self._check_restored()
            self._set_aside(missing, batch, replace(told, settles=settles, gaps=gone if lost else OffsetRanges(())))
        finally:
            left.unpersist()

    def _rows(self, spans: OffsetRanges) -> DataFrame:
        """The coordinates within `spans` that are in one of the tables."""
        there = table.coordinates(self.spark, self.config.table.path, spans)
        return there.union(table.refused(self.spark, self.config, spans)).distinct()

    def read(self, spans: OffsetRanges) -> DataFrame:
        where = self.config.source, self.bootstrap_servers, self.config.name
        return reader.frame(self.spark, *where, spans, slowly=self._slowly)

    def readable(self, take: Callable[[], T]) -> T:
        """What `take` gives, which reads spans; it is called again where Spark's reader cannot hold a record's time."""
        try:
            return take()
        except UnreadableTime:
            self._slowly = True
            try:
                return take()
            finally:
                self._slowly = False

    def look(self, kafka: DataFrame, sequence: int) -> None:
        """Let the schemas of a batch be known before it is planned.

        Raises:
            SourceUnreachable: the batch cannot be read.
            RegistryUnreachable: a schema is not known, and the registry does not answer.
        """
        with self.reading():
            self.evolution.look(kafka, sequence, self.there)

    def planned(self, *, looked: bool) -> BatchPlan:
        """A batch under the columns that are known by now.

        Args:
            looked: whether `look` saw this very batch; else a schema that is not known stops it.

        Raises:
            PipelineFileError, UsageError: no table can be as the file says.
            TableMismatch: the table is another than the file says.
        """
        with self._planning():
            shape = self.evolution.shape(self.there, looked=looked)
            there = self._loosened(shape)
            batch = plan_batch(self.config, shape, self.suite, self._begun, properties=self._properties, there=there)
        self._check(shape, batch.layout)
        self._begun = batch
        return batch

    def _check(self, shape: Shape, layout: Layout) -> None:
        """Hold the table to the file, once."""
        if self.there is not None and not self._held:
            partitions = layout.columns
            table.check(self.spark, self.config, self.there, self._properties, shape=shape, partitions=partitions)
            self._held = True

    def _loosened(self, shape: Shape) -> StructType | None:
        """The table's columns as they will be once the batch is committed; None while there is no table."""
        if self.there is None:
            return None
        loose = {*self.evolution.loosened(self.there, shape.value)}
        return StructType(
            [StructField(f.name, f.dataType, f.nullable or ddl.quoted(f.name) in loose) for f in self.there]
        )

    def ensure(self) -> None:
        """Make the table if it is missing, under the columns that are known by now; else hold it to the file.

        Raises:
            TableMismatch: the table is another than the file says.
        """
        shape, new = self.evolution.shape(None, looked=True), self.there is None
        with self._planning():
            made = layout(self.config, shape, self.suite, datetime.now(UTC))
        self._check(shape, made)
        there, history = self.there, self.evolution.history
        self.there = table.ensure(self.spark, self.config, shape, made.columns, there=there, history=history)
        if new:
            self.look_ahead(self.config.table.path)
            self._properties = table_properties.read(self.spark, self.config.table.path)
            self._kept = table_properties.ledger(self._properties, self.config.known_as)
            preflight.check_maker(self.config, self._properties)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say what a failure of Spark means where it reads a batch and writes nothing.

        Raises:
            SourceUnreachable: the batch cannot be read.
            Unplanned: a record's schema is not among those that the batch was planned for.
            Untimely: Spark's reader cannot hold a record's time.
        """
        try:
            yield
        except failures.spark_failures() as failed:
            if other := replan_reason(failed):
                raise other from failed
            raise SourceUnreachable(
                f"the batch cannot be read from Kafka at {self.bootstrap_servers}: {failures.summary(failed)}",
                cure="look at the broker and its log; nothing was consumed, run again",
            ) from failed

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
                f"{self.evolution.looks or mistake.what}",
                cure="register the schema, or let a record of it come, and run again; nothing was consumed",
            ) from mistake


def _decided(batch: BatchPlan, kafka: DataFrame) -> tuple[DataFrame, DataFrame, Observation]:
    """All records, the rows among them that the table takes, and what is seen while these are written."""
    decided, seen = batch.decide(kafka), Observation()
    return decided, batch.accepted(observed(decided, seen, *batch.metrics, *batch.marks)), seen


def _counts(found: Mapping[str, Any], accepted: int, known: int) -> Counts:
    """`known` records are in quarantine already, from a batch that a RESTORE took back."""
    return Counts(found["consumed"] + known, accepted, found["refused"] + known, found["dropped"])
