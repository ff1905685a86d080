"""The list of what was taken out: a row of it may name billions of offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeingest.delta.removals import Removals
from lakeingest.delta.table import Table
from lakeingest.record import OffsetRange, OffsetRanges

MANY = 4_000_000_000


@pytest.fixture
def removals(spark: SparkSession, tmp_path: Path) -> Removals:
    """Two long runs of partition 0, one of partition 1, and one of another pipeline."""
    removals = Removals(Table(spark, str(tmp_path / "t_removed")), "p")
    runs = [("p", 0, 0, MANY), ("p", 0, MANY + 10, MANY + 20), ("p", 1, 5, 7), ("other", 1, 0, MANY)]
    values = ", ".join(f"('{name}', 't', {p}, {low}, {high}, 'expired', 'table', 1)" for name, p, low, high in runs)
    columns = "pipeline, _topic, _partition, low, high, reason, place, version"
    rows = spark.sql(f"SELECT *, 'me' AS who, 'old' AS why, now() AS at FROM VALUES {values} AS v({columns})")
    removals.append(rows)
    return removals


def test_offsets_within_ranges(removals: Removals) -> None:
    """Over the ends of runs, in pieces, and in ranges that overlap; each offset once."""
    ranges = [(0, MANY - 2, MANY + 12), (0, 150_000, 350_001), (0, 350_000, 350_003), (1, 0, 100), (2, 0, 5)]
    rows = removals.coordinates(OffsetRanges(tuple(OffsetRange("t", *each) for each in ranges)))
    assert rows is not None
    pieces = [*range(150_000, 350_003), MANY - 2, MANY - 1, MANY + 10, MANY + 11]
    expected = [*(("t", 0, offset) for offset in pieces), ("t", 1, 5), ("t", 1, 6)]
    assert sorted(map(tuple, rows.collect())) == expected
    nothing = removals.coordinates(OffsetRanges((OffsetRange("t", 0, 7, 7), OffsetRange("u", 0, 0, 9))))
    assert nothing is not None
    assert nothing.isEmpty()


def test_what_is_not_listed(removals: Removals) -> None:
    """Behind the last run, and between two."""
    places = removals.table.spark.sql(
        f"SELECT 't' AS _topic, 0 AS _partition, explode(sequence({MANY - 3}, {MANY + 11})) AS _offset"
    )
    assert sorted(row._offset for row in removals.unlisted(places).collect()) == [*range(MANY, MANY + 10)]
    assert removals.extent() == OffsetRanges((OffsetRange("t", 0, 0, MANY + 20), OffsetRange("t", 1, 5, 7)))
