"""The records of a batch, and what a failure to read them means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from lakeingest.delta.receipt import Receipt
from lakeingest.ingest.context import RunContext
from lakeingest.kafka.reader import BatchFrames
from lakeingest.record import COORDINATES, OffsetRanges, UnreadableTime, replan_reason
from lakeingest.spark import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


class BatchReader:
    """Reads offset ranges from the pipeline's source; Kafka's by another consumer where Spark's reader cannot hold a
    record's time.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._by_consumer = False
        self._frames = BatchFrames()

    def frame(self, ranges: OffsetRanges) -> DataFrame:
        """Exactly the records of `ranges`, as bytes; for the columns see `kafka.reader.frame`."""
        context = self._context
        return context.source.frame(context.spark, ranges, by_consumer=self._by_consumer)

    def records(self, receipt: Receipt) -> DataFrame:
        """The records of a batch: of its offsets, or those that came in late (see `ingest.bronze`).

        Those of an earlier batch cannot be computed any more then: the frame may be the same one (see `BatchFrames`).
        """
        context = self._context
        if receipt.job.late.ranges:
            return context.source.frame(context.spark, receipt.job.late, read_from=receipt.job.read_from)
        return context.source.frame(
            context.spark, receipt.ranges, by_consumer=self._by_consumer, batch_frames=self._frames
        )

    def without_existing(self, records: DataFrame, ranges: OffsetRanges) -> DataFrame:
        """Without those records within `ranges` that one of the pipeline's tables has."""
        return records.join(self._context.tables.coordinates(ranges), list(COORDINATES), "left_anti")

    def readable(self, take: Callable[[], T]) -> T:
        """What `take` gives, which reads ranges; called again where Spark's reader cannot hold a record's time."""
        try:
            return take()
        except UnreadableTime:
            self._by_consumer = True
            try:
                return take()
            finally:
                self._by_consumer = False

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Say what a failure of Spark means where it reads a batch and writes nothing.

        Raises:
            SourceError, StorageError: the batch cannot be read.
            UnknownSchema: a record's schema is not among those that the batch was planned for.
            UnreadableTime: Spark's reader cannot hold a record's time.
        """
        try:
            yield
        except failures.spark_failures() as failed:
            if other := replan_reason(failed):
                raise other from failed
            error = self._context.source.unreadable(failed)
            raise error from failures.cause(error, failed)
