"""What a pipeline file says of change events, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.config import file
from lakeingest.errors import PipelineFileError

BASE: dict[str, Any] = {
    "name": "orders",
    "source": {"topics": ["shop.public.orders"]},
    "decode": {"value": {"format": "connect_json"}, "envelope": {"format": "debezium"}},
    "table": {"path": "/lake/orders", "mode": "upsert", "keys": ["id"]},
}
DECODE_JSON: dict[str, Any] = {"value": {"format": "json"}, "envelope": {"format": "debezium"}}
FIELDS: dict[str, Any] = {
    "format": "fields",
    "after": "data",
    "op": "type",
    "values": {"insert": ["i"], "update": ["u"], "delete": ["d"]},
}


@pytest.mark.parametrize("envelope", [DECODE_JSON["envelope"], FIELDS])
def test_declared_columns_have_those_of_an_event_beside(envelope: dict[str, Any]) -> None:
    decode = {**DECODE_JSON, "envelope": envelope}
    pipeline = file.from_mapping({**BASE, "decode": decode, "schema": {"columns": "id INT"}})
    assert [each.name for each in pipeline.columns] == ["id", "_change", "_position", "_changed_at", "_unavailable"]
    assert pipeline.table.order_by == ("_position",)


def test_an_envelope_says_order_and_deletes() -> None:
    table = file.from_mapping(BASE).table
    assert (table.order_by, table.tombstones) == (("_position",), "ignore")
    assert table.on_delete_marker is not None
    assert (table.on_delete_marker.field, table.on_delete_marker.values) == ("_change", ("delete",))


def test_what_the_file_says_goes_first() -> None:
    changed = {**BASE, "table": {**BASE["table"], "mode": "changelog", "on_tombstone": "quarantine", "order_by": []}}
    table = file.from_mapping(changed).table
    assert (table.tombstones, table.order_by) == ("quarantine", ())


def test_a_tombstone_says_nothing_more_in_mode_append() -> None:
    changed = {**BASE, "table": {"path": "/lake/orders"}}
    assert file.from_mapping(changed).on_null == "ignore"
    changed["decode"] = {**BASE["decode"], "on_null": "write"}
    assert file.from_mapping(changed).on_null == "write"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"decode": {**BASE["decode"], "value": {"format": "string"}}},
            "decode.envelope: needs records that bring their schema, or JSON whose columns the file declares",
        ),
        ({"decode": DECODE_JSON}, "schema.columns: required, and missing"),
        (
            {"decode": {**BASE["decode"], "envelope": {"format": "debezium", "flattened": True}}},
            "decode.envelope.flattened: is of decode.value.format json",
        ),
        (
            {
                "decode": {
                    "value": {"format": "json", "epoch": "micros"},
                    "envelope": {"format": "debezium", "connector": "mongodb"},
                },
                "schema": {"columns": "id STRING"},
            },
            "decode.value.epoch: is millis with decode.envelope.connector mongodb",
        ),
        (
            {"decode": DECODE_JSON, "schema": {"columns": "id INT NOT NULL"}},
            "schema.columns: NOT NULL is declared for id, but events of deletes",
        ),
        (
            {"decode": DECODE_JSON, "schema": {"columns": "id INT", "compatibility": "BACKWARD"}},
            "schema.compatibility: is FORWARD for JSON with decode.envelope",
        ),
        (
            {"decode": {**BASE["decode"], "envelope": {"format": "debezium", "decimals": "numeric"}}},
            "decode.envelope.decimals: is of decode.value.format json",
        ),
        (
            {"decode": {**BASE["decode"], "envelope": FIELDS}},
            "decode.envelope.format: fields is of decode.value.format json, not of connect_json",
        ),
        (
            {"decode": {**DECODE_JSON, "envelope": {**FIELDS, "op": "data.type"}}, "schema": {"columns": "id INT"}},
            "decode.envelope: data.type leads into data, which is read as a whole",
        ),
        (
            {
                "decode": {**DECODE_JSON, "envelope": {**FIELDS, "values": {**FIELDS["values"], "delete": ["i"]}}},
                "schema": {"columns": "id INT"},
            },
            "decode.envelope.values: i stands twice",
        ),
        (
            {"table": {**BASE["table"], "order_by": ["at"]}},
            "table.order_by: is _position where decode.envelope is given",
        ),
        ({"transform": [{"rename": {"doc": "text"}}]}, "transform[0].rename: of a value that"),
        ({"decode": {**BASE["decode"], "envelope": {"format": "maxwell"}}}, "decode.envelope.format"),
    ],
)
def test_what_contradicts_an_envelope(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        file.from_mapping({**BASE, **changes})
    assert message in str(refused.value)


def test_a_history_of_a_database_is_dated_by_its_clock() -> None:
    changed = {**BASE, "table": {**BASE["table"], "mode": "history"}}
    assert file.from_mapping(changed).table.valid_from == "_changed_at"
    changed["table"]["valid_from"] = "at"
    assert file.from_mapping(changed).table.valid_from == "at"
    assert file.from_mapping(BASE).table.valid_from is None
