"""How text in JSON is read, as the pipeline file says: both readers, and the diagnosis in Python, are one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.oracle.decoding import Verdict, judge, kafka, pipeline

from lakeingest.config import JsonValue
from lakeingest.decode import inferred, json_columns, json_diagnosis
from lakeingest.decode import json as json_decode
from lakeingest.spark import jvm, session, types

NUMBERS = "i INT, big BIGINT, sm SMALLINT, fl FLOAT, dbl DOUBLE, dec DECIMAL(10,2), arr ARRAY<BIGINT>"
DECIMALS = "dec DECIMAL(10,2), whole DECIMAL(3,0), wide DECIMAL(38,2), m MAP<STRING,DECIMAL(4,1)>"
TIMES = "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, st STRUCT<d: DATE, x: DOUBLE>"
COLUMNS = f"{NUMBERS}, {DECIMALS.partition(', ')[2]}, {TIMES}"
ROUND = {"decimals": "round"}
QUOTED = {"numbers_in_quotes": True}
FORMATS = {
    "date_format": ["dd.MM.yyyy", "M/d/yy", "iso"],
    "timestamp_format": ["yyyy-MM-dd HH:mm:ss.SSS", "dd.MM.yyyy HH:mm:ssXXX", "MMM d yyyy h:mm a"],
}
NEW_YORK = {"timezone": "America/New_York"}


def read(spark: SparkSession, texts: Sequence[str], columns: str, **options: Any) -> list[Verdict | None]:
    """The verdicts, on which both readers agree."""
    config = pipeline(columns, value={"format": "json", **options})
    found = []
    for way in (jvm.FUNCTIONS["json"], "none"):
        with session.setting(spark, {jvm.catalog("json"): way}):
            found.append(judge(spark, config, [(None, text.encode()) for text in texts]))
    assert found[0] == found[1]
    return found[0]


ROUNDED = {
    '{"dec":907.152}': '{"dec":907.15}',
    '{"dec":0.125}': '{"dec":0.13}',
    '{"dec":-0.125}': '{"dec":-0.13}',
    '{"dec":"12.345"}': '{"dec":12.35}',
    # Once, and not by way of 38 digits.
    '{"dec":0.00' + "4" + "9" * 60 + "}": '{"dec":0.00}',
    '{"whole":0.4' + "9" * 50 + "}": '{"whole":0}',
    '{"dec":1e-50}': '{"dec":0.00}',
    '{"wide":12.345}': '{"wide":12.35}',
    '{"m":{"a":1.25,"b":"0.05"}}': '{"m":{"a":1.3,"b":0.1}}',
    '{"dec":99999999.994}': '{"dec":99999999.99}',
    '{"dec":99999999.995}': "dec = 99999999.995 is no DECIMAL(10,2)",
    '{"dec":123456789.1}': "dec = 123456789.1 is no DECIMAL(10,2)",
    '{"whole":999.5}': "whole = 999.5 is no DECIMAL(3,0)",
    '{"dec":"1,5"}': 'dec = "1,5" is no DECIMAL(10,2)',
    '{"m":{"a":999.95}}': "m.a = 999.95 is no DECIMAL(4,1)",
}
IN_QUOTES = {
    '{"i":"42","big":"-9223372036854775808","sm":"+7"}': '{"i":42,"big":-9223372036854775808,"sm":7}',
    '{"i":"007","i":8}': '{"i":8}',
    '{"dbl":"12.5","fl":"1e-3","dec":"1.5"}': '{"fl":0.001,"dbl":12.5,"dec":1.50}',
    '{"dbl":".5","fl":1}': '{"fl":1.0,"dbl":0.5}',
    '{"i":42,"big":9007199254740993,"dbl":0.1}': '{"i":42,"big":9007199254740993,"dbl":0.1}',
    '{"arr":["1",2,null]}': '{"arr":[1,2,null]}',
    '{"i":"12.0"}': 'i = "12.0" is no INT',
    '{"i":12.0}': "i = 12.0 is no INT",
    '{"i":""}': 'i = "" is no INT',
    '{"i":" 5"}': 'i = " 5" is no INT',
    '{"i":"2147483648"}': 'i = "2147483648" is no INT',
    '{"i":true}': "i = true is no INT",
    '{"i":[1]}': "i = [1] is no INT",
    '{"dbl":"NaN"}': 'dbl = "NaN" is no DOUBLE',
    '{"dbl":"1e400"}': 'dbl = "1e400" is no DOUBLE',
    '{"dbl":"1d"}': 'dbl = "1d" is no DOUBLE',
    '{"fl":"1e39"}': 'fl = "1e39" is no FLOAT',
    '{"arr":["x"]}': 'arr[0] = "x" is no BIGINT',
}
WRITTEN = {
    '{"d":"31.01.2024"}': '{"d":"2024-01-31"}',
    '{"d":"1/5/24"}': '{"d":"2024-01-05"}',
    '{"d":"2024-01-31","st":{"d":"29.02.2024"}}': '{"d":"2024-01-31","st":{"d":"2024-02-29"}}',
    '{"t":"2024-01-31 10:00:00.5"}': '{"t":"2024-01-31T15:00:00.500000Z"}',
    '{"t":"31.01.2024 10:00:00+02:00"}': '{"t":"2024-01-31T08:00:00.000000Z"}',
    '{"t":"jan 5 2024 12:07 AM","n":"Jan 5 2024 12:07 pm"}': (
        '{"t":"2024-01-05T05:07:00.000000Z","n":"2024-01-05T12:07:00"}'
    ),
    '{"n":"Dec 31 2024 1:07 PM"}': '{"n":"2024-12-31T13:07:00"}',
    '{"d":"31.02.2024"}': 'd = "31.02.2024" is no DATE as dd.MM.yyyy or M/d/yy or iso',
    '{"d":"1.1.2024"}': 'd = "1.1.2024" is no DATE',
    '{"d":"31.01.2024\\n"}': "is no DATE",
    '{"d":"31.01.0000"}': "is no DATE",
    '{"t":"2024-01-31T10:00:00Z"}': 't = "2024-01-31T10:00:00Z" is no TIMESTAMP as yyyy-MM-dd HH:mm:ss.SSS or dd.MM.',
    '{"t":1427961600000}': "t = 1427961600000 is no TIMESTAMP",
    '{"t":"2024-01-31 24:00:00.0"}': "is no TIMESTAMP",
    '{"t":"Jan 5 2024 13:07 PM"}': "is no TIMESTAMP",
    '{"t":"Jan 5 2024 0:07 AM"}': "is no TIMESTAMP",
    '{"n":"31.01.2024 10:00:00+02:00"}': "is no TIMESTAMP_NTZ",
}

_BAD = "since 1970 outside of the years 1 to 9999"
SECONDS = {
    '{"t":1690000000}': '{"t":"2023-07-22T04:26:40.000000Z"}',
    '{"t":"1690000000"}': '{"t":"2023-07-22T04:26:40.000000Z"}',
    '{"t":1690000000.123456789}': '{"t":"2023-07-22T04:26:40.123456Z"}',
    '{"t":-1.5}': '{"t":"1969-12-31T23:59:58.500000Z"}',
    '{"t":-62135596800}': '{"t":"0001-01-01T00:00:00.000000Z"}',
    '{"t":253402300799.999999}': '{"t":"9999-12-31T23:59:59.999999Z"}',
    '{"t":"2023-07-22T04:26:40Z"}': '{"t":"2023-07-22T04:26:40.000000Z"}',
    '{"t":253402300800}': f"t = 253402300800 is no TIMESTAMP: seconds {_BAD}",
    '{"t":1690000000000}': f"is no TIMESTAMP: seconds {_BAD}",
    '{"t":1.69e9}': "is no TIMESTAMP",
    '{"t":1690000000.1234567891}': "is no TIMESTAMP",
    '{"n":1690000000}': "n = 1690000000 is no TIMESTAMP_NTZ",
}
MILLIS = {
    '{"t":1690000000123}': '{"t":"2023-07-22T04:26:40.123000Z"}',
    '{"t":1690000000123456}': f"is no TIMESTAMP: milliseconds {_BAD}",
    '{"t":1690000000.5}': "t = 1690000000.5 is no TIMESTAMP",
}
MICROS = {
    '{"t":1690000000123456}': '{"t":"2023-07-22T04:26:40.123456Z"}',
    '{"t":-1}': '{"t":"1969-12-31T23:59:59.999999Z"}',
    '{"t":253402300799999999}': '{"t":"9999-12-31T23:59:59.999999Z"}',
    '{"t":253402300800000000}': f"is no TIMESTAMP: microseconds {_BAD}",
    '{"t":9999999999999999999}': f"is no TIMESTAMP: microseconds {_BAD}",
}
NANOS = {
    '{"t":1690000000123456789}': '{"t":"2023-07-22T04:26:40.123456Z"}',
    '{"t":9223372036854775807}': '{"t":"2262-04-11T23:47:16.854775Z"}',
    '{"t":99999999999999999999}': "is no TIMESTAMP",
}
ISO_TIMES = {
    '{"t":"2024-01-31T10:00Z"}': '{"t":"2024-01-31T10:00:00.000000Z"}',
    '{"t":"2024-01-31 10:00+0530"}': '{"t":"2024-01-31T04:30:00.000000Z"}',
    '{"t":"2024-01-31T10:00:00-18:00"}': '{"t":"2024-02-01T04:00:00.000000Z"}',
    '{"t":"2024-01-31"}': '{"t":"2024-01-31T05:00:00.000000Z"}',
    '{"t":"2024-07-31T10:00:00"}': '{"t":"2024-07-31T14:00:00.000000Z"}',
    '{"t":"2024-01-31T10:00:00.1234567Z","n":"2024-01-31T10:00:00.999999999"}': (
        '{"t":"2024-01-31T10:00:00.123456Z","n":"2024-01-31T10:00:00"}'
    ),
    '{"t":"2024-01-31T10:00:00.1234567891Z"}': "is no TIMESTAMP",
    '{"t":"2024-01-31T24:00:00Z"}': "is no TIMESTAMP",
    '{"t":"2016-12-31T23:59:60Z"}': "is no TIMESTAMP",
    '{"t":"2024-01-31T10:00:00 Europe/Berlin"}': "is no TIMESTAMP",
    '{"t":"2024-01-31T10:00:00EST"}': "is no TIMESTAMP",
    '{"t":"2024-01-31T10:00:00z"}': "is no TIMESTAMP",
    '{"t":"2024-01-31T10:00:00.Z"}': "is no TIMESTAMP",
    '{"n":"2024-01-31T24:00:00"}': "is no TIMESTAMP_NTZ",
    '{"n":"2016-12-31T23:59:60"}': "is no TIMESTAMP_NTZ",
    '{"n":"2024-01-31T10:00:00+01:00"}': "is no TIMESTAMP_NTZ",
}
UNITS = {"seconds": SECONDS, "millis": MILLIS, "micros": MICROS, "nanos": NANOS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "columns", "cases"),
    [
        (ROUND, DECIMALS, ROUNDED),
        (QUOTED, NUMBERS, IN_QUOTES),
        (FORMATS | NEW_YORK, TIMES, WRITTEN),
        (NEW_YORK, TIMES, ISO_TIMES),
        *(({"epoch": unit}, TIMES, cases) for unit, cases in UNITS.items()),
    ],
    ids=["round", "quotes", "formats", "iso", *UNITS],
)
def test_text_is_read_as_the_file_says(
    spark: SparkSession, options: dict[str, Any], columns: str, cases: dict[str, str]
) -> None:
    """A value is taken, or refused with a message that names it and what it might have been."""
    for (text, expected), found in zip(cases.items(), read(spark, list(cases), columns, **options), strict=True):
        assert found
        if expected.startswith("{"):
            assert (text, found.columns) == (text, expected)
        else:
            assert (text, found.reason) == (text, "WRONG_TYPE")
            assert expected in found.message


VALUES = (
    *("12", "-0", "007", "1.5", "0.05", "1.005", "1e2", "1E+2", "1.0e-2", "1e-50", "0e-99", "0.0", "99999999.995"),
    *("2147483648", "9223372036854775808", "-32769", "1e400", "1e-400", "1e10000", "1" * 45, "0." + "1" * 45),
    *(
        "+5",
        "1.",
        ".5",
        "-.5",
        "1,5",
        " 5",
        "5 ",
        "",
        "-",
        "0x1",
        "1_0",
        "NaN",
        "Infinity",
        "true",
        "null",
        "[1]",
        "{}",
    ),
    *("1e-99999", "0" * 1000, "1" * 1001, "1d", "1e", "1e+", "e5", "20240131", "1706659200000", "99999999999999999999"),
    *("2024-01-31", "2024-1-31", "31.01.2024", "31.1.2024", "1/31/24", "13/1/24", "2024-01-31 10:00:00.123", "a\\nb"),
    *("2024-01-31 10:00:00.1234", "31.01.2024 10:00:00Z", "31.01.2024 10:00:00+19:00", "Feb 30 2024 1:00 AM"),
    *("FEB 3 2024 1:00 am", "0001-01-01 00:00:00.0", "9999-12-31 23:59:59.999", "31.12.9999 23:59:59-18:00"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param(ROUND | QUOTED | FORMATS, marks=pytest.mark.faults)],
    ids=["by default", "with every option"],
)
def test_the_diagnosis_finds_a_fault_where_the_reader_does(spark: SparkSession, options: dict[str, Any]) -> None:
    """Whatever stands in whatever column, with quotes and without, Spark and Python come to one verdict."""
    schema = types.struct(COLUMNS)
    inner = {"arr": "[{}]", "m": '{{"k":{}}}', "st": '{{"x":{}}}'}
    each = [(name, text) for name in schema.names for value in VALUES for text in (value, json.dumps(value))]
    texts = [f'{{"{name}":{inner.get(name, "{}").format(text)}}}' for name, text in each]
    rules = json_decode.texts_of(JsonValue(format="json", **options))
    for text, found in zip(texts, read(spark, texts, COLUMNS, **options), strict=True):
        reason, _ = json_diagnosis.diagnose(text.encode(), schema.jsonValue(), rules)
        assert found
        assert (text, found.reason) == (text, None if reason == "UNREADABLE" else reason)


PATTERNS = (
    *("yyyy-MM-dd HH:mm:ss.SSS", "dd.MM.yyyy", "MM/dd/yyyy", "M/d/yy H:m:s", "yyyyMMddHHmmss", "dd-MMM-yyyy hh:mm a"),
    *("d MMMM yyyy HH:mm", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "yyyy-MM-dd'at 'HH:mm:ssxx", "yyyy/MM/dd HH:mm:ss Z"),
)


def disturbed(text: str, at: random.Random) -> str:
    """With one sign changed, dropped or doubled, or as it is."""
    place = at.randrange(len(text))
    instead = at.choice([text[place], "", text[place] * 2, at.choice("0139 -:.ZJ+")])
    return text[:place] + instead + text[place + 1 :]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_it_means_to_spark(spark: SparkSession, pattern: str) -> None:
    """What Spark writes in a pattern is read again, and what is no such text to Spark is none here."""
    at = random.Random(pattern)
    moments = [datetime.fromtimestamp(at.randrange(946_684_800, 4_102_444_800), UTC) for _ in range(300)]
    rules = json_decode.texts_of(JsonValue(format="json", timestamp_format=pattern))
    frame = spark.createDataFrame([(m,) for m in moments], "t TIMESTAMP").select(F.date_format("t", pattern).alias("w"))
    written = [row.w for row in frame.collect()]
    texts = spark.createDataFrame([(w,) for w in written + [disturbed(w, at) for w in written]], "w STRING")
    # Spark knows years before Christ.
    theirs = F.when(F.try_to_timestamp("w", F.lit(pattern)) > "0001", F.try_to_timestamp("w", F.lit(pattern)))
    both = texts.select(
        "w", json_columns.fit(F.col("w"), T.TimestampType(), rules).value.alias("ours"), theirs.alias("theirs")
    )
    with session.setting(spark, {"spark.sql.legacy.timeParserPolicy": "CORRECTED"}):
        rows = both.collect()
    assert all(row.ours is not None for row in rows[:300])
    assert [(row.w, row.ours) for row in rows] == [(row.w, row.theirs) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ansi", "policy"), [pytest.param("true", "LEGACY", marks=pytest.mark.faults), ("false", "EXCEPTION")]
)
def test_no_setting_of_the_session_changes_what_is_read(spark: SparkSession, ansi: str, policy: str) -> None:
    """Neither ANSI nor the older parser of Spark has a say, and no text makes anything throw."""
    cases = list(WRITTEN.items())[-10:]
    with session.setting(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.legacy.timeParserPolicy": policy}):
        found = read(spark, [text for text, _ in cases], TIMES, **FORMATS)
    assert all(v and v.reason == "WRONG_TYPE" and said in v.message for v, (_, said) in zip(found, cases, strict=True))


def test_a_key_is_read_as_its_own_options_say(spark: SparkSession) -> None:
    """The options of the key hold for the key, and those of the value for the value."""
    key = {"format": "json", "columns": "id BIGINT, d DATE", "numbers_in_quotes": True, "date_format": "dd.MM.yyyy"}
    config = pipeline("id BIGINT", key=key)
    (found, refused) = judge(spark, config, [(b'{"id":"7","d":"31.01.2024"}', b"{}"), (None, b'{"id":"7"}')])
    assert found == Verdict('{"_key":{"id":7,"d":"2024-01-31"}}')
    assert refused
    assert refused.message == 'id = "7" is no BIGINT'


def test_a_field_is_observed_in_a_record_that_the_options_let_in(spark: SparkSession) -> None:
    """Who looks for new fields reads records as the pipeline file says: else no table could follow them."""
    config = pipeline("n INT", value={"format": "json", **QUOTED})
    found = inferred.fields(kafka(spark, [(None, b'{"n":"7","new":1}')]), config, types.struct("n INT"))
    assert list(found.fields) == ["new"]
