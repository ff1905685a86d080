"""A suite of expectations is checked without Great Expectations, and as it would check it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakeingest import gate
from lakeingest.config import Gate
from lakeingest.config import file as pipeline_file
from lakeingest.errors import PipelineFileError
from lakeingest.gate import predicates
from lakeingest.gate.expectations import KNOWN, ROWWISE
from lakeingest.gate.suite import Suite, load
from lakeingest.schema import ddl

COLUMNS = ddl.parse("flight INT, carrier STRING, x STRUCT<y: INT>, flown DATE, late BOOLEAN")
BETWEEN = "expect_column_values_to_be_between"
REGEX = "expect_column_values_to_match_regex"
SET = "expect_column_values_to_be_in_set"


def suite_of(path: Path, columns: Sequence[ddl.Column], **how: Any) -> Suite:
    return load(Gate.model_validate({"suite": str(path), **how}), columns)


def suite(*expectations: Any) -> str:
    return json.dumps({"name": "s", "expectations": list(expectations)})


def one(kind: str, **kwargs: Any) -> str:
    return suite({"type": kind, "kwargs": kwargs})


def failing(how: str, kind: str, **kwargs: Any) -> str:
    return suite({"type": kind, "kwargs": kwargs, "meta": {"lakeingest": {"on_failure": how}}})


ANY = {"type": "comparison", "column": {"name": "flight"}, "operator": "==", "parameter": 1}
PAIRS = "expect_column_pair_values_to_be_in_set"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n 'name'", "s.json:2: not JSON"),
        ("[]", "s.json: not a suite"),
        ('{"expectations": [3]}', "s.json: name: required"),
        ('{"name": "s"}', "s.json: expectations: required"),
        (suite(3), "expectations[0]: not an expectation"),
        (suite({"kwargs": {}}), "expectations[0].type: required"),
        (suite({"expectation_type": BETWEEN}), "Great Expectations 0.x, which calls it expectation_type"),
        (one("expect_column_values_to_be_betwen"), f"is no expectation of Great Expectations; did you mean {BETWEEN}?"),
        (suite({"type": BETWEEN, "kwargs": 3}), "expectations[0].kwargs: not a mapping"),
        (one(BETWEEN, min_value=1), ".kwargs.column: required by"),
        (one(BETWEEN, column="flight"), "needs min_value, max_value or both"),
        (one(BETWEEN, column="flight", min_value=2, max_value=1), "2 is above max_value 1"),
        (one(BETWEEN, column="flight", min_value=2, mostly=95), "95 is not a share"),
        (one(BETWEEN, column="flight", min_value=2, mostly=True), "true is not a share"),
        (one(BETWEEN, column="flight", minvalue=1), ".kwargs.minvalue: "),
        (one(BETWEEN, column="carier", min_value=1), '"carier" is not among the columns; did you mean carrier?'),
        (one(BETWEEN, column=3, min_value=1), "not the name of a column"),
        (one(SET, column="carrier", value_set="UA"), ".value_set: not a list with values"),
        (one(REGEX, column="carrier", regex="^(N"), 'kwargs.regex: "^(N" is not a regular expression'),
        (one("expect_compound_columns_to_be_unique", column_list=["flight", "z"]), '.column_list[1]: "z" is not'),
        (one("expect_column_pair_values_to_be_equal", column_A="flight", column_B="z"), '.column_B: "z" is not'),
        (one(SET, column="flight", value_set=[1, "UA"]), '"UA" cannot be compared with flight, which is int'),
        (one(BETWEEN, column="carrier", min_value=1), "1 cannot be compared with carrier, which is string"),
        (one(BETWEEN, column="flown", min_value="2013"), '"2013" cannot be compared with flown, which is date'),
        (one(SET, column="late", value_set=[1]), "1 cannot be compared with late, which is boolean"),
        (one(SET, column="x", value_set=[1]), "which is struct; name a field within it"),
        (
            one(REGEX, column="flight", regex="^N"),
            "flight is int, and expect_column_values_to_match_regex is",
        ),
        (one(PAIRS, column_A="flight", column_B="carrier", value_pairs_set=[[1]]), ".value_pairs_set[0]: not a pair"),
        (one("expect_multicolumn_sum_to_equal", column_list=["flight", "carrier"], sum_total=1), "only numbers have a"),
        (
            one("expect_column_values_to_be_dateutil_parseable", column="carrier"),
            "cannot be evaluated on a batch",
        ),
        (one(REGEX, column="carrier", regex="N", row_condition="1 = 1"), "text is not run as SQL or Python"),
        (
            one(REGEX, column="carrier", regex="N", row_condition={"type": "or"}),
            ".row_condition.conditions: not a list",
        ),
        (
            one(REGEX, column="carrier", regex="N", row_condition=ANY | {"operator": "~"}),
            '.row_condition.operator: "~" is none; write one of ==',
        ),
        (
            one(REGEX, column="carrier", regex="N", row_condition=ANY | {"parameter": "x"}),
            '.row_condition.parameter: "x" cannot be compared with flight',
        ),
        (
            failing("sometimes", REGEX, column="carrier", regex="N"),
            'on_failure: "sometimes" is none; write one',
        ),
        (
            failing("quarantine", "expect_column_values_to_be_increasing", column="flight"),
            "cannot be said as one predicate of a row",
        ),
        (failing("quarantine", REGEX, column="carrier", regex="N", mostly=0.9), "mostly 0.9 lets single rows fail"),
        (suite({"type": REGEX, "kwargs": {"column": "carrier", "regex": "N"}, "meta": 3}), ".meta: not a mapping"),
        (
            suite({"type": REGEX, "kwargs": {"column": "carrier", "regex": "N"}, "severity": "fatal"}),
            '.severity: "fatal" is none; write one of critical, warning, info',
        ),
    ],
)
def test_a_mistake_has_file_index_and_cure(tmp_path: Path, text: str, said: str) -> None:
    """Each way to miswrite a suite is answered."""
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        suite_of(path, COLUMNS)
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_every_expectation_is_checked(tmp_path: Path) -> None:
    """Two wrong ones make two problems, with their positions."""
    path = tmp_path / "s.json"
    good = {"type": BETWEEN, "kwargs": {"column": "flight", "min_value": 1}}
    path.write_text(suite({"type": "a"}, good, {"type": "b"}), encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        suite_of(path, COLUMNS)
    assert [problem.split(".type")[0] for problem in caught.value.problems] == [
        f"{path}: expectations[0]",
        f"{path}: expectations[2]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        one(BETWEEN, column="x.y", min_value=1),
        one("expect_column_values_to_not_be_null", column="_key"),
        one("expect_compound_columns_to_be_unique", column_list=["_topic", "_partition", "_offset"]),
        one(REGEX, column="carrier", regex=r"^\p{Lu}{2}$"),
        one("expect_table_row_count_to_be_between", min_value=1),
    ],
)
def test_what_is_good(tmp_path: Path, text: str) -> None:
    """Nested fields, coordinates, Java's patterns and expectations of the whole table pass."""
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    assert suite_of(path, COLUMNS).name == "s"


def test_what_is_done_when_it_fails(tmp_path: Path) -> None:
    """The expectation's own word first, then the pipeline's: of rows, or of the batch."""
    path = tmp_path / "s.json"
    row = {"column": "carrier", "regex": "^N"}
    path.write_text(
        suite(
            {"type": REGEX, "kwargs": row},
            {"type": REGEX, "kwargs": row, "meta": {"lakeingest": {"on_failure": "warn"}}},
            {"type": REGEX, "kwargs": row | {"mostly": 0.9}},
            {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
        )
    )
    rules = suite_of(path, COLUMNS).rules
    assert [rule.action for rule in rules] == ["quarantine", "warn", "hold", "hold"]
    assert [rule.refuses for rule in rules] == [True, False, False, False]
    assert [rule.name for rule in rules][1:3] == [f"{REGEX}(carrier)#2", f"{REGEX}(carrier)#3"]
    other = suite_of(path, COLUMNS, on_row_failure="fail", on_batch_failure="warn")
    assert [rule.action for rule in other.rules] == ["fail", "warn", "warn", "warn"]
    assert other.fingerprint != suite_of(path, COLUMNS).fingerprint


@pytest.mark.parametrize(
    ("severity", "own", "actions"),
    [
        (None, None, ["quarantine", "hold"]),
        ("critical", None, ["quarantine", "hold"]),
        ("warning", None, ["warn", "warn"]),
        ("info", None, ["warn", "warn"]),
        ("info", "fail", ["fail", "fail"]),
        ("critical", "warn", ["warn", "warn"]),
    ],
)
def test_the_severity_of_great_expectations_counts(
    tmp_path: Path, severity: str | None, own: str | None, actions: list[str]
) -> None:
    """What its author calls a warning sets nothing aside; on_failure, which says what to do, goes before it."""
    asked = (REGEX, {"column": "carrier", "regex": "^N"}), ("expect_table_row_count_to_be_between", {"min_value": 1})
    meta = {"lakeingest": {"on_failure": own}} if own else {}
    rules = [{"type": kind, "kwargs": kwargs, "severity": severity, "meta": meta} for kind, kwargs in asked]
    (tmp_path / "s.json").write_text(suite(*rules), encoding="utf-8")
    assert [rule.action for rule in suite_of(tmp_path / "s.json", COLUMNS).rules] == actions


def test_the_compiled_ones_are_known() -> None:
    """`check` knows without Spark which expectations have a Column."""
    assert frozenset(predicates.COMPILED) == ROWWISE <= set(KNOWN)


def test_a_missing_suite(tmp_path: Path) -> None:
    """The path that was tried is named."""
    with pytest.raises(PipelineFileError) as caught:
        suite_of(tmp_path / "s.json", COLUMNS)
    assert caught.value.problems[0].startswith(f"{tmp_path / 's.json'}: no such file; gate.suite is relative")


def test_the_suite_of_flights_is_good() -> None:
    """The suite that ships fits the columns that the pipeline declares, and each rule says why it is there."""
    file = Path(__file__).parents[3] / "pipelines" / "flights.yaml"
    loaded = gate.load(pipeline_file.read(file, {}))
    assert loaded is not None
    assert loaded.name == "flights"
    assert all(rule.meta["notes"] for rule in loaded.rules)


_SEVERITIES = """
import json
from great_expectations.core import ExpectationSuite
from great_expectations.expectations.core import ExpectColumnToExist as Exists
from great_expectations.expectations.metadata_types import FailureSeverity
made = [Exists(column=each.value, severity=each) for each in FailureSeverity] + [Exists(column="plain")]
suite = ExpectationSuite(name="s", expectations=made)
print(json.dumps(suite.to_json_dict()["expectations"]))
"""


@pytest.mark.slow
def test_the_severities_are_great_expectations_own() -> None:
    """As it writes them into a suite: beside type and kwargs, critical where nothing was chosen."""
    pytest.importorskip("great_expectations")
    asked = subprocess.run([sys.executable, "-c", _SEVERITIES], capture_output=True, text=True, check=True, timeout=120)
    written = [each["severity"] for each in json.loads(asked.stdout.splitlines()[-1])]
    assert (set(written), written[-1]) == ({"critical", "warning", "info"}, "critical")


_ASK = """
import json
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations
import great_expectations.expectations
common = {*BatchExpectation.__fields__, "library_metadata", "row_condition", "condition_parser"}
known = {}
for name in list_registered_expectation_implementations():
    fields = {k: v.required for k, v in get_expectation_impl(name).__fields__.items() if k not in common}
    known[name] = [sorted(k for k in fields if fields[k]), sorted(k for k in fields if not fields[k])]
print(json.dumps(known))
"""


@pytest.mark.slow
def test_the_table_is_what_great_expectations_knows() -> None:
    """Names and arguments are those of the installed Great Expectations: it is asked in a process of its own."""
    pytest.importorskip("great_expectations")
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, timeout=120)
    ours = {name: [sorted(r), sorted(o)] for name, (r, o) in KNOWN.items()}
    assert ours == json.loads(asked.stdout.splitlines()[-1])
