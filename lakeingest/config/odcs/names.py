"""Names that both ways need: of partition columns, and of fields within a type."""

from __future__ import annotations

import re

from lakeingest.config import partition_format
from lakeingest.config.parts import FieldPartition, Partition, TimePartition
from lakeingest.schema import ddl


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
