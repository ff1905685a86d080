"""What the doctor says of a store that cannot be asked at all."""

from __future__ import annotations

import pytest

from lakeingest.config import Storage
from lakeingest.delta.receipt import Receipt, Run
from lakeingest.operations.doctor import store
from lakeingest.record import OffsetRanges


def test_an_address_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 takes it from there, and has an error of Python's own for it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "store:9000")
    (found,) = store.bucket(Storage(region="eu-west-1"), "s3a://lake/flights")
    assert (found.about, found.state) == ("store", "bad")
    assert "Invalid endpoint: store:9000" in found.what


def test_who_else_commits() -> None:
    """Another engine, and a Spark that wrote rows without a receipt: each may have a log store of its own."""
    receipt = Receipt("p", 1, Run(), "c", {}, OffsetRanges(()), "/q").to_json()
    log = [
        ("delta-rs:py-1.1.4", "WRITE", None),
        ("Apache-Spark/4.1.1", "MERGE", None),
        ("Apache-Spark/4.1.1", "OPTIMIZE", None),
        ("delta-rs:py-1.1.4", "WRITE", None),
        ("Apache-Spark/4.1.1", "WRITE", "lakeingest: n BIGINT by rewriting the table (1)"),
        ("Apache-Spark/4.1.1", "WRITE", receipt),
        ("Apache-Spark/4.1.1", "CREATE TABLE", None),
    ]
    entries = [
        {"version": 6 - at, "engine": engine, "operation": done, "userMetadata": said, "operationMetrics": {}}
        for at, (engine, done, said) in enumerate(log)
    ]
    ours = store.engines(entries)
    assert ours == {"Apache-Spark/4.1.1"}
    assert store.strange_commits(entries, ours, of_rows=False) == {"delta-rs:py-1.1.4": [6, 3]}
    assert store.strange_commits(entries, ours, of_rows=True) == {
        "delta-rs:py-1.1.4": [6, 3],
        "Apache-Spark/4.1.1": [5],
    }
