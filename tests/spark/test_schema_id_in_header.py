"""A header of the record names the schema, and the payload is bare: its first bytes are no id, whatever they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import projection, writers
from lakeingest.decode.avro import AvroReader
from lakeingest.decode.framing import Confluent, Framing, Glue
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.record import HEADERS, KEY
from lakeingest.schema.formats import avro
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import SchemaId, Side

TEXT = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": n, "type": "long"} for n in "abcdefghijklmnopqr"]}
)
SCHEMA = avro.read(TEXT)
FRAMINGS: dict[str, tuple[Framing, SchemaId]] = {
    "confluent": (Confluent(), 1),
    "glue": (Glue(), "00000000-0000-0000-0000-000000000001"),
}
GUID = b"\x01" + bytes(range(16))


def batch(spark: SparkSession, side: Side, begin: bytes) -> DataFrame:
    """Each of these begins as a record of the known schema does, or of one that is not known yet."""
    other: Side = "key" if side == "value" else "value"
    zeros, known, unknown = bytes(18), begin + bytes(18), begin[:-1] + b"\x09" + bytes(18)
    rows = [
        ("framed", known, []),
        ("of the other side", known, [(RECORD_HEADER[other], GUID)]),
        ("bare, begins as the known id", known, [("a", b""), (RECORD_HEADER[side], GUID)]),
        ("bare, begins as another id", unknown, [(RECORD_HEADER[side], GUID)]),
        ("bare, whole", zeros, [(RECORD_HEADER[side], b"\x00\x00\x00\x00\x01")]),
        ("bare, empty", b"", [(RECORD_HEADER[side], None)]),
        ("null", None, [(RECORD_HEADER[side], GUID)]),
        ("no id at all", b"{", None),
    ]
    types = f"name STRING, raw BINARY, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>"
    place = {
        "_timestamp": F.lit(None).cast("timestamp"),
        "_topic": F.lit("t"),
        "_partition": F.lit(0),
        "_offset": F.lit(0),
    }
    values = [(name, raw and bytearray(raw), headers) for name, raw, headers in rows]
    return spark.createDataFrame(values, types).withColumns(place)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("side", ["key", "value"])
def test_its_payload_is_never_read_as_an_id(spark: SparkSession, side: Side, framing: str) -> None:
    """It was read with the schema whose id the payload's first bytes happened to be; the registry was asked for it."""
    by, known = FRAMINGS[framing]
    branches = SchemaBranches((SchemaBranch(by.header(known), known, "it", SCHEMA, AvroReader(TEXT), SCHEMA),), by)
    frame = batch(spark, side, by.header(known))
    found = writers.headers(frame, by, {side: "raw"}, {side: [by.header(known)]}, ())
    # None but those that really have a header before the payload are asked of the registry.
    assert found == []
    columns = projection.struct_type(SCHEMA)
    target = T.StructType([T.StructField(KEY, columns)]) if side == "key" else columns
    read = writers.read(side, F.col("raw"), branches, target, 1 << 20)
    for stage in read.stages:
        frame = frame.withColumns(stage)
    a = read.columns[KEY]["a"] if side == "key" else read.columns["a"]
    why: Any = F.lit(None).cast("struct<reason: string, message: string>")
    for refusal in reversed(read.refusals):
        why = F.when(refusal.when, refusal.diagnosis()).otherwise(why)
    # A strict plan would stop at an id that is not known.
    rows = {row["name"]: row for row in frame.select("name", why.alias("why"), a.alias("a")).collect()}
    assert {name: row["why"] and row["why"]["reason"] for name, row in rows.items()} == {
        "framed": None,
        "of the other side": None,
        **dict.fromkeys([name for name in rows if name.startswith("bare")], "SCHEMA_ID_IN_HEADER"),
        "null": None,
        "no id at all": "NO_SCHEMA_ID",
    }
    message = rows["bare, begins as the known id"]["why"]["message"]
    assert message.startswith(
        f"the record's header {RECORD_HEADER[side]} names the schema, and the {side} has no id in it"
    )
    assert message.endswith(f"the header is 0x{GUID.hex().upper()}")
    assert [rows[name]["a"] for name in ("framed", "of the other side")] == [0, 0]


def test_a_schema_file_reads_it(spark: SparkSession) -> None:
    """The payload is bare, as plain Avro is: this is the cure that the message names."""
    branches = SchemaBranches((SchemaBranch(b"", None, "it", SCHEMA, AvroReader(TEXT), SCHEMA),), None)
    read = writers.read("value", F.col("raw"), branches, projection.struct_type(SCHEMA), 1 << 20)
    frame = batch(spark, "value", b"\0\0\0\0\1").where("name = 'bare, whole'")
    for stage in read.stages:
        frame = frame.withColumns(stage)
    refused = [refusal.when.alias(str(n)) for n, refusal in enumerate(read.refusals)]
    assert frame.select(read.columns["a"], *refused).collect() == [(0, *[False] * len(refused))]
