"""The records of a batch, and what a failure to read them means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from lakeingest.errors import SourceUnreachable
from lakeingest.ingest.context import RunContext
from lakeingest.kafka import reader
from lakeingest.record import OffsetRanges, UnreadableTime, replan_reason
from lakeingest.spark import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


class BatchReader:
    """Reads offset ranges by Spark's Kafka reader; by another consumer where that one cannot hold a record's time."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._by_consumer = False

    def frame(self, ranges: OffsetRanges) -> DataFrame:
        """Exactly the records of `ranges`, as bytes; for the columns see `kafka.reader.frame`."""
        context = self._context
        where = context.config.source, context.bootstrap_servers, context.config.name
        return reader.frame(context.spark, *where, ranges, by_consumer=self._by_consumer)

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
            SourceUnreachable: the batch cannot be read.
            UnknownSchema: a record's schema is not among those that the batch was planned for.
            UnreadableTime: Spark's reader cannot hold a record's time.
        """
        try:
            yield
        except failures.spark_failures() as failed:
            if other := replan_reason(failed):
                raise other from failed
            raise SourceUnreachable(
                f"the batch cannot be read from Kafka at {self._context.bootstrap_servers}: {failures.summary(failed)}",
                cure="look at the broker and its log; nothing was consumed, run again",
            ) from failed
