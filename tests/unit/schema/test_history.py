"""The ledger of schemas as a value: what it remembers, and that a receipt gives it back unchanged."""

from __future__ import annotations

import json
from dataclasses import replace

from lakeingest.schema.ledger import Entry, SchemaLedger
from lakeingest.schema.model import Schema, struct

ENTRY = Entry(
    side="value",
    id=7,
    subject="weather-value",
    version=2,
    name="Weather",
    fingerprint="f00d",
    verdict="DIFFERENT_VERSION",
    action="evolve",
    changes=("+ wind DOUBLE",),
    sequence=3,
    first=("weather", 1, 42),
    time="2026-11-21T12:00:00+00:00",
)
SCHEMA = struct(
    {
        "a": Schema("int32", default="3"),
        "m": Schema(
            "map", optional=True, key=Schema("string"), value=Schema("bytes", "D", parameters=(("scale", "2"),))
        ),
    },
    version=2,
    doc="of a station",
)


def test_a_receipt_gives_the_ledger_back() -> None:
    """Through JSON text every entry and every part of the current schemas stays what it was."""
    bare = replace(ENTRY, side="key", id=None, subject=None, version=None, name=None, changes=(), first=None)
    history = SchemaLedger().after(ENTRY, SCHEMA).after(bare, Schema("string"))
    assert SchemaLedger.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_no_ledger_is_an_empty_one() -> None:
    """A receipt from before there were ledgers has none."""
    assert SchemaLedger.from_json({}) == SchemaLedger()


def test_an_entry_changes_what_is_current_only_if_it_says_so() -> None:
    """A schema that is merely seen leaves the current one as it is, and the other side's alone."""
    history = SchemaLedger().after(ENTRY, SCHEMA).after(replace(ENTRY, fingerprint="beef", action="project"), None)
    assert history.current == {"value": SCHEMA}
    assert len(history.entries) == 2


def test_a_schema_is_known_by_its_text_and_the_records_name() -> None:
    """One Protobuf file holds many messages; the key's and the value's schemas are apart."""
    history = SchemaLedger().after(ENTRY, SCHEMA)
    assert history.first_entry("value", "f00d", "Weather") == ENTRY
    assert history.first_entry("value", "f00d", "Station") is None
    assert history.first_entry("key", "f00d", "Weather") is None
