"""What an expression gives for a value once its column is wider, on Spark: the same, unless `widths` differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeingest.schema import ddl
from lakeingest.schema.expression import read
from lakeingest.schema.expression_parts import Expression, ExpressionError
from lakeingest.schema.functions import TIME

DDL = (
    "k SMALLINT, i INT, f FLOAT, n DECIMAL(10,2), z DECIMAL(38,0), d DATE, l ARRAY<INT>, st STRUCT<a: INT, b: FLOAT>, "
    "m MAP<INT, STRING>, big BIGINT, c DOUBLE, y DECIMAL(20,8), g FLOAT, s STRING, t TIMESTAMP, e DATE, v TIMESTAMP_NTZ"
)
WIDER = {
    "k": ("int", "double"),
    "i": ("bigint", "double"),
    "f": ("double",),
    "n": ("decimal(12,2)", "decimal(38,12)"),
    "d": ("timestamp_ntz",),
    "l": ("array<bigint>", "array<double>"),
    "st": ("struct<a:bigint,b:double>", "struct<a:double,b:float>"),
    "m": ("map<bigint,string>",),
}
NUMBERS = """
    {x} ; -{x} ; abs({x}) ; sign({x}) ; floor({x}) ; ceil({x}) ; round({x}) ; round({x}, 1) ; {x} + 1 ; {x} * {x}
    {x} - k ; {x} * big ; {x} + c ; {x} + g ; {x} * n ; {x} - y ; {x} / 3 ; 7 / {x} ; {x} / c ; {x} / big ; {x} / y
    {x} % 7 ; {x} % big ; {x} % c ; {x} % y ; {x} * 1.5 ; {x} + 1e0 ; {x} > 5 ; {x} = 0.1 ; {x} <> 16777217 ; {x} >= i
    {x} < big ; {x} <=> c ; {x} = g ; {x} <= n ; {x} > y ; {x} > 1e9 ; {x} IS NULL ; {x} BETWEEN big AND c
    {x} BETWEEN -1 AND 0.5 ; {x} IN (1, 2.5) ; {x} IN (big, c) ; {x} IN (i, 100) ; nullif({x}, 1) ; nullif({x}, c)
    nullif(big, {x}) ; coalesce({x}, 0) ; coalesce({x}, 0.1) ; coalesce(CAST(NULL AS INT), {x}, big)
    coalesce(nullif(big, big), {x}, c) ; greatest({x}, big) ; greatest({x}, big, c) ; least({x}, g) ; least({x}, y, i)
    if(i > 0, {x}, big) ; if(i > 0, {x}, c) ; if(i > 0, big, {x}) ; CASE {x} WHEN 1 THEN 'a' WHEN big THEN 'b' END
    CASE {x} WHEN 0.1 THEN 'a' WHEN c THEN 'b' ELSE 'c' END ; CASE WHEN {x} > 0 THEN {x} ELSE 1 END
    CASE i WHEN 1 THEN {x} ELSE big END ; CAST({x} AS STRING) ; CAST({x} AS SMALLINT) ; CAST({x} AS INT)
    CAST({x} AS BIGINT) ; CAST({x} AS FLOAT) ; CAST({x} AS DOUBLE) ; CAST({x} AS DECIMAL(5,1))
    CAST({x} AS DECIMAL(38,10)) ; CAST({x} AS BOOLEAN) ; CAST({x} AS TIMESTAMP) ; timestamp_seconds({x})
    timestamp_millis({x}) ; concat(s, {x}) ; s || {x} ; concat_ws('-', {x}, s) ; xxhash64({x}) ; to_json(st)
    substring(s, {x}, 2) ; left(s, {x}) ; l[{x}] ; CAST({x} AS BIGINT) * {x} ; {x} + CAST(1 AS BIGINT)
    floor({x} / 2) ; CAST({x} / 7 AS STRING) ; CAST({x} % 7 AS STRING) ; CAST(round({x}) AS STRING) ; ({x} + big) % 3
    CAST(CAST({x} AS INT) * {x} AS BIGINT) ; CAST({x} * 2 AS BIGINT) > big ; {x} * 0 ; {x} + {x} > 0 ; z + {x} ; z * {x}
"""
DATES = """
    {x} ; CAST({x} AS STRING) ; CAST({x} AS DATE) ; CAST({x} AS TIMESTAMP) ; CAST({x} AS TIMESTAMP_NTZ) ; year({x})
    quarter({x}) ; month({x}) ; day({x}) ; dayofweek({x}) ; dayofyear({x}) ; weekofyear({x}) ; datediff({x}, e)
    datediff(e, {x}) ; datediff({x}, {x}) ; trunc({x}, 'month') ; {x} IS NOT NULL ; {x} = {x} ; concat(s, {x})
    s || {x} ; xxhash64({x}) ; hour(CAST({x} AS TIMESTAMP)) ; CAST({x} AS DATE) > e ; coalesce({x}, CAST(NULL AS DATE))
    CAST(CAST({x} AS TIMESTAMP) AS BIGINT) ; CAST({x} AS TIMESTAMP_NTZ) > v ; nullif({x}, e) ; greatest({x}, {x})
"""
PARTS = {
    "l": "l[0] ; size(l) ; to_json(l) ; l[0] + 1 ; CAST(l[0] AS STRING) ; l[1] > 3 ; l = l ; coalesce(l, l)",
    "st": "st.a ; st.b ; st.a * 2 ; to_json(st) ; st = st ; st.a > st.b ; CAST(st.b AS STRING) ; st IS NULL",
    "m": "m[1] ; m[i] ; m[CAST(1 AS BIGINT)] ; size(m) ; to_json(m) ; m[big]",
}
VALUES: dict[str, Sequence[Any]] = {
    "k": [0, 1, -7, 32767, -32768, 5],
    "i": [0, 1, -7, 2**31 - 1, -(2**31), 16777217],
    "f": [0.1, -0.0, math.nan, math.inf, 16777216.0, -2.5],
    "n": ["0.00", "-7.25", "99999999.99", "0.05", "1.00", "-99999999.95"],
    "z": ["0", "9" * 38, "1", "-" + "9" * 38, "7", "-3"],
    "d": [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1582, 10, 10), date(1, 1, 2)],
    "big": [9007199254740993, 0, 2**63 - 1, 1, -(2**31), 16777217],
    "c": [0.1, 9007199254740992.0, -7.0, 1.0, -(2.0**31), 1e300],
    "y": ["0.10000000", "-0.00000001", "999999999999.99999999", "7.25", "1", "-2.5"],
    "g": [0.1, 1.5, 16777216.0, -7.0, 0.0, 1e30],
    "s": ["abc", "", "5", "x", "ß", "-"],
}  # fmt: skip
BEFORE = ddl.parse(DDL)


def rows() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number in range(36):
        turn, at = divmod(number, 6)
        row = {name: each[(at + turn * place) % 6] for place, (name, each) in enumerate(VALUES.items())}
        row |= {name: Decimal(row[name]) for name in ("n", "z", "y")}
        made.append({**row, "e": date(2000, 1, 1), "l": [row["i"], None, 3], "st": {"a": row["i"], "b": row["f"]}})
        made[-1]["m"] = {row["i"]: row["s"]}
    return [*made, {}]


def understood(text: str, columns: Sequence[ddl.Column]) -> Expression | None:
    try:
        return read(text, tuple(columns))
    except ExpressionError:
        return None


def texts(column: str) -> list[str]:
    written = PARTS.get(column, DATES if column == "d" else NUMBERS)
    found = (" ".join(text.split()) for line in written.splitlines() for text in line.split(";"))
    return [text.format(x=column) for text in found if text]


def plain(value: Any) -> Any:
    """A value that is equal to another one if no column, of whatever width, shows a difference."""
    match value:
        case datetime():
            return (value, value.time())
        case date():
            return (datetime(value.year, value.month, value.day), time())
        case float():
            return str(value) if math.isnan(value) or str(value) == "-0.0" else value
        case list() | tuple():
            return [plain(each) for each in value]
    return value


def results(frame: DataFrame, expressions: Sequence[Expression]) -> list[list[Any]]:
    """For each expression whether it failed, and its value, of each row."""
    values = [F.expr(each.value) for each in expressions]
    # A collected time would be one of the machine's zone.
    shown = [F.unix_micros(v) if e.kind == TIME else v for v, e in zip(values, expressions, strict=True)]
    both = [F.expr(e.failed).alias(f"f{n}") for n, e in enumerate(expressions)]
    made = frame.select(*both, *(value.alias(f"v{n}") for n, value in enumerate(shown))).collect()
    return [[(row[f"f{n}"], plain(row[f"v{n}"])) for row in made] for n in range(len(expressions))]


def test_what_does_not_depend_on_widths_stays_the_same(spark: SparkSession) -> None:
    """Once a batch had widened a column, a step gave other results for records of before."""
    given = [{**dict.fromkeys(column.name for column in BEFORE), **row} for row in rows()]
    frame = spark.createDataFrame(given, DDL).coalesce(1).cache()
    wrong = []
    for column, types in WIDER.items():
        read_before = {text: found for text in texts(column) if (found := understood(text, BEFORE))}
        before = dict(zip(read_before, results(frame, [*read_before.values()]), strict=True))
        for type_ in types:
            after = [*(each for each in BEFORE if each.name != column), *ddl.parse(f"{column} {type_}")]
            stays = {
                text: found
                for text, was in read_before.items()
                if (found := understood(text, after)) and found.widths == was.widths
            }
            assert len(stays) > len(read_before) // 4
            wide = frame.withColumn(column, F.col(column).cast(type_))
            for text, found in zip(stays, results(wide, [*stays.values()]), strict=True):
                wrong += [f"{text}, {type_}: {a}, {b}" for a, b in zip(before[text], found, strict=True) if a != b][:1]
    frame.unpersist()
    assert not wrong, "\n".join(wrong)
