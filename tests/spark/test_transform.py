"""Expressions and steps on Spark: what fails for a record is told of it, and nothing stops the batch."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.errors import UsageError
from lakeingest.schema import ddl, transforms
from lakeingest.schema.expression import read
from lakeingest.schema.transforms import Mask, TransformStep
from lakeingest.spark import types

DDL = (
    "id INT, a INT, b STRING, c DOUBLE, n DECIMAL(10,2), d DATE, t TIMESTAMP, ok BOOLEAN, big BIGINT, "
    "s STRUCT<x: INT, y: STRING>, l ARRAY<INT>, m MAP<STRING, STRING>"
)
COLUMNS = ddl.parse(DDL)
ROWS = (
    "1, 0, '12', 0.0, 12.50, DATE'2024-02-29', TIMESTAMP'2024-02-29 23:59:59.999999', true, 0L, "
    "struct(1, 'y'), array(1, 2), map('k', 'v')",
    "2, 2147483647, 'x', 1.5, 99999999.99, DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00', false, "
    "9223372036854775807L, struct(null, null), array(), map()",
    "3, -2147483648, '', double('NaN'), -99999999.99, DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59', null, "
    "-9223372036854775808L, null, null, null",
    "4, null, null, null, null, null, null, null, null, null, null, null",
    "5, 7, ' 2024-01-01 ', double('Infinity'), 0.01, DATE'1970-01-01', TIMESTAMP'1970-01-01 00:00:00', true, "
    "1709251199999L, struct(7, 'it''s'), array(null, 5, 2147483647), map('k', null, 'other', 'x')",
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Any:
    made = spark.sql(" UNION ALL ".join(f"SELECT {row}" for row in ROWS)).toDF(*(column.name for column in COLUMNS))
    return made.select(*(F.col(f.name).cast(f.dataType).alias(f.name) for f in types.struct(DDL))).cache()


EXPRESSIONS = (
    "CAST(a + 1 AS BIGINT)",
    "CAST(a * a AS DOUBLE)",
    "CAST(a - 1 AS INT)",
    "CAST(c / a AS DOUBLE)",
    "CAST(a % 0 AS INT)",
    "CAST(n * n AS DECIMAL(38,4))",
    "CAST(n AS DECIMAL(4,2))",
    "CAST(b AS INT)",
    "CAST(trim(b) AS DATE)",
    "CAST(b AS BOOLEAN)",
    "CAST(c AS INT)",
    "CAST(big AS INT)",
    "CAST(t AS DATE)",
    "CAST(ok AS INT)",
    "CASE WHEN a <> 0 THEN CAST(c / a AS DOUBLE) ELSE 0.5 END > 0",
    "if(a = 0, 0, CAST(100 / a AS INT)) > 1",
    "coalesce(CAST(if(ok, b, '1') AS INT), 7) = 7",
    "ok OR CAST(b AS INT) = 12",
    "NOT ok AND CAST(b AS INT) = 12",
    "a BETWEEN 0 AND CAST(b AS INT)",
    "CAST(-a AS INT)",
    "CAST(abs(a) AS INT)",
    "CAST(abs(n) AS DECIMAL(10,2))",
    "CAST(floor(n) AS BIGINT)",
    "CAST(round(n, 1) AS DOUBLE)",
    "upper(b) || '_' || lower(s.y) || a",
    "concat_ws('-', b, s.y, ok, d)",
    "substring(b, 1, 1)",
    "split_part(b, '-', 2)",
    "lpad(b, 5, '0')",
    "b LIKE '1%' AND contains(b, '2')",
    "nullif(b, '')",
    "CAST(greatest(a, 5) AS INT)",
    "CAST(l[1] + 1 AS INT)",
    "m['k']",
    "CAST(year(d) * 100 + month(t) AS INT)",
    "date_trunc('hour', t)",
    "trunc(d, 'month')",
    "CAST(datediff(d, DATE'2024-01-01') AS INT)",
    "CAST(unix_millis(t) AS BIGINT)",
    "md5(b) = sha2(b, 256)",
    "to_json(s)",
    "(b IN ('12', 'it\\'s', \"q\\\\\")) IS NULL",
    "'\\n\\t\\\\d %_é' || b",
    "CAST(size(l) AS INT)",
    "left(b, big)",
    "right(b, c)",
    "substring(b, 1, n)",
    "sha2(b, big)",
    "CAST(CAST(c AS FLOAT) + CAST(n AS FLOAT) AS DOUBLE)",
)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ("array(struct('a' AS key, X'31' AS value))", "1"),
        ("array(struct('a' AS key, X'31' AS value), struct('b' AS key, X'32' AS value))", "1"),
        ("array(struct('a' AS key, X'31' AS value), struct('a' AS key, X'C3A9' AS value))", "é"),
        ("array(struct('a' AS key, X'FF' AS value))", None),
        ("array(struct('a' AS key, CAST(null AS BINARY) AS value))", None),
        ("array(struct('A' AS key, X'31' AS value))", None),
        ("CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)", None),
        ("CAST(null AS ARRAY<STRUCT<key: STRING, value: BINARY>>)", None),
    ],
)
def test_a_header_is_the_text_of_the_last_one(spark: SparkSession, headers: str, value: str | None) -> None:
    """None, and bytes that are no text, are null; nothing stops the batch, whatever spark.sql.ansi.enabled is."""
    found = read("header('a')", COLUMNS)
    told = spark.sql(f"SELECT {headers} AS _headers").select(F.expr(found.value), F.expr(found.failed))
    assert [tuple(row) for row in told.collect()] == [(value, False)]


@pytest.mark.slow
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_it_is_what_spark_makes_of_it(spark: SparkSession, rows: Any, text: str) -> None:
    """The same value where Spark has one, and failed where Spark stops the batch (elements of lists apart)."""
    found = read(text, COLUMNS)
    told = rows.select("id", F.expr(found.value).alias("v"), F.expr(found.failed).alias("failed"))
    failed = [row["id"] for row in told.where("failed").collect()]
    good = [row["id"] for row in told.where("NOT failed").collect()]
    assert sorted(failed + good) == [1, 2, 3, 4, 5]
    plain = text.replace("l[1]", "get(l, 1)").replace("m['k']", "try_element_at(m, 'k')")
    if found.type is not None:
        assert types.struct(f"v {found.type}")["v"].dataType == told.schema["v"].dataType
    wanted = rows.where(F.col("id").isin(good)).select("id", F.expr(plain).alias("v"))
    assert_df_equality(wanted, told.where("NOT failed").drop("failed"), ignore_nullable=True, allow_nan_equality=True)
    for each in failed:
        with pytest.raises(PySparkException):
            rows.where(f"id = {each}").select(F.expr(plain)).collect()


STRICTER = {
    "CAST(big AS TIMESTAMP)": {1: "1970-01-01 00:00:00", 4: None},
    "CAST('12345-01-01' AS DATE)": {},
    "CAST(floor(c) AS BIGINT)": {1: "0", 2: "1", 4: None},
    "timestamp_millis(big)": {1: "1970-01-01 00:00:00", 4: None, 5: "2024-02-29 23:59:59.999"},
    "CAST('+10000-01-01' AS TIMESTAMP)": {},
    **{
        f"CAST({text} AS TIMESTAMP)": {} for text in ("'12:30'", "' T12:30:00'", "'23:59 Europe/Berlin'", "'1:2-05:00'")
    },
    **{
        f"CAST('{text}' AS DECIMAL(20,2))": {}
        for text in ("1e-20000000", "1e-２００００００００", "1e2000000", "9" * 9000)
    },
    "CAST('\t-1.5e-0001 ' AS DECIMAL(20,2))": dict.fromkeys(range(1, 6), "-0.15"),
    "l[big]": {1: "1", 2: None, 3: None, 4: None, 5: None},
    "l[c]": {1: "1", 2: None, 3: None, 4: None, 5: None},
}
"""What Spark answers without stopping, and no reader, or no arithmetic, could make sense of (a time without its day),
or after minutes alone: an expression → its values where it has one."""


@pytest.mark.parametrize("text", STRICTER)
def test_it_is_stricter_than_spark(rows: Any, text: str) -> None:
    """Times outside of the years 1 to 9999, or of the day on which Spark runs; numbers far from 1; and what is none.

    A text of eleven characters held up its batch for a minute, an index beyond 32 bits stopped it.
    """
    found = read(text, COLUMNS)
    told = rows.select("id", F.expr(found.value).cast("string").alias("v"), F.expr(found.failed).alias("failed"))
    assert {row["id"]: row["v"] for row in told.where("NOT failed").collect()} == STRICTER[text]


def test_bytes_are_text_where_they_are_utf8(spark: SparkSession) -> None:
    """Others were written to a column of text, which no reader has to take."""
    found = read("CAST(b AS STRING)", ddl.parse("b BINARY"))
    told = spark.sql("SELECT explode(array(X'C3A4', X'FF', X'', null)) AS b")
    rows = told.select(F.expr(found.value), F.expr(found.failed)).collect()
    assert [tuple(row) for row in rows] == [("ä", False), (None, True), ("", False), (None, False)]


def test_json_has_times_to_the_microsecond(spark: SparkSession) -> None:
    """It had three digits of a second; a table has six."""
    found = read("to_json(l)", ddl.parse("l STRUCT<t: TIMESTAMP, n: TIMESTAMP_NTZ>"))
    time = "'2024-02-29 01:02:03.456789'"
    told = spark.sql(f"SELECT struct(TIMESTAMP{time} AS t, TIMESTAMP_NTZ{time} AS n) AS l").select(F.expr(found.value))
    text = '{"t":"2024-02-29T01:02:03.456789Z","n":"2024-02-29T01:02:03.456789"}'
    assert told.collect() == [(text,)]


def transformed(rows: Any, *steps: TransformStep) -> Any:
    """The frame behind these steps, with what was refused and left out."""
    stages = tuple(transforms.stages(steps, COLUMNS))
    return transform.frame(rows, stages, types.of_columns(stages[-1].after)), stages


def test_the_steps(spark: SparkSession, rows: Any) -> None:
    """Each sees what the one before it left; swapped names, fields of structs and a column computed anew."""
    made, stages = transformed(
        rows,
        TransformStep("rename", texts={"a": "b", "b": "a"}),
        TransformStep("drop", names=("s.y", "m", "l")),
        TransformStep("flatten", names=("s",)),
        TransformStep("cast", texts={"big": "STRING"}),
        TransformStep("derive", texts={"A": "coalesce(a, 'none')", "twice": "CAST(b AS BIGINT) * 2 = 14"}),
        TransformStep("keep", names=("id", "a", "b", "s_x", "big", "twice")),
    )
    wanted = [
        Row(id=1, b=0, a="12", big="0", s_x=1, twice=False),
        Row(id=2, b=2147483647, a="x", big="9223372036854775807", s_x=None, twice=False),
        Row(id=3, b=-2147483648, a="", big="-9223372036854775808", s_x=None, twice=False),
        Row(id=4, b=None, a="none", big=None, s_x=None, twice=None),
        Row(id=5, b=7, a=" 2024-01-01 ", big="1709251199999", s_x=7, twice=True),
    ]
    schema = "id INT, b INT, a STRING, big STRING, s_x INT, twice BOOLEAN"
    assert_df_equality(
        made.drop(transform.FAILED, transform.LEFT_OUT, transform.WHY),
        spark.createDataFrame(wanted, schema).select(*[f.name for f in types.of_columns(stages[-1].after)]),
        ignore_nullable=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        r"b LIKE '50\\%'",
        r"b LIKE '%\\\\'",
        "sha2(b, 7)",
        "trunc(d, 'x')",
        "date_trunc('x', t)",
        "get_json_object(b, 'x')",
    ],
)
def test_an_argument_that_makes_no_sense(rows: Any, text: str) -> None:
    """It is null, or failed, for each record; it stops no batch."""
    found = read(text, COLUMNS)
    assert rows.select(F.expr(found.value), F.expr(found.failed)).collect()


@pytest.mark.parametrize("text", ["m[5]", f"CAST({'9' * 40} AS INT)"])
def test_what_spark_itself_refuses(rows: Any, text: str) -> None:
    """In a sentence, before anything is consumed."""
    with pytest.raises(UsageError, match=r"transform\[0\]: Spark cannot do it: "):
        transformed(rows, TransformStep("derive", texts={"x": f"CAST({text} AS STRING)"}))


def test_masks(rows: Any) -> None:
    """Null stays null; what is as long as what would be kept shows nothing; fields of structs keep their neighbours."""
    made, _ = transformed(
        rows,
        TransformStep(
            "mask",
            masks={
                "b": Mask("last", kept_characters=2),
                "a": Mask("hash", "salt"),
                "d": Mask("null"),
                "S.y": Mask("constant", "-"),
                "s.x": Mask("hash", "salt"),
            },
        ),
    )
    found = {row["id"]: row for row in made.collect()}
    hashed = {n: hashlib.sha256(f"salt{n}".encode()).hexdigest() for n in (0, 1, 7)}
    assert [found[n]["b"] for n in range(1, 6)] == ["***", "***", "***", None, "***1 "]
    assert [found[n]["d"] for n in range(1, 6)] == [None] * 5
    assert (found[1]["a"], found[4]["a"], found[5]["a"]) == (hashed[0], None, hashed[7])
    assert [found[n]["s"] and tuple(found[n]["s"]) for n in range(1, 6)] == [
        (hashed[1], "-"),
        (None, None),
        None,
        None,
        (hashed[7], "-"),
    ]


def test_a_field_deep_within_is_masked(spark: SparkSession) -> None:
    frame = spark.sql("SELECT named_struct('b', named_struct('c', 'secret', 'd', 1)) AS a")
    (stage,) = transforms.stages(
        [TransformStep("mask", masks={"a.b.c": Mask("last", kept_characters=1)})], types.ddl_columns(frame.schema)
    )
    made = transform.frame(frame, [stage], types.of_columns(stage.after))
    assert made.select("a.b.*").collect() == [("***t", 1)]


def test_the_first_that_decides(rows: Any) -> None:
    """What an earlier condition leaves out is held against nothing later, and what failed is left out by nothing."""
    made, _ = transformed(
        rows,
        TransformStep("where", texts={"there": "a IS NOT NULL", "positive": "a >= 0"}),
        TransformStep("cast", texts={"b": "INT"}),
        TransformStep("where", texts={"small": "a < 5"}),
        TransformStep("derive", texts={"q": "CAST(10 / a AS DOUBLE)"}),
    )
    found = {row["id"]: (row[transform.FAILED], row[transform.LEFT_OUT]) for row in made.collect()}
    assert found == {1: (4, None), 2: (2, None), 3: (None, 1), 4: (None, 0), 5: (2, None)}


def test_why(rows: Any) -> None:
    """The step, the entry, and the columns that it asked; never their values, which a message would carry elsewhere."""
    made, stages = transformed(
        rows,
        TransformStep("where", texts={"all": "true"}),
        TransformStep("derive", texts={"q": "b || CAST(c / a AS DOUBLE)"}),
    )
    refusal = transform.refusal(stages)
    said = made.select("id", refusal.explanation.alias("why")).where("why IS NOT NULL").collect()
    assert [(row["id"], row["why"]["stage"], row["why"]["reason"], row["why"]["message"]) for row in said] == [
        (1, "transform", "NOT_COMPUTED", "transform[1].derive.q cannot be computed of a, b, c")
    ]
