"""What bytes of another format look like: said of bytes, and by a column."""

from __future__ import annotations

import bz2
import gzip
import uuid

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.decode import sniff
from lakeingest.record import HEADERS

JSON = b'{"origin": "JFK"}'

REGISTRY = "looks like a schema registry's framing (byte 0, schema id 7); write decode.value.format: avro, protobuf or"

AS_JSON = "looks like JSON; write decode.value.format: json"

ZSTD = bytes.fromhex("28b52ffd0458")

SNAPPY = bytes.fromhex("82534e415050590000000001")


@pytest.mark.parametrize(
    ("value", "format", "said"),
    [
        (JSON, "registry", AS_JSON),
        (b" \n{ }", "avro", AS_JSON),
        (b"\xef\xbb\xbf[1]", "avro", AS_JSON),
        (JSON, "json", None),
        (b"{flight:1}", "registry", None),
        (b"\0\0\0\0\x07" + JSON, "json", REGISTRY),
        (b"\0\0\0\0\x07\x02", "avro", REGISTRY),
        (b"\0\0\0\0\x07\x02", "registry", None),
        (b"\0\0\0\0\0\0\0\0\x09\x02", "registry", "looks like Apicurio's framing of 8 bytes (byte 0, id 9); let"),
        (b"\0\x20\xff\xff\xff\xff", "json", None),
        (b"\0\0\0\0\0\0\0\0\0\0", "json", None),
        (gzip.compress(JSON, mtime=0), "json", "looks like data compressed with gzip"),
        (ZSTD, "json", "looks like data compressed with zstd; let the producer send it uncompressed"),
        (SNAPPY, "registry", "looks like data compressed with snappy"),
        (bz2.compress(JSON), "json", None),
        (b'{"schema":{"type":"struct"},"payload":1}', "registry", "looks like JSON of Kafka Connect, with its schema"),
        (b'{"schema":{"type":"struct"},"payload":1}', "json", None),
        (bytes(4) + b"0123456789abcdef0123456789ABCDEF\x02", "registry", "looks like Azure Schema Registry's framing"),
        (b"\1" + bytes(7) + b"\5" + bytes(3) + b"\1\2", "registry", "looks like Cloudera's Schema Registry's framing"),
        (b"\1" + bytes(20), "registry", None),
        (b"Obj\x01\x04\x14avro.codec", "json", "looks like an Avro object container file"),
        (
            b"\x03\x05" + uuid.UUID(int=7, version=4).bytes + b"x",
            "avro",
            "looks like AWS Glue Schema Registry's framing",
        ),
        (b"\x03\x05" + uuid.UUID(int=7, version=4).bytes + b"x", "glue", None),
        (b"\0\0\0\0\x07\x02", "glue", REGISTRY),
        (b"\xc3\x01" + bytes(8), "json", "looks like Avro in its single-object encoding"),
        (JSON.decode().encode("utf-16"), "json", "looks like text in UTF-16; let the producer write UTF-8"),
        (JSON.decode().encode("utf-16-le"), "json", "looks like text in UTF-16"),
        (b"JFK,LGA", "json", None),
        (b"\x08\x96\x01", "registry", None),
        (b"", "json", None),
    ],
)
def test_bytes_tell_their_format(spark: SparkSession, value: bytes, format: str, said: str | None) -> None:
    """A column says what a function of bytes does, and nothing is said that is not sure."""
    found = sniff.of(value, format)
    column = spark.createDataFrame([(value,)], "raw BINARY").select(sniff.hint(F.col("raw"), format, "value"))
    assert column.collect()[0][0] == found
    assert found is None if said is None else str(found).startswith(said)


def test_headers_tell_who_wrote_a_record(spark: SparkSession) -> None:
    """Serializers of other registries name the schema there, each in its own way; no other header is taken for it."""
    names: list[tuple[str, list[tuple[str, bytes]] | None, str | None]] = [
        ("apicurio.value.globalId", [("apicurio.value.globalId", bytes(8))], "as Apicurio's serializers do"),
        ("apicurio.value.contentId", [("a", b""), ("apicurio.value.contentId", bytes(8))], "as Apicurio's serializers"),
        ("value.schema.version.id", [("value.schema.version.id", b"\3\0\0\0\1")], "as Cloudera's serializers do"),
        (
            "content-type",
            [("content-type", b"avro/binary+0123456789abcdef0123456789abcdef")],
            "as Azure's serializers do",
        ),
        ("none", [("content-type", b"application/json"), ("apicurio.key.globalId", bytes(8))], None),
        ("no headers", None, None),
    ]
    types = f"name STRING, {HEADERS} ARRAY<STRUCT<key: STRING, value: BINARY>>"
    frame = spark.createDataFrame([(name, headers) for name, headers, _ in names], types)
    hints = {
        row["name"]: row["hint"] for row in frame.select("name", sniff.header_hint("value").alias("hint")).collect()
    }
    for name, _, text in names:
        assert (
            hints[name] is None
            if text is None
            else hints[name].startswith(f"its header {name} names the schema, {text}")
        )
