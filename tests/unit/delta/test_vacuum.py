"""How far a VACUUM reaches back, and what is said of the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeingest.delta.maintenance.vacuum import Need, Vacuumed
from lakeingest.ingest.maintenance import log_retention

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)


RETENTION = "delta.deletedFileRetentionDuration"


def test_whoever_reads_an_older_version_holds_it_back() -> None:
    """The oldest need counts, one that is younger than the file's own duration does not."""
    needs = [Need(NOW - 2 * DAY, "an export"), Need(NOW - 3 * DAY, "a replay"), Need(NOW, "nobody")]
    assert Vacuumed.planned(NOW, DAY, {}, needs) == Vacuumed(NOW - 3 * DAY, "a replay")
    assert Vacuumed.planned(NOW, DAY, {}, needs[2:]) == Vacuumed(NOW - DAY)
    assert Vacuumed.planned(NOW, DAY, {}, []) == Vacuumed(NOW - DAY)


def test_what_delta_lets_nobody_read_holds_nothing_back() -> None:
    """Behind 7 days, or what the table's property says."""
    needs = [Need(NOW - 9 * DAY, "an export")]
    assert Vacuumed.planned(NOW, 7 * DAY, {}, needs) == Vacuumed(NOW - 7 * DAY)
    assert Vacuumed.planned(NOW, DAY, {}, needs) == Vacuumed(NOW - 7 * DAY, "an export")
    assert Vacuumed.planned(NOW, DAY, {RETENTION: "interval 24 hours"}, needs) == Vacuumed(NOW - 7 * DAY, "an export")
    assert Vacuumed.planned(NOW, 14 * DAY, {}, needs) == Vacuumed(NOW - 14 * DAY)
    planned = Vacuumed.planned(NOW, 7 * DAY, {RETENTION: "interval 10 days"}, needs)
    assert planned == Vacuumed(NOW - 10 * DAY, f"the table's property {RETENTION} = interval 10 days")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, "30 days"),
        ({"delta.logRetentionDuration": "interval 2 weeks"}, "14 days"),
        ({"delta.logRetentionDuration": "interval 3 months"}, "3 months"),
    ],
)
def test_how_long_receipts_live(properties: dict[str, str], text: str) -> None:
    """As the log's own property says."""
    assert log_retention(properties) == text


def test_a_log_that_is_never_cleaned_up() -> None:
    """Is said, with the cure."""
    assert "SET TBLPROPERTIES" in log_retention({"delta.enableExpiredLogCleanup": "false"})
