"""What a table's log and properties say of an adoption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from lakeingest.delta import commit_log, table_properties
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.history import adds_rows
from lakeingest.delta.receipt import JobFields, Receipt, Run
from lakeingest.record import OffsetRange, OffsetRanges

ADOPTED = {"version": 3, "rows": 7, "without": 7, "how": "a frontier that was given", "who": "ada"}


class NoRestore:
    identifier = "t"

    def restored_to(self, restore: Mapping[str, Any], oldest: int) -> int:
        return int(restore["operationParameters"]["version"])


def receipt(sequence: int, start: int, end: int, **more: Any) -> Receipt:
    ranges = OffsetRanges((OffsetRange("t", 0, start, end),))
    return Receipt("p", sequence, Run(id="r"), "c", {"t": "i"}, ranges, "q", **more)


def entry(version: int, told: Receipt | None = None, **more: Any) -> dict[str, Any]:
    return {
        "version": version,
        "timestamp": datetime(2026, 11, 26),
        "operation": "WRITE",
        "operationParameters": {},
        "operationMetrics": {"numOutputRows": "0"},
        "userMetadata": told.to_json() if told else None,
        **more,
    }


def log_of(*entries: dict[str, Any]) -> CommitLog:
    """The newest entry first."""
    return commit_log.of_history("p", entries, NoRestore())


def test_a_receipt_keeps_it() -> None:
    """And one of an older version has none."""
    made = receipt(1, 5, 5, job=JobFields("adoption", adopted=ADOPTED))
    assert Receipt.from_json(made.to_json()) == made
    assert "adopted" not in receipt(1, 5, 5).to_json()


def test_the_newest_adoption_counts() -> None:
    """A second one is a correction: an audit begins with it."""
    corrected = {**ADOPTED, "version": 5}
    log = log_of(
        entry(8, receipt(3, 9, 12)),
        entry(7, receipt(2, 9, 9, job=JobFields("adoption", adopted=corrected))),
        entry(4, receipt(1, 5, 5, job=JobFields("adoption", adopted=ADOPTED))),
    )
    assert log.adopted == corrected
    assert [commit.version for commit in log.since_adoption.commits] == [8, 7]
    assert log.frontier == {("t", 0): 12}


def test_without_adoption() -> None:
    """All commits stand."""
    log = log_of(entry(1, receipt(2, 5, 9)), entry(0, receipt(1, 0, 5)))
    assert (log.adopted, log.since_adoption, log.unadopted) == ({}, log, False)


@pytest.mark.parametrize(("to", "unadopted"), [(4, False), (3, True)])
def test_restored(to: int, unadopted: bool) -> None:
    """A RESTORE to before it takes it back, and with it what is known of the rows."""
    restore = entry(6, operation="RESTORE", operationParameters={"version": str(to)})
    log = log_of(
        restore, entry(5, receipt(2, 5, 9)), entry(4, receipt(1, 5, 5, job=JobFields("adoption", adopted=ADOPTED)))
    )
    assert (log.unadopted, log.last_sequence, bool(log.adopted)) == (unadopted, 2, not unadopted)


def test_properties_outlive_the_log() -> None:
    """They have what the receipt had, for this pipeline alone."""
    properties = table_properties.adopted("p", ADOPTED, receipt(1, 5, 5).ranges)
    log = replace(log_of(entry(9)), properties=properties)
    assert log.adopted == ADOPTED
    found = table_properties.adoption(properties, "p")
    assert found is not None
    assert found[1].frontier == {("t", 0): 5}
    assert table_properties.adoption(properties, "other") is None
    assert table_properties.is_adopted(properties)
    assert not table_properties.is_adopted({"lakeingest.maker.p": ""})


@pytest.mark.parametrize(
    ("operation", "metrics", "adds"),
    [
        ("WRITE", {"numOutputRows": "3"}, True),
        ("WRITE", {"numOutputRows": "0", "numFiles": "0"}, False),
        ("STREAMING UPDATE", {"numOutputRows": "3"}, True),
        ("WRITE", {"num_added_rows": "3"}, True),
        # Nothing is counted: who knows.
        ("WRITE", {}, True),
        ("WRITE", None, True),
        ("MERGE", {"numTargetRowsInserted": "0", "numOutputRows": "5"}, False),
        ("MERGE", {"numTargetRowsInserted": "1"}, True),
        ("CREATE TABLE AS SELECT", {"numOutputRows": "3"}, True),
        ("DELETE", {"numDeletedRows": "3"}, False),
        ("OPTIMIZE", {"numAddedFiles": "3"}, False),
        ("ADD COLUMNS", {}, False),
        ("SET TBLPROPERTIES", None, False),
    ],
)
def test_who_adds_rows(operation: str, metrics: dict[str, str] | None, adds: bool) -> None:
    """As Spark counts them, and delta-rs."""
    assert adds_rows({"operation": operation, "operationMetrics": metrics}) is adds
