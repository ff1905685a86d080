"""Which schemas the records of a batch name, or bring, that are not known yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeingest.decode.framing import Framing, begins, header_of
from lakeingest.decode.order import TopicPartition
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TIMESTAMP, TOPIC
from lakeingest.schema.formats import wire
from lakeingest.schema.ledger import Side
from lakeingest.spark import python

_MOST_HEADERS = 10_000


@dataclass(frozen=True)
class NewHeader:
    """A header in a batch that is not known yet.

    Attributes:
        firsts: its first record of each partition: offset, and timestamp in microseconds.
        text: the schema itself, where the record brings it.
    """

    side: Side
    header: bytes
    firsts: Mapping[TopicPartition, tuple[int, int]]
    text: str | None


def new_headers(
    kafka: DataFrame,
    framings: Mapping[Side, Framing],
    sides: Mapping[Side, str],
    known_headers: Mapping[Side, Sequence[bytes]],
    indexed: Collection[Side],
) -> list[NewHeader]:
    """The headers in a batch that are not known yet.

    The most frequent come first, and not more than 10,000 of them: bytes that are no header at all look like any.

    Args:
        framings: of each side.
        sides: the side → the column of its bytes.
        known_headers: per side, the headers that have a branch already.
        indexed: the sides whose headers have Protobuf's message indexes.
    """
    parts = []
    for side, name in sides.items():
        framing = framings[side]
        reference = F.coalesce(framing.apart(side), F.col(name))
        new = F.col(name).isNotNull() & begins(framing, reference)
        for header in known_headers[side]:
            new = new & ~reference.startswith(F.lit(bytearray(header)))
        whole = _indexed(reference, framing) if side in indexed else header_of(framing, reference)
        columns = F.lit(side).alias("side"), whole.alias("header"), framing.text(side).alias("text")
        parts.append(kafka.where(new).select(*columns, *COORDINATES, TIMESTAMP))
    time = F.coalesce(F.unix_micros(TIMESTAMP), F.lit(0))
    first = F.min(F.struct(OFFSET, time)).alias("first")
    firsts = reduce(DataFrame.unionAll, parts).groupBy("side", "header", TOPIC, PARTITION)
    counted = firsts.agg(first, F.count("*").alias("records"), F.first("text").alias("text"))
    places = F.collect_list(F.struct(TOPIC, PARTITION, "first")).alias("places")
    frequent = counted.groupBy("side", "header").agg(
        places, F.sum("records").alias("records"), F.first("text").alias("text")
    )
    rows = frequent.orderBy(F.desc("records")).limit(_MOST_HEADERS).collect()
    return [
        NewHeader(
            row["side"],
            bytes(row["header"]),
            {(topic, at): tuple(first) for topic, at, first in row["places"]},
            row["text"],
        )
        for row in rows
    ]


def _indexed(reference: Column, framing: Framing) -> Column:
    """BINARY: the header with message indexes; without them where they are malformed."""
    header = framing.with_indexes()
    # Python is given no whole records.
    begin = F.substring(reference, 1, wire.BEGIN)
    return python.by_value(lambda value: header(bytes(value)), "BINARY", (wire,))(begin)
