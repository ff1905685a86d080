"""What a table's columns and a batch's have to do with each other: as wide as either, and what must be altered."""

from __future__ import annotations

import pytest

from lakeingest.spark import types
from lakeingest.spark.types import struct


@pytest.mark.parametrize(
    ("there", "wanted", "fitted"),
    [
        ("a INT", "a INT", "a INT"),
        ("a INT", "a BIGINT", "a BIGINT"),
        ("a BIGINT", "a INT", "a BIGINT"),
        ("a DOUBLE", "a BIGINT", "a DOUBLE"),
        ("A INT", "a BIGINT", "a BIGINT"),
        ("a INT, gone STRING", "a INT, b STRING", "a INT, b STRING"),
        ("s STRUCT<x: INT, gone: INT>", "s STRUCT<x: BIGINT, y: INT>", "s STRUCT<x: BIGINT, y: INT, gone: INT>"),
        ("s ARRAY<STRUCT<x: INT>>", "s ARRAY<STRUCT<y: INT>>", "s ARRAY<STRUCT<y: INT, x: INT>>"),
        ("m MAP<STRING, INT>", "m MAP<STRING, DOUBLE>", "m MAP<STRING, DOUBLE>"),
        ("d DECIMAL(6,2)", "d DECIMAL(9,3)", "d DECIMAL(9,3)"),
        ("d DATE", "d TIMESTAMP_NTZ", "d TIMESTAMP_NTZ"),
        (
            "a INT, s STRUCT<x: INT>",
            "a INT NOT NULL, s STRUCT<x: INT NOT NULL>",
            "a INT NOT NULL, s STRUCT<x: INT NOT NULL>",
        ),
    ],
)
def test_rows_are_written_as_wide_as_the_table_is_or_must_become(there: str, wanted: str, fitted: str) -> None:
    """A column takes the wider type; nested fields that only the table has stay, and its own columns are left out."""
    assert types.fitted(struct(there), struct(wanted)) == struct(fitted)


@pytest.mark.parametrize(
    ("there", "wanted", "alter"),
    [
        ("a INT, b STRING", "a INT", []),
        ("a INT", "a BIGINT, b INT", [("`a`", "bigint")]),
        ("s STRUCT<X: INT>", "s STRUCT<x: BIGINT>", [("`s`.`X`", "bigint")]),
        ("s ARRAY<STRUCT<x: FLOAT>>", "s ARRAY<STRUCT<x: DOUBLE>>", [("`s`.element.`x`", "double")]),
        ("m MAP<INT, INT>", "m MAP<BIGINT, DOUBLE>", [("`m`.key", "bigint"), ("`m`.value", "double")]),
    ],
)
def test_what_must_become_wider(there: str, wanted: str, alter: list[tuple[str, str]]) -> None:
    """Each part of a column is named as ALTER COLUMN takes it."""
    assert list(types.widenings(struct(there), struct(wanted))) == alter


@pytest.mark.parametrize(
    ("there", "wanted", "lacks"),
    [
        ("a INT", "a BIGINT", False),
        ("a INT", "A INT", False),
        ("a INT", "b INT", True),
        ("s STRUCT<x: INT>", "s STRUCT<x: INT, y: INT>", True),
        ("s ARRAY<STRUCT<x: INT>>", "s ARRAY<STRUCT<y: INT>>", True),
        ("m MAP<STRING, STRUCT<x: INT>>", "m MAP<STRING, STRUCT<x: INT, y: INT>>", True),
        ("m MAP<STRING, STRUCT<x: INT>>", "m MAP<STRING, STRUCT<x: INT>>", False),
    ],
)
def test_what_the_table_lacks(there: str, wanted: str, lacks: bool) -> None:
    """A field at any level that the table does not have makes the commit add it."""
    assert types.has_new_fields(struct(there), struct(wanted)) is lacks


def test_a_tables_columns_as_the_rules_know_columns() -> None:
    """Spark's type and the rules' own say the same."""
    text = "a INT, s STRUCT<x: ARRAY<DECIMAL(5,2)>, y: MAP<STRING, DATE>>"
    shown = ", ".join(f"{column.name} {column.type}" for column in types.ddl_columns(struct(text)))
    assert struct(shown) == struct(text)
