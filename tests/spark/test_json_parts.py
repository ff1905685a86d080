"""What no typed column can hold is JSON text at its place: the same with the jar and without, and of each format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.config import JsonSchemaFormat
from lakeingest.decode.readers import read
from lakeingest.spark import jvm, session

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": ["string", "integer", "boolean", "null"]},
        "tags": {"type": "array", "items": {}},
        "by": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
        "tree": {"$ref": "#/$defs/node"},
        "plain": {"type": "string"},
    },
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}
"""Each kind of place: a field, an array's elements, a map's values, a field of a struct within an array."""
RECORDS: dict[str, dict[str, Any] | None] = {
    '{"id":"5"}': {"id": '"5"'},
    '{"id":5}': {"id": "5"},
    '{"id":1.10}': {"id": "1.10"},
    '{"id":true,"plain":"a"}': {"id": "true", "plain": "a"},
    '{"id":null}': {"id": None},
    '{"id":{"b" : 1.0, "a":[ 1e3, "x\\"\\u0001\\u001f\\/" ,null,{}]}}': {
        "id": '{"b":1.0,"a":[1e3,"x\\"\\u0001\\u001F/",null,{}]}'
    },
    '{"id":{"a":1,"a":2}}': {"id": '{"a":1,"a":2}'},
    '{"id":12345678901234567890.12345678901234567890}': {"id": "12345678901234567890.12345678901234567890"},
    '{"tags":["a",1,null,[],{"x":"é"}]}': {"tags": ['"a"', "1", None, "[]", '{"x":"é"}']},
    '{"by":{"k":"v","n":-0.0,"z":null}}': {"by": {"k": '"v"', "n": "-0.0", "z": None}},
    '{"tree":{"n":1,"kids":[{"n":2,"kids":[{"n":3}]},null]}}': {
        "tree": {"n": 1, "kids": ['{"n":2,"kids":[{"n":3}]}', None]}
    },
    '{"id":"\\ud83d\\ude00 ü 😀"}': {"id": '"\\uD83D\\uDE00 ü \\uD83D\\uDE00"'},
    '{"by":{"k":1,"a":"x","k":"2"}}': {"by": {"k": '"2"', "a": '"x"'}},
    '{"id":"a","id":"b"}': {"id": '"b"'},
    '{"plain":5}': {"plain": "5"},
    '{"tree":{"n":"no"},"id":1}': None,
    '{"tags":{}}': None,
    '{"id":1': None,
    '{"id":"\\ud83d"}': None,
}


@pytest.mark.parametrize("way", ["jar", "none"])
def test_json_schema(spark: SparkSession, way: str) -> None:
    reading = read(JsonSchemaFormat(format="json_schema"), "JSON", json.dumps(SCHEMA), (), b"")
    assert reading is not None
    function = jvm.FUNCTIONS["json"] if way == "jar" else "none"
    with session.setting(spark, {jvm.catalog("json"): function}):
        frame = spark.createDataFrame([(bytearray(text.encode()),) for text in RECORDS], "raw BINARY")
        parsed = frame.select("raw", reading.reader.parse(F.col("raw")).alias("parsed"))
        value = F.when(~reading.reader.broken(F.col("parsed")), reading.reader.value(F.col("parsed")))
        rows = parsed.select("raw", value.alias("value")).collect()
    values = {bytes(row["raw"]).decode(): row["value"] and row["value"].asDict(recursive=True) for row in rows}
    none = dict.fromkeys(SCHEMA["properties"])
    assert values == {text: None if row is None else none | row for text, row in RECORDS.items()}
