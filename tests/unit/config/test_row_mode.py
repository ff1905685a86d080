"""table.mode: what a pipeline file may say of the rows of the table, and what of it contradicts itself."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.config import PipelineConfig
from lakeingest.config.file import from_mapping
from lakeingest.errors import PipelineFileError

COLUMNS = "id INT, at TIMESTAMP, op STRING"


def config(table: dict[str, Any], **changes: Any) -> PipelineConfig:
    values = {
        "name": "orders",
        "source": {"topics": ["orders"]},
        "schema": {"columns": COLUMNS},
        "table": {"path": "s3a://lake/orders", **table},
    }
    return from_mapping({**values, **changes})


def test_append_is_the_default() -> None:
    made = config({})
    assert (made.table.mode, made.table.key_paths, made.deletes, made.on_null) == ("append", (), "", "quarantine")


@pytest.mark.parametrize(
    ("table", "tombstones", "deletes"),
    [
        ({"keys": ["id"]}, "quarantine", ""),
        ({"keys": ["id"], "on_tombstone": "ignore"}, "ignore", ""),
        (
            {"keys": ["id"], "on_delete_marker": {"field": "op", "values": ["D"]}},
            "quarantine",
            "s3a://lake/orders_deletes",
        ),
        ({"keys": "key"}, "delete", "s3a://lake/orders_deletes"),
        ({"keys": "key", "order_by": ["_timestamp"]}, "delete", "s3a://lake/orders_deletes"),
        ({"keys": ["_key.id"]}, "delete", "s3a://lake/orders_deletes"),
        ({"keys": "key", "order_by": ["at"]}, "quarantine", ""),
        ({"keys": "key", "on_tombstone": "quarantine"}, "quarantine", ""),
    ],
)
def test_what_a_record_without_a_value_does(table: dict[str, Any], tombstones: str, deletes: str) -> None:
    """It deletes where it has a key and a place in the order, unless the file says otherwise."""
    made = config({"mode": "upsert", **table})
    assert (made.table.tombstones, made.deletes) == (tombstones, deletes)
    assert made.on_null == ("write" if tombstones == "delete" else tombstones)
    assert (deletes in made.tables) is bool(deletes)


@pytest.mark.parametrize(
    ("table", "changes", "mistake"),
    [
        ({"keys": ["id"]}, {}, "table.keys: is of the modes upsert, changelog and history; write"),
        ({"order_by": ["at"]}, {}, "table.order_by: is of the modes upsert, changelog and history"),
        ({"mode": "upsert"}, {}, "table.keys: required for mode upsert, and missing"),
        ({"mode": "upsert", "keys": []}, {}, "table.keys: required for mode upsert, and missing"),
        ({"mode": "upsert", "keys": ["id", "id"]}, {}, "table.keys: the same field twice: id"),
        ({"mode": "upsert", "keys": ["id"]}, {"decode": {"on_null": "ignore"}}, "decode.on_null: is of mode append"),
        (
            {"mode": "upsert", "keys": ["id"], "on_tombstone": "delete"},
            {},
            "table.on_tombstone: delete needs a key and an order without a value, and a record without a value has no "
            "keys id",
        ),
        (
            {"mode": "upsert", "keys": "key", "order_by": ["at"], "on_tombstone": "delete"},
            {},
            "a record without a value has no order_by at",
        ),
        (
            {"mode": "upsert", "keys": ["idd"]},
            {},
            'table.keys: "idd" is not among the columns; did you mean id? declared: id, at, op',
        ),
        (
            {"mode": "upsert", "keys": ["id"], "order_by": ["at.x"]},
            {},
            'table.order_by: "at.x" is not among the columns',
        ),
        (
            {"mode": "upsert", "keys": ["id"], "on_delete_marker": {"field": "deleted", "values": [True]}},
            {},
            'table.on_delete_marker.field: "deleted" is not among the columns',
        ),
        (
            {"mode": "upsert", "keys": ["id"]},
            {"schema": {"columns": "id ARRAY<INT>"}},
            'table.keys: "id" is array<int>, which cannot be compared',
        ),
        (
            {"mode": "upsert", "keys": ["id"]},
            {"transform": [{"rename": {"id": "order_id"}}]},
            'table.keys: "id" is not among the columns',
        ),
        (
            {"mode": "upsert", "keys": "key"},
            {"quarantine": {"path": "s3a://lake/orders_deletes"}},
            "the same or lie within each other",
        ),
    ],
)
def test_what_contradicts_itself(table: dict[str, Any], changes: dict[str, Any], mistake: str) -> None:
    with pytest.raises(PipelineFileError) as wrong:
        config(table, **changes)
    assert mistake in str(wrong.value)


def test_a_history_says_what_dates_its_versions() -> None:
    made = config({"mode": "history", "keys": ["id"], "valid_from": "at"}).table
    assert (made.keyed, made.upserts, made.removes, made.marks, made.dated, made.alters) == (
        True,
        False,
        False,
        True,
        True,
        True,
    )
    for table, mistake in (
        ({"mode": "history", "keys": ["id"], "valid_from": "att"}, 'table.valid_from: "att" is not among the columns'),
        ({"mode": "history", "keys": ["id"], "deletes": "mark"}, "in mode history each record is a row; drop it"),
        ({"mode": "upsert", "keys": ["id"], "valid_from": "at"}, "table.valid_from: is of mode history, and"),
        ({"valid_from": "at"}, "table.valid_from: is of mode history; write table.mode, or drop it"),
    ):
        with pytest.raises(PipelineFileError) as wrong:
            config(table)
        assert mistake in str(wrong.value)
