"""Where the records of a pipeline come from: Kafka, or a bronze table that has them as bytes.

Both are logs: what was consumed is offsets of topic-partitions, whichever of the two is read, and a pipeline may go
over from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lakeingest.config import PipelineConfig, Storage
from lakeingest.errors import LakeingestError, SourceUnreachable
from lakeingest.ingest.bronze import BronzeSource, Late
from lakeingest.kafka import peek, reader
from lakeingest.kafka.broker import Broker
from lakeingest.kafka.offsets import Reach, Topics
from lakeingest.record import Frontier, OffsetRanges
from lakeingest.spark import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RecordSource(Protocol):
    """A log of records. It is asked by one thread at a time.

    Raises:
        SourceError, StorageError: from every method, where it cannot be asked.
    """

    @property
    def address(self) -> str:
        """Where it is: brokers, or the table's path or name."""

    def topics(self) -> Topics:
        """Ids, first and last offsets of every partition of the pipeline's topics, as they are now."""

    def reach(self, moment: datetime) -> Reach:
        """The offsets to reach so that nothing is missing before a moment (aware) of Kafka's time."""

    def times(self, starts: Frontier, ends: Frontier) -> dict[tuple[str, int], datetime]:
        """The timestamps of the first records from these offsets on, in UTC; see `kafka.peek.times`."""

    def late(self, read_from: Mapping[str, Any], frontier: Frontier) -> Sequence[Late]:
        """What may have come in below the frontier since the source was read.

        Args:
            read_from: what the newest receipt says of the source.
        """

    def frame(
        self,
        spark: SparkSession,
        ranges: OffsetRanges,
        *,
        by_consumer: bool = False,
        read_from: Mapping[str, Any] | None = None,
        batch_frames: reader.BatchFrames | None = None,
    ) -> DataFrame:
        """Exactly the records of `ranges`, as bytes; for the columns see `kafka.reader.frame`.

        Args:
            by_consumer: whether Kafka's are read without Spark's reader, which cannot hold every time.
            read_from: see `Late`; by default, what `topics` has seen last.
            batch_frames: Kafka's of earlier batches.
        """

    def commit(self, group: str, frontier: Frontier) -> None:
        """Let a consumer group stand at these offsets, so that others see how far the table is."""

    def unreadable(self, failed: Exception) -> LakeingestError:
        """What a failure of Spark means where records are read, and nothing is written."""


@dataclass
class KafkaSource:
    """The topics of a Kafka cluster.

    Raises:
        UsageError: from the constructor, when source.options make no sense.
        SourceUnreachable, SourceRefused: see `Broker`.
    """

    config: PipelineConfig
    address: str

    def __post_init__(self) -> None:
        self._broker = Broker(self.config.source, self.address)

    def topics(self) -> Topics:
        """See `Broker.topics`."""
        return self._broker.topics()

    def reach(self, moment: datetime) -> Reach:
        """See `Broker.reach`."""
        return self._broker.reach(moment)

    def times(self, starts: Frontier, ends: Frontier) -> dict[tuple[str, int], datetime]:
        """See `kafka.peek.times`."""
        return peek.times(self.config.source, self.address, starts, ends)

    def late(self, read_from: Mapping[str, Any], frontier: Frontier) -> Sequence[Late]:
        """Nothing: offsets of Kafka only grow."""
        return ()

    def frame(
        self,
        spark: SparkSession,
        ranges: OffsetRanges,
        *,
        by_consumer: bool = False,
        read_from: Mapping[str, Any] | None = None,
        batch_frames: reader.BatchFrames | None = None,
    ) -> DataFrame:
        """See `kafka.reader.frame`."""
        where = self.config.source, self.address, self.config.name
        return reader.frame(spark, *where, ranges, by_consumer=by_consumer, batch_frames=batch_frames)

    def commit(self, group: str, frontier: Frontier) -> None:
        """See `Broker.commit`."""
        self._broker.commit(group, frontier)

    def unreadable(self, failed: Exception) -> LakeingestError:
        """See `RecordSource.unreadable`."""
        return (
            failures.of_kafka(failed)
            or failures.of_value(failed)
            or SourceUnreachable(
                f"the batch cannot be read from Kafka at {self.address}: {failures.summary(failed)}",
                cure="look at the broker and its log; nothing was consumed, run again",
            )
        )


def source_of(
    config: PipelineConfig, servers: str, storage: Storage, spark: Callable[[], SparkSession]
) -> KafkaSource | BronzeSource:
    """Where a pipeline's records come from; asked nothing yet.

    Args:
        servers: Kafka's; not looked at where the file names a table.
        spark: gives a session, if one is needed.
    """
    if config.source.table is None:
        return KafkaSource(config, servers)
    return BronzeSource(config.source.table, config.source.topics, storage, spark)
