"""JSON Schema counts 2.0 among the integers: the same with the jar and without, and in the diagnosis."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle.readings import values

from lakeingest.config import JsonSchemaFormat
from lakeingest.decode.json_diagnosis import diagnose
from lakeingest.decode.readers import read
from lakeingest.schema.json_values import Texts

INTEGER = {"type": "integer"}
SCHEMA = {
    "type": "object",
    "properties": {
        "n": INTEGER,
        "small": {"type": "integer", "connect.type": "int16"},
        "list": {"type": "array", "items": INTEGER},
        "by": {"type": "object", "additionalProperties": INTEGER},
        "within": {"type": "object", "properties": {"n": INTEGER}},
        "text": {"type": "string"},
        "real": {"type": "number"},
        "any": {"type": ["string", "integer"]},
    },
}
WHOLE = {
    **{"2": 2, "2.0": 2, "2e0": 2, "2.50E1": 25, "20e-1": 2, "-0.0": 0, "0e99": 0, "1e3": 1000, "-1.20e+2": -120},
    **{"9007199254740993.0": 9007199254740993, "9223372036854775807.0": 2**63 - 1, "-9223372036854775808.00": -(2**63)},
    **dict.fromkeys(["2.5", "25e-1", "1e-3", "1e19", "9223372036854775808.0", "1e400", '"2.0"', '"2"', "true"]),
}
"""A number as it is written → the integer; None where it is refused."""
RECORDS: dict[str, dict[str, Any] | None] = {
    **{f'{{"n":{text}}}': None if number is None else {"n": number} for text, number in WHOLE.items()},
    '{"list":[1,2.0, 3e0,null]}': {"list": [1, 2, 3, None]},
    '{"list":[1.5]}': None,
    '{"by":{"a":2.0,"b":7}}': {"by": {"a": 2, "b": 7}},
    '{"within":{"n": 4.00 }}': {"within": {"n": 4}},
    '{"small":32767.0}': {"small": 32767},
    '{"small":32768.0}': None,
    # What is beside such a number stays as it is written.
    '{"n":2.0,"text":1.10,"real":3.0,"any":{"x":4.0}}': {"n": 2, "text": "1.10", "real": 3.0, "any": '{"x":4.0}'},
    '{"n":2.0,"text":"a 2.0, [3.0"}': {"n": 2, "text": "a 2.0, [3.0"},
    '{"n":2.0,"text":5.0,"new":6.0}': {"n": 2, "text": "5.0"},
    '{"n":"x","n":2.0}': None,
    '{"n":2.0': None,
}


@pytest.mark.parametrize("way", ["jar", "none"])
def test_whole_numbers(spark: SparkSession, way: str) -> None:
    reading = read(JsonSchemaFormat(format="json_schema"), "JSON", json.dumps(SCHEMA), (), b"")
    result = values(spark, "json", way, reading, [text.encode() for text in RECORDS])
    none = dict.fromkeys(SCHEMA["properties"])
    assert result == [None if row is None else none | row for row in RECORDS.values()]


def test_the_diagnosis_agrees() -> None:
    """It blames no whole number; without the rule of JSON Schema it does."""
    tree = {"fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
    for text, number in WHOLE.items():
        reason, message = diagnose(f'{{"n":{text}}}'.encode(), tree, Texts(wholes=True))
        assert (reason == "UNREADABLE") is (number is not None), (text, message)
    assert diagnose(b'{"n":2.0}', tree) == ("WRONG_TYPE", "n = 2.0 is no BIGINT")
