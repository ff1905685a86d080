"""What bytes of another format look like: said of bytes, of a column, in quarantine, and where no table can be made."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import values_of
from support.records import produce

from lakeingest.config import file
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

JSON = b'{"origin": "JFK"}'

REGISTRY = "looks like a schema registry's framing (byte 0, schema id 7); write decode.value.format: avro, protobuf or"

AS_JSON = "looks like JSON; write decode.value.format: json"

AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "at", "type": "string"}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "decode", "reason", "said"),
    [
        (b"\0\0\0\0\x07\x06JFK", {"format": "json"}, "BROKEN_JSON", REGISTRY),
        pytest.param(
            b"\0\0\0\0\xe7\x06JFK",
            {"format": "json"},
            "INVALID_UTF8",
            "(byte 0, schema id 231)",
            marks=pytest.mark.faults,
        ),
        pytest.param(
            gzip.compress(JSON, mtime=0), {"format": "json"}, "INVALID_UTF8", "with gzip", marks=pytest.mark.faults
        ),
        pytest.param(
            gzip.compress(JSON, mtime=0), {"format": "string"}, "INVALID_UTF8", "with gzip", marks=pytest.mark.faults
        ),
        pytest.param(JSON, {"format": "avro"}, "NO_SCHEMA_ID", AS_JSON, marks=pytest.mark.faults),
        pytest.param(JSON, {"format": "protobuf"}, "NO_SCHEMA_ID", AS_JSON, marks=pytest.mark.faults),
        pytest.param(JSON, {"format": "json_schema"}, "NO_SCHEMA_ID", AS_JSON, marks=pytest.mark.faults),
    ],
    ids=["framed", "framed-no-text", "gzip", "text", "avro", "protobuf", "json_schema"],
)
def test_quarantine_says_what_it_looks_like(
    stack: Addresses, spark: SparkSession, named: str, *, value: bytes, decode: dict[str, Any], reason: str, said: str
) -> None:
    """Whoever wrote the wrong format reads which one would do."""
    produce(stack, named, [value])
    schema = {"schema": {}} if decode["format"] != "json" else {}
    changes = {"decode": {"value": decode}, "registry": {"url": stack.registry}} | schema
    values = {**values_of(stack, named, **changes), **schema}
    ingestion = Pipeline(file.from_mapping(values))
    assert ingestion.run(until_caught_up=True).refused == 1
    (found,) = ingestion.quarantined()
    assert (found["reason"], said in found["samples"][0]["message"]) == (reason, True), found


@pytest.mark.slow
def test_plain_avro_that_was_written_with_a_registry(stack: Addresses, named: str, tmp_path: Any) -> None:
    """A schema file says that no header is there, and the bytes say that one is."""
    (tmp_path / "r.avsc").write_text(AVRO, encoding="utf-8")
    produce(stack, named, [b"\0\0\0\0\x07\x06JFK"])
    values = {**values_of(stack, named), "schema": {}}
    values["decode"] = {"value": {"format": "avro", "schema_file": str(tmp_path / "r.avsc")}}
    ingestion = Pipeline(file.from_mapping(values))
    assert ingestion.run(until_caught_up=True).refused == 1
    assert REGISTRY in ingestion.quarantined()[0]["samples"][0]["message"]


@pytest.mark.slow
def test_a_table_that_cannot_be_made_says_what_the_records_are(stack: Addresses, named: str) -> None:
    """A topic of JSON that is read as Avro, partitioned by a field: no schema comes, and the field is not to blame."""
    produce(stack, named, [JSON])
    values = {**values_of(stack, named, registry={"url": stack.registry}), "schema": {}}
    values |= {"decode": {"value": {"format": "avro"}}, "partition": [{"by": "field", "field": "origin"}]}
    with pytest.raises(UsageError) as caught:
        Pipeline(file.from_mapping(values)).run(until_caught_up=True)
    assert f"the value at {named}-0 offset 0 {AS_JSON}" in caught.value.what
    assert "partitioned" not in caught.value.what
