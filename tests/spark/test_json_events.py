"""Change events of JSON without schemas: the same rows as with them, and events of other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.cdc.decoded import RULES
from support.cdc.recording import load
from support.records.change_events import event

from lakeingest import config
from lakeingest.config import PipelineConfig, file
from lakeingest.decode import json_events, readers, rowless, writers
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.record import RESCUED
from lakeingest.schema import model
from lakeingest.spark.types import of_columns, struct

_RECORDINGS = Path(__file__).parent.parent / "fixtures" / "debezium"
_DEBEZIUM = {"format": "debezium"}
MAXWELL = {
    "format": "fields",
    "after": "data",
    "op": "type",
    "values": {
        "insert": ["insert"],
        "update": ["update"],
        "delete": ["delete"],
        "snapshot": ["bootstrap-insert"],
    },
    "position": ["xid", "xoffset"],
    "changed_at": "ts",
}
CANAL = {
    "format": "fields",
    "after": "data",
    "op": "type",
    "values": {"insert": ["INSERT"], "update": ["UPDATE"], "delete": ["DELETE"], "truncate": ["TRUNCATE"]},
    "changed_at": "es",
}


def pipeline_of(columns: str, envelope: Mapping[str, Any], **value: Any) -> PipelineConfig:
    return file.from_mapping(
        {
            "name": "events",
            "source": {"topics": ["events"]},
            "decode": {"value": {"format": "json", **value}, "envelope": envelope},
            "schema": {"columns": columns},
            "table": {"path": "/lake/events"},
        }
    )


def frame_of(
    spark: SparkSession, branches: SchemaBranches, target: T.StructType, values: Sequence[Mapping[str, Any] | bytes]
) -> DataFrame:
    """at, the columns of the row, and why there is none."""
    raw = [(at, each if isinstance(each, bytes) else json.dumps(each).encode()) for at, each in enumerate(values)]
    frame = spark.createDataFrame([(at, bytearray(each)) for at, each in raw], "at INT, raw BINARY")
    read = writers.read("value", F.col("raw"), branches, target, 2**24)
    for stage in read.stages:
        frame = frame.withColumns(stage)
    (misfit,) = read.refusals
    row = [F.when(~misfit.when, column).alias(name) for name, column in read.columns.items()]
    return frame.select("at", *row, F.when(misfit.when, misfit.diagnosis()["message"]).alias("why")).orderBy("at")


def rows(
    spark: SparkSession,
    columns: str,
    envelope: Mapping[str, Any],
    values: Sequence[Mapping[str, Any] | bytes],
    **value: Any,
) -> list[Any]:
    pipeline = pipeline_of(columns, envelope, **value)
    frame = frame_of(spark, json_events.branches(pipeline), struct(pipeline.declared), values)
    return [row.asDict() for row in frame.collect()]


_OTHER_TYPES = ("Timestamp", "Time", "MicroTime", "NanoTime", "Bits", "VariableScaleDecimal")
"""Of Debezium's types, those that become texts with a schema alone, and times of another unit."""


def is_same_type(tree: Mapping[str, Any]) -> bool:
    inner = tree.get("items", tree)
    return inner.get("name", "").rpartition(".")[2] not in _OTHER_TYPES and inner["type"] not in ("struct", "float32")


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_rows_are_those_with_schemas(spark: SparkSession, name: str) -> None:
    """Of what real connectors sent of a column of each type."""
    recorded = [json.loads(each["value"]) for each in load(_RECORDINGS / f"{name}.json-schema.everything.jsonl")]
    schema = recorded[0]["schema"]
    same = [each for each in recorded if each["schema"] == schema]
    trees = next(each for each in schema["fields"] if each["field"] == "after")["fields"]
    names = [tree["field"] for tree in trees if is_same_type(tree)]
    assert len(names) >= 20
    reading = readers.read(
        config.ConnectJsonFormat(format="connect_json"), "CONNECT", json.dumps(schema), (), b"", rules=RULES
    )
    assert reading is not None
    kept = {*names, "_change", "_position", "_changed_at", "_unavailable"}
    columns = [each for each in model.value_columns(reading.schema) if each.name in kept]
    target = of_columns(columns)
    branch = SchemaBranch(b"", None, "it", reading.schema, reading.reader, reading.schema)
    by_schema = frame_of(spark, SchemaBranches((branch,), None), target, same)
    declared = ", ".join(f"{each.name} {each.type}" for each in columns if not each.name.startswith("_"))
    pipeline = pipeline_of(declared, _DEBEZIUM, epoch="micros")
    payloads = [each["payload"] for each in same]
    by_file = frame_of(spark, json_events.branches(pipeline), struct(pipeline.declared), payloads)
    both = (
        by_schema.select("at", by_schema["why"].isNull().alias("fits"))
        .where("fits")
        .join(by_file.select("at", "why").where("why IS NULL"), "at")
        .select("at")
    )
    assert both.count() >= 4
    texts = [F.to_json(F.struct(*(c for c in target.names))).alias("row")]
    assert_df_equality(
        by_file.join(both, "at").select("at", *texts),
        by_schema.join(both, "at").select("at", *texts),
        ignore_row_order=True,
        ignore_nullable=True,
    )


def test_what_nothing_in_a_record_tells_is_declared(spark: SparkSession) -> None:
    columns = "id INT, price DECIMAL(10,2), day DATE, at TIMESTAMP_NTZ, seen TIMESTAMP, raw BINARY, doc STRING"
    written = {
        "id": 1,
        "price": "z8c=",
        "day": -1,
        "at": 1_000_001,
        "seen": "2026-11-30T01:02:03.5+02:00",
        "raw": "AP8=",
        "doc": "__debezium_unavailable_value",
        "more": 1.50,
    }
    iso = {"id": 2, "price": None, "day": "2024-02-29Z", "at": "2024-02-29T12:00:00Z", "seen": 1_000_000}
    first, second = rows(spark, columns, _DEBEZIUM, [event("u", written, 7), event("d", iso, 8)], epoch="micros")
    assert (first["why"], second["why"]) == (None, None)
    assert (first["price"], first["day"]) == (Decimal("-123.45"), date(1969, 12, 31))
    assert (first["at"], bytes(first["raw"])) == (datetime(1970, 1, 1, 0, 0, 1, 1), b"\x00\xff")
    assert first["seen"].astimezone(UTC) == datetime(2026, 11, 29, 23, 2, 3, 500_000, UTC)
    assert (first["doc"], first["_unavailable"], first[RESCUED]) == (None, {"doc": None}, '{"more":1.5}')
    assert (first["_change"], tuple(first["_position"])) == ("update", (6, 7, 0))
    assert (second["day"], second["at"]) == (date(2024, 2, 29), datetime(2024, 2, 29, 12))
    assert (second["_change"], second["seen"].astimezone(UTC)) == ("delete", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))


@pytest.mark.parametrize("written", [123.45, "123.45"])
def test_decimals_may_be_numbers(spark: SparkSession, written: float | str) -> None:
    numeric = {**_DEBEZIUM, "decimals": "numeric"}
    (row,) = rows(spark, "price DECIMAL(10,2)", numeric, [event("c", {"price": written}, 7)])
    assert (row["why"], row["price"]) == (None, Decimal("123.45"))


@pytest.mark.parametrize(
    ("source", "connector", "expected"),
    [
        ({"lsn": 9, "sequence": '[null,"9"]'}, None, (9, 9, 0)),
        ({"file": "mysql-bin.000123", "pos": 456, "row": 2, "lsn": None}, None, (123, 456, 2)),
        ({"scn": 90, "commit_scn": "100"}, None, (100, 90, 0)),
        ({"unheard_of": "x"}, None, (0, 0, 0)),
        (
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ab8:0001", "event_serial_no": 2},
            "sqlserver",
            ((0x27 << 48) + (0xAC0 << 16) + 2, (0x27 << 48) + (0xAB8 << 16) + 1, 2),
        ),
    ],
)
def test_an_event_tells_its_place(
    spark: SparkSession, source: dict[str, Any], connector: str | None, expected: tuple[int, int, int]
) -> None:
    envelope = {**_DEBEZIUM, "connector": connector} if connector else _DEBEZIUM
    (row,) = rows(spark, "id INT", envelope, [event("c", {"id": 1}, 7, source=source)])
    assert (row["why"], tuple(row["_position"])) == (None, expected)


_LSN = {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ab8:0001"}
NO_EVENTS: list[tuple[Mapping[str, Any] | bytes, str]] = [
    (event("x", {"id": 1}, 7), "op is x, and none of r, c, u, d, t"),
    ({"id": 1}, "op is null, and none of r, c, u, d, t"),
    (event("c", None, 7), "op is c, and after, which has the row, is null"),
    (event("d", None, 7), "op is d, and before, which has the row, is null"),
    (event("c", {"id": "one"}, 7), 'id = "one" is no INT'),
    (event("c", {"day": 2**31 - 1}, 7), "day = 2147483647 is no DATE"),
    (event("c", {"at": 1_796_000_000_000_000}, 7), "see decode.value.epoch"),
    (event("c", {"price": "12.50"}, 7), 'price = "12.50" is no DECIMAL(5,2)'),
    (event("c", {"id": 1}, 7, source=_LSN), "write decode.envelope.connector: sqlserver"),
    (b"{", "schema.columns"),
    (b'{"op":"c","after":[{"id":1}]}', "a JSON object is needed, this is an array"),
    (b'{"op":"c","source":{"lsn":"x"},"after":{"id":1}}', 'source.lsn = "x" is no BIGINT'),
]


def test_what_is_no_event_is_refused_with_its_reason(spark: SparkSession) -> None:
    columns = "id INT, day DATE, at TIMESTAMP_NTZ, price DECIMAL(5,2)"
    refused = rows(spark, columns, _DEBEZIUM, [value for value, _ in NO_EVENTS])
    for row, (_, message) in zip(refused, NO_EVENTS, strict=True):
        assert message in (row["why"] or ""), message


def test_what_is_about_no_row_is_no_row(spark: SparkSession) -> None:
    """What real connectors sent to their topics of heartbeats, transactions, messages and DDL; and what looks alike."""
    topics = {"heartbeat": "__debezium-heartbeat.", "transaction marker": ".transaction", "logical message": ".message"}
    sent = [each for name in ("postgres", "mariadb") for each in load(_RECORDINGS / f"{name}.json.jsonl")]
    values = {kind: [each for each in sent if part in each["topic"]] for kind, part in topics.items()}
    values["schema change"] = [each for each in sent if each["topic"] == "maria"]
    values["row"] = [each for each in sent if "orders" in each["topic"] and each["value"] is not None]
    assert {kind: len(each) for kind, each in values.items()} == {
        "heartbeat": 8,
        "transaction marker": 128,
        "logical message": 2,
        "schema change": 23,
        "row": 50,
    }
    branches = json_events.branches(pipeline_of("id INT", _DEBEZIUM))
    alike = [{"ts_ms": 1, "id": 1}, {"op": "m"}, {"status": "BEGIN", "id": "1"}, {"ddl": "DROP TABLE t"}, {}]
    raw = [(kind, each["value"].encode()) for kind, records in values.items() for each in records]
    raw += [("alike", json.dumps(each).encode()) for each in alike] + [("alike", b"{"), ("alike", None)]
    frame = spark.createDataFrame([(kind, each and bytearray(each)) for kind, each in raw], "kind STRING, raw BINARY")
    read = writers.read("value", F.col("raw"), branches, struct("id INT"), 2**24)
    for stage in read.stages:
        frame = frame.withColumns(stage)
    counted = frame.groupBy("kind", rowless.kind(read.rowless).alias("rowless")).count().collect()
    assert {(row["kind"], row["rowless"]): row["count"] for row in counted} == {
        ("heartbeat", "heartbeat"): 8,
        ("transaction marker", "transaction marker"): 128,
        ("logical message", "logical message"): 2,
        ("schema change", "schema change"): 23,
        ("row", None): 50,
        ("alike", None): 7,
    }


def test_columns_of_other_names(spark: SparkSession) -> None:
    values = [event("c", {"Order Id": 1, "x": "y"}, 7)]
    (row,) = rows(spark, "id INT FROM 'Order Id'", _DEBEZIUM, values)
    assert (row["why"], row["id"], row[RESCUED]) == (None, 1, '{"x":"y"}')


def maxwell(type: str, data: Mapping[str, Any], xid: int, **more: Any) -> dict[str, Any]:
    head = {"database": "shop", "table": "orders", "type": type, "ts": 1_477_053_217, "xid": xid}
    return {**head, "position": "master.000006:800911", "data": data, **more}


def test_events_of_maxwell(spark: SparkSession) -> None:
    row = {"id": 1, "price": 12.5, "at": "2016-10-21 05:33:37"}
    values = [
        maxwell("bootstrap-insert", row, 1),
        maxwell("insert", row, 2, xoffset=3),
        maxwell("update", row, 4, old={"price": 1}),
        maxwell("delete", row, 5),
        maxwell("table-alter", {}, 6),
        maxwell("insert", row, 7, xoffset="x"),
    ]
    *good, other, wrong = rows(spark, "id INT, price DECIMAL(10,2), at TIMESTAMP_NTZ", MAXWELL, values, epoch="seconds")
    assert [each["why"] for each in good] == [None] * 4
    assert [each["_change"] for each in good] == ["snapshot", "insert", "update", "delete"]
    assert [tuple(each["_position"]) for each in good] == [(1, 0, 0), (2, 3, 0), (4, 0, 0), (5, 0, 0)]
    assert {(each["id"], each["price"], each["at"]) for each in good} == {
        (1, Decimal("12.50"), datetime(2016, 10, 21, 5, 33, 37))
    }
    assert good[0]["_changed_at"].astimezone(UTC) == datetime.fromtimestamp(1_477_053_217, UTC)
    assert "type is table-alter, and none of insert, update, delete, bootstrap-insert" in other["why"]
    assert "xoffset, which tells the order, is no whole number" in wrong["why"]


def canal(type: str, *data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "data": [*data],
        "type": type,
        "es": 1_589_373_560_000,
        "ts": 1_589_373_560_798,
        "isDdl": False,
        "old": None,
    }


def test_events_of_canal(spark: SparkSession) -> None:
    one, other = {"id": "1", "price": "12.50"}, {"id": "2", "price": "1"}
    values = [canal("INSERT", one), canal("DELETE", other), canal("INSERT", one, other), canal("UPDATE")]
    first, second, many, none = rows(spark, "id INT, price DECIMAL(10,2)", CANAL, values, numbers_in_quotes=True)
    assert [(each["why"], each["_change"], each["id"]) for each in (first, second)] == [
        (None, "insert", 1),
        (None, "delete", 2),
    ]
    assert first["_changed_at"].astimezone(UTC) == datetime.fromtimestamp(1_589_373_560, UTC)
    assert "data has 2 rows, and one record is one row here" in many["why"]
    assert "data has 0 rows" in none["why"]
