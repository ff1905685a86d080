"""The sums of coordinates: Spark, DuckDB and Python make the same of the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from pyspark.sql import Observation, SparkSession

from lakeingest.delta import sums
from lakeingest.delta.reader import duck
from lakeingest.delta.sums import Sums

Place = tuple[str, int, int]
NAMES = ("flights", "flüge", "a.b-c_d", "t" * 249)


def places(seed: int, count: int) -> list[Place]:
    """Coordinates of all kinds, each once: offsets up to what a BIGINT holds, more partitions than parts."""
    pick = random.Random(seed)
    each = {
        (pick.choice(NAMES), pick.randrange(30), pick.choice((at, pick.randrange(2**62), 2**63 - 1 - at)))
        for at in range(count)
    }
    return [*each, ("flights", 2**31 - 1, 7)]


def by_spark(spark: SparkSession, rows: Iterable[Place], refused: int = 0, dropped: int = 0) -> Sums:
    """As a batch observes them: the first rows are refused, the next ones dropped."""
    shape = "_topic STRING, _partition INT, _offset BIGINT, _refused BOOLEAN, _dropped BOOLEAN"
    flagged = [(*row, at < refused, refused <= at < refused + dropped) for at, row in enumerate(rows)]
    seen = Observation()
    decided = sums.of_accepted(spark.createDataFrame(flagged, shape).repartition(3))
    decided.observe(seen, *sums.aggregates()).write.format("noop").mode("overwrite").save()
    return sums.observed(seen.get, len(flagged) - refused - dropped)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_and_python_make_the_same(spark: SparkSession, ansi: str) -> None:
    """Whether an overflow would be an error or not: there is none."""
    rows = places(1, 300)
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert by_spark(spark, rows) == sums.of(rows)
        assert by_spark(spark, rows, refused=7, dropped=5) == sums.of(rows[12:])
        assert by_spark(spark, rows[:3], refused=3) == Sums()
        seen, shape = Observation(), "_topic STRING, _partition INT, _offset BIGINT"
        frame = spark.createDataFrame(rows, shape).observe(seen, *sums.aggregates_of_rows())
        frame.write.format("noop").mode("overwrite").save()
        assert sums.observed(seen.get, len(rows)) == sums.of(rows)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_duckdb_makes_the_same() -> None:
    """By the SQL that an audit asks of both."""
    rows = places(2, 300)
    for topic, partition, offset in rows:
        mixed = sums.number("o", *map(str, sums.seeds(topic, partition)))
        (found,) = duck.query(f"SELECT {mixed} AS n FROM (SELECT CAST({offset} AS BIGINT) AS o)", {})
        assert found["n"] == sums.of([(topic, partition, offset)]).mixed
