"""Records whose fields have names that no column can have, or two that differ in case alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import message_factory
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.oracle.decoding import judge, pipeline
from support.records.registered import Avro, record
from support.servers import spark_versions

from lakeingest.config import AvroFormat, JsonSchemaFormat, ProtobufFormat
from lakeingest.decode import projection
from lakeingest.decode.readers import Reading, SchemaRules, read
from lakeingest.schema.compatibility import naming
from lakeingest.schema.formats import protobuf, protobuf_values
from lakeingest.spark import jvm, session


def rows(spark: SparkSession, kind: str, way: str, reading: Reading | None, payloads: list[bytes]) -> list[Any]:
    """What becomes of payloads, in their order, and what is rescued where no column takes the first field."""
    assert reading is not None
    names = naming.columns_of(reading.schema)
    target = T.StructType(list(projection.struct_type(reading.schema))[1:])
    dropped = projection.dropped(reading.schema, names, target)
    with session.setting(spark, {jvm.catalog(kind): jvm.FUNCTIONS[kind] if way == "jar" else "none"}):
        numbered = [(n, bytearray(payload)) for n, payload in enumerate(payloads)]
        frame = spark.createDataFrame(numbered, "n INT, raw BINARY")
        parsed = frame.select("n", reading.reader.parse(F.col("raw")).alias("parsed"))
        value = F.when(~reading.reader.broken(F.col("parsed")), reading.reader.value(F.col("parsed")))
        rescued = reading.reader.rescued(F.col("parsed"), dropped, reading.schema)
        assert rescued is not None
        result = parsed.select("n", F.to_json(value).alias("value"), rescued.alias("rescued")).orderBy("n").collect()
    return [(row["value"], row["rescued"]) for row in result]


JSON = {
    "type": "object",
    "properties": {
        "Date Time": {"type": "string", "format": "date-time"},
        "a.b": {"type": "object", "properties": {"x;y": {"type": "integer"}, "c": {"type": ["integer", "string"]}}},
        "list of": {"type": "array", "items": {"type": "object", "properties": {"it em": {"type": "number"}}}},
    },
}


@pytest.mark.parametrize("way", ["jar", "none"])
def test_json_schema(spark: SparkSession, way: str) -> None:
    """Also what is rescued has the columns' names, at every level, so that a masked column is masked there."""
    format_ = JsonSchemaFormat(format="json_schema")
    reading = read(format_, "JSON", json.dumps(JSON), (), b"", rules=SchemaRules(names="safe"))
    payloads = [
        '{"Date Time":"2024-01-01T00:00:00Z","a.b":{"x;y":1,"c":"5"},"list of":[{"it em":1.50}]}',
        '{"date time":1,"a.b":{"x;y":2,"more of":[1.10]},"list of":[{"it em":1,"an other":{"y y":1}}],"Date-Time":2,'
        '"x-y":4,"x y":5}',
        '{"a.b":{"x;y":"no"}}',
    ]
    assert rows(spark, "json", way, reading, [text.encode() for text in payloads]) == [
        (
            '{"Date_Time":"2024-01-01T00:00:00.000Z","a_b":{"x_y":1,"c":"\\"5\\""},"list_of":[{"it_em":1.5}]}',
            '{"Date_Time":"2024-01-01T00:00:00Z"}',
        ),
        (
            '{"a_b":{"x_y":2},"list_of":[{"it_em":1.0}]}',
            '{"date_time":1,"a_b":{"more_of":[1.10],"x_y":2},"list_of":[{"an_other":{"y_y":1},"it_em":1}],'
            '"Date_Time":{"Date-Time":2},"x_y":{"x-y":4,"x y":5}}',
        ),
        (None, None),
    ]


def test_json_fields_that_differ_in_case(spark: SparkSession) -> None:
    """One of them is named; each keeps its value."""
    tree = {
        "type": "object",
        "properties": {"f": {"type": "string"}, "id": {"type": "integer"}, "ID": {"type": "string"}},
    }
    rules = SchemaRules(names={"ID": "id_upper"})
    reading = read(JsonSchemaFormat(format="json_schema"), "JSON", json.dumps(tree), (), b"", rules=rules)
    result = rows(spark, "json", "jar", reading, [b'{"f":"a","id":1,"ID":"x"}', b'{"ID":"y"}'])
    assert result == [('{"f":"a","id":1,"id_upper":"x"}', '{"f":"a"}'), ('{"id_upper":"y"}', None)]


@pytest.mark.parametrize("way", ["jar", "none"])
def test_avro(spark: SparkSession, way: str) -> None:
    """A name of lakeingest's own, two that differ in case, and a nested one."""
    tree = record("R", _offset="long", id="int", ID="string", at=record("At", Lat="double"))
    rules = SchemaRules(names={"_offset": "position", "ID": "name", "at.Lat": "latitude"})
    reading = read(AvroFormat(format="avro"), "AVRO", json.dumps(tree), (), b"", rules=rules)
    payload = Avro(tree)(_offset=5, id=1, ID="x", at={"Lat": 2.5})
    assert rows(spark, "avro", way, reading, [payload, payload[:-1]]) == [
        ('{"position":5,"id":1,"name":"x","at":{"latitude":2.5}}', '{"position":5}'),
        (None, None),
    ]


@spark_versions.protobuf
def test_protobuf(spark: SparkSession) -> None:
    fields = "int64 _offset = 1; int32 id = 2; string ID = 3; repeated N n = 4;"
    text = f'syntax = "proto3"; message M {{ {fields} }} message N {{ bool B = 1; }}'
    rules = SchemaRules(names={"_offset": "position", "ID": "name", "n[].B": "flag"})
    reading = read(ProtobufFormat(format="protobuf"), "PROTOBUF", text, (), b"\0", rules=rules)
    descriptors = protobuf.compile(text)
    message = message_factory.GetMessageClass(protobuf_values.descriptor(descriptors, "M"))
    payload = message(_offset=5, id=1, ID="x", n=[{"B": True}]).SerializeToString()
    assert rows(spark, "avro", "jar", reading, [payload, b"\xff"]) == [
        ('{"position":5,"id":1,"name":"x","n":[{"flag":true}]}', '{"position":5}'),
        (None, None),
    ]


DECLARED = (
    "placed TIMESTAMP NOT NULL FROM 'Date Time', at STRUCT<lat: DOUBLE FROM 'La t', n: INT> FROM 'a.b', id INT, "
    "items ARRAY<STRUCT<price: DECIMAL(5,2) FROM 'unit price'>>, id_upper STRING FROM 'ID', flags MAP<STRING, BOOLEAN>"
)


@pytest.mark.parametrize("way", ["jar", pytest.param("none", marks=pytest.mark.slow)])
def test_declared_columns_name_their_fields(spark: SparkSession, way: str) -> None:
    """Messages name the record's fields; what is rescued has the columns' names."""
    declared = DECLARED if way == "jar" else DECLARED.replace(" FROM 'ID'", "")
    config = pipeline(declared)
    good = '{"Date Time":"2024-01-01T00:00:00Z","a.b":{"La t":1.5,"n":2},"id":1,"items":[{"unit price":1.10}],"ID":"x"}'
    records = [
        good if way == "jar" else good.replace('"ID"', '"id_upper"'),
        '{"Date Time":"2024-01-01T00:00:00Z","a.b":{"La t":1.5,"m o":2},"placed":7}',
        '{"placed":"2024-01-01T00:00:00Z"}',
        '{"Date Time":"2024-01-01T00:00:00Z","items":[{"unit price":1.105}]}',
    ]
    with session.setting(spark, {jvm.catalog("json"): jvm.FUNCTIONS["json"] if way == "jar" else "none"}):
        verdicts = judge(spark, config, [(None, text.encode()) for text in records])
    accepted = [json.loads(verdict.columns) for verdict in verdicts[:2] if verdict and verdict.columns]
    assert accepted[0] == {
        "placed": "2024-01-01T00:00:00.000000Z",
        "at": {"lat": 1.5, "n": 2},
        "id": 1,
        "items": [{"price": 1.1}],
        "id_upper": "x",
    }
    assert json.loads(accepted[1]["_rescued"]) == {"at": {"lat": 1.5, "m o": 2}, "placed": {"placed": 7}}
    assert [verdict and verdict.message for verdict in verdicts[2:]] == [
        "Date Time is required, and missing",
        "items[0].unit price = 1.105 is no DECIMAL(5,2)",
    ]
