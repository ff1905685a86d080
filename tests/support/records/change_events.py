"""Debezium's change events as Kafka Connect's JSON, by hand: an envelope with its schema around rows of any columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TABLE = "shop.public.orders"
_POSTGRES = {"lsn": "int64", "sequence": "string"}
Columns = Mapping[str, Mapping[str, Any]]
"""Name → its schema as Connect has it, without `field` and `optional`."""


def named(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    """A semantic type."""
    return {"type": kind, "name": name, "version": 1, **({"parameters": parameters} if parameters else {})}


def schema(columns: Columns, *, version: int = 1, source: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Of events of a table; `source`: more fields of it, by default those of PostgreSQL."""
    row = {"type": "struct", "name": f"{TABLE}.Value", "fields": _fields(columns)}
    source_columns = {"connector": {"type": "string"}, "ts_ms": {"type": "int64"}, "snapshot": {"type": "string"}}
    source_columns |= {name: {"type": kind} for name, kind in (source or _POSTGRES).items()}
    fields = [
        {**row, "field": "before", "optional": True},
        {**row, "field": "after", "optional": True},
        {"type": "struct", "fields": _fields(source_columns), "field": "source", "optional": False},
        {"type": "string", "field": "op", "optional": False},
        {"type": "int64", "field": "ts_ms", "optional": True},
    ]
    return {"type": "struct", "name": f"{TABLE}.Envelope", "version": version, "optional": False, "fields": fields}


def _fields(columns: Columns) -> list[dict[str, Any]]:
    return [{**each, "field": name, "optional": True} for name, each in columns.items()]


def event(
    op: str,
    row: Mapping[str, Any] | None,
    at: int,
    *,
    before: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The payload of an event; `row` is `before` of a delete, and else `after`.

    Args:
        at: its place in the log of PostgreSQL.
        source: other fields of `source` than its place.
    """
    place = {"lsn": at, "sequence": json.dumps([str(at - 1), str(at)])}
    head = {"connector": "postgresql", "ts_ms": 1_796_000_000_000 + at, "snapshot": "false"}
    sides = {"before": row, "after": None} if op == "d" else {"before": before, "after": row}
    return {**sides, "source": {**head, **(source or place)}, "op": op, "ts_ms": 1_796_000_000_500 + at}


def value(schema: Mapping[str, Any], payload: Mapping[str, Any]) -> bytes:
    """A record's value."""
    return json.dumps({"schema": schema, "payload": payload}).encode()


def key(**fields: int) -> bytes:
    """A record's key, of whole numbers."""
    columns: Columns = {name: {"type": "int64"} for name in fields}
    schema = {"type": "struct", "name": f"{TABLE}.Key", "optional": False, "fields": _fields(columns)}
    return json.dumps({"schema": schema, "payload": fields}).encode()
