"""Suites of Great Expectations 0.x, and texts as conditions, in the form of 1.x; or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.config import Gate
from lakeingest.errors import PipelineFileError
from lakeingest.gate import suite
from lakeingest.gate.condition_text import NotExact, converted
from lakeingest.gate.convert import Converted

OWN = "great_expectations__experimental__"


def compared(column: str, operator: str, value: Any) -> dict[str, Any]:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": value}


def null(column: str, *, is_null: bool = True) -> dict[str, Any]:
    return {"type": "nullity", "column": {"name": column}, "is_null": is_null}


def joined(kind: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "conditions": [*conditions]}


A, B, C = compared("a", "==", 1), compared("b", ">", 2), null("c", is_null=False)


@pytest.mark.parametrize(
    ("parser", "text", "condition"),
    [
        (OWN, 'col("a")==1', A),
        ("great_expectations", ' col("b") > 2.5e1 ', compared("b", ">", 25.0)),
        (OWN, 'col("c").notNull()', C),
        (OWN, "col(\"a\") != 'x y'", compared("a", "!=", "x y")),
        (OWN, 'col("d") <= date("2024-01-31")', compared("d", "<=", "2024-01-31")),
        ("spark", "a = 1", A),
        ("spark", "1 == a and B.c <> 'x'", joined("and", A, compared("B.c", "!=", "x"))),
        ("spark", "`a b` IS NULL", null("a b")),
        ("spark", "a = 1 AND (b > 2 OR c IS NOT NULL)", joined("or", joined("and", A, B), joined("and", A, C))),
        ("spark", "NOT (a = 1 OR b > 2)", joined("and", compared("a", "!=", 1), compared("b", "<=", 2))),
        ("spark", "a NOT IN ('x', 'y')", compared("a", "NOT_IN", ["x", "y"])),
        ("spark", "a BETWEEN -1 AND 1.5", joined("and", compared("a", ">=", -1), compared("a", "<=", 1.5))),
        ("spark", "flag AND a = 1", joined("and", compared("flag", "==", True), A)),
        ("pandas", "a == 1 & b > 2 | c.notnull()", joined("or", joined("and", A, B), C)),
        ("pandas", "0 < a <= 5", joined("and", compared("a", ">", 0), compared("a", "<=", 5))),
        ("pandas", "a != 'x'", joined("or", null("a"), compared("a", "!=", "x"))),
        ("pandas", "not b > 2", joined("or", null("b"), compared("b", "<=", 2))),
        ("pandas", "~(c.isna())", C),
        ("pandas", "`a b` in ['x', \"y\"]", compared("a b", "IN", ["x", "y"])),
        (
            "pandas",
            "a.isin([1, 2]) and flag == True",
            joined("and", compared("a", "IN", [1, 2]), compared("flag", "==", True)),
        ),
    ],
)
def test_texts_are_conditions(parser: str, text: str, condition: dict[str, Any]) -> None:
    """What is written comes out in the form of 1.x."""
    assert converted(text, parser) == condition


@pytest.mark.parametrize(
    ("parser", "text", "why"),
    [
        (OWN, 'col("a") > 1 and col("b") > 2', "what stands behind that it leaves out in silence"),
        (OWN, 'col("a") == " x"', "reads one comparison"),
        (None, "a = 1", "condition_parser None is none of great_expectations, pandas and spark"),
        ("spark", "a = b", "b stands where a value is needed"),
        ("spark", "a + 1 = 2", "not understood from '+ 1 = 2'"),
        ("spark", "upper(a) = 'X'", "not understood at '('"),
        ("spark", "a LIKE 'x%'", "not understood at 'like'"),
        ("spark", "d > DATE'2024-01-01'", "DATE stands where a value is needed"),
        ("spark", "a <=> 1", "not understood at '<=>'"),
        ("spark", "a = 'it''s'", "not understood from"),
        ("spark", "a = NULL", "not understood at 'null'"),
        ("spark", "a = 1 AND", "it ends too early"),
        ("spark", "a IN (1, 'x')", "a list of numbers, or one of texts"),
        ("spark", "a = 1234567890.12345678", "more digits than each kind of number holds"),
        ("spark", "a = 1e300", "larger than each kind"),
        ("spark", " AND ".join(f"(a = {n} OR b = {n})" for n in range(8)), "more than the 100 conditions"),
        ("spark", "(" * 200 + "a = 1" + ")" * 200, "nested deeper than 50 levels"),
        ("pandas", "a == @limit", "not understood from '@limit'"),
        ("pandas", "a.str.len() > 2", "is code of pandas, and no column"),
        ("pandas", "index > 2", "not understood at 'index'"),
        ("pandas", "a == b", "b stands where a value is needed"),
        ("pandas", "a == [1, 2]", "not understood at '['"),
        ("pandas", "~a == 1", "~ stands before something else than a parenthesis"),
    ],
)
def test_other_texts_are_refused(parser: str | None, text: str, why: str) -> None:
    """The message names the part that 1.x cannot ask."""
    with pytest.raises(NotExact) as caught:
        converted(text, parser)
    assert why in str(caught.value)


BETWEEN = "expect_column_values_to_be_between"
OLD: dict[str, Any] = {
    "expectation_suite_name": "flights.warning",
    "data_asset_type": None,
    "evaluation_parameters": {"least": 3},
    "expectations": [
        {
            "expectation_type": BETWEEN,
            "kwargs": {"column": "a", "min_value": {"$PARAMETER": "least"}, "include_config": True, "auto": False},
            "meta": {"notes": "why"},
        },
        {
            "expectation_type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "b", "row_condition": "a > 5", "condition_parser": "spark", "mostly": 0.9},
            "meta": {},
        },
        {"expectation_type": "expect_multicolumn_values_to_be_unique", "kwargs": {"column_list": ["a", "b"]}},
    ],
    "meta": {"great_expectations_version": "0.18.8", "owner": "ops"},
}
NEW = {
    "name": "flights.warning",
    "expectations": [
        {"type": BETWEEN, "kwargs": {"column": "a", "min_value": 3}, "meta": {"notes": "why"}},
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {"column": "b", "row_condition": compared("a", ">", 5), "mostly": 0.9},
        },
        {
            "type": "expect_select_column_values_to_be_unique_within_record",
            "kwargs": {"column_list": ["a", "b"]},
        },
    ],
    "meta": {"owner": "ops"},
}


def test_an_old_suite_is_converted(tmp_path: Path) -> None:
    """The error of a pipeline names the command; what it writes is a suite that a pipeline takes."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(OLD))
    with pytest.raises(PipelineFileError, match=f"lakeingest gate convert {old} --out NEW.json"):
        suite.load(Gate(suite=str(old)), ())
    shown = CliRunner().invoke(app, ["gate", "convert", str(old)])
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, NEW)
    done = CliRunner().invoke(app, ["gate", "convert", str(old), "--out", str(new), "--output", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["changes"][0].endswith("kwargs.min_value: 3, the value of least")
    assert json.loads(new.read_text()) == NEW
    assert len(suite.load(Gate(suite=str(new)), ()).rules) == 3
    again = CliRunner().invoke(app, ["gate", "convert", str(old), "--out", str(new)])
    assert again.exit_code != 0
    assert "exists" in str(again.exception)


@pytest.mark.parametrize(
    ("kind", "kwargs", "why"),
    [
        (BETWEEN, {"min_value": {"$PARAMETER": "now() - 1"}}, "evaluation_parameters has no value of that name"),
        (BETWEEN, {"min_value": 1, "parse_strings_as_datetimes": True}, "1.x reads no text as a time"),
        (BETWEEN, {"auto": True}, "its arguments were to be estimated from data; write them"),
        (
            BETWEEN,
            {"min_value": 1, "row_condition": "len(b) > 1", "condition_parser": "pandas"},
            'row_condition "len(b)',
        ),
        ("expect_column_chisquare_test_p_value_to_be_greater_than", {}, "is no expectation of Great Expectations"),
    ],
)
def test_what_would_change_is_refused_by_name(tmp_path: Path, kind: str, kwargs: dict[str, Any], why: str) -> None:
    """Nothing is written then, and the exit code is 1."""
    document = {**OLD, "expectations": [{"expectation_type": kind, "kwargs": {"column": "a", **kwargs}}]}
    (problem,) = Converted(document).refused
    assert problem.startswith(f"expectations[0] {kind}")
    assert why in problem
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(document))
    ran = CliRunner().invoke(app, ["gate", "convert", str(old), "--out", str(new)])
    assert (ran.exit_code, new.exists()) == (1, False)
    assert "nothing is written" in ran.output


@pytest.mark.parametrize(
    "document", [{}, {"expectations": 3}, {"name": 1, "meta": 3, "expectations": [3, {"kwargs": 3}]}]
)
def test_what_is_no_suite_is_refused(document: dict[str, Any]) -> None:
    """Whatever stands there, it is named."""
    assert Converted(document).refused
