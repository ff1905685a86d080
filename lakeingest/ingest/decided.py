"""The records of a batch once they are decided, and how many became what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation

from lakeingest.delta import sums
from lakeingest.delta.receipt import Counts, Receipt
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.ingest.refused_bitmap import maybe_refused
from lakeingest.record import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Decided:
    """The records of a batch, decided under a plan.

    Attributes:
        records: all of them, as `BatchPlan.decide` gives them.
        accepted: the rows among them that the table takes.
        observation: what is observed while these are written.
    """

    batch: BatchPlan
    records: DataFrame
    accepted: DataFrame
    observation: Observation

    def refused(self, kafka: DataFrame) -> DataFrame:
        """The refused ones, once the accepted ones are written. These alone are decided again, where that can be."""
        again = self.records
        if self.batch.by_record:
            again = self.batch.decide(maybe_refused(kafka, self.observation.get))
        return observed(again, Observation()).where(REFUSED)


def decide(batch: BatchPlan, kafka: DataFrame) -> Decided:
    """Decide records of Kafka, or of a bronze table; nothing is computed yet."""
    records, observation = batch.decide(kafka), Observation()
    metrics = (*batch.metrics, *batch.left_out, *batch.refused_bitmaps, *sums.aggregates())
    counted = observed(sums.of_accepted(records), observation, *metrics)
    return Decided(batch, records, batch.accepted(counted), observation)


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
