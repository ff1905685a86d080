"""The MERGE of mode history, over real tables: the same records make the same versions, however they come."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.oracle.examples import searched
from support.oracle.version_ends import Version, ends
from support.pipelines.receipts import receipt

from lakeingest.config.parts import Table as TableOptions
from lakeingest.delta import commit, latest, versions
from lakeingest.delta.history import TableHistory
from lakeingest.delta.table import Table
from lakeingest.delta.versions import KeyVersions
from lakeingest.errors import PipelineFileError

_COLUMNS = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _op STRING, _valid_from TIMESTAMP, "
    "_valid_to TIMESTAMP, k INT, o INT, `a$b's` ARRAY<STRING>"
)
_BEGIN = datetime(2026, 11, 30, tzinfo=UTC)


def _time(minute: int | None) -> datetime | None:
    return None if minute is None else _BEGIN + timedelta(minutes=minute)


def _row(offset: int, version: Version, end: int | None = None) -> tuple[Any, ...]:
    begin, operation = _time(version.begins), "delete" if version.deletes else "upsert"
    return ("t", 0, offset, _BEGIN, operation, begin, _time(end), version.key, version.order[0], [f"v{offset}"])


def _options(**values: Any) -> TableOptions:
    return TableOptions(path="/t", mode="history", **values)


@dataclass(frozen=True)
class _OldTable(Table):
    """A table that is read as it was."""

    base: int

    def read(self, version: int | None = None) -> DataFrame:
        return super().read(self.base)


class _VersionTable:
    """A table of mode history that batches are applied to."""

    def __init__(self, spark: SparkSession, folder: Path, *, marks: bool) -> None:
        columns = spark.createDataFrame([], _COLUMNS).schema
        self.latest = replace(latest.of(_options(keys=["k"], order_by=["o"]), columns), has_emptying=True)
        self.spark, self.table = spark, Table(spark, str(folder / uuid4().hex))
        self.table.create(columns, properties={"delta.enableDeletionVectors": "true"} if marks else {})
        self.session, self.bases = spark.newSession(), [0]

    def apply(self, rows: list[tuple[Any, ...]], *, blind: bool) -> None:
        """A batch; a blind one was decided without a look at the rows of the batch before."""
        base = self.bases[-1]
        self.bases.append(TableHistory(self.table).newest())
        frame = self.spark.createDataFrame(rows, _COLUMNS).persist()
        emptied, *extents = frame.agg(F.max(F.col("k").isNull()), *self.latest.extents).collect()[0]
        bounds = tuple(self.latest.bounds(extents))
        mode = KeyVersions(self.latest, self.session, bounds=bounds, empties=emptied)
        table = _OldTable(self.spark, self.table.identifier, base) if blind else self.table
        commit.write(table, frame, receipt(len(self.bases), 1), "zstd", mode=mode)
        if blind:
            versions.mend(self.table, self.session, self.latest, frame, "p")
        frame.unpersist()

    @property
    def rows(self) -> DataFrame:
        return self.table.read()


def _drawn(dice: random.Random) -> list[Version]:
    """Of a dozen keys, and of events that empty the table."""
    keys = [None, *[key for key in range(12) for _ in range(3)]]
    drawn = [(dice.choice(keys), dice.randint(0, 6), dice.randint(0, 20), dice.random() < 0.25) for _ in range(60)]
    return [Version(key, (o, at), begins, deletes or key is None) for at, (key, o, begins, deletes) in enumerate(drawn)]


@pytest.mark.slow
@pytest.mark.parametrize("marks", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["rewritten", "marked"])
@settings(searched(1), suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
@given(seed=st.integers(0, 2**32))
def test_order_and_cuts_change_no_version(spark: SparkSession, marks: bool, seed: int) -> None:
    """With times that go back, ties, and two batches that are committed at once."""
    # The least example is drawn first: of lists it would be one without any variety.
    dice = random.Random(seed)
    made, blind_at = _drawn(dice), dice.randint(1, 2)
    places = dice.sample(range(len(made)), len(made))
    first, second = sorted(dice.sample(range(1, len(made)), 2))
    with TemporaryDirectory() as folder:
        applied = _VersionTable(spark, Path(folder), marks=marks)
        for at, batch in enumerate((places[:first], places[first:second], places[second:])):
            applied.apply([_row(offset, made[offset]) for offset in batch], blind=at == blind_at)
        expected = [_row(at, each, end) for at, (each, end) in enumerate(zip(made, ends(made), strict=True))]
        expected_rows = spark.createDataFrame(expected, _COLUMNS)
        assert_df_equality(applied.rows, expected_rows, ignore_row_order=True, ignore_nullable=True)


def test_what_says_when_a_version_becomes_valid(spark: SparkSession) -> None:
    """The field that the file names, else the first one of the order, else the record's own time."""
    columns = spark.createDataFrame([], f"{_COLUMNS}, at TIMESTAMP, day DATE, s STRUCT<at: TIMESTAMP>").schema
    named = {
        "at": latest.of(_options(keys=["k"], order_by=["at", "o"]), columns),
        "s.at": latest.of(_options(keys=["k"], order_by=["at"], valid_from="s.at"), columns),
        "_timestamp": latest.of(_options(keys=["k"], order_by=["day", "at"]), columns),
    }
    for path, each in named.items():
        assert each.dated_by is not None
        assert each.dated_by.path == path
    assert latest.of(TableOptions(path="/t", mode="changelog", keys=["k"], order_by=["at"]), columns).dated_by is None
    for field, kind in {"day": "date", "o": "int"}.items():
        with pytest.raises(
            PipelineFileError, match=rf'table.valid_from: "{field}" is {kind}, and has to be a TIMESTAMP'
        ):
            latest.of(_options(keys=["k"], valid_from=field), columns)


def test_a_record_of_no_time_is_refused(spark: SparkSession) -> None:
    """Neither the field's nor its own; either of them is enough."""
    columns = f"{_COLUMNS}, at TIMESTAMP"
    rule = latest.of(_options(keys=["k"], valid_from="at"), spark.createDataFrame([], columns).schema).refusals[-1]
    times = [(None, None), (None, _BEGIN), (_BEGIN, None)]
    rows = spark.createDataFrame(times, "at TIMESTAMP, _timestamp TIMESTAMP")
    reasons = rows.select(F.when(rule.when, rule.diagnosis()["reason"]).alias("reason"))
    assert_df_equality(reasons, spark.createDataFrame([("NULL_VALID_FROM",), (None,), (None,)], "reason STRING"))
