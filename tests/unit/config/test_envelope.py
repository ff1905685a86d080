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
            {
                "decode": {"value": {"format": "json"}, "envelope": {"format": "debezium"}},
                "schema": {"columns": "a INT"},
            },
            "decode.envelope: needs records that bring their schema, and decode.value.format is json",
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
