"""Numbers in JSON keep their digits, wherever they stand and whichever reader reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from support.oracle.decoding import judge, pipeline

from lakeingest.spark import jvm, session

COLUMNS = (
    "s STRING, d DOUBLE, st STRUCT<s: STRING, d: DOUBLE>, a ARRAY<STRING>, aa ARRAY<ARRAY<STRING>>, "
    "m MAP<STRING,STRING>, sa ARRAY<STRUCT<s: STRING, n: BIGINT>>, ms MAP<STRING,STRUCT<s: STRING, t: DATE>>, o STRING"
)
RECORD = (
    '{{"s":{0},"d":1.5,"st":{{"s":{0},"d":2.50,"new":{0}}},"a":[{0},"x",null],"aa":[[{0}],[]],"m":{{"k":{0},"1.10":"x"}},'
    '"sa":[{{"n":1,"s":{0}}},null],"ms":{{"k":{{"s":{0},"t":"2026-01-31"}},"l":null}},"o":{{"x":[{0}, "1.10"]}},'
    '"new":{0}}}'
)


@pytest.fixture(
    scope="module", autouse=True, params=[jvm.FUNCTIONS["json"], "none"], ids=["in one step", "by from_json"]
)
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """How JSON is read: with lakeingest's functions, and in a session that lacks them."""
    with session.setting(spark, {jvm.catalog("json"): request.param}):
        yield


def numbers(count: int, at: random.Random) -> list[str]:
    """As JSON may write them: of few digits and of many, with exponents and without."""

    def one() -> str:
        whole = at.choice(["0", str(at.randrange(1, 10)) + digits(at.choice([0, 1, 5, 18, 25]))])
        fraction = at.choice(["", "", "." + digits(at.choice([1, 2, 9, 20]))])
        exponent = at.choice(["", "", at.choice("eE") + at.choice(["", "+", "-"]) + str(at.randrange(400))])
        return at.choice(["", "-"]) + whole + fraction + exponent

    def digits(count: int) -> str:
        return "".join(at.choice("0123456789") for _ in range(count)) if count else ""

    return ["0", "-0", "1.10", "12345678901234567890.123456789", "1e400", "0.1e-400", *(one() for _ in range(count))]


@pytest.mark.slow
def test_a_number_is_the_text_that_was_written(spark: SparkSession) -> None:
    """In columns of text, at any depth, and in _rescued, no number goes through a double."""
    texts = numbers(300, random.Random(43))
    records = [(None, RECORD.format(text).encode()) for text in texts]
    for text, found in zip(texts, judge(spark, pipeline(COLUMNS), records), strict=True):
        assert found
        assert (text, found.reason) == (text, None)
        row = json.loads(found.columns or "")
        rescued = row.pop("_rescued")
        assert row == {
            **{"s": text, "d": 1.5, "st": {"s": text, "d": 2.5}, "a": [text, "x", None], "aa": [[text], []]},
            **{"m": {"k": text, "1.10": "x"}, "sa": [{"s": text, "n": 1}, None], "o": f'{{"x":[{text},"1.10"]}}'},
            "ms": {"k": {"s": text, "t": "2026-01-31"}, "l": None},
        }
        assert json.loads(rescued, parse_int=str, parse_float=str) == {
            "new": text,
            "st": {"s": text, "d": "2.50", "new": text},
        }


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least"), [("DOUBLE", "4.9e-324"), ("FLOAT", "1.4e-45")])
def test_a_number_that_is_none_does_not_become_0(spark: SparkSession, kind: str, least: str) -> None:
    """Where a column would have 0 in place of a smaller number, the record is refused; a rounded one is not."""
    texts = [least, "0.0", "0e-999", "-0.0e-50", *(f"{d}e-{e}" for e in (40, 46, 50, 325, 9999) for d in ("1", "0.01"))]
    nests = (
        f"d {kind}, a ARRAY<{kind}>, m MAP<STRING,STRUCT<d: {kind}>>",
        '{{"d":1,"a":[1,{0}],"m":{{"k":{{"d":{0}}}}}}}',
    )
    found = judge(spark, pipeline(nests[0]), [(None, nests[1].format(text).encode()) for text in texts])
    quoted = pipeline(f"d {kind}", value={"format": "json", "numbers_in_quotes": True})
    again = judge(spark, quoted, [(None, json.dumps({"d": text}).encode()) for text in texts])
    for text, one, other in zip(texts, found, again, strict=True):
        lost = Decimal(text) != 0 and abs(Decimal(text)) < Decimal(least) / 2
        assert one
        assert other
        assert (text, one.reason, other.reason) == (text, *(("WRONG_TYPE",) * 2 if lost else (None, None)))
