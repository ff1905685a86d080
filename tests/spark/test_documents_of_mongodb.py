"""Change events of MongoDB's connector: rows of documents, with and without schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.cdc.decoded import decoded
from support.records.documents import SCHEMA, SECOND, document
from test_json_events import rows

from lakeingest import config
from lakeingest.decode import extended_json
from lakeingest.record import RESCUED

ENVELOPE = {"format": "debezium", "connector": "mongodb"}
OID = "596e275826f08b2730779e1f"
_WHOLE = {
    "_id": {"$oid": OID},
    "count": {"$numberLong": "9007199254740993"},
    "price": {"$numberDecimal": "12.50"},
    "made": {"$date": 1_700_000_000_123},
    "raw": {"$binary": "AP8=", "$type": "00"},
    "lines": [{"sku": "a", "n": {"$numberLong": "2"}}],
    "note": 'says {"$oid": "x"}',
    "more": {"at": {"$date": 5}},
}
_COLUMNS = (
    "id STRING FROM '_id', count BIGINT, price DECIMAL(10,2), made TIMESTAMP, raw BINARY, "
    "lines ARRAY<STRUCT<sku: STRING, n: INT>>, note STRING"
)


def test_a_document_becomes_the_declared_columns(spark: SparkSession) -> None:
    values = [document("c", _WHOLE, 3, 7), document("u", {"_id": 5, "note": None}, 4), document("r", {"_id": "x"}, 0)]
    whole, update, snapshot = rows(spark, _COLUMNS, ENVELOPE, values)
    assert [each["why"] for each in (whole, update, snapshot)] == [None] * 3
    assert (whole["id"], whole["count"], whole["price"]) == (OID, 9007199254740993, Decimal("12.50"))
    assert whole["made"].astimezone(UTC) == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert (bytes(whole["raw"]), whole["lines"], whole["note"]) == (b"\x00\xff", [("a", 2)], 'says {"$oid": "x"}')
    assert whole[RESCUED] == '{"more":{"at":5}}'
    assert (whole["_change"], tuple(whole["_position"])) == ("insert", (SECOND + 3000, 7, 0))
    assert whole["_changed_at"].astimezone(UTC) == datetime.fromtimestamp(SECOND // 1000 + 3, UTC)
    assert (update["id"], update["_change"]) == ("5", "update")
    assert (snapshot["id"], snapshot["_change"]) == ("x", "snapshot")


def test_a_delete_has_a_document_if_the_database_kept_it(spark: SparkSession) -> None:
    values = [document("d", None, 5), document("d", None, 6, before=_WHOLE)]
    bare, kept = rows(spark, "id STRING FROM '_id', count BIGINT", ENVELOPE, values)
    assert [(each["why"], each["_change"]) for each in (bare, kept)] == [(None, "delete")] * 2
    assert [(each["id"], each["count"]) for each in (bare, kept)] == [(None, None), (OID, 9007199254740993)]
    assert bare[RESCUED] is None


_CURE = "set capture.mode of the connector to change_streams_update_full"


@pytest.mark.parametrize(
    ("envelope", "value", "message"),
    [
        (ENVELOPE, document("u", None, 3), _CURE),
        (ENVELOPE, document("c", None, 3), "op is c, and after, which has the row, is null"),
        (ENVELOPE, document("c", {"_id": 1, "made": {"$timestamp": {"t": 1, "i": 2}}}, 3), "is no TIMESTAMP"),
        ({"format": "debezium"}, document("c", {"_id": 1}, 3), "write decode.envelope.connector: mongodb"),
    ],
)
def test_what_is_no_document_is_refused_with_its_reason(
    spark: SparkSession, envelope: Mapping[str, Any], value: Mapping[str, Any], message: str
) -> None:
    (row,) = rows(spark, "id STRING FROM '_id', made TIMESTAMP", envelope, [value])
    assert message in (row["why"] or "")


def test_with_schemas_a_row_is_the_document_as_a_text(spark: SparkSession) -> None:
    events = [document("c", _WHOLE, 3, 7), document("d", None, 4), document("u", None, 5)]
    format = config.ConnectJsonFormat(format="connect_json")
    values = [json.dumps({"schema": SCHEMA, "payload": each}).encode() for each in events]
    whole, deleted, updated = decoded(spark, format, "CONNECT", json.dumps(SCHEMA), values)
    names = ["document", "_change", "_position", "_changed_at", "_unavailable"]
    assert whole["row"].__fields__ == [*names, RESCUED]
    assert json.loads(whole["row"]["document"]) == _WHOLE
    assert (whole["row"]["_change"], tuple(whole["row"]["_position"])) == ("insert", (SECOND + 3000, 7, 0))
    assert (deleted["why"], deleted["row"]["_change"], deleted["row"]["document"]) == (None, "delete", None)
    assert _CURE in updated["why"]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ('{"a": {"$numberInt": "1"}, "b": {"$numberDouble" : "-1.5E+3"}}', '{"a": 1, "b": -1.5E+3}'),
        ('{"a": {"$date": {"$numberLong": "-5"}}}', '{"a": -5}'),
        ('{"a": {"$date": "2024-02-29T12:00:00Z"}}', '{"a": "2024-02-29T12:00:00Z"}'),
        ('{"a": {"$binary": {"base64": "AP8=", "subType": "04"}}}', '{"a": "AP8="}'),
        ('{"a": {"$binary": "AP8=", "$type": "04"}}', '{"a": "AP8="}'),
        ('[{"$oid":"x"},{ "$oid" : "y" }]', '["x","y"]'),
        ('{"a": {"$numberDecimal": "NaN"}}', '{"a": {"$numberDecimal": "NaN"}}'),
        ('{"a": {"$numberLong": "01"}}', '{"a": {"$numberLong": "01"}}'),
        (r'{"a": "{\"$oid\": \"x\"}", "b{": "$oid"}', r'{"a": "{\"$oid\": \"x\"}", "b{": "$oid"}'),
        ('{"a": {"$oid": "x", "b": 1}}', '{"a": {"$oid": "x", "b": 1}}'),
        (None, None),
    ],
)
def test_types_are_taken_off_values(spark: SparkSession, written: str | None, plain: str | None) -> None:
    frame = spark.createDataFrame([(written,)], "text STRING")
    (row,) = frame.select(extended_json.plain(F.col("text")).alias("plain")).collect()
    assert row["plain"] == plain
