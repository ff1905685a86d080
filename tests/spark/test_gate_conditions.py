"""A condition that was made of a text leaves in the rows that its own parser leaves in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.gate import predicates, suite
from lakeingest.gate.condition_text import converted
from lakeingest.gate.evaluate import great_expectations

ROWS = [
    (n, *values)
    for n, values in enumerate(product([None, 1.0, 2.0, 5.5], [None, "x", "y z", "2024-01-31"], [None, True, False]))
]
COLUMNS = ("id", "a", "s", "ok")
SPARK = (
    "a = 1",
    "NOT a = 1",
    "a <> 1 OR s IS NULL",
    "NOT (a > 1 AND (s = 'x' OR ok))",
    "a IN (1, 2) AND s NOT IN ('x', 'q')",
    "a NOT BETWEEN 1 AND 2",
    "(a = 1 OR a = 2) AND (s = 'x' OR s = 'y z') AND ok IS NOT NULL",
    "not ok or not not s >= '2024-01-01'",
    "1 < a",
)
PANDAS = (
    "a == 1",
    "a != 1",
    "not a == 1",
    "~(a > 1) & s.notnull()",
    "a > 1 & s == 'x' | s.isna()",
    "not (a > 1 and (s == 'x' or s != 'y z'))",
    "s in ['x', 'q'] or a not in [1, 2]",
    "1 <= a < 5.5",
    "s.isin(['x']) and `a` >= 1",
)
OWN = ('col("a") == 1', 'col("a") > 1.5', "col(\"s\") != 'x'", 'col("s").notnull()', 'col("s") == date("2024-01-31")')


def test_the_rows_are_the_same(spark: SparkSession) -> None:
    """With nulls in every place; and Great Expectations takes each condition."""
    great_expectations("a test")
    from great_expectations.expectations.legacy_row_conditions import parse_condition_to_spark
    from great_expectations.expectations.row_conditions import deserialize_row_condition

    frame = spark.createDataFrame(ROWS, "id INT, a DOUBLE, s STRING, ok BOOLEAN")
    table = pd.DataFrame(ROWS, columns=list(COLUMNS))
    expected = {("pandas", text): table.query(text)["id"] for text in PANDAS}
    tests = {("spark", text): F.expr(text) for text in SPARK}
    tests |= {("great_expectations", text): parse_condition_to_spark(text, frame.schema) for text in OWN}
    applies = {}
    for parser, text in (*tests, *expected):
        condition = converted(text, parser)
        deserialize_row_condition(condition)
        kwargs = {"column": "id", "row_condition": condition}
        rule = suite.Rule(text, "expect_column_values_to_be_null", kwargs, {}, True, "warn")
        applies[parser, text] = predicates.present(rule, frame.schema)
    columns: dict[str, Any] = {
        f"{key} {which}": c for which, all in (("old", tests), ("new", applies)) for key, c in all.items()
    }
    rows = frame.select("id", *(F.coalesce(c, F.lit(False)).alias(name) for name, c in columns.items())).collect()

    def ids(name: str) -> Iterable[int]:
        return [row["id"] for row in rows if row[name]]

    for key in applies:
        old = list(expected[key]) if key in expected else ids(f"{key} old")
        assert (key, ids(f"{key} new")) == (key, old)
        assert 0 < len(list(old)) < len(ROWS)
