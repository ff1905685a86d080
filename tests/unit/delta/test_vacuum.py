"""How far a VACUUM reaches back, and what is said of the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeingest.delta.maintenance.vacuum import Need, Vacuumed, retention
from lakeingest.ingest.maintenance import log_retention

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)


def test_whoever_reads_an_older_version_holds_it_back() -> None:
    """The oldest need counts, and one that is younger than the file's own duration does not."""
    needs = [Need(NOW - 9 * DAY, "an export"), Need(NOW - 12 * DAY, "a replay"), Need(NOW - DAY, "nobody")]
    assert Vacuumed.planned(NOW, 7 * DAY, needs) == Vacuumed(NOW - 12 * DAY, "a replay")
    assert Vacuumed.planned(NOW, 7 * DAY, needs[2:]) == Vacuumed(NOW - 7 * DAY)
    assert Vacuumed.planned(NOW, 7 * DAY, []) == Vacuumed(NOW - 7 * DAY)


def test_the_table_s_own_property_holds_it_back() -> None:
    """As Delta writes it."""
    (need,) = retention({"delta.deletedFileRetentionDuration": "interval 30 days"}, NOW)
    assert need.since == NOW - 30 * DAY
    assert not [*retention({}, NOW)]


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
