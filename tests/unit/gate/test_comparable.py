"""What Spark cannot compare."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.gate import arguments
from lakeingest.schema import ddl

COLUMNS = "i INT, j INT, l BIGINT, d DOUBLE, m DECIMAL(10,2), s STRING, u STRING, b BOOLEAN, t TIMESTAMP, y DATE"


@pytest.mark.parametrize(
    ("kind", "kwargs", "problem"),
    [
        (
            "column_pair_values_to_be_equal",
            {"column_A": "i", "column_B": "y"},
            ": i is int and y is date, which cannot",
        ),
        ("multicolumn_values_to_be_equal", {"column_list": ["i", "d", "b"]}, ": i is int and b is boolean"),
        ("column_values_to_be_in_set", {"column": "y", "value_set": ["20240229"]}, "cannot be compared with y"),
        ("column_values_to_be_between", {"column": "t", "min_value": "2024-W09-4"}, "cannot be compared with t"),
        ("column_values_to_be_between", {"column": "m", "max_value": 10**40}, "cannot be compared with m"),
    ],
)
def test_what_spark_cannot_compare_is_told_before(kind: str, kwargs: dict[str, Any], problem: str) -> None:
    """Where no value could ever be compared, the suite is wrong, and no batch has to fail for it."""
    found = list(arguments.problems(f"expect_{kind}", kwargs, ddl.parse(COLUMNS)))
    assert problem in found[0]
