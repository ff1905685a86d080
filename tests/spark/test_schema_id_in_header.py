"""A header of the record names the schema, and the payload is bare: its first bytes are no id, whatever they are."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka.schema_registry import dual_schema_id_deserializer
from confluent_kafka.schema_registry.serde import SchemaId as ConfluentId
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import projection, writers
from lakeingest.decode.avro import AvroReader
from lakeingest.decode.framing import Confluent, Glue
from lakeingest.decode.headers import new_headers
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.record import HEADERS, KEY
from lakeingest.schema.formats import avro, wire
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import Side

TEXT = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": n, "type": "long"} for n in "abcdefghijklmnopqr"]}
)
SCHEMA = avro.read(TEXT)
ID, GUID = b"\0\0\0\0\1", b"\x01" + bytes(range(16))
OTHER_GUID = b"\x01" + bytes(range(1, 17))
PAYLOAD = b"\x02" + bytes(17)
Records = list[tuple[str, bytes | None, list[tuple[str, bytes | None]] | None]]


def records(side: Side) -> Records:
    """By what a record's schema is named, with the bytes of that side, and the record's headers."""
    mine, other = (RECORD_HEADER[each] for each in (side, "key" if side == "value" else "value"))
    return [
        ("prefix", ID + PAYLOAD, []),
        ("prefix, no headers", ID + PAYLOAD, None),
        ("prefix, header of the other side", ID + PAYLOAD, [(other, OTHER_GUID)]),
        ("prefix, header without a value", ID + PAYLOAD, [(mine, None)]),
        ("guid", PAYLOAD, [("a", b""), (mine, GUID)]),
        ("guid with bytes behind it", PAYLOAD, [(mine, GUID + b"\7")]),
        ("guid in the prefix", GUID + PAYLOAD, []),
        ("id", PAYLOAD, [(mine, ID)]),
        ("guid, before a prefix", ID[:1] + PAYLOAD[1:], [(mine, GUID)]),
        ("last of two", PAYLOAD, [(mine, OTHER_GUID), (mine, GUID)]),
        ("unknown guid", ID + PAYLOAD, [(mine, OTHER_GUID)]),
        ("unknown id", ID + PAYLOAD, [(mine, b"\0\0\0\0\2")]),
        ("cut short", ID + PAYLOAD, [(mine, GUID[:-1])]),
        ("another byte", ID + PAYLOAD, [(mine, b"\x02" + GUID[1:])]),
        ("empty header", ID + PAYLOAD, [(mine, b"")]),
        ("bare", PAYLOAD, []),
        ("none of the schema", b"\x02", [(mine, GUID)]),
        ("empty", b"", [(mine, GUID)]),
        ("null", None, [(mine, GUID)]),
    ]


def batch(spark: SparkSession, rows: Records) -> DataFrame:
    types = f"name STRING, raw BINARY, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>"
    place = {
        "_timestamp": F.lit(None).cast("timestamp"),
        "_topic": F.lit("t"),
        "_partition": F.lit(0),
        "_offset": F.lit(0),
    }
    values = [(name, raw and bytearray(raw), headers) for name, raw, headers in rows]
    return spark.createDataFrame(values, types).withColumns(place)


def read(frame: DataFrame, side: Side, branches: SchemaBranches) -> dict[str, Any]:
    """Name → the reason and message of a refused record, or the field a of the others."""
    columns = projection.struct_type(SCHEMA)
    target = T.StructType([T.StructField(KEY, columns)]) if side == "key" else columns
    result = writers.read(side, F.col("raw"), branches, target, 1 << 20)
    for stage in result.stages:
        frame = frame.withColumns(stage)
    a = result.columns[KEY]["a"] if side == "key" else result.columns["a"]
    why: Any = F.lit(None).cast("struct<reason: string, message: string>")
    for refusal in reversed(result.refusals):
        why = F.when(refusal.when, refusal.diagnosis()).otherwise(why)
    rows = frame.select("name", why.alias("why"), a.alias("a")).collect()
    return {row["name"]: tuple(row["why"]) if row["why"] else row["a"] for row in rows}


@pytest.mark.parametrize("side", ["key", "value"])
def test_a_record_is_read_by_what_its_header_names(spark: SparkSession, side: Side) -> None:
    """Its id or GUID goes before what the payload begins with, and the last such header is the one that counts."""
    known = [SchemaBranch(each, 1, "it", SCHEMA, AvroReader(TEXT), SCHEMA) for each in (ID, GUID)]
    branches = SchemaBranches(tuple(known), Confluent(), strict=False)
    rows, mine = records(side), RECORD_HEADER[side]
    result = read(batch(spark, rows), side, branches)
    read_names = {name for name, value in result.items() if value == 1}
    assert read_names == {name for name, _, _ in rows if name.startswith(("prefix", "guid", "id", "last"))} - {
        "guid, before a prefix"
    }
    # Its payload is bare: the byte 0 is a field's.
    assert (result["guid, before a prefix"], result["null"]) == (0, None)
    other = str(uuid.UUID(bytes=OTHER_GUID[1:]))
    assert result["unknown guid"] == (
        "UNKNOWN_SCHEMA_ID",
        f"no schema of the registry has GUID {other} (or not that message)",
    )
    assert result["unknown id"][1] == "no schema of the registry has id 2 (or not that message)"
    for name, begin in (
        ("cut short", "16 bytes: 0x01000102"),
        ("another byte", "17 bytes: 0x0200"),
        ("empty header", "0 bytes: 0x"),
    ):
        reason, message = result[name]
        assert reason == "SCHEMA_ID_IN_HEADER"
        assert message.startswith(f"the record's header {mine} has {begin}")
        assert "names no schema: a byte 0x00 and an id of four bytes do, or a byte 0x01 and a GUID" in message
    assert result["bare"][0] == "NO_SCHEMA_ID"
    assert [result[name][0] for name in ("none of the schema", "empty")] == ["PAYLOAD_MISMATCH"] * 2


@pytest.mark.parametrize("side", ["key", "value"])
def test_confluents_deserializer_reads_it_alike(spark: SparkSession, side: Side) -> None:
    """The same id or GUID, and the same payload. Of two headers Java's takes the last, as here, Python's the first."""
    field = MessageField.KEY if side == "key" else MessageField.VALUE
    rows = [row for row in records(side) if row[0] != "last of two" and row[1] is not None]
    found = new_headers(batch(spark, rows), {side: Confluent()}, {side: "raw"}, {side: []}, ())
    references = set()
    for _, raw, headers in rows:
        assert raw is not None
        id = ConfluentId("AVRO")
        try:
            dual_schema_id_deserializer(raw, SerializationContext("t", field, headers), id)
        except Exception:
            continue
        references.add(id.id_to_bytes() if id.guid is None else id.guid_to_bytes())
    assert {each.header for each in found} == references


def test_indexes_of_a_message_lie_in_the_header(spark: SparkSession) -> None:
    """They are of Protobuf, and stand behind the id or the GUID, wherever that is."""
    name, indexes = RECORD_HEADER["value"], wire.prefix((2, 1))
    rows: Records = [
        ("prefix", ID + indexes + b"\x08\x01", []),
        ("id", b"\x08\x01", [(name, ID + indexes)]),
        ("guid", b"\x08\x01", [(name, GUID + b"\0")]),
        ("malformed", b"\x08\x01", [(name, GUID + b"\x80")]),
    ]
    found = new_headers(batch(spark, rows), {"value": Confluent()}, {"value": "raw"}, {"value": []}, {"value"})
    assert {each.header for each in found} == {ID + indexes, GUID + b"\0", GUID}


def test_glue_has_no_such_schema(spark: SparkSession) -> None:
    """The payload's first bytes are no id of AWS Glue's either."""
    version = "00000000-0000-0000-0000-000000000001"
    begin = Glue().header(version)
    branches = SchemaBranches((SchemaBranch(begin, version, "it", SCHEMA, AvroReader(TEXT), SCHEMA),), Glue())
    rows: Records = [
        ("framed", begin + PAYLOAD, []),
        ("named", begin + PAYLOAD, [(RECORD_HEADER["value"], GUID)]),
    ]
    frame = batch(spark, rows)
    assert new_headers(frame, {"value": Glue()}, {"value": "raw"}, {"value": [begin]}, ()) == []
    result = read(frame, "value", branches)
    assert result["framed"] == 1
    assert result["named"][0] == "SCHEMA_ID_IN_HEADER"
    assert "registry.glue asks AWS Glue; write registry.url instead" in result["named"][1]


def test_a_schema_file_reads_it(spark: SparkSession) -> None:
    """The payload is bare, as plain Avro is."""
    branches = SchemaBranches((SchemaBranch(b"", None, "it", SCHEMA, AvroReader(TEXT), SCHEMA),), None)
    frame = batch(spark, [("bare", PAYLOAD, [(RECORD_HEADER["value"], GUID)])])
    assert read(frame, "value", branches) == {"bare": 1}
