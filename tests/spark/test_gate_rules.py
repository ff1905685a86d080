"""Each compiled rule refuses the rows that Great Expectations finds unexpected, whatever the frame holds."""

from __future__ import annotations

import datetime
import json
import logging
import math
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.oracle.examples import searched

from lakeingest.config import Gate
from lakeingest.gate import arguments, predicates, suite
from lakeingest.gate.expectations import ROWWISE
from lakeingest.record import UNDECODED
from lakeingest.schema import ddl
from lakeingest.spark import jvm, session

COLUMNS = "i INT, j INT, l BIGINT, d DOUBLE, m DECIMAL(10,2), s STRING, u STRING, b BOOLEAN, t TIMESTAMP, y DATE"

NOT_NULL = {"type": "nullity", "column": {"name": "i"}, "is_null": False}

SMALL = {"type": "comparison", "column": {"name": "j"}, "operator": "<", "parameter": 3}

NAMED = {"type": "comparison", "column": {"name": "s"}, "operator": "NOT_IN", "parameter": ["a", "N1"]}


def of(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": f"expect_{kind}", "kwargs": kwargs}


EXPECTATIONS = [
    of("column_values_to_not_be_null", column="i"),
    of("column_values_to_not_be_null", column="s", row_condition=NOT_NULL),
    of("column_values_to_be_null", column="u", row_condition={"type": "or", "conditions": [SMALL, NAMED]}),
    of("column_values_to_be_in_set", column="i", value_set=[1, 2, 3]),
    of("column_values_to_be_in_set", column="d", value_set=[1, 2.5]),
    of("column_values_to_be_in_set", column="b", value_set=[True]),
    of("column_values_to_be_in_set", column="y", value_set=["2024-02-29"]),
    of("column_values_to_not_be_in_set", column="s", value_set=["a", "N1", ""]),
    of("column_values_to_not_be_in_set", column="m", value_set=[1, 2.5]),
    of("column_values_to_be_between", column="i", min_value=1, max_value=3),
    of("column_values_to_be_between", column="l", max_value=2**40, strict_max=True),
    of("column_values_to_be_between", column="d", min_value=-0.5, max_value=2.5, strict_min=True),
    of("column_values_to_be_between", column="m", min_value=0, strict_min=True),
    of("column_values_to_be_between", column="t", min_value="2024-01-01T00:00:00", max_value="2024-12-31T12:00:00"),
    of("column_values_to_be_between", column="y", min_value="2024-02-29"),
    of("column_values_to_be_between", column="i", min_value=2, row_condition={"type": "and", "conditions": [SMALL]}),
    of("column_value_lengths_to_be_between", column="s", min_value=1, max_value=2),
    of("column_value_lengths_to_be_between", column="s", max_value=2, strict_max=True),
    of("column_value_lengths_to_equal", column="u", value=2),
    of("column_values_to_match_regex", column="s", regex=r"^N\d"),
    of("column_values_to_match_regex", column="s", regex="^N"),
    of("column_values_to_not_match_regex", column="s", regex="^N"),
    of("column_values_to_not_match_regex", column="s", regex=r"^N\d"),
    of("column_values_to_match_regex_list", column="s", regex_list=["^N", "^$"]),
    of("column_values_to_match_regex_list", column="s", regex_list=["N", r"\d"], match_on="all"),
    of("column_values_to_not_match_regex_list", column="s", regex_list=["N", r"\d"]),
    of("column_values_to_match_strftime_format", column="u", strftime_format="%Y-%m-%d"),
    of("column_values_to_match_strftime_format", column="u", strftime_format="%H:%M:%S.%f"),
    of("column_values_to_match_strftime_format", column="u", strftime_format="%d.%m.%Y %H"),
    of("column_values_to_be_unique", column="i"),
    of("column_values_to_be_unique", column="s", row_condition=NOT_NULL),
    of("compound_columns_to_be_unique", column_list=["i", "s"]),
    of("compound_columns_to_be_unique", column_list=["i", "j"], ignore_row_if="any_value_is_missing"),
    of("compound_columns_to_be_unique", column_list=["i", "j"], ignore_row_if="never"),
    of("column_pair_values_to_be_equal", column_A="i", column_B="j"),
    of("column_pair_values_to_be_equal", column_A="i", column_B="j", ignore_row_if="either_value_is_missing"),
    of("column_pair_values_a_to_be_greater_than_b", column_A="i", column_B="j"),
    of("column_pair_values_a_to_be_greater_than_b", column_A="l", column_B="d", or_equal=True, ignore_row_if="neither"),
    of("column_pair_values_to_be_in_set", column_A="i", column_B="s", value_pairs_set=[[1, "a"], [2, "N1"]]),
    of("multicolumn_values_to_be_equal", column_list=["i", "j", "l"]),
    of("multicolumn_sum_to_equal", column_list=["i", "j", "l"], sum_total=4),
    of("multicolumn_sum_to_equal", column_list=["i", "d"], sum_total=3.5, ignore_row_if="any_value_is_missing"),
    of("select_column_values_to_be_unique_within_record", column_list=["i", "j", "l"]),
]

NOT_ON_SPARK = {name for name in ROWWISE if "like_pattern" in name}
"""Great Expectations has these for databases alone; `test_like` has them."""

BY_TYPE = {"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"}
"""On Spark they ask the column's type, and name no rows; `test_types` has them."""

texts = st.sampled_from(["", "a", "N", "N1", "N12", "b", "bb", "ä", "N1\n"])

days = st.sampled_from(["1", "01", "28", "29", "30", "31", " 9"])

years, months = st.sampled_from(["2023", "2024", "0000", "24"]), st.sampled_from(["2", "02", "13"])

dates = st.one_of(
    texts,
    st.builds("{}-{}-{}".format, years, months, days),
    st.builds("{}.2.{} {}".format, days, st.sampled_from(["2023", "2024"]), st.sampled_from(["5", "05", "24"])),
    st.sampled_from(["12:00:00.5", "24:00:00.0", "1:2:3.1234567", "12:00:60.0"]),
)

whole = st.integers(-1, 4)

rows = st.tuples(
    st.none() | whole | st.just(2**31 - 1),
    st.none() | whole | st.just(2**31 - 1),
    st.none() | whole | st.just(2**63 - 1),
    st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.5, -0.5, 3.5, math.nan, math.inf]),
    st.none() | st.sampled_from([Decimal("0.00"), Decimal("1.00"), Decimal("2.50"), Decimal("-3.25")]),
    st.none() | texts,
    st.none() | dates,
    st.none() | st.booleans(),
    st.none() | st.datetimes(datetime.datetime(2023, 12, 31), datetime.datetime(2025, 1, 1)),
    st.none() | st.dates(datetime.date(2024, 2, 27), datetime.date(2024, 3, 2)),
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[suite.Rule, ...]:
    path = tmp_path_factory.mktemp("suite") / "s.json"
    path.write_text(json.dumps({"name": "all", "expectations": EXPECTATIONS}))
    return suite.load(Gate(suite=str(path)), ddl.parse(COLUMNS)).rules


@pytest.fixture(scope="module")
def great(spark: SparkSession) -> Any:
    """Great Expectations' own answer: the numbers of the rows that each expectation finds unexpected."""
    gx = pytest.importorskip("great_expectations")
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("frame")
    whole = asset.add_batch_definition_whole_dataframe("whole")

    def ask(frame: DataFrame) -> list[list[int]]:
        asked = [{**each, "meta": {"at": at}} for at, each in enumerate(EXPECTATIONS)]
        batch = whole.get_batch(batch_parameters={"dataframe": frame})
        form = {"result_format": "COMPLETE", "unexpected_index_column_names": ["n"]}
        answer = batch.validate(gx.ExpectationSuite(name="all", expectations=asked), result_format=form)
        # One of a metric stands a level deeper than one of the expectation.
        raised = [r.exception_info for r in answer.results if "'raised_exception': True" in str(r.exception_info)]
        assert not raised, raised
        # It answers in an order of its own.
        in_order = sorted(answer.results, key=lambda r: r.expectation_config.meta["at"])
        return [sorted(row["n"] for row in r.result.get("unexpected_index_list") or ()) for r in in_order]

    return ask


def numbered(spark: SparkSession, made: list[tuple[Any, ...]]) -> DataFrame:
    schema = T.StructType.fromJson(json.loads(ddl.to_json(ddl.parse(f"n INT, {COLUMNS}"))))
    return spark.createDataFrame([(n, *row) for n, row in enumerate(made)], schema)


def ours(frame: DataFrame, asked: tuple[suite.Rule, ...]) -> list[list[int]]:
    marked = frame.withColumn(UNDECODED, F.lit(False))
    bad = {f"bad{i}": predicates.unexpected(rule, frame.schema) for i, rule in enumerate(asked)}
    found = marked.select("n", *(column.alias(name) for name, column in bad.items())).collect()
    return [sorted(row["n"] for row in found if row[name]) for name in bad]


@pytest.mark.faults
@settings(searched(2), suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
@given(made=st.lists(rows, min_size=150, max_size=150))
def test_the_same_rows(
    spark: SparkSession, great: Any, loaded: tuple[suite.Rule, ...], made: list[tuple[Any, ...]]
) -> None:
    """Every compiled rule against the real expectation, over frames of every kind of value."""
    assert {rule.type for rule in loaded} == ROWWISE - NOT_ON_SPARK - BY_TYPE
    frame = numbered(spark, made)
    found = zip(loaded, ours(frame, loaded), great(frame), strict=True)
    differ = {rule.text: ([made[n] for n in a], [made[n] for n in b]) for rule, a, b in found if a != b}
    assert not differ, "\n".join(map(str, differ.items()))


def refused(spark: SparkSession, kind: str, of: str, values: list[Any], **kwargs: Any) -> list[Any]:
    frame = spark.createDataFrame([(value,) for value in values], f"x {of}")
    rule = suite.Rule("r", f"expect_{kind}", {"column": "x", **kwargs}, {}, True, "quarantine")
    bad = frame.withColumn(UNDECODED, F.lit(False)).where(predicates.unexpected(rule, frame.schema))
    return [row["x"] for row in bad.collect()]


@pytest.mark.parametrize(
    ("kind", "kwargs", "bad"),
    [
        ("column_values_to_match_like_pattern", {"like_pattern": "N%"}, ["a", "50%"]),
        ("column_values_to_match_like_pattern", {"like_pattern": "50#%", "escape": "#"}, ["N1", "a"]),
        ("column_values_to_match_like_pattern", {"like_pattern": "%5%#%%", "escape": "#"}, ["N1", "a"]),
        ("column_values_to_match_like_pattern", {"like_pattern": "%5%\\%%"}, ["N1", "a"]),
        ("column_values_to_not_match_like_pattern", {"like_pattern": "N_"}, ["N1"]),
        ("column_values_to_match_like_pattern_list", {"like_pattern_list": ["N%", "a"]}, ["50%"]),
        (
            "column_values_to_match_like_pattern_list",
            {"like_pattern_list": ["N%", "%"], "match_on": "all"},
            ["a", "50%"],
        ),
        ("column_values_to_not_match_like_pattern_list", {"like_pattern_list": ["%1", "a"]}, ["N1", "a"]),
    ],
)
def test_like(spark: SparkSession, way: str, kind: str, kwargs: dict[str, Any], bad: list[str]) -> None:
    """LIKE as SQL has it, in upper and lower case; null passes."""
    assert refused(spark, kind, "STRING", ["N1", "a", None, "50%"], **kwargs) == bad


@pytest.mark.parametrize(
    ("kind", "kwargs", "bad"),
    [
        ("column_values_to_be_of_type", {"type_": "IntegerType"}, []),
        ("column_values_to_be_of_type", {"type_": "StringType"}, [1]),
        ("column_values_to_be_in_type_list", {"type_list": ["StringType", "IntegralType"]}, []),
        ("column_values_to_be_in_type_list", {"type_list": ["StringType", "NoType"]}, [1]),
    ],
)
def test_types(spark: SparkSession, kind: str, kwargs: dict[str, Any], bad: list[int]) -> None:
    """By Spark's names of types, the column's own; null passes."""
    assert refused(spark, kind, "INT", [1, None], **kwargs) == bad


@pytest.mark.parametrize("name", ["a.b", "A.B", "s.c", "s.d.e", "t`i.c.k"])
def test_a_dot_in_the_name_of_a_column(spark: SparkSession, name: str) -> None:
    """It may be part of the name, or lead into a struct; conditions, samples and types take it too."""
    frame = spark.createDataFrame(
        [(1, (1, (1,)), 1), (9, (9, (9,)), 9)], "`a.b` INT, s STRUCT<c: INT, `d.e`: STRUCT<e: INT>>, `t``i.c.k` INT"
    )
    path = "s.d.e.e" if name == "s.d.e" else name
    condition = {"type": "comparison", "column": {"name": path}, "operator": ">", "parameter": 0}
    kwargs = {"column": path, "max_value": 5, "row_condition": condition}
    rule = suite.Rule("r", "expect_column_values_to_be_between", kwargs, {}, True, "quarantine")
    refusal = predicates.refusal([rule], frame.schema)
    bad = frame.withColumn(UNDECODED, F.lit(False)).where(refusal.when).select("s.c", refusal.diagnosis()["message"])
    ((value, message),) = bad.collect()
    assert (value, message.startswith(f"{path} is 9: ")) == (9, True), message
    of_type = {"column": path, "type_": "IntegerType"}
    integers = suite.Rule("t", "expect_column_values_to_be_of_type", of_type, {}, True, "warn")
    assert not frame.withColumn(UNDECODED, F.lit(False)).where(predicates.unexpected(integers, frame.schema)).collect()


@pytest.fixture(params=[jvm.FUNCTIONS["pattern"], "none"], ids=["with the jar", "without"])
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """How texts are held against patterns: with lakeingest's functions, and in a session that lacks them."""
    with session.setting(spark, {jvm.catalog("pattern"): request.param}):
        yield request.param


PATTERNS = [
    ("", ["", "a"], []),
    ("`a`", ["`a`", "a"], ["a"]),
    ("^(N|M)+$", ["NM", "", "NX", "nm"], ["", "NX", "nm"]),
    (r"\p{Lu}\d{2}\z", ["A12", "A12\n", "\u00c412", "a12"], ["A12\n", "a12"]),
    ("a.c$", ["abc", "abc\n", "a\nc", "xabc"], ["a\nc"]),
    ("(?i)^stra\u00dfe", ["Stra\u00dfe 1", "STRASSE"], ["STRASSE"]),
    ("^\U0001f600.$", ["\U0001f600\U0001f601", "\U0001f600"], ["\U0001f600"]),
]


@pytest.mark.parametrize(("regex", "values", "bad"), PATTERNS)
def test_patterns_are_those_of_spark(
    spark: SparkSession, way: str, regex: str, values: list[str], bad: list[str]
) -> None:
    """A part that matches is enough, and what a pattern means is Java's matter, on both ways."""
    assert refused(spark, "column_values_to_match_regex", "STRING", [*values, None], regex=regex) == bad
    good = [value for value in values if value not in bad]
    assert refused(spark, "column_values_to_not_match_regex", "STRING", [*values, None], regex=regex) == good


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        ("column_values_to_match_regex", {"regex": "^(a|b)+$"}),
        ("column_values_to_not_match_regex", {"regex": "^(a|b)+x$"}),
        ("column_values_to_match_regex_list", {"regex_list": ["^(a|b)+$", "^c"]}),
        ("column_values_to_match_regex_list", {"regex_list": ["^(a|b)+$", "^a"], "match_on": "all"}),
        ("column_values_to_not_match_regex_list", {"regex_list": ["^c", "^(a|b)+x$"]}),
    ],
)
def test_a_text_that_no_stack_holds_is_refused(
    spark: SparkSession, way: str, kind: str, kwargs: dict[str, Any]
) -> None:
    """400,000 characters under a repeated group ended the JVM, and again with each run."""
    long = "ab" * 200_000
    assert refused(spark, kind, "STRING", [long, None], **kwargs) == [long]
    rule = suite.Rule("r", f"expect_{kind}", {"column": "x", **kwargs}, {}, True, "quarantine")
    frame = spark.createDataFrame([(long,)], "x STRING")
    (row,) = frame.select(predicates.refusal([rule], frame.schema).diagnosis()["message"]).collect()
    assert row[0] == (
        "x has 400000 characters, and to hold them against the pattern takes too many steps or too deep a stack: "
        + rule.text
    )


@pytest.mark.parametrize(
    ("kind", "kwargs", "value"),
    [
        ("column_values_to_match_regex", {"regex": "(.*,){11}x"}, ",".join(["111"] * 30)),
        ("column_values_to_not_match_regex", {"regex": "(.*,){11}x"}, ",".join(["111"] * 30)),
        ("column_values_to_match_regex", {"regex": "a.*b.*c.*d"}, "abc" * 3000),
        ("column_values_to_match_like_pattern", {"like_pattern": "%a%a%a%a%c"}, "a" * 3000),
        ("column_values_to_not_match_like_pattern", {"like_pattern": "%a%a%a%a%c"}, "a" * 3000),
        ("column_values_to_not_match_like_pattern_list", {"like_pattern_list": ["x", "%a%a%a%a%c"]}, "a" * 3000),
    ],
)
def test_a_pattern_that_takes_for_ever_refuses_the_record(
    spark: SparkSession, kind: str, kwargs: dict[str, Any], value: str
) -> None:
    """Java tries some texts in exponentially many ways: one record kept its batch for hours."""
    begun = time.monotonic()
    assert refused(spark, kind, "STRING", [value], **kwargs) == [value]
    assert time.monotonic() - begun < 20


AWKWARD = {
    "i INT": ("0", "1", "-2147483648", "2147483647"),
    "j INT": ("1", "-2147483648"),
    "l BIGINT": ("9223372036854775807", "-9223372036854775808"),
    "d DOUBLE": ("DOUBLE('NaN')", "DOUBLE('-Infinity')", "1e308", "-0.0"),
    "f FLOAT": ("FLOAT('NaN')", "FLOAT(3e38)"),
    "m DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38),
    "n DECIMAL(38,38)": ("0." + "9" * 38,),
    "o DECIMAL(10,2)": ("99999999.99", "0.01"),
    "s STRING": ("''", "'x'", "'1'", "'1e400'", "'2024-02-30'", "'99999999999999999999'", "repeat('1', 5000)", "'NaN'"),
    "u STRING": ("'true'", "'2024-02-29'", "CAST(X'FF' AS STRING)", "'+294247-01-10 04:00:54.775807'", "' 1 '"),
    "b BOOLEAN": ("true", "false"),
    "t TIMESTAMP": ("TIMESTAMP'9999-12-31 23:59:59'", "TIMESTAMP_MICROS(-9223372036854775808)"),
    "z TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'9999-12-31 23:59:59'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
    "y DATE": ("DATE'9999-12-31'", "DATE'-5000000-01-01'", "DATE'2024-02-29'"),
    "x BINARY": ("X''", "X'FF'"),
    "a ARRAY<INT>": ("array()", "array(1, null)"),
}
"""Columns, and values of theirs that are at the ends of what they can hold, or at odds with the others."""


def asked_of_awkward() -> list[dict[str, Any]]:
    """Every compiled expectation over every column, pair and list of columns that a suite may name for it."""
    names = [column.partition(" ")[0] for column in AWKWARD]
    lists = [[a, b] for a in names for b in names if a < b]
    limits = {"i": 2**31 - 1, "l": 1e19, "d": -1e308, "m": 1e38, "n": 0, "s": "1", "y": "9999-12-31", "t": "0001-01-01"}
    return [
        *EXPECTATIONS,
        *(of("column_values_to_be_between", column=c, min_value=v) for c, v in limits.items()),
        *(of("column_values_to_be_in_set", column=c, value_set=[v]) for c, v in limits.items()),
        *(of("multicolumn_sum_to_equal", column_list=each, sum_total=t) for each in lists for t in (4, 2.5, 1e40)),
        *(of("column_pair_values_to_be_equal", column_A=a, column_B=b) for a, b in lists),
        *(of("column_pair_values_a_to_be_greater_than_b", column_A=a, column_B=b) for a, b in lists),
        *(of("column_pair_values_a_to_be_greater_than_b", column_A=b, column_B=a, or_equal=True) for a, b in lists),
        *(of("select_column_values_to_be_unique_within_record", column_list=each) for each in lists),
        *(of("multicolumn_values_to_be_equal", column_list=each) for each in lists),
    ]


@pytest.mark.slow
@settings(searched(1), suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
@given(made=st.lists(st.tuples(*(st.sampled_from(("NULL", *v)) for v in AWKWARD.values())), min_size=100, max_size=100))
def test_no_record_makes_a_rule_throw(spark: SparkSession, made: list[tuple[str, ...]]) -> None:
    """A sum beyond 38 digits, or a text beside a number, ended the batch, and each later run at the same record."""
    columns = ddl.parse(", ".join(AWKWARD))
    asked = [e for e in asked_of_awkward() if not list(arguments.problems(e["type"], e["kwargs"], columns))]
    assert {e["type"] for e in asked} == {e["type"] for e in EXPECTATIONS}
    types = [column.partition(" ") for column in AWKWARD]
    rows = (", ".join(f"CAST({v} AS {t}) AS {n}" for v, (n, _, t) in zip(row, types, strict=True)) for row in made)
    frame = spark.sql(" UNION ALL ".join(f"SELECT {row}" for row in rows)).localCheckpoint()
    for some in (asked[at : at + 60] for at in range(0, len(asked), 60)):
        bad = [
            predicates.unexpected(suite.Rule(str(e), e["type"], e["kwargs"], {}, True, "hold"), frame.schema)
            for e in some
        ]
        frame.withColumn(UNDECODED, F.lit(False)).select(*bad).collect()


@pytest.mark.parametrize(
    ("kind", "kwargs", "bad"),
    [
        ("multicolumn_sum_to_equal", {"column_list": ["m", "k"], "sum_total": 4}, [0, 1, 2]),
        ("column_pair_values_to_be_equal", {"column_A": "s", "column_B": "i"}, [1, 2]),
        ("column_pair_values_a_to_be_greater_than_b", {"column_A": "s", "column_B": "i"}, [0, 1]),
        ("multicolumn_values_to_be_equal", {"column_list": ["i", "s"]}, [1, 2]),
        ("select_column_values_to_be_unique_within_record", {"column_list": ["i", "s"]}, [0]),
    ],
)
def test_what_cannot_be_compared_or_added_is_unexpected(
    spark: SparkSession, kind: str, kwargs: dict[str, Any], bad: list[int]
) -> None:
    """A text that is no number equals none and is greater than none; a sum of too many digits is not the one asked."""
    most = Decimal("9" * 38)
    # Decimal's own arithmetic keeps 28 digits.
    least = Decimal("-" + "9" * 38)
    rows = [(0, most, most, 1, "1"), (1, least, least, 1, "x"), (2, Decimal(1), Decimal(1), 1, "2")]
    frame = spark.createDataFrame(rows, "n INT, m DECIMAL(38,0), k DECIMAL(38,0), i INT, s STRING")
    rule = suite.Rule("r", f"expect_{kind}", kwargs, {}, True, "quarantine")
    found = frame.withColumn(UNDECODED, F.lit(False)).where(predicates.unexpected(rule, frame.schema)).collect()
    assert [row["n"] for row in found] == bad


def test_a_message_names_all_that_is_broken(spark: SparkSession, tmp_path: Path) -> None:
    """Each broken expectation, with its values, the long ones cut."""
    path = tmp_path / "s.json"
    asked = [
        of("column_values_to_be_between", column="i", min_value=1),
        of("column_values_to_not_be_null", column="j"),
        of("column_value_lengths_to_be_between", column="s", max_value=3),
        of("column_pair_values_to_be_equal", column_A="i", column_B="j"),
        of("column_values_to_not_be_null", column="i"),
    ]
    path.write_text(json.dumps({"name": "s", "expectations": asked}))
    made = suite.load(Gate(suite=str(path)), ddl.parse(COLUMNS)).rules
    frame = spark.createDataFrame([(0, None, "x" * 500)], "i INT, j INT, s STRING")
    refusal = predicates.refusal(made, frame.schema)
    why = frame.select(refusal.when, refusal.diagnosis()["message"], refusal.rules()).collect()[0]
    assert why[0] is True
    assert why[1].split("; ") == [
        'i is 0: expect_column_values_to_be_between(column="i", min_value=1)',
        'j is null: expect_column_values_to_not_be_null(column="j")',
        f's is {"x" * 200}…: expect_column_value_lengths_to_be_between(column="s", max_value=3)',
        'i is 0, j is null: expect_column_pair_values_to_be_equal(column_A="i", column_B="j")',
    ]
    assert why[2] == [rule.name for rule in made[:4]]
