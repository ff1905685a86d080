"""A map that has a key twice: the last one holds, in every format, and in what reads older tables."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.oracle import exports
from support.oracle.decoding import Verdict, judge, pipeline
from test_export import Shop

from lakeingest.config import Storage
from lakeingest.decode import avro
from lakeingest.errors import UsageError
from lakeingest.operations import read, sql
from lakeingest.operations.results.export import ExportFormat
from lakeingest.spark import jvm, maps, session, types

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "m", "type": ["null", {"type": "map", "values": {"type": "map", "values": ["null", "int"]}}]},
        {"name": "n", "type": "int"},
    ],
}
PAYLOADS = {
    # {"k": {"x": 1}, "k": {"x": 2, "y": null, "x": 3}} in two blocks, and n = 4.
    b"\x02"
    + b"\x02\x02k"
    + b"\x02\x02x\x02\x02\x00"
    + b"\x02\x02k"
    + b"\x06\x02x\x02\x04\x02y\x00\x02x\x02\x06\x00"
    + b"\x00\x08": {
        "m": {"k": {"y": None, "x": 3}},
        "n": 4,
    },
    b"\x02\x02\x02k\x02\x02x\x02\x02\x00\x00\x08": {"m": {"k": {"x": 1}}, "n": 4},
    b"\x00\x08": {"m": None, "n": 4},
}


@pytest.mark.parametrize("functions", [jvm.FUNCTIONS["avro"], "none"], ids=["in one step", "by from_avro"])
def test_the_last_of_a_key_holds_in_avro(spark: SparkSession, functions: str) -> None:
    """As for fastavro, Avro's own readers and Protobuf's library; both readers, nested too."""
    with session.setting(spark, {jvm.catalog("avro"): functions}):
        reader = avro.AvroReader(json.dumps(AVRO))
        frame = spark.createDataFrame([(i, bytearray(p)) for i, p in enumerate(PAYLOADS)], "n INT, raw BINARY")
        parsed = frame.withColumn("parsed", reader.parse(F.col("raw")))
        value = F.to_json(reader.value(F.col("parsed")), {"ignoreNullFields": "false"})
        found = parsed.select("n", reader.broken(F.col("parsed")).alias("broken"), value.alias("v")).orderBy("n")
        rows = found.collect()
    assert [(row.broken, json.loads(row.v)) for row in rows] == [(False, value) for value in PAYLOADS.values()]


@pytest.mark.slow
@pytest.mark.parametrize("functions", [jvm.FUNCTIONS["json"], "none"], ids=["in one step", "by from_json"])
def test_many_keys_take_no_time(spark: SparkSession, functions: str) -> None:
    """One key of a hundred thousand stands twice: looking for each among all others would take minutes."""
    pairs = ",".join(f'"k{i}":{i}.50' for i in range(100_000))
    record = f'{{"m":{{{pairs},"k7":"last"}}}}'.encode()
    with session.setting(spark, {jvm.catalog("json"): functions}):
        began = time.monotonic()
        (found,) = judge(spark, pipeline("m MAP<STRING,STRING>"), [(None, record)])
    assert found
    read = json.loads(found.columns or "")["m"]
    assert (len(read), read["k7"], read["k8"], next(reversed(read))) == (100_000, "last", "8.50", "k7")
    assert time.monotonic() - began < 30


def test_maps_are_found_at_any_depth(spark: SparkSession) -> None:
    """In structs, arrays and maps, with nulls, and beside fields whose names SQL has to quote."""
    columns = "a STRUCT<`x.y`: ARRAY<MAP<STRING,MAP<STRING,INT>>>, n: INT>, n INT"
    record = b'{"a":{"x.y":[{"k":{"a":1},"k":{"a":1,"a":2},"l":null},null],"n":1},"n":2}'
    found = judge(spark, pipeline(columns), [(None, record), (None, b'{"n":2}')])
    assert found == [Verdict('{"a":{"x.y":[{"k":{"a":2},"l":null},null],"n":1},"n":2}'), Verdict('{"n":2}')]
    assert not maps.has_map(types.struct("a ARRAY<STRUCT<b: INT>>"))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["jsonl", "csv", "avro", "parquet"])
def test_an_older_table_is_exported(spark: SparkSession, tmp_path: Path, format: ExportFormat) -> None:
    """A map that was written with a key twice ends no export, and the last one is what is exported."""
    columns = "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, day DATE, m MAP<STRING,INT>"
    shop = Shop(spark, tmp_path, format, columns)
    shop.sql(
        "INSERT INTO {table} SELECT 't', 0, id, timestamp_seconds(0), DATE'2026-01-01', "
        "from_json('{\"a\":' || id || ',\"b\":2,\"a\":3}', 'MAP<STRING,INT>') FROM range(2)"
    )
    assert shop.rows().selectExpr("size(map_keys(m)) AS keys").first() == (3,)
    shop.export()
    schema = types.struct(columns.replace("MAP<STRING,INT>", "STRING")) if format == "csv" else shop.rows().schema
    found = exports.exported(spark, str(shop.place), format, schema).select("m").collect()
    assert [row.m if isinstance(row.m, dict) else json.loads(row.m) for row in found] == [{"b": 2, "a": 3}] * 2


def test_sql_says_what_it_cannot_show(spark: SparkSession, tmp_path: Path) -> None:
    """DuckDB has no map with a key twice: neither the store nor the query is blamed for it."""
    columns = "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, day DATE, m MAP<STRING,INT>"
    shop = Shop(spark, tmp_path, columns=columns)
    shop.sql(
        "INSERT INTO {table} SELECT 't', 0, id, timestamp_seconds(0), DATE'2026-01-01', "
        "from_json('{\"a\":' || id || ',\"a\":3}', 'MAP<STRING,INT>') FROM range(2)"
    )
    with pytest.raises(UsageError, match="has a key twice in some row") as caught:
        sql.ask(shop.tables.config, Storage(), 'SELECT * FROM "table"', 10, as_json=True)
    assert "SELECT * EXCLUDE" in caught.value.cure
    found = sql.ask(shop.tables.config, Storage(), 'SELECT * EXCLUDE (m) FROM "table"', 10, as_json=True)
    assert len(found.rows) == 2
    with read.records(shop.tables.config, Storage(), read.RecordSelection()) as records:
        assert [record["m"] for record in records.records] == [{"a": 3}] * 2
