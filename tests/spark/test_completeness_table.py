"""The table of completeness alone: who writes to it at once, what pipelines may share, and names that are no names."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeingest.config.parts import TimePartition
from lakeingest.config.periods import Periods
from lakeingest.delta.completeness import CompletenessTable
from lakeingest.delta.reader.spark import SparkTable
from lakeingest.delta.table import Table
from lakeingest.errors import TableMismatch

NOW = datetime(2026, 11, 26, 15, 30, tzinfo=UTC)
STARTS = [datetime(2026, 11, 26, hour) for hour in range(6)]


def of(spark: SparkSession, path: Path, pipeline: str = "p", **part: str) -> CompletenessTable:
    periods = Periods(TimePartition.model_validate({"by": "time", "every": "hour", **part}))
    return CompletenessTable(Table(spark, str(path)), periods, pipeline, timedelta(0))


def starts(table: CompletenessTable) -> list[datetime]:
    text = "SELECT period_start FROM {rows} WHERE pipeline = :pipeline ORDER BY period_start"
    rows = SparkTable(table.table).scan(text, pipeline=table.pipeline)
    return [table.periods.of(row["period_start"]) for row in rows]


def declare(table: CompletenessTable, *starts: datetime, sequence: int = 1) -> None:
    table.declare(dict.fromkeys(starts, 7), sequence=sequence, version=1, now=NOW)


@pytest.mark.faults
def test_all_that_is_said_at_once_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs of one pipeline that say the same, and another pipeline, to a table that none of them has made; while
    one takes back what it said.
    """
    old = of(spark, tmp_path, "old")
    begin, failures = threading.Barrier(4), list[BaseException]()

    def say(pipeline: str) -> None:
        table = of(spark, tmp_path, pipeline)
        try:
            for at in range(2):
                begin.wait(60)
                declare(table, *STARTS[: at + 1])
        except Exception as failed:
            failures.append(failed)

    threads = [threading.Thread(target=say, args=(pipeline,)) for pipeline in ("p", "p", "other")]
    for each in threads:
        each.start()
    begin.wait(60)
    declare(old, *STARTS, sequence=3)
    begin.wait(60)
    old.take_back(2)
    for each in threads:
        each.join(120)
    assert not failures
    rows = Table(spark, str(tmp_path)).read().select("pipeline", "hour").collect()
    assert sorted(map(tuple, rows)) == [
        (pipeline, f"2026-11-26-{hour:02}") for pipeline in ("other", "p") for hour in range(2)
    ]


def test_whose_partitions_have_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    """They are added; a name in other letters is the same column, and one of another type is refused."""
    declare(of(spark, tmp_path), STARTS[0])
    declare(of(spark, tmp_path, "b", format="'Hour'=yyyy-MM-dd-HH"), STARTS[0])
    declare(of(spark, tmp_path, "c", every="day"), datetime(2026, 11, 25))
    columns = Table(spark, str(tmp_path)).read().columns
    assert columns[7:] == ["hour", "day"]
    text = of(spark, tmp_path, "d", every="day", format="'day'=yyyyMMdd")
    with pytest.raises(TableMismatch, match="has day as DATE, and the partitions of pipeline 'd' have it as STRING"):
        text.newest()


@pytest.mark.faults
def test_a_name_of_quotes_and_braces(spark: SparkSession, tmp_path: Path) -> None:
    """It takes back its own rows alone, and no query takes it for another text."""
    tables = [of(spark, tmp_path, name) for name in ("a' OR '1'='1", "b{rows}\\", "c")]
    for table in tables:
        declare(table, STARTS[0], sequence=1)
        declare(table, STARTS[1], sequence=2)
    tables[0].take_back(1)
    tables[1].take_back(1, alone=True)
    assert [starts(table) for table in tables] == [STARTS[:1], STARTS[1:2], STARTS[:2]]
