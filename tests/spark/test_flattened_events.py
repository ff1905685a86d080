"""Change events that ExtractNewRecordState has flattened, without schemas: the same rows as with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from support.cdc.decoded import RULES
from support.records.change_events import event, named
from test_json_events import frame_of, pipeline_of, rows

from lakeingest import config
from lakeingest.decode import json_events, readers
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.record import RESCUED
from lakeingest.spark.types import struct

_DEBEZIUM = {"format": "debezium"}
FLATTENED = {**_DEBEZIUM, "flattened": True}
_COLUMNS = "id INT, source STRING, doc STRING, seen TIMESTAMP_NTZ"
_TREE: Mapping[str, Mapping[str, Any]] = {
    "id": {"type": "int32"},
    "source": {"type": "string"},
    "doc": {"type": "string"},
    "seen": named("int64", "io.debezium.time.MicroTimestamp"),
    "__deleted": {"type": "string"},
    "__op": {"type": "string"},
    "__table": {"type": "string"},
    "__lsn": {"type": "int64"},
    "__source_sequence": {"type": "string"},
    "__ts_ms": {"type": "int64"},
    "__source_ts_ms": {"type": "int64"},
}


def flat(op: str | None, at: int, **columns: Any) -> dict[str, Any]:
    """As with add.fields=op,table,lsn,source.sequence,ts_ms,source.ts_ms and rewritten deletes."""
    beside = {"__op": op, "__table": "orders", "__lsn": at, "__source_sequence": f'["{at - 1}","{at}"]'}
    times = {"__ts_ms": 1_796_000_000_500 + at, "__source_ts_ms": 1_796_000_000_000 + at}
    return {**columns, "__deleted": str(op == "d").lower(), **beside, **times}


EVENTS = [
    flat("r", 10, id=1, source="web", doc="a", seen=1_000_001),
    flat("c", 11, id=2, source=None, doc="b", seen=None),
    flat("u", 12, id=1, source="shop", doc="__debezium_unavailable_value", seen=0),
    flat("d", 13, id=2, source=None, doc=None, seen=None),
    flat(None, 14, id=3, source=None, doc=None, seen=None),
    flat("x", 15, id=3, source=None, doc=None, seen=None),
]


def test_rows_of_flattened_events_are_those_with_schemas(spark: SparkSession) -> None:
    tree = {"type": "struct", "fields": [{**each, "field": name, "optional": True} for name, each in _TREE.items()]}
    format = config.ConnectJsonFormat(format="connect_json")
    reading = readers.read(format, "CONNECT", json.dumps(tree), (), b"", rules=RULES)
    assert reading is not None
    branch = SchemaBranch(b"", None, "it", reading.schema, reading.reader, reading.schema)
    pipeline = pipeline_of(_COLUMNS, FLATTENED, epoch="micros")
    target = struct(pipeline.declared)
    enveloped = [{"schema": tree, "payload": each} for each in EVENTS]
    by_schema = frame_of(spark, SchemaBranches((branch,), None), target, enveloped)
    by_file = frame_of(spark, json_events.branches(pipeline), target, EVENTS)
    names = [f"to_json({each}) AS {each}" if each == "_unavailable" else each for each in target.names]
    chosen = ["at", *names, "why IS NULL AS fits"]
    assert_df_equality(by_file.selectExpr(*chosen), by_schema.selectExpr(*chosen), ignore_nullable=True)
    changes = [each["_change"] for each in by_file.collect()]
    assert changes == ["snapshot", "insert", "update", "delete", "update", None]


def test_what_stands_beside_a_flattened_row_is_no_column(spark: SparkSession) -> None:
    values = [flat("u", 12, id=1, source="web"), {**flat("u", 13, id=1), "more": 1.50}]
    first, second = rows(spark, "id INT", FLATTENED, values)
    assert (first["why"], first["id"], tuple(first["_position"])) == (None, 1, (11, 12, 0))
    assert first["_changed_at"].astimezone(UTC) == datetime.fromtimestamp(1_796_000_000.012, UTC)
    assert (first[RESCUED], second[RESCUED]) == ('{"source":"web"}', '{"more":1.5}')


def test_the_time_at_which_a_connector_made_an_event_is_no_time_of_the_database(spark: SparkSession) -> None:
    (row,) = rows(spark, "id INT", FLATTENED, [{"id": 1, "__op": "c", "__ts_ms": 1_796_000_000_000}])
    assert (row["why"], row["_changed_at"]) == (None, None)


@pytest.mark.parametrize(
    ("envelope", "value", "message"),
    [
        (FLATTENED, {"id": 1}, "it has neither __op nor __deleted"),
        (FLATTENED, event("c", {"id": 1}, 7), "or drop decode.envelope.flattened"),
        (FLATTENED, {"id": "one", "__op": "c"}, 'id = "one" is no INT'),
        (FLATTENED, {"id": 1, "__op": "c", "__lsn": "x"}, '__lsn = "x" is no BIGINT'),
        (_DEBEZIUM, {"id": 1, "__deleted": "false"}, "set decode.envelope.flattened to true"),
    ],
)
def test_what_is_no_flattened_event_is_refused_with_its_reason(
    spark: SparkSession, envelope: Mapping[str, Any], value: Mapping[str, Any], message: str
) -> None:
    (row,) = rows(spark, "id INT", envelope, [value])
    assert message in (row["why"] or "")
