"""DDL text becomes the columns that Spark would make of it, and a typo a sentence that names it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeingest.schema import ddl

TEXTS = [
    "a INT",
    "a INTEGER, b BIGINT, c LONG, d SMALLINT, e SHORT, f TINYINT, g BYTE",
    "a FLOAT, b REAL, c DOUBLE, d DECIMAL, e DEC(5), f NUMERIC(10,2)",
    "a STRING, b BINARY, c BOOLEAN, d DATE, e TIMESTAMP, f TIMESTAMP_LTZ, g TIMESTAMP_NTZ",
    "a INT NOT NULL, b STRING COMMENT 'of \"b\"', c DATE NOT NULL COMMENT 'day'",
    "a ARRAY<INT>, b ARRAY<ARRAY<STRING>>, c MAP<STRING, ARRAY<DOUBLE>>",
    "a STRUCT<b: INT, c: STRING NOT NULL COMMENT 'x'> NOT NULL, d STRUCT<e INT, f STRUCT<g: DATE>>",
    "`order-id` int, date date, year int, `back``tick` string",
    "a MAP<STRING, STRUCT<x: DECIMAL(38,18), y: ARRAY<TIMESTAMP>>>",
]


@pytest.mark.parametrize("text", TEXTS)
def test_spark_parses_the_same_columns(spark: SparkSession, text: str) -> None:
    """Spark's own parser of DDL makes the same columns of the text."""
    from pyspark.sql.types import StructType

    assert StructType.fromDDL(text).json() == ddl.to_json(ddl.parse(text))
