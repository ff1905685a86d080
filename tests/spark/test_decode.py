"""Bytes become columns or a refusal that says why; Spark's verdict and the Python diagnosis are one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Observation, SparkSession
from support.oracle.decoding import NOW, Verdict, batch_of, judge, kafka, pipeline

from lakeingest.config.formats import JsonValue
from lakeingest.delta import quarantine
from lakeingest.ingest.batch_plan import observed
from lakeingest.spark import jvm, session

ACCEPTED = [
    ('{" undeclared":"x","flight":1}', '{"flight":1,"_rescued":"{\\" undeclared\\":\\"x\\"}"}'),
    ('{"flight":1}', '{"flight":1}'),
    ('  {"flight" :\t1 }\r\n', '{"flight":1}'),
    ("{}", "{}"),
    ('{"flight":-0}', '{"flight":0}'),
    ('{"flight":2147483647,"big":-9223372036854775808,"sm":-32768}', None),
    ('{"flight":null}', "{}"),
    ('{"b":null,"carrier":null,"st":null,"arr":null,"m":null,"t":null}', "{}"),
    ('{"flight":1,"flight":2}', '{"flight":2}'),
    ('{"carrier":5}', '{"carrier":"5"}'),
    ('{"dbl":0e-400,"fl":0.0e-50}', '{"dbl":0.0,"fl":0.0}'),
    ('{"carrier":{"x":1}}', r'{"carrier":"{\"x\":1}"}'),
    (r'{"carrier":"\ud83d\uDE00\\ud800"}', '{"carrier":"\U0001f600\\\\ud800"}'),
    (r'{"carrier":"\u0041\n"}', r'{"carrier":"A\n"}'),
    ('{"carrier":"2026-13-01 }],[{"}', '{"carrier":"2026-13-01 }],[{"}'),
    ('{"d":"2024-02-29"}', '{"d":"2024-02-29"}'),
    ('{"t":"2013-01-01T10:00:00Z"}', '{"t":"2013-01-01T10:00:00.000000Z"}'),
    ('{"t":"2013-01-01T10:00:00.123456789Z"}', '{"t":"2013-01-01T10:00:00.123456Z"}'),
    ('{"t":"2013-01-01T10:00:00+02:00"}', '{"t":"2013-01-01T08:00:00.000000Z"}'),
    ('{"t":"2013-01-01T10:00:00+0200"}', '{"t":"2013-01-01T08:00:00.000000Z"}'),
    ('{"t":"2013-01-01T10:00Z"}', '{"t":"2013-01-01T10:00:00.000000Z"}'),
    ('{"t":"2013-01-01 10:00:00"}', '{"t":"2013-01-01T10:00:00.000000Z"}'),
    ('{"t":"2013-01-01"}', '{"t":"2013-01-01T00:00:00.000000Z"}'),
    ('{"t":1427961600000}', '{"t":"2015-04-02T08:00:00.000000Z"}'),
    ('{"t":-1}', '{"t":"1969-12-31T23:59:59.999000Z"}'),
    ('{"t":"2013"}', '{"t":"1970-01-01T00:00:02.013000Z"}'),
    ('{"ntz":"2013-01-01T10:00:00"}', '{"ntz":"2013-01-01T10:00:00"}'),
    ('{"dec":"1.5"}', '{"dec":1.50}'),
    ('{"dec":12.340}', '{"dec":12.34}'),
    ('{"dec":1e2}', '{"dec":100.00}'),
    ('{"big_dec":1234567890123456789.1234567890123456789}', '{"big_dec":1234567890123456789.1234567890123456789}'),
    ('{"dec":-99999999.99}', '{"dec":-99999999.99}'),
    ('{"dbl":1}', '{"dbl":1.0}'),
    ('{"dbl":1.7976931348623157e308}', '{"dbl":1.7976931348623157E308}'),
    ('{"fl":0.1}', '{"fl":0.1}'),
    ('{"bin":"aGk="}', '{"bin":"aGk="}'),
    ('{"st":{"b":"2020-02-02"}}', '{"st":{"b":"2020-02-02"}}'),
    ('{"ard":["2020-01-01",null]}', '{"ard":["2020-01-01",null]}'),
    ('{"arr":[],"m":{}}', '{"arr":[],"m":{}}'),
    ('{"m":{"a":null,"b":2}}', '{"m":{"a":null,"b":2}}'),
    ('{"ms":{"k":{"y":1.5}}}', '{"ms":{"k":{"y":1.5}}}'),
    ('{"sts":[{"x":1},null]}', '{"sts":[{"x":1},null]}'),
    # An exponent within a text is no number's.
    ('{"carrier":"1e30000000"}', '{"carrier":"1e30000000"}'),
    (r'{"carrier":"\"1e30000000"}', r'{"carrier":"\"1e30000000"}'),
    ('{"dbl":1e308,"fl":1e-40}', '{"dbl":1.0E308,"fl":1.0E-40}'),
    ('{"dec":1e0000002}', '{"dec":100.00}'),
    ('{"dec":"1E+0000002"}', '{"dec":100.00}'),
    # Zeros at the end are no places.
    ('{"dec":1.5' + "0" * 60 + "}", '{"dec":1.50}'),
    ('{"dec":12' + "0" * 50 + 'e-50,"big_dec":"0e-99"}', '{"dec":12.00,"big_dec":0E-19}'),
    (
        '{"dec":"-0.' + "0" * 60 + '","dbl":1e-50,"carrier":"a, 1e-50"}',
        '{"carrier":"a, 1e-50","dec":0.00,"dbl":1.0E-50}',
    ),
    ('{"dec":"12","arr":[1,2],"carrier":"1,2"}', '{"carrier":"1,2","dec":12.00,"arr":[1,2]}'),
    (r'{"dec":"1\u0032"}', '{"dec":12.00}'),
    # Of a field or a key that stands twice the last one holds.
    ('{"m":{"a":1,"b":2,"a":3}}', '{"m":{"b":2,"a":3}}'),
    ('{"m":{"a":1,"\\u0061":2},"carrier":1.0}', '{"carrier":"1.0","m":{"a":2}}'),
    ('{"ms":{"k":{"y":1.5},"k":null,"l":{}},"st":{"a":1,"a":2}}', '{"st":{"a":2},"ms":{"k":null,"l":{}}}'),
    # A number in a column of text, and in what is not declared, is the text that was written.
    ('{"carrier":1.10}', '{"carrier":"1.10"}'),
    ('{"carrier":12345678901234567890.123456789}', '{"carrier":"12345678901234567890.123456789"}'),
    ('{"carrier":-0,"flight":-0}', '{"flight":0,"carrier":"-0"}'),
    ('{"carrier": 1E+05 ,"dbl":1E+05}', '{"carrier":"1E+05","dbl":100000.0}'),
    ('{"carrier":1e400}', '{"carrier":"1e400"}'),
    (
        '{"carrier":{"x": [1.10, "1.10",-0,true,null,"\\u00e9\\n\\"\U0001f6eb"]}}',
        '{"carrier":"{\\"x\\":[1.10,\\"1.10\\",-0,true,null,\\"\u00e9\\\\n\\\\\\"\\\\uD83D\\\\uDEEB\\"]}"}',
    ),
    ('{"carrier":[1.50,[]]}', '{"carrier":"[1.50,[]]"}'),
    ('{"carrier":"1.10","dbl":1.10}', '{"carrier":"1.10","dbl":1.1}'),
    ('{"new":1.10}', r'{"_rescued":"{\"new\":1.10}"}'),
    (
        '{"new":{"x":[1e5,-0,12345678901234567890.10]}}',
        r'{"_rescued":"{\"new\":{\"x\":[1e5,-0,12345678901234567890.10]}}"}',
    ),
    # What is not declared is kept as JSON, beside what is.
    ('{"new":1}', r'{"_rescued":"{\"new\":1}"}'),
    ('{"Flight":1}', r'{"_rescued":"{\"Flight\":1}"}'),
    ('{"flight":3,"new":{"x":[1,"a"]}}', r'{"flight":3,"_rescued":"{\"new\":{\"x\":[1,\"a\"]}}"}'),
    ('{"flight":null,"new":null}', r'{"_rescued":"{\"new\":null}"}'),
    ('{"flight":null,"b":true,"new":"x"}', r'{"b":true,"_rescued":"{\"new\":\"x\"}"}'),
    ('{"st":{"a":1,"z":2}}', r'{"st":{"a":1},"_rescued":"{\"st\":{\"a\":1,\"z\":2}}"}'),
    ('{"sts":[{"x":1,"y":2}]}', r'{"sts":[{"x":1}],"_rescued":"{\"sts\":[{\"x\":1,\"y\":2}]}"}'),
    ('{"ms":{"k":{"z":0}}}', r'{"ms":{"k":{}},"_rescued":"{\"ms\":{\"k\":{\"z\":0}}}"}'),
    # Nor can it hide behind colons and blanks.
    (" {\r\n\t} \n", "{}"),
    ('{"carrier":"a:b","m":{"x:y":1}}', '{"carrier":"a:b","m":{"x:y":1}}'),
    (r'{"carrier":"\u003a","new":1}', r'{"carrier":":","_rescued":"{\"new\":1}"}'),
    ('{"carrier":{"x": {"y" :1}},"new":1}', r'{"carrier":"{\"x\":{\"y\":1}}","_rescued":"{\"new\":1}"}'),
    ('{"carrier":5,"ne:w":6}', r'{"carrier":"5","_rescued":"{\"ne:w\":6}"}'),
    ('{"bin":"Ojo6","new" :1}', r'{"bin":"Ojo6","_rescued":"{\"new\":1}"}'),
]
REFUSED = [
    ('{"flight":1}'.encode("utf-16-le"), "BROKEN_JSON", "character 1 of"),
    (' {"flight":1}'.encode("utf-16-le"), "BROKEN_JSON", "character 1 of"),
    ('{"flight":1}'.encode("utf-32-be"), "BROKEN_JSON", "character 0 of"),
    ('{"flight":1', "BROKEN_JSON", "character 11 of 11"),
    ('{"flight":', "BROKEN_JSON", "character 10 of 10"),
    ('{"flight":1} xyz', "BROKEN_JSON", "Extra data at character 13"),
    ('{"flight":1}}', "BROKEN_JSON", "Extra data at character 12"),
    ('{"flight":1}{"flight":2}', "BROKEN_JSON", "Extra data at character 12"),
    ('{"flight":1},{"flight":2}', "BROKEN_JSON", "Extra data at character 12"),
    ('{"flight":1}],"x":[2', "BROKEN_JSON", "Extra data at character 12"),
    ('{"flight":1},null],"x":[2', "BROKEN_JSON", "Extra data at character 12"),
    ('{"flight":1},null]} and more', "BROKEN_JSON", "Extra data at character 12"),
    ('5],"r":[{"flight":1}', "BROKEN_JSON", "Extra data at character 1"),
    ('{"flight":1},{" end":"x"}],"x":[2', "BROKEN_JSON", "Extra data at character 12"),
    ("{'flight':1}", "BROKEN_JSON", "property name enclosed in double quotes at character 1"),
    ("{\"carrier\":'x'}", "BROKEN_JSON", "Expecting value at character 11"),
    ("{flight:1}", "BROKEN_JSON", "property name enclosed in double quotes at character 1"),
    ('{"flight":01}', "BROKEN_JSON", "at character 11"),
    ('{"flight":+1}', "BROKEN_JSON", "at character 10"),
    ('{"flight":1,}', "BROKEN_JSON", "at character"),
    ('/*c*/{"flight":1}', "BROKEN_JSON", "Expecting value at character 0"),
    ('{"flight":1 // c\n}', "BROKEN_JSON", "at character 12"),
    ('{"carrier":"a\x01b"}', "BROKEN_JSON", "control character at character 13"),
    ('{"carrier":"x\ny"}', "BROKEN_JSON", "control character at character 13"),
    (r'{"carrier":"\q"}', "BROKEN_JSON", "escape"),
    ('\ufeff{"flight":1}', "BROKEN_JSON", "BOM"),
    ('{"dbl":NaN}', "BROKEN_JSON", "NaN is no JSON value"),
    ('{"dbl":-Infinity}', "BROKEN_JSON", "-Infinity is no JSON value"),
    ('{"flight":1]', "BROKEN_JSON", "at character 11"),
    ('[{"flight":1}', "BROKEN_JSON", "character 13 of 13"),
    ('[{"flight":1},{"flight":2}}', "BROKEN_JSON", "at character 26"),
    ('{"carrier":"}', "BROKEN_JSON", "character 11"),
    (r'{"carrier":"\"}', "BROKEN_JSON", "character 11"),
    ('{"st":{"a":1}', "BROKEN_JSON", "character 13 of 13"),
    ("{,}", "BROKEN_JSON", "at character 1"),
    ("{}{}", "BROKEN_JSON", "Extra data at character 2"),
    ("{} }", "BROKEN_JSON", "Extra data at character 3"),
    ("{", "BROKEN_JSON", "character 1 of 1"),
    ("}", "BROKEN_JSON", "at character 0"),
    ('"}', "BROKEN_JSON", "character 0"),
    ("", "BROKEN_JSON", "character 0 of 0"),
    ("  ", "BROKEN_JSON", "character 2 of 2"),
    ('[{"flight":1}]', "NOT_AN_OBJECT", 'this is an array: [{"flight": 1}]'),
    ("5", "NOT_AN_OBJECT", "this is a number: 5"),
    ("5.5", "NOT_AN_OBJECT", "this is a number: 5.5"),
    ("null", "NOT_AN_OBJECT", "this is null: null"),
    ("true", "NOT_AN_OBJECT", "this is a boolean: true"),
    ('"x"', "NOT_AN_OBJECT", 'this is a string: "x"'),
    (b'{"carrier":"\xff"}', "INVALID_UTF8", "byte 0xff at position 12"),
    (b"\xff\xfe", "INVALID_UTF8", "byte 0xff at position 0"),
    (b'{"new":"\xc3\x28"}', "INVALID_UTF8", "byte 0xc3 at position 8"),
    ('{"flight":"12a"}', "WRONG_TYPE", 'flight = "12a" is no INT'),
    ('{"flight":"12"}', "WRONG_TYPE", 'flight = "12" is no INT'),
    ('{"flight":""}', "WRONG_TYPE", 'flight = "" is no INT'),
    ('{"flight":3e10}', "WRONG_TYPE", "flight = 3E+10 is no INT"),
    ('{"flight":3.0}', "WRONG_TYPE", "flight = 3.0 is no INT"),
    ('{"flight":true}', "WRONG_TYPE", "flight = true is no INT"),
    ('{"flight":[1]}', "WRONG_TYPE", "flight = [1] is no INT"),
    ('{"flight":99999999999}', "WRONG_TYPE", "flight = 99999999999 is no INT"),
    ('{"flight":"x","flight":2}', "WRONG_TYPE", 'flight = "x" is no INT'),
    ('{"sm":32768}', "WRONG_TYPE", "sm = 32768 is no SMALLINT"),
    ('{"sm":-32769}', "WRONG_TYPE", "sm = -32769 is no SMALLINT"),
    ('{"big":1.5}', "WRONG_TYPE", "big = 1.5 is no BIGINT"),
    ('{"big":1e3}', "WRONG_TYPE", "big = 1E+3 is no BIGINT"),
    ('{"big":9223372036854775808}', "WRONG_TYPE", "big = 9223372036854775808 is no BIGINT"),
    ('{"d":"2026-13-01"}', "WRONG_TYPE", 'd = "2026-13-01" is no DATE'),
    ('{"d":"2026-1-1"}', "WRONG_TYPE", 'd = "2026-1-1" is no DATE'),
    ('{"d":"2026"}', "WRONG_TYPE", 'd = "2026" is no DATE'),
    ('{"d":"2026-02-30"}', "WRONG_TYPE", 'd = "2026-02-30" is no DATE'),
    ('{"d":"2026-02-03T00:00:00"}', "WRONG_TYPE", "is no DATE"),
    ('{"d":"0000-01-01"}', "WRONG_TYPE", "is no DATE"),
    ('{"d":"2026-01-01\\n"}', "WRONG_TYPE", "is no DATE"),
    ('{"d":"12345-01-01"}', "WRONG_TYPE", "is no DATE"),
    ('{"d":5}', "WRONG_TYPE", "d = 5 is no DATE"),
    ('{"t":"junk"}', "WRONG_TYPE", 't = "junk" is no TIMESTAMP'),
    ('{"t":""}', "WRONG_TYPE", 't = "" is no TIMESTAMP'),
    ('{"t":"2013-01-01T25:00:00Z"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"2013-01-01T10Z"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"2013-01-01T10:00:00+02"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"2013-01-01T10:00:00+25:00"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"2013-01-01T10:00:00+18:30"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"2013-01-01T10:00:00 Z"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"0000-01-01T00:00:00Z"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":"+12345-01-01T00:00:00Z"}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":999999999999999999}', "WRONG_TYPE", "is no TIMESTAMP"),
    ('{"t":1.5}', "WRONG_TYPE", "t = 1.5 is no TIMESTAMP"),
    ('{"t":{}}', "WRONG_TYPE", "t = {} is no TIMESTAMP"),
    ('{"ntz":"2013-01-01T10:00:00Z"}', "WRONG_TYPE", "is no TIMESTAMP_NTZ"),
    ('{"dec":12.345}', "WRONG_TYPE", "dec = 12.345 is no DECIMAL(10,2)"),
    ('{"dec":"0.001"}', "WRONG_TYPE", 'dec = "0.001" is no DECIMAL(10,2)'),
    ('{"dec":99999999.999}', "WRONG_TYPE", "dec = 99999999.999 is no DECIMAL(10,2)"),
    ('{"dec":123456789012.1}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"dec":1e30}', "WRONG_TYPE", "dec = 1E+30 is no DECIMAL(10,2)"),
    ('{"dec":" 1.5\\t"}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"dec":"x"}', "WRONG_TYPE", 'dec = "x" is no DECIMAL(10,2)'),
    ('{"dec":true}', "WRONG_TYPE", "dec = true is no DECIMAL(10,2)"),
    # Of more places than 38 digits leave room for, which Spark's parser rounds.
    ('{"dec":1e-50}', "WRONG_TYPE", "dec = 1E-50 is no DECIMAL(10,2)"),
    ('{"dec":-15e-0000040}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"dec":"1e-50"}', "WRONG_TYPE", 'dec = "1e-50" is no DECIMAL(10,2)'),
    (r'{"dec":"1\u0065-50"}', "WRONG_TYPE", 'dec = "1e-50" is no DECIMAL(10,2)'),
    ('{"dec":0.' + "0" * 40 + "1}", "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"dec":0.1' + "0" * 40 + '1,"carrier":"' + '\\\\1.5\\",' * 100_000 + '"}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"big_dec":0.12345678901234567891}', "WRONG_TYPE", "is no DECIMAL(38,19)"),
    ('{"big_dec":"1.00000000000000000001"}', "WRONG_TYPE", "is no DECIMAL(38,19)"),
    ('{"ms":{"k":{"y":1.0e-40}}}', "WRONG_TYPE", "ms.k.y = 1.0E-40 is no DECIMAL(4,1)"),
    ('{"dec":1e30000000}', "BROKEN_JSON", "a number with an exponent that nothing holds: 1e30000000"),
    ('{"dec":-1.5E-600000000}', "BROKEN_JSON", "an exponent that nothing holds: -1.5E-600000000"),
    ('{"dec":1e99999999999999999999}', "BROKEN_JSON", "an exponent that nothing holds"),
    ('{"ms":{"k":{"y":1e10000}}}', "BROKEN_JSON", "an exponent that nothing holds: 1e10000"),
    ('{"dbl":1e30000000}', "BROKEN_JSON", "an exponent that nothing holds"),
    ('{"carrier":1e30000000}', "BROKEN_JSON", "an exponent that nothing holds"),
    ('{"carrier":"a","new":1e30000000}', "BROKEN_JSON", "an exponent that nothing holds"),
    ('{"new":{"a":[{},[],1,"",1e30000000]},"flight":1}', "BROKEN_JSON", "an exponent that nothing holds"),
    ('{"dec":"1e30000000"}', "WRONG_TYPE", 'dec = "1e30000000" is no DECIMAL(10,2)'),
    ('{"dec":"1e99999999999999999999"}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    (r'{"dec":"1\u0065300000000"}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"ms":{"k":{"y":"1e30000000"}}}', "WRONG_TYPE", "is no DECIMAL(4,1)"),
    ('{"dec":"' + "1" * 900_000 + '"}', "WRONG_TYPE", "is no DECIMAL(10,2)"),
    ('{"dec":"1,50"}', "WRONG_TYPE", 'dec = "1,50" is no DECIMAL(10,2)'),
    ('{"dec":",5"}', "WRONG_TYPE", 'dec = ",5" is no DECIMAL(10,2)'),
    ('{"dbl":"NaN"}', "WRONG_TYPE", 'dbl = "NaN" is no DOUBLE'),
    ('{"dbl":"1.5"}', "WRONG_TYPE", 'dbl = "1.5" is no DOUBLE'),
    ('{"dbl":1e400}', "WRONG_TYPE", "dbl = 1E+400 is no DOUBLE"),
    ('{"fl":-1e50}', "WRONG_TYPE", "fl = -1E+50 is no FLOAT"),
    # A number that is not 0 does not become 0.
    ('{"dbl":0.1e-400}', "WRONG_TYPE", "dbl = 1E-401 is no DOUBLE"),
    ('{"dbl":-1e-9999}', "WRONG_TYPE", "dbl = -1E-9999 is no DOUBLE"),
    ('{"fl":1e-46}', "WRONG_TYPE", "fl = 1E-46 is no FLOAT"),
    ('{"fl":0.' + "0" * 45 + "1}", "WRONG_TYPE", "is no FLOAT"),
    # Half of a character is none.
    (r'{"carrier":"\ud800"}', "INVALID_UTF8", r'carrier = "\ud800" has half of a surrogate pair'),
    (r'{"carrier":"a\uDFFFb"}', "INVALID_UTF8", r'carrier = "a\udfffb" has half'),
    (r'{"carrier":"\ud83d\\ude00"}', "INVALID_UTF8", "carrier"),
    (r'{"carrier":"\ud83d\ud83d\ude00"}', "INVALID_UTF8", "carrier"),
    (r'{"m":{"\ude00\ud83d":1}}', "INVALID_UTF8", r'a name in m = "\ude00\ud83d" has half'),
    (r'{"new":[{"x":"\udc00"}]}', "INVALID_UTF8", r'new[0].x = "\udc00" has half'),
    (r'{"carrier":{"x":"\ud800"}}', "INVALID_UTF8", "carrier.x"),
    (r'{"\ud800":1}', "INVALID_UTF8", r'a name in the object = "\ud800"'),
    ('{"b":"true"}', "WRONG_TYPE", 'b = "true" is no BOOLEAN'),
    ('{"b":1}', "WRONG_TYPE", "b = 1 is no BOOLEAN"),
    ('{"bin":"h!"}', "WRONG_TYPE", 'bin = "h!" is no BINARY'),
    ('{"bin":"aGk"}', "WRONG_TYPE", 'bin = "aGk" is no BINARY'),
    ('{"bin":5}', "WRONG_TYPE", "bin = 5 is no BINARY"),
    ('{"st":{"a":"x"}}', "WRONG_TYPE", 'st.a = "x" is no INT'),
    ('{"st":{"b":"x"}}', "WRONG_TYPE", 'st.b = "x" is no DATE'),
    ('{"st":[{"a":1}]}', "WRONG_TYPE", 'st = [{"a": 1}] is no STRUCT'),
    ('{"st":5}', "WRONG_TYPE", "st = 5 is no STRUCT"),
    ('{"arr":[1,"x"]}', "WRONG_TYPE", 'arr[1] = "x" is no INT'),
    ('{"arr":5}', "WRONG_TYPE", "arr = 5 is no ARRAY"),
    ('{"arr":{}}', "WRONG_TYPE", "arr = {} is no ARRAY"),
    ('{"ard":["2020-01-01","2020-1-1"]}', "WRONG_TYPE", 'ard[1] = "2020-1-1" is no DATE'),
    ('{"m":{"a":"q"}}', "WRONG_TYPE", 'm.a = "q" is no INT'),
    ('{"m":[1]}', "WRONG_TYPE", "m = [1] is no MAP"),
    ('{"ms":{"k":{"y":1.25}}}', "WRONG_TYPE", "ms.k.y = 1.25 is no DECIMAL(4,1)"),
    ('{"sts":[{"x":null}]}', "REQUIRED_NULL", "sts[0].x is required, and null"),
    ('{"sts":[{"x":1},{}]}', "REQUIRED_MISSING", "sts[1].x is required, and missing"),
]


def utf8(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


@pytest.fixture(
    scope="module", autouse=True, params=[jvm.FUNCTIONS["json"], "none"], ids=["in one step", "by from_json"]
)
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """How JSON is read: with lakeingest's functions, and in a session that lacks them."""
    with session.setting(spark, {jvm.catalog("json"): request.param}):
        yield


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, way: None) -> dict[bytes, Verdict | None]:
    values = [utf8(case[0]) for case in (*ACCEPTED, *REFUSED)]
    return dict(zip(values, judge(spark, pipeline(), [(None, value) for value in values]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "columns"), ACCEPTED)
def test_what_fits_becomes_columns(verdicts: dict[bytes, Verdict], text: str, columns: str | None) -> None:
    """A record that fits the declared columns is these columns, and what they do not name is rescued."""
    assert verdicts[utf8(text)] == Verdict(columns or text)


@pytest.mark.parametrize(("text", "reason", "message"), REFUSED)
def test_what_does_not_fit_is_refused(
    verdicts: dict[bytes, Verdict], text: str | bytes, reason: str, message: str
) -> None:
    """A refusal has a code, and a message with the place and the value."""
    found = verdicts[utf8(text)]
    assert (found.columns, found.stage, found.reason) == (None, "value", reason)
    assert message in found.message


def test_required_columns(spark: SparkSession) -> None:
    """A NOT NULL column that is missing or null refuses the record, at the top and within."""
    config = pipeline("id INT NOT NULL, st STRUCT<x: STRING NOT NULL>")
    texts = [b'{"id":1}', b"{}", b'{"id":null}', b'{"id":1,"st":{}}', b'{"id":1,"st":{"x":null}}']
    found = judge(spark, config, [(None, text) for text in texts])
    assert found == [
        Verdict('{"id":1}'),
        Verdict(None, "value", "REQUIRED_MISSING", "id is required, and missing"),
        Verdict(None, "value", "REQUIRED_NULL", "id is required, and null"),
        Verdict(None, "value", "REQUIRED_MISSING", "st.x is required, and missing"),
        Verdict(None, "value", "REQUIRED_NULL", "st.x is required, and null"),
    ]


def test_times_without_a_zone_lie_in_the_zone_of_the_decoding(spark: SparkSession) -> None:
    """decode.value.timezone holds for a timestamp that names none, and for no other."""
    config = pipeline("t TIMESTAMP", value={"format": "json", "timezone": "America/New_York"})
    texts = [b'{"t":"2026-01-01T00:00:00"}', b'{"t":"2026-01-01T00:00:00Z"}', b'{"t":0}']
    found = judge(spark, config, [(None, text) for text in texts])
    hours = [json.loads(verdict.columns or "")["t"][:16] for verdict in found if verdict]
    assert hours == ["2026-01-01T05:00", "2026-01-01T00:00", "1970-01-01T00:00"]


def test_a_time_that_the_zone_skips_is_an_hour_later(spark: SparkSession) -> None:
    """As `describe` says: it was moved without a word. Of a time that comes twice the first is taken."""
    config = pipeline("t TIMESTAMP", value={"format": "json", "timezone": "America/New_York"})
    texts = [b'{"t":"2026-03-08T%s"}' % clock for clock in (b"01:59:59", b"02:30:00", b"03:30:00")]
    found = judge(spark, config, [(None, text) for text in (*texts, b'{"t":"2026-11-01T01:30:00"}')])
    times = [json.loads(verdict.columns or "")["t"][11:16] for verdict in found if verdict]
    assert times == ["06:59", "07:30", "07:30", "05:30"]
    assert "an hour later" in (JsonValue.model_fields["timezone"].description or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "found"),
    [
        ({"format": "bytes"}, ['{"_key":"/w=="}', '{"_key":"eyJpZCI6MX0="}', "{}"]),
        ({"format": "string"}, [("INVALID_UTF8", "not UTF-8; begins with bytes 0xFF"), r'{"_key":"{\"id\":1}"}', "{}"]),
        ({"format": "json", "columns": "id INT"}, [("INVALID_UTF8", "byte 0xff"), '{"_key":{"id":1}}', "{}"]),
        ({"format": "json", "columns": "n INT"}, [None, ("UNDECLARED_FIELD", '{"id":1}'), "{}"]),
        ({"format": "json", "columns": "id STRING NOT NULL"}, [None, '{"_key":{"id":"1"}}', "{}"]),
        ({"format": "json", "columns": "id BOOLEAN"}, [None, ("WRONG_TYPE", "id = 1 is no BOOLEAN"), "{}"]),
    ],
)
def test_key_formats(spark: SparkSession, key: dict[str, str], found: list[Any]) -> None:
    """A key is read as declared, refused at the stage key, and may be null."""
    records = [(b"\xff", b"{}"), (b'{"id":1}', b"{}"), (None, b"{}")]
    for verdict, expected in zip(judge(spark, pipeline("n INT", key=key), records), found, strict=True):
        assert verdict
        if isinstance(expected, str):
            assert verdict == Verdict(expected)
        else:
            reason, message = expected or ("INVALID_UTF8", "byte 0xff at position 0")
            assert (verdict.stage, verdict.reason) == ("key", reason)
            assert message in verdict.message


@pytest.mark.parametrize(
    ("format", "found"),
    [
        ("string", [Verdict('{"value":"h\u00ef"}'), Verdict('{"value":""}'), ("INVALID_UTF8", "0x61FF")]),
        ("bytes", [Verdict('{"value":"aMOv"}'), Verdict('{"value":""}'), Verdict('{"value":"Yf8="}')]),
    ],
)
def test_value_formats_without_columns(spark: SparkSession, format: str, found: list[Any]) -> None:
    """string and bytes make the one column value; a string is UTF-8 or refused."""
    config = pipeline(None, value={"format": format})
    values = ["h\u00ef".encode(), b"", b"a\xff"]
    for verdict, expected in zip(judge(spark, config, [(None, v) for v in values]), found, strict=True):
        assert verdict
        if isinstance(expected, Verdict):
            assert verdict == expected
        else:
            assert (verdict.stage, verdict.reason) == ("value", expected[0])
            assert expected[1] in verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("value", ["json", "string", "bytes"])
@pytest.mark.parametrize(
    ("on_null", "found"),
    [
        ("ignore", None),
        ("write", Verdict('{"_key":"aw=="}')),
        ("quarantine", Verdict(None, "value", "NULL_VALUE", "the record has no value")),
    ],
)
def test_on_null(spark: SparkSession, value: str, on_null: str, found: Verdict | None) -> None:
    """A tombstone is dropped, written with its key alone, or set aside, in every format."""
    config = pipeline("id INT" if value == "json" else None, value={"format": value}, on_null=on_null)
    assert judge(spark, config, [(b"k", None)]) == [found]


def test_a_required_column_does_not_refuse_a_tombstone_that_is_to_be_written(spark: SparkSession) -> None:
    """on_null alone decides about a record without a value, unless the table cannot hold it."""
    config = pipeline("id INT", on_null="write", key={"format": "json", "columns": "id INT NOT NULL"})
    assert judge(spark, config, [(b'{"id":7}', None)]) == [Verdict('{"_key":{"id":7}}')]


@pytest.mark.parametrize("refused", [False, True])
def test_a_record_is_parsed_once(spark: SparkSession, refused: bool) -> None:
    """However many columns are declared, both passes call Spark's parser on a record once."""
    batch = batch_of(pipeline("a INT NOT NULL, b DATE, c TIMESTAMP, d DECIMAL(5,2), e ARRAY<DATE>"))
    decided = observed(batch.decide(kafka(spark, [(None, b"{}")])), Observation())
    if refused:
        frame = quarantine.rows(decided.where("_refused"), batch.refusals, "flights", 1, NOW)
    else:
        frame = batch.accepted(decided).drop("_rescued")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    # The other is for the few records whose decimals have to be looked at first.
    assert plan.count("from_json(StructField(a,") + plan.count("invoke(io.lakeingest.JsonFunctions") == 1
