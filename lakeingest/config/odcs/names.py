"""Names that both ways need: of partition columns, and of fields within a type."""

from __future__ import annotations

import re

from lakeingest.config import partition_format
from lakeingest.config.parts import FieldPartition, Partition, TimePartition
from lakeingest.record import OFFSET, PARTITION, TIMESTAMP, TOPIC
from lakeingest.schema import ddl

OWN = {
    TOPIC: ("string", "the record's topic"),
    PARTITION: ("integer", "its Kafka partition"),
    OFFSET: ("long", "its offset: topic, partition and offset are there once"),
    TIMESTAMP: ("timestamp", "its Kafka timestamp"),
}
"""Columns that each table has: their types, and what a document says of them."""
AGREED = {
    "frequency": "how often records are committed",
    "latency": "from a record's Kafka timestamp until it is in the table",
    "retention": "how long rows stay in the table at least",
    "completeness": "behind a period's end its records may still come so long",
}
"""What a document says of each of its agreements, at the beginning."""


def columns(part: Partition) -> tuple[str, ...]:
    """The partition columns of a partition."""
    if isinstance(part, TimePartition):
        return tuple(segment.name for segment in partition_format.segments(part))
    return (
        (partition_format.field_name(part),)
        if isinstance(part, FieldPartition)
        else (partition_format.KAFKA_PARTITION,)
    )


def word(name: str) -> str:
    """A field's name as DDL has it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else ddl.quoted(name)
