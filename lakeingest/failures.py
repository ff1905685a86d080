"""What a failure of Spark means: whose it is, what the cure is, and whether a retry helps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeingest.errors import (
    LakeingestError,
    SourceUnreachable,
    StorageUnreachable,
    TableChanged,
    UnsafeStore,
    UsageError,
)
from lakeingest.jvm import REFUSAL

_NO_TABLE = ("DELTA_TABLE_ONLY_OPERATION", "DELTA_MISSING_DELTA_TABLE", "PATH_NOT_FOUND")
_KAFKA = ("org.apache.kafka.", "KAFKA_DATA_LOSS", "not available in Kafka any more")
_CHANGED = ("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "DELTA_METADATA_CHANGED")
"""The table is another than the one that the batch was planned for."""


def spark_failures() -> tuple[type[Exception], ...]:
    """What Spark raises: errors that it names itself, and, but for Spark Connect, those of the JVM as they come."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


@contextmanager
def told_of(path: str) -> Iterator[None]:
    """Say what a failure of Spark within the block means, which is about the table at `path`.

    Raises:
        LakeingestError: see `meaning`.
    """
    try:
        yield
    except spark_failures() as failed:
        raise meaning(path, failed) from failed


def in_a_line(failed: Exception) -> str:
    """The beginning of what Spark says, and the cause at the bottom of its stack traces."""
    said = _said(failed)
    causes = [line.removeprefix("Caused by: ") for line in said if line.startswith("Caused by: ")]
    first = (said or [type(failed).__name__])[0][:300]
    return f"{first} (cause: {causes[-1][:300]})" if causes and causes[-1] not in first else first


def _said(failed: Exception) -> list[str]:
    """What the exceptions say, without the places that they passed."""
    lines = [line.strip(": \t") for line in str(failed).splitlines() if line.strip()]
    # What Python called comes first, where the error is one of the JVM's own.
    return [line for line in lines if not line.startswith(("An error occurred while calling", "at ", "..."))]


def meaning(path: str, failed: Exception) -> LakeingestError:
    """What a failure of Spark means where a table is read or written, perhaps with records of Kafka's.

    Returns:
        UnsafeStore, UsageError (there is no such table), TableChanged, SourceUnreachable or StorageUnreachable.
    """
    text = str(failed)
    if REFUSAL in text:
        reason = text[text.index(REFUSAL) + len(REFUSAL) :].splitlines()[0]
        what, _, cure = reason.partition("; ")
        return UnsafeStore(what, cure=cure or "use a store that honours If-None-Match")
    if any(word in text for word in _NO_TABLE):
        return UsageError(f"there is no Delta table at {path} yet", cure="run the pipeline first: it makes the table")
    if any(word in text for word in _CHANGED):
        return TableChanged(
            f"{path} was changed while a batch was written: {in_a_line(failed)}",
            cure="run again: the batch is decided anew by what the table is now; see `lakeingest plan`",
        )
    if any(word in line for word in _KAFKA for line in _said(failed)):
        return SourceUnreachable(
            f"records cannot be read from Kafka: {in_a_line(failed)}",
            cure="look at the broker and its log; nothing of the batch was consumed, run again",
        )
    return StorageUnreachable(
        f"{path}: {in_a_line(failed)}", cure="look at the store and its credentials (storage: …), then run again"
    )
