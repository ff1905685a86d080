"""What a failure of Spark means: whose it is, what the cure is, and whether a retry helps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lakeingest.config import location
from lakeingest.errors import (
    LakeingestError,
    NotComputed,
    SetupError,
    StorageUnreachable,
    TableMismatch,
    UnsafeStore,
)
from lakeingest.local import running
from lakeingest.spark import s3a
from lakeingest.spark.jvm import REFUSAL
from lakeingest.spark.known_failures import (
    ANEW,
    CASES,
    CASES_OF_CUSTOMER,
    KAFKA,
    KAFKA_SECURITY,
    MANAGED,
    OF_A_VALUE,
    KnownFailure,
)


def check_managed(table: str, message: str) -> None:
    """Notice that a catalog keeps a table's newest commits: who reads the log in the store counts too few.

    Args:
        message: what names the features of the table's protocol.

    Raises:
        TableMismatch: it does.
    """
    if re.search(r"\bcatalog(Managed|Owned)\b", message):
        raise TableMismatch(MANAGED.message.format(path=table), cure=MANAGED.cure)


def spark_failures() -> tuple[type[Exception], ...]:
    """What Spark raises: errors that it names itself, and, but for Spark Connect, those of the JVM as they come."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


@contextmanager
def storage_failures(path: str) -> Iterator[None]:
    """Say what a failure of Spark within the block means, which is about the table at `path`.

    Raises:
        LakeingestError: see `meaning`.
    """
    try:
        yield
    except spark_failures() as failed:
        error = translate(path, failed)
        raise error from cause(error, failed)


def cause(error: LakeingestError, failed: Exception) -> Exception | None:
    """What a traceback of the error may show beside it: not what says a value of a record."""
    return None if isinstance(error, NotComputed) else failed


def of_kafka(failed: Exception) -> LakeingestError | None:
    """What a failure of Spark means where Kafka did not let its reader in; None where it means something else."""
    match = _match_of(KAFKA_SECURITY, "\n".join(_messages(failed)))
    if match is None:
        return None
    case, _ = match
    return case.kind(case.message.format(line=summary(failed)), cure=case.cure)


def of_value(failed: Exception) -> LakeingestError | None:
    """What a failure of Spark means where an expression fails for a record; None where it means something else."""
    match = _match_of((KAFKA, OF_A_VALUE), "\n".join(_messages(failed)))
    if match is None or match[0] is KAFKA:
        return None
    return NotComputed(OF_A_VALUE.message.format_map(match[1].groupdict()), cure=OF_A_VALUE.cure)


def _match_of(cases: Iterable[KnownFailure], text: str) -> tuple[KnownFailure, re.Match[str]] | None:
    matches = ((case, re.search(case.pattern, text, re.DOTALL)) for case in cases)
    return next(((case, match) for case, match in matches if match), None)


def summary(failed: Exception) -> str:
    """The beginning of what Spark says, and the cause at the bottom of its stack traces."""
    messages = _messages(failed)
    causes = [line.removeprefix("Caused by: ") for line in messages if line.startswith("Caused by: ")]
    first = (messages or [type(failed).__name__])[0][:300]
    return f"{first} (cause: {causes[-1][:300]})" if causes and causes[-1] not in first else first


def _messages(failed: Exception) -> list[str]:
    """What the exceptions say, without the places that they passed."""
    lines = [line.strip(": \t") for line in str(failed).splitlines() if line.strip()]
    # What Python called comes first, where the error is one of the JVM's own.
    return [line for line in lines if not line.startswith(("An error occurred while calling", "at ", "..."))]


def translate(path: str, failed: Exception) -> LakeingestError:
    """What a failure of Spark means where a table is read or written, perhaps with records of Kafka's.

    Returns:
        UnsafeStore, UsageError (there is no such table), FilesLost, TableChanged, SourceUnreachable, SetupError (the
        session has no such file system), StorageRefused or StorageUnreachable.
    """
    text = str(failed)
    if REFUSAL in text:
        reason = text[text.index(REFUSAL) + len(REFUSAL) :].splitlines()[0]
        message, _, cure = reason.partition("; ")
        return UnsafeStore(message, cure=cure or "use a store that honours If-None-Match")
    stack_text, line = "\n".join(_messages(failed)), summary(failed)
    by_customer = location.is_path(path) and s3a.opened(path)[2].customer_key
    if case_match := _match_of(CASES_OF_CUSTOMER if by_customer else CASES, stack_text):
        case, match = case_match
        facts = {**_facts(path), **match.groupdict(), "line": line, "anew": ANEW}
        if file := match.groupdict().get("file"):
            facts["path"] = _owner(file, path)
        return case.kind(case.message.format_map(facts), cure=case.cure.format_map(facts))
    return StorageUnreachable(
        f"{path}: {line}",
        cure="look at the end of Spark's log (logs/NAME/COMMAND-TIME.log in the state folder, or the platform's), then "
        "run again",
    )


def _owner(file: str, path: str) -> str:
    """The table that a data file belongs to: the one at `path`, or another one that was read for it."""
    if not location.is_path(path) or location.place(file).meets(location.place(path)):
        return path
    folder = file.rpartition("/")[0]
    while "=" in folder.rpartition("/")[2]:
        folder = folder.rpartition("/")[0]
    return folder


def _facts(path: str) -> dict[str, str]:
    bucket, endpoint, keys = s3a.opened(path)
    return {"path": path, "bucket": bucket, "where": endpoint, "keys": _source(endpoint, keys)}


def _source(endpoint: str, keys: s3a.Keys) -> str:
    """The origin of keys, as the end of a sentence; the embedded stack's may stand in the file too."""
    try:
        stack = running()
    except SetupError:
        stack = None
    if stack is None or endpoint != stack.s3:
        return keys.source
    if keys.access_key is not None and keys.access_key.get_secret_value() == stack.s3_access_key:
        return "the embedded stack (`lakeingest stack env`)"
    return f"{keys.source}, and are not the embedded stack's (`lakeingest stack env`)"
