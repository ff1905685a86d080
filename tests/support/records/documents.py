"""Change events of MongoDB's connector, by hand: out of the field list that Debezium 3.6 documents.

No MongoDB can be had here, so that no recording of a real one stands behind them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from support.records import Record
from support.records.change_events import named

COLLECTION = "shop.orders"
SECOND = 1_796_000_000_000
"""Of the cluster's clock, in milliseconds: that of the events of second 0."""
_JSON = named("string", "io.debezium.data.Json")
_TEXTS = ("version", "connector", "name", "snapshot", "db", "rs", "collection", "lsid")
_NUMBERS = ("ts_ms", "ts_us", "txnNumber", "wallTime")
_SOURCE = {
    **{name: {"type": "string"} for name in _TEXTS},
    **{name: {"type": "int64"} for name in _NUMBERS},
    "ord": {"type": "int32"},
}
_DESCRIPTION = {
    "removedFields": {"type": "array", "items": {"type": "string", "optional": True}},
    "updatedFields": _JSON,
}


def _struct(name: str, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    trees = [{"optional": True, **each, "field": field} for field, each in fields.items()]
    return {"type": "struct", "name": name, "optional": True, "fields": trees}


SCHEMA = _struct(
    f"{COLLECTION}.Envelope",
    {
        "before": _JSON,
        "after": _JSON,
        "updateDescription": _struct("io.debezium.connector.mongodb.changestream.updatedescription", _DESCRIPTION),
        "source": _struct("io.debezium.connector.mongo.Source", _SOURCE),
        "op": {"type": "string"},
        "ts_ms": {"type": "int64"},
    },
)
_KEY = _struct(f"{COLLECTION}.Key", {"id": {"type": "string", "optional": False}})


def document(
    op: str,
    after: Mapping[str, Any] | None,
    second: int,
    ord: int = 1,
    *,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The payload of an event.

    Args:
        after, before: documents in Extended JSON.
        second, ord: its place: the second of the cluster's clock, behind `SECOND`, and the number within the second.
    """
    at = SECOND + 1000 * second
    source = {"version": "3.6.1.Final", "connector": "mongodb", "name": "shop", "snapshot": "false", "db": "shop"}
    source |= {"rs": "rs0", "collection": "orders", "lsid": None, "txnNumber": None}
    updated = {"removedFields": None, "updatedFields": '{"status": "x"}'} if op == "u" else None
    return {
        "before": before and json.dumps(before),
        "after": after and json.dumps(after),
        "updateDescription": updated,
        "source": {**source, "ts_ms": at, "ts_us": 1000 * at, "wallTime": at + 7, "ord": ord},
        "op": op,
        "ts_ms": at + 500,
    }


def record(id: str, payload: Mapping[str, Any] | None, *, schemas: bool) -> Record:
    """A record of the document with this id, in Extended JSON; without a payload the tombstone behind a delete."""
    key = {"id": id}
    if schemas:
        value = payload and json.dumps({"schema": SCHEMA, "payload": payload}).encode()
        return Record(value, json.dumps({"schema": _KEY, "payload": key}).encode(), 0)
    return Record(payload and json.dumps(payload).encode(), json.dumps(key).encode(), 0)
