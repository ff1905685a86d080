"""A receipt's JSON, and what Spark's errors mean for a commit."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support.pipelines.receipts import receipt

from lakeingest.delta.receipt import Receipt, of_backfill, somebody
from lakeingest.errors import StorageUnreachable, UnsafeStore, UsageError
from lakeingest.spark import failures


def test_a_receipt_survives_json() -> None:
    """What is written is what is read."""
    made = receipt(7, 42)
    assert Receipt.from_json(made.to_json()) == made
    last = replace(made, pipeline=of_backfill("p"), remaining=0)
    assert Receipt.from_json(last.to_json()) == last


@pytest.mark.parametrize("text", [None, "", "by hand", "{}", "[1]", '{"lakeingest": "1"}', '{"lakeingest": true}', "{"])
def test_what_is_no_receipt(text: str | None) -> None:
    """Other tools write userMetadata too."""
    assert Receipt.from_json(text) is None


TRACE = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: org.apache.spark.SparkException: task failed
\t... 3 more
Caused by: java.io.IOException: No space left on device
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (TRACE, "org.apache.spark.SparkException: Job aborted (cause: java.io.IOException: No space left on device)"),
        ("[PATH_NOT_FOUND] s3a://x\n\tat a.b", "[PATH_NOT_FOUND] s3a://x"),
        ("", "ValueError"),
    ],
)
def test_a_line_tells_the_cause(said: str, line: str) -> None:
    """Not what Python called, but what went wrong, and why."""
    assert failures.summary(ValueError(said)) == line


@pytest.mark.parametrize(
    ("text", "kind", "cure"),
    [
        ("x: Unsafe store: s3a://b cannot commit safely: why; do this", UnsafeStore, "do this"),
        ("[DELTA_TABLE_ONLY_OPERATION] no table", UsageError, "run the pipeline first"),
        ("503 SlowDown", StorageUnreachable, "run again"),
    ],
)
def test_what_an_error_of_spark_means(text: str, kind: type[Exception], cure: str) -> None:
    """A refusal of the log store, a table that is not there yet, and anything else."""
    meant = failures.translate("s3a://b/t", RuntimeError(text))
    assert type(meant) is kind
    assert cure in meant.cure


def test_a_user_without_a_name_is_somebody_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Kubernetes a process has any uid, which no passwd file knows."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    assert somebody().startswith("uid 1234567 on ")
