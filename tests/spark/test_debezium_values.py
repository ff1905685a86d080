"""What real connectors sent of a column of each type becomes: recordings of PostgreSQL and MariaDB."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.cdc.decoded import decoded
from support.cdc.recording import load

from lakeingest.config import AvroFormat, ConnectJsonFormat
from lakeingest.decode.readers import CONNECT

_RECORDINGS = Path(__file__).parent.parent / "fixtures" / "debezium"
_AT = datetime(2024, 2, 29, 12, 34, 56)
POSTGRES: dict[str, Any] = {
    "c_smallint": 42,
    "c_real": 1.5,
    "c_numeric_2": Decimal("123.40"),
    "c_numeric_0": Decimal(123),
    "c_numeric": "3.14159",
    "c_money": Decimal("1234.56"),
    "c_bool": True,
    "c_char": "ab   ",
    "c_bytea": b"\x00\xff\x10",
    "c_date": date(2024, 2, 29),
    "c_time_3": "12:34:56.789000",
    "c_time_6": "12:34:56.789012",
    "c_timestamp_3": _AT.replace(microsecond=789000),
    "c_timestamp_6": _AT.replace(microsecond=789012),
    "c_timestamptz": datetime(2024, 2, 29, 11, 34, 56, 789012, tzinfo=UTC),
    "c_uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "c_jsonb": '{"a": [1, null], "b": 1.50}',
    "c_bit_8": "00000101",
    "c_ints": [1, None, 3],
    "c_numerics": [Decimal("1.50"), None],
    "c_timestamptzs": [datetime(2024, 2, 29, 11, 34, 56, 789012, tzinfo=UTC)],
    "c_hstore": '{"a":"1","b":null}',
    "c_enum": "ok",
}
MARIADB: dict[str, Any] = {
    "c_bigint": 42,
    "c_decimal_2": Decimal("123.40"),
    "c_bit_12": "000000000101",
    "c_date": date(2024, 2, 29),
    "c_time_0": "12:34:56.000000",
    "c_time_6": "12:34:56.789012",
    "c_datetime_6": _AT.replace(microsecond=789012),
    "c_timestamp_0": _AT.replace(tzinfo=UTC),
    "c_year": 2024,
    "c_set": "x,z",
    "c_blob": b"\x00\xff\x10",
}


def events(name: str) -> list[dict[str, Any]]:
    """The recorded values of the table with a column of each type, one behind the other."""
    return [json.loads(each["value"]) for each in load(_RECORDINGS / f"{name}.json-schema.everything.jsonl")]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize(("name", "expected"), [("postgres", POSTGRES), ("mariadb", MARIADB)])
def test_a_column_of_each_type(spark: SparkSession, name: str, expected: dict[str, Any]) -> None:
    recorded = events(name)
    text = json.dumps(recorded[0]["schema"])
    same = [json.dumps(each).encode() for each in recorded if json.dumps(each["schema"]) == text]
    format = ConnectJsonFormat(format="connect_json")
    rows = decoded(spark, format, CONNECT, text, same)
    assert len(rows) >= 4
    reasons = [row["why"] for row in rows if row["why"]]
    # Extremes: times of other millennia, and decimals of more than 38 digits.
    assert all("has no value that" in each for each in reasons), reasons
    first = rows[0]["row"]
    for column, value in expected.items():
        found = plain(first[column])
        if isinstance(value, datetime) and value.tzinfo:
            found = found.astimezone(UTC)
        if isinstance(value, list) and isinstance(value[0], datetime):
            found = [each.astimezone(UTC) for each in found]
        assert found == value, column
    assert first["_change"] == "snapshot"


def test_avro_gives_the_same_rows(spark: SparkSession) -> None:
    """Of the same workload, by another converter."""
    schemas = json.loads((_RECORDINGS / "postgres.avro.schemas.json").read_text())
    records = [each for each in load(_RECORDINGS / "postgres.avro.jsonl") if each["topic"].endswith(".everything")]
    raw = base64.b64decode(records[0]["value"])
    text = json.dumps(schemas[str(int.from_bytes(raw[1:5], "big"))])
    (by_avro,) = decoded(spark, AvroFormat(format="avro"), "AVRO", text, [raw[5:]])
    recorded = events("postgres")[0]
    format, schema = ConnectJsonFormat(format="connect_json"), json.dumps(recorded["schema"])
    (by_json,) = decoded(spark, format, CONNECT, schema, [json.dumps(recorded).encode()])
    assert by_avro["why"] is None
    own = {"_position", "_changed_at"}
    rows = [
        {name: plain(value) for name, value in row["row"].asDict().items() if name not in own}
        for row in (by_avro, by_json)
    ]
    assert rows[0] == rows[1]
