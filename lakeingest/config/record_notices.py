"""What `lakeingest check` tells of a file that is right: what its records decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakeingest.config import parts
from lakeingest.schema import ddl


def texts_as_times(declared: Sequence[ddl.Column], partition: Sequence[parts.Partition]) -> Iterator[str]:
    """Notices about columns whose records decide: a text may be a time, or none."""
    for position, part in enumerate(partition):
        if not isinstance(part, parts.TimePartition) or not part.field:
            continue
        column = ddl.find(declared, part.field)
        if column is not None and str(column.type) == "string":
            yield (
                f"partition[{position}]: {part.field} is a text: where it is an ISO-8601 date or time "
                "(2024-02-29T23:30:00Z), or milliseconds since 1970, the record has a partition; any other goes to "
                "quarantine (NO_PARTITION_TIME)"
            )


def types_of_record(decode: parts.Decode, compatibility: str) -> Iterator[str]:
    """Notices about subjects by the name of the record, under which one topic may have records of several types."""
    subject = getattr(decode.value, "subject", "topic")
    if subject != "topic" and compatibility != "NONE":
        yield (
            f"decode.value.subject: {subject} allows several types of record in one topic: under "
            f"{compatibility} the table takes the type that comes first, and the others go to quarantine "
            "(DIFFERENT_NAME); schema.compatibility NONE gives one table the columns of all types, and a table for "
            "each cannot be had yet"
        )
