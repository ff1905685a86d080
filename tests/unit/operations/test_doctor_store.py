"""What the doctor says of a store that cannot be asked at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import WrittenPipeline

from lakeingest.config import Storage
from lakeingest.delta.receipt import Receipt, Run, of_removal
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import foreign_writers, status
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


def test_status_names_who_else_has_committed(tmp_path: Path) -> None:
    """Of the newest commits of the table, by the name that the engine gives itself."""
    made = WrittenPipeline(tmp_path)
    made.batch({0: 3})
    made.main.commit(made.main.write([(0, 9)]), engineInfo="delta-rs:py-1.2")
    topics = Topics("c", {"t": "i"}, {("t", 0): 0}, {("t", 0): 3})
    result = status.status(made.reader, topics)
    assert result.foreign_writers == {"delta-rs:py-1.2": 2}
    text = "the table: others than lakeingest have committed to it: delta-rs:py-1.2 (version 2 the last)"
    assert text in [*result.text]


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
        {"version": 6 - at, "engineInfo": engine, "operation": done, "userMetadata": said, "operationMetrics": {}}
        for at, (engine, done, said) in enumerate(log)
    ]
    ours = foreign_writers.engines(entries)
    assert ours == {"Apache-Spark/4.1.1"}
    assert foreign_writers.of(entries, ours, of_rows=False) == {"delta-rs:py-1.1.4": 6}
    assert foreign_writers.of(entries, ours, of_rows=True) == {"delta-rs:py-1.1.4": 6, "Apache-Spark/4.1.1": 5}


def test_rows_that_expire_are_no_work_of_others() -> None:
    """A DELETE of lakeingest's own says so; one that says nothing is somebody else's."""
    entry = {"version": 7, "engineInfo": "Apache-Spark/4.1.1", "operation": "DELETE", "operationMetrics": {}}
    removal, other = ({**entry, "userMetadata": text} for text in (of_removal("p", "expired"), '{"a": 1}'))
    assert foreign_writers.of([removal], {"Apache-Spark/4.1.1"}, of_rows=True) == {}
    assert foreign_writers.of([other], {"Apache-Spark/4.1.1"}, of_rows=True) == {"Apache-Spark/4.1.1": 7}
