"""Debezium's change events: what their values become, and which of them are no rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.cdc.decoded import decoded
from support.records.change_events import Columns, event, named, schema, value

from lakeingest import config
from lakeingest.decode import readers

_FORMAT = config.ConnectJsonFormat(format="connect_json")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def rows_of(
    spark: SparkSession, columns: Columns, payloads: list[Mapping[str, Any]], source: Mapping[str, str] | None = None
) -> list[Any]:
    """Of each payload the row and why there is none."""
    described = schema(columns, source=source)
    values = [value(described, payload) for payload in payloads]
    return decoded(spark, _FORMAT, readers.CONNECT, json.dumps(described), values)


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


TYPES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "int16"}, -32768, -32768),
    ({"type": "int64"}, 2**63 - 1, 2**63 - 1),
    ({"type": "double"}, 0.1, 0.1),
    ({"type": "double"}, "-Infinity", float("-inf")),
    ({"type": "float"}, 1.5, 1.5),
    ({"type": "boolean"}, True, True),
    ({"type": "string"}, "é ${HOME} \u0000", "é ${HOME} \u0000"),
    ({"type": "bytes"}, b64(b"\x00\xff"), b"\x00\xff"),
    ({"type": "bytes"}, "", b""),
    (named("int32", "io.debezium.time.Date"), 20000, date(2024, 10, 4)),
    (named("int32", "io.debezium.time.Date"), -719162, date(1, 1, 1)),
    (named("int64", "io.debezium.time.Timestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
    (named("int64", "io.debezium.time.MicroTimestamp"), 1, datetime(1970, 1, 1, 0, 0, 0, 1)),
    (named("int64", "io.debezium.time.NanoTimestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (
        named("string", "io.debezium.time.ZonedTimestamp"),
        "2026-11-30T01:02:03.123456+02:00",
        datetime(2026, 11, 29, 23, 2, 3, 123456, tzinfo=UTC),
    ),
    (named("int32", "io.debezium.time.Time"), 3_600_000, "01:00:00.000000"),
    (named("int64", "io.debezium.time.MicroTime"), 86_399_999_999, "23:59:59.999999"),
    (named("int64", "io.debezium.time.MicroTime"), -3_020_399_000_000, "-838:59:59.000000"),
    (named("int64", "io.debezium.time.NanoTime"), 1_000_001_999, "00:00:01.000001"),
    (named("string", "io.debezium.time.ZonedTime"), "10:00:00Z", "10:00:00Z"),
    (named("string", "io.debezium.data.Json"), '{"a": 1}', '{"a": 1}'),
    (named("int32", "io.debezium.time.Year"), 2026, 2026),
    (named("bytes", "io.debezium.data.Bits", length="12"), b64(b"\x34\x02"), "001000110100"),
    (named("bytes", "io.debezium.data.Bits", length="8"), "", "00000000"),
    (named("string", "io.debezium.time.IsoDate"), "2024-02-29Z", date(2024, 2, 29)),
    (named("string", "io.debezium.time.IsoTime"), "12:34:56.789Z", "12:34:56.789"),
    (
        named("string", "io.debezium.time.IsoTimestamp"),
        "2024-02-29T12:34:56.000001Z",
        datetime(2024, 2, 29, 12, 34, 56, 1),
    ),
    (named("bytes", _DECIMAL, scale="2"), b64((-12345).to_bytes(3, "big", signed=True)), Decimal("-123.45")),
    (
        named("bytes", _DECIMAL, scale="0", **{"connect.decimal.precision": "38"}),
        b64((10**38 - 1).to_bytes(16, "big", signed=True)),
        Decimal(10**38 - 1),
    ),
    (named("int32", "org.apache.kafka.connect.data.Date"), 0, date(1970, 1, 1)),
    (named("int64", "org.apache.kafka.connect.data.Timestamp"), 1500, datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ({"type": "array", "items": {"type": "string"}}, ["a", None], ["a", None]),
    (
        {"type": "array", "items": named("int32", "io.debezium.time.Date")},
        [0, None],
        [date(1970, 1, 1), None],
    ),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, {"a": "b"}, {"a": "b"}),
]
"""A type, a value as it is written, and what its column has."""


def test_semantic_types_become_columns(spark: SparkSession) -> None:
    columns = {f"c{at}": kind for at, (kind, _, _) in enumerate(TYPES)}
    (row,) = rows_of(spark, columns, [event("c", {f"c{at}": each for at, (_, each, _) in enumerate(TYPES)}, 7)])
    assert row["why"] is None
    for at, (kind, written, expected) in enumerate(TYPES):
        value = row["row"][f"c{at}"]
        is_instant = isinstance(expected, datetime) and expected.tzinfo
        assert (value.astimezone(UTC) if is_instant else value) == expected, (kind, written)


_VARIABLE = {
    **named("struct", "io.debezium.data.VariableScaleDecimal"),
    "fields": [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ],
}


def test_decimals_of_any_scale_are_texts(spark: SparkSession) -> None:
    numbers = [(12345, 3), (-5, 3), (0, 2), (7, 0), (12, -3), (-(10**30), 30)]
    written = ({"scale": scale, "value": b64(number.to_bytes(14, "big", signed=True))} for number, scale in numbers)
    rows = rows_of(spark, {"c": _VARIABLE}, [event("c", {"c": each}, 7) for each in written])
    assert [row["row"]["c"] for row in rows] == ["12.345", "-0.005", "0.00", "7", "12000", f"-1.{'0' * 30}"]


def test_a_row_of_each_operation(spark: SparkSession) -> None:
    columns = {"id": {"type": "int64"}, "doc": {"type": "string"}}
    one, other = {"id": 1, "doc": "a"}, {"id": 1, "doc": None}
    payloads = [
        event("r", one, 1),
        event("c", one, 2),
        event("u", {"id": 1, "doc": "__debezium_unavailable_value"}, 3, before=one),
        event("d", other, 4),
        event("t", None, 5),
    ]
    rows = [row["row"] for row in rows_of(spark, columns, payloads)]
    assert [row["_change"] for row in rows] == ["snapshot", "insert", "update", "delete", "truncate"]
    assert [(row["id"], row["doc"]) for row in rows] == [(1, "a"), (1, "a"), (1, None), (1, None), (None, None)]
    assert [tuple(row["_position"]) for row in rows] == [(at - 1, at, 0) for at in range(1, 6)]
    assert [row["_unavailable"] for row in rows] == [None, None, {"doc": None}, None, None]
    assert rows[0]["_changed_at"].astimezone(UTC) == datetime.fromtimestamp(1_796_000_000.001, UTC)


PLACEHOLDERS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "__debezium_unavailable_value"),
    ({"type": "bytes"}, b64(b"__debezium_unavailable_value")),
    ({"type": "array", "items": {"type": "string"}}, ["__debezium_unavailable_value"]),
    ({"type": "array", "items": {"type": "int32"}}, list(b"__debezium_unavailable_value")),
    (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    ),
    (named("string", "io.debezium.data.Json"), "__debezium_unavailable_value"),
]
"""A type, and what stands for a value of it that was not logged."""


def test_a_placeholder_is_no_value(spark: SparkSession) -> None:
    columns = {f"c{at}": kind for at, (kind, _) in enumerate(PLACEHOLDERS)}
    (row,) = rows_of(spark, columns, [event("u", {f"c{at}": each for at, (_, each) in enumerate(PLACEHOLDERS)}, 7)])
    assert [row["row"][name] for name in columns] == [None] * len(columns)
    assert row["row"]["_unavailable"] == dict.fromkeys(columns)


@pytest.mark.parametrize(
    ("source", "fields", "expected"),
    [
        ({"lsn": "int64"}, {"lsn": 9}, (9, 9, 0)),
        ({"lsn": "int64", "sequence": "string"}, {"lsn": 9, "sequence": '[null,"9"]'}, (9, 9, 0)),
        (
            {"lsn": "int64", "sequence": "string"},
            {"lsn": 2**62, "sequence": f'["{2**62 - 1}","{2**62}"]'},
            (2**62 - 1, 2**62, 0),
        ),
        (
            {"file": "string", "pos": "int64", "row": "int32"},
            {"file": "mysql-bin.000123", "pos": 456, "row": 2},
            (123, 456, 2),
        ),
        (
            {"commit_lsn": "string", "change_lsn": "string", "event_serial_no": "int64"},
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ab8:0001", "event_serial_no": 2},
            ((0x27 << 48) + (0xAC0 << 16) + 2, (0x27 << 48) + (0xAB8 << 16) + 1, 2),
        ),
        ({"scn": "string", "commit_scn": "string"}, {"scn": "90", "commit_scn": "100"}, (100, 90, 0)),
        ({"unheard_of": "string"}, {"unheard_of": "x"}, (0, 0, 0)),
    ],
)
def test_the_place_in_the_log(
    spark: SparkSession, source: dict[str, str], fields: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    (row,) = rows_of(spark, {"id": {"type": "int64"}}, [event("c", {"id": 1}, 7, source=fields)], source)
    assert tuple(row["row"]["_position"]) == expected


NO_ROWS: list[tuple[dict[str, Any], str]] = [
    (event("x", {"id": 1}, 7), "op is x, and none of r, c, u, d, t"),
    (event("c", None, 7), "op is c, and after, which has the row, is null"),
    (event("d", None, 7), "op is d, and before, which has the row, is null"),
    (event("c", {"id": 1, "day": 2**31 - 1}, 7), "day has no value that a DATE can hold"),
    (event("c", {"id": "one"}, 7), "id"),
]


def test_what_is_no_row_is_refused_with_its_reason(spark: SparkSession) -> None:
    columns = {"id": {"type": "int64"}, "day": named("int32", "io.debezium.time.Date")}
    rows = rows_of(spark, columns, [payload for payload, _ in NO_ROWS])
    for row, (_, message) in zip(rows, NO_ROWS, strict=True):
        assert message in row["why"]
