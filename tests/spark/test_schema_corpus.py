"""Kinds of schemas that people have in their topics: each becomes a table, or a reason that is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import jsonschema
import pytest
import yaml
from google.protobuf import json_format, message_factory
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.servers import spark_versions

from lakeingest.config import AvroFormat, JsonSchemaFormat, ProtobufFormat
from lakeingest.decode.readers import Reading, read
from lakeingest.schema import model
from lakeingest.schema.formats import protobuf, protobuf_values
from lakeingest.schema.model import SchemaError

CORPUS: Sequence[Mapping[str, Any]] = yaml.safe_load(Path(__file__).with_name("schemas.yaml").read_text())
"""name, format, schema, record; then columns and row as JSON text, or reason."""
FORMATS: Mapping[str, Any] = {
    "avro": (AvroFormat(format="avro"), "AVRO"),
    "json_schema": (JsonSchemaFormat(format="json_schema"), "JSON"),
    "protobuf": (ProtobufFormat(format="protobuf"), "PROTOBUF"),
}


def text_of(case: Mapping[str, Any]) -> str:
    return f'syntax = "proto3"; {case["schema"]}' if case["format"] == "protobuf" else json.dumps(case["schema"])


def encoded(case: Mapping[str, Any]) -> bytes:
    """The record, written by the format's reference implementation."""
    record = case["record"]
    match case["format"]:
        case "avro":
            out = BytesIO()
            record = {name: Decimal(v) if name == "d" and isinstance(v, str) else v for name, v in record.items()}
            fastavro.schemaless_writer(out, fastavro.parse_schema(case["schema"]), record)
            return out.getvalue()
        case "json_schema":
            jsonschema.validate(record, case["schema"])
            return json.dumps(record).encode()
    descriptors = protobuf.compile(text_of(case))
    name = protobuf.messages(descriptors)[0,]
    message = message_factory.GetMessageClass(protobuf_values.descriptor(descriptors, name))()
    json_format.ParseDict(record, message)
    return bytes(message.SerializeToString())


def reading_of(case: Mapping[str, Any]) -> Reading:
    format_, kind = FORMATS[case["format"]]
    reading = read(format_, kind, text_of(case), (), b"\0" if case["format"] == "protobuf" else b"")
    assert reading is not None
    return reading


def test_there_are_sixty() -> None:
    assert len(CORPUS) >= 60
    assert sum("reason" in case for case in CORPUS) <= 5


@pytest.mark.parametrize("case", [case for case in CORPUS if "reason" in case], ids=lambda case: case["name"])
def test_the_reason_is_told(case: Mapping[str, Any]) -> None:
    with pytest.raises(SchemaError) as caught:
        reading_of(case)
    assert case["reason"] in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["avro", "json_schema", pytest.param("protobuf", marks=spark_versions.protobuf)])
def test_each_becomes_a_row(spark: SparkSession, format: str) -> None:
    """In one job: the record as each format's own library writes it, and the row that comes out."""
    cases = [case for case in CORPUS if "reason" not in case and case["format"] == format]
    assert cases
    rows = {}
    for case in cases:
        reading = reading_of(case)
        frame = spark.createDataFrame([(bytearray(encoded(case)),)], "raw BINARY")
        parsed = frame.select(reading.reader.parse(F.col("raw")).alias("parsed"))
        value = F.when(~reading.reader.broken(F.col("parsed")), reading.reader.value(F.col("parsed")))
        (row,) = parsed.select(F.to_json(F.struct(value.alias("value")), {"ignoreNullFields": "false"})).collect()
        rows[case["name"], case["format"]] = (model.type_text(reading.schema), row[0])
    expected = {(case["name"], case["format"]): (case["columns"], case["row"]) for case in cases}
    assert rows == expected
