"""The one form of values, by which readers are compared, and what is said of a difference."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import canonical
import pyarrow as pa
import pytest

NESTED = pa.struct([("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
AT = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        (pa.float32(), 1.1, "1.10000002"),
        (pa.float64(), float("nan"), "nan"),
        (pa.float64(), -0.0, "-0"),
        (pa.decimal128(9, 2), Decimal("1E+2"), "100.00"),
        (pa.binary(), b"\x00\xff", "\x00\udcff"),
        (pa.large_string(), "é", "é"),
        (pa.date32(), date(1500, 2, 28), -171606),
        (pa.timestamp("us", "UTC"), AT, -1),
        (pa.timestamp("ns"), AT.replace(tzinfo=None), -1),
        (NESTED, {"n": None, "at": AT}, {"n": None, "at": -1}),
        (pa.list_(NESTED), [None, {"n": 1, "at": None}], [None, {"n": 1, "at": None}]),
        (pa.map_(pa.string(), pa.float32()), [("b", None), ("a", 0.1)], [("a", "0.100000001"), ("b", None)]),
        (pa.map_(pa.string(), pa.list_(pa.int64())), [("", []), ("x", [1, None])], [("", []), ("x", [1, None])]),
    ],
    ids=str,
)
def test_the_form(kind: pa.DataType, value: Any, form: Any) -> None:
    """Nulls are kept, and rows before and behind do not shift a nested value."""
    table = pa.table({"c": pa.array([None, value, None, value], kind).slice(1)})
    assert canonical.rows(table) == {"c": [form, None, form]}


def test_what_differs_is_named() -> None:
    """Rows are put in the order of their key first."""
    wanted = {"k": [1, 2], "a": ["x", None], "b": [[1], []]}
    assert canonical.compared(wanted, {"k": [2, 1], "a": [None, "x"], "b": [[], [1]]}, ["k"]) == "all"
    assert canonical.compared(wanted, {"k": [1, 2], "a": ["x", ""], "b": [[1], None]}, ["k"]) == "other values: a, b"
    assert canonical.compared(wanted, {"k": [1, 2], "b": [[1], []]}, ["k"]) == "without a"
    assert canonical.compared(wanted, {"k": [1], "a": ["x"], "b": [[1]]}, ["k"]) == "1 rows of 2"
