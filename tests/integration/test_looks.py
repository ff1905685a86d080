"""What bytes of another format look like: said of bytes, of a column, in quarantine, and where no table can be made."""

from __future__ import annotations

import bz2
import gzip
import json
from typing import Any

import kit
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.decode import sniff
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

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
        (b"Obj\x01\x04\x14avro.codec", "json", "looks like an Avro object container file"),
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


def test_the_key_is_told_of_by_its_own_name() -> None:
    """What is wrong with a key is no matter of decode.value."""
    assert sniff.of(JSON, "registry", "key") == "looks like JSON; write decode.key.format: json"


AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "at", "type": "string"}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "decode", "reason", "said"),
    [
        (b"\0\0\0\0\x07\x06JFK", {"format": "json"}, "BROKEN_JSON", REGISTRY),
        (b"\0\0\0\0\xe7\x06JFK", {"format": "json"}, "INVALID_UTF8", "(byte 0, schema id 231)"),
        (gzip.compress(JSON, mtime=0), {"format": "json"}, "INVALID_UTF8", "with gzip"),
        (gzip.compress(JSON, mtime=0), {"format": "string"}, "INVALID_UTF8", "with gzip"),
        (JSON, {"format": "avro"}, "NO_SCHEMA_ID", AS_JSON),
        (JSON, {"format": "protobuf"}, "NO_SCHEMA_ID", AS_JSON),
        (JSON, {"format": "json_schema"}, "NO_SCHEMA_ID", AS_JSON),
    ],
    ids=["framed", "framed-no-text", "gzip", "text", "avro", "protobuf", "json_schema"],
)
def test_quarantine_says_what_it_looks_like(
    stack: Addresses, spark: SparkSession, named: str, *, value: bytes, decode: dict[str, Any], reason: str, said: str
) -> None:
    """Whoever wrote the wrong format reads which one would do."""
    kit.produce(stack, named, [value])
    schema = {"schema": {}} if decode["format"] != "json" else {}
    changes = {"decode": {"value": decode}, "registry": {"url": stack.registry}} | schema
    values = {**kit.values_of(stack, named, **changes), **schema}
    ingestion = Pipeline(kit.file.from_mapping(values))
    assert ingestion.run(until_caught_up=True).refused == 1
    (found,) = ingestion.quarantined()
    assert (found["reason"], said in found["samples"][0]["message"]) == (reason, True), found


@pytest.mark.slow
def test_plain_avro_that_was_written_with_a_registry(stack: Addresses, named: str, tmp_path: Any) -> None:
    """A schema file says that no header is there, and the bytes say that one is."""
    (tmp_path / "r.avsc").write_text(AVRO, encoding="utf-8")
    kit.produce(stack, named, [b"\0\0\0\0\x07\x06JFK"])
    values = {**kit.values_of(stack, named), "schema": {}}
    values["decode"] = {"value": {"format": "avro", "schema_file": str(tmp_path / "r.avsc")}}
    ingestion = Pipeline(kit.file.from_mapping(values))
    assert ingestion.run(until_caught_up=True).refused == 1
    assert REGISTRY in ingestion.quarantined()[0]["samples"][0]["message"]


@pytest.mark.slow
def test_a_table_that_cannot_be_made_says_what_the_records_are(stack: Addresses, named: str) -> None:
    """A topic of JSON that is read as Avro, partitioned by a field: no schema comes, and the field is not to blame."""
    kit.produce(stack, named, [JSON])
    values = {**kit.values_of(stack, named, registry={"url": stack.registry}), "schema": {}}
    values |= {"decode": {"value": {"format": "avro"}}, "partition": [{"by": "field", "field": "origin"}]}
    with pytest.raises(UsageError) as caught:
        Pipeline(kit.file.from_mapping(values)).run(until_caught_up=True)
    assert f"the value at {named}-0 offset 0 {AS_JSON}" in caught.value.what
    assert "partitioned" not in caught.value.what
