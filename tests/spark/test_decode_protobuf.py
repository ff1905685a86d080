"""Protobuf messages become columns, and what is none of its message becomes null."""

from __future__ import annotations

from typing import Any

import pytest
from chispa import assert_df_equality
from google.protobuf import message_factory
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.servers import spark_versions

from lakeingest.decode import projection
from lakeingest.decode.protobuf import ProtobufReader, record
from lakeingest.schema.formats import protobuf, protobuf_values
from lakeingest.schema.model import SchemaError

TEXT = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";
message Order {
  enum State { NEW = 0; SENT = 1; }
  message Line { string sku = 1; uint32 count = 2; }
  int64 id = 1; uint64 big = 2; fixed32 small = 3; double price = 4; float weight = 5; bool paid = 6; bytes photo = 7;
  State state = 8; optional string note = 9; repeated Line lines = 10; map<string, Line> named = 11; Line first = 12;
  google.protobuf.Timestamp at = 13; google.protobuf.Int32Value stars = 14; google.protobuf.Duration took = 15;
  oneof by { string card = 16; int32 voucher = 17; }
  repeated int64 codes = 18; map<int32, google.protobuf.Timestamp> times = 19; string DESCRIPTOR = 20;
}
"""
DESCRIPTORS = protobuf.compile(TEXT)
FULL: dict[str, Any] = {
    "id": -7, "big": 2**64 - 1, "small": 2**32 - 1, "price": 0.1, "weight": 1.5, "paid": True, "photo": b"\x00\xff",
    "state": "SENT", "note": "", "lines": [{"sku": "ä", "count": 2**32 - 1}, {}], "named": {"n": {"sku": "s"}},
    "first": {}, "at": {"seconds": 1, "nanos": 1_999}, "stars": {}, "took": {"seconds": 3}, "voucher": 5,
    "codes": [1, -1], "times": {1: {"seconds": -1}}, "DESCRIPTOR": "d",
}  # fmt: skip


def payload(**values: Any) -> bytearray:
    """A real message, as a producer serializes it."""
    made = message_factory.GetMessageClass(protobuf_values.descriptor(DESCRIPTORS, "shop.Order"))(**values)
    return bytearray(made.SerializeToString())


@spark_versions.protobuf
def test_every_type_of_a_message_becomes_its_column(spark: SparkSession) -> None:
    """No number is lost, zeros stand where nothing was written, and only what has presence is null."""
    frame = spark.createDataFrame([(payload(**FULL),), (payload(),)], "payload BINARY")
    micros = {"timestampFormat": "HH:mm:ss.SSSSSS"}
    shown = frame.select(F.to_json(record(F.col("payload"), DESCRIPTORS, "shop.Order"), micros).alias("json"))
    expected = [
        '{"id":-7,"big":18446744073709551615,"small":4294967295,"price":0.1,"weight":1.5,"paid":true,"photo":"AP8=",'
        '"state":"SENT","note":"","lines":[{"sku":"ä","count":4294967295},{"sku":"","count":0}],'
        '"named":{"n":{"sku":"s","count":0}},"first":{"sku":"","count":0},"at":"00:00:01.000001",'
        '"stars":0,"took":{"seconds":3,"nanos":0},"voucher":5,"codes":[1,-1],'
        '"times":{"1":"23:59:59.000000"},"DESCRIPTOR":"d"}',
        '{"id":0,"big":0,"small":0,"price":0.0,"weight":0.0,"paid":false,"photo":"","state":"NEW","lines":[],'
        '"named":{},"codes":[],"times":{},"DESCRIPTOR":""}',
    ]
    assert_df_equality(shown, spark.createDataFrame([(text,) for text in expected], "json STRING"))


@spark_versions.protobuf
def test_the_columns_are_those_of_the_schema(spark: SparkSession) -> None:
    """Field by field, as projection goes by names."""
    schema = protobuf.read_message(DESCRIPTORS, "shop.Order")
    frame = spark.range(1).select(record(F.lit(None).cast("binary"), DESCRIPTORS, "shop.Order").alias("value"))
    assert frame.schema["value"].dataType == projection.struct_type(schema)


@spark_versions.protobuf
def test_only_the_records_that_are_none_are_null(spark: SparkSession) -> None:
    """One bad payload takes nothing from its neighbours, in portions of any size."""
    good, large = payload(id=1), payload(id=2, photo=b"x" * 2_000_000)
    cases = [
        (good, 1), (None, None), (bytearray(large[:-1]), None), (large, 2), (bytearray(b"\x0a\x01a"), None),
        (bytearray(b"\x3a\xff\xff\xff\xff\x07"), None), (bytearray(b"\x82\x01\x01\xff"), None), (good, 1),
    ]  # fmt: skip
    frame = spark.createDataFrame(cases, "payload BINARY, id BIGINT").coalesce(1)
    reader = ProtobufReader(DESCRIPTORS, "shop.Order")
    read = frame.withColumn("parsed", reader.parse(F.col("payload"))).select(
        reader.value(F.col("parsed"))["id"].alias("id"), reader.broken(F.col("parsed")).alias("broken")
    )
    expected = spark.createDataFrame([(id, id is None) for _, id in cases], "id BIGINT, broken BOOLEAN")
    assert_df_equality(read, expected, ignore_nullable=True)


@spark_versions.protobuf
def test_why_without_a_value(spark: SparkSession) -> None:
    """Executors need not have lakeingest; a pipeline that masks said of no refused message which field it was."""
    cut, large = payload(note="secret")[:-1], bytearray(b"\x40\x80\x80\x80\x80\x80\x01")
    frame = spark.createDataFrame([(cut,), (large,), (None,)], "payload BINARY").coalesce(1)
    reader = ProtobufReader(DESCRIPTORS, "shop.Order")
    short = "field note is cut short, or written with another schema"
    cases = {True: "field state is outside of int32", False: "field state: 34359738368 is outside of int32"}
    for withheld, said in cases.items():
        found = frame.select(reader.why(F.col("payload"), withheld=withheld).alias("why"))
        assert [row["why"] for row in found.collect()] == [short, said, None]


def test_a_message_that_no_table_holds_is_refused_before_it_runs(spark: SparkSession) -> None:
    """An empty message has no columns."""
    with pytest.raises(SchemaError, match="has no fields"):
        record(F.col("payload"), protobuf.compile('syntax = "proto3"; message M {}'), "M")
