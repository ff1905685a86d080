"""The records of a batch once they are decided, and how many became what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation

from lakeingest.delta import quarantine, sums
from lakeingest.delta.receipt import Counts, Receipt
from lakeingest.ingest import refused_records
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.ingest.refused_bitmap import maybe_refused
from lakeingest.record import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW = 1000
"""Up to so many refused records of a batch are computed sooner without generated code."""


@dataclass(frozen=True)
class Decided:
    """The records of a batch, decided under a plan.

    Attributes:
        records: all of them, as `BatchPlan.decide` and `sums.of_accepted` give them.
        accepted: those that the table takes.
        observation: what is observed while these are written.
        frame_id: what `refused_records` knows them by.
    """

    batch: BatchPlan
    records: DataFrame
    accepted: DataFrame
    observation: Observation
    frame_id: str

    @cached_property
    def metrics(self) -> Mapping[str, Any]:
        """What was observed, once the accepted ones are written: kilobytes, which come out of the JVM once."""
        return self.observation.get

    @property
    def rows(self) -> DataFrame:
        """Those of the accepted ones that do not delete a row."""
        return self.batch.rows(self.accepted)

    def set_aside(
        self, kafka: DataFrame, pipeline: str, sequence: int, few_rows: SparkSession | None = None
    ) -> DataFrame:
        """The refused ones as rows of quarantine, once the accepted ones are written. These alone are decided again,
        where that can be.

        Args:
            kafka: the batch, which is read again where its refused records did not come (see `refused_records`).
            pipeline, sequence: what the rows are marked with.
            few_rows: the session that computes up to `FEW` of them (see `session.few_rows_session`).
        """
        batch, again, metrics = self.batch, self.records, self.metrics
        session = few_rows if few_rows and metrics["refused"] <= FEW else kafka.sparkSession

        def rows(decided: DataFrame) -> DataFrame:
            return refused_rows(batch, observed(decided, Observation()).where(REFUSED), pipeline, sequence)

        if not metrics["refused"]:
            return quarantine.no_rows(session)
        if batch.by_record:
            marks = (sequence, batch.now)
            as_they_came = refused_records.records(
                session, metrics, self.frame_id, batch.frames.table_id, marks, columns=kafka.schema
            )
            if as_they_came is not None:
                source = session, as_they_came.schema
                return batch.frames.set_aside.of(source, lambda: rows(batch.decide(as_they_came)))
            again = batch.decide(maybe_refused(kafka, metrics))
        return rows(again)


def refused_rows(batch: BatchPlan, refused: DataFrame, pipeline: str, sequence: int) -> DataFrame:
    """Refused records, decided under this plan, as rows of quarantine."""
    return quarantine.rows(refused, batch.refusals, pipeline, sequence, batch.now)


def decide(batch: BatchPlan, kafka: DataFrame) -> Decided:
    """Decide records of Kafka, or of a bronze table; nothing is computed yet."""
    observation, frame_id = Observation(), refused_records.new_id()
    # Rows of mode upsert do not stay: no sums of them could be held against the table.
    has_sums = not batch.merges
    records = batch.frames.decided.of(
        kafka, lambda: sums.of_accepted(batch.decide(kafka)) if has_sums else batch.decide(kafka)
    )
    marked, metrics = records, (*batch.metrics, *batch.left_out, *batch.refused_bitmaps)
    if batch.by_record:
        marked = refused_records.collected(records, kafka.schema, frame_id)
        metrics += refused_records.aggregates(kafka.sparkSession)
    if has_sums:
        metrics += sums.aggregates()
    counted = observed(marked, observation, *metrics)
    return Decided(batch, records, batch.accepted(counted), observation, frame_id)


def certain(receipt: Receipt, counts: Counts, left_out: Mapping[str, int]) -> tuple[Counts, Mapping[str, int]]:
    """The counts of a batch, and the reasons of its drops, as far as they are known.

    Of records that came in late, and of which it is not known which they are, some may have been dropped before, and
    counted then: these are in neither table too.
    """
    if not receipt.job.late.ranges or "since" in receipt.job.read_from:
        return counts, left_out
    return replace(counts, consumed=counts.consumed - counts.dropped, dropped=0), {}


def counts_of(metrics: Mapping[str, Any], accepted: int, existing_count: int) -> Counts:
    """`existing_count` records of the batch are in one of the tables already."""
    return Counts(
        metrics["consumed"] + existing_count, accepted, metrics["refused"] + existing_count, metrics["dropped"]
    )


def time_of(millis: int | None) -> datetime | None:
    """Kafka gives records without a time −1."""
    return None if millis is None or millis < 0 else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
