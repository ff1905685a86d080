"""What is wrong with an Avro payload is said with the field."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from lakeingest.schema.formats.avro_fault import fault

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
INNER = {
    "type": "record", "name": "Inner", "namespace": "y",
    "fields": [
        {"name": "amount", "type": ["null", MONEY]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
    ],
}  # fmt: skip
REFERENCE = {"type": "record", "name": "x.Place", "fields": [{"name": "city", "type": "string"}]}
SCHEMA = {
    "type": "record", "name": "x.Order",
    "fields": [
        {"name": "id", "type": "int"}, {"name": "place", "type": "Place"},
        {"name": "lines", "type": {"type": "array", "items": INNER}},
        {"name": "more", "type": {"type": "map", "values": "y.Inner"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "last", "type": ["null", "y.Kind"]},
    ],
}  # fmt: skip
SMALL, LARGE = {"amount": Decimal("1.00"), "kind": "A"}, {"amount": Decimal("99999999999.00"), "kind": "A"}


def payload(**values: Any) -> bytes:
    """As a producer writes it, who knows a decimal of more digits."""
    wide = json.loads(json.dumps([REFERENCE, SCHEMA]).replace('"precision": 12', '"precision": 20'))
    named: dict[str, Any] = {}
    fastavro.parse_schema(wide[0], named)
    out = io.BytesIO()
    record = {"id": 1, "place": {"city": "Rome"}, "lines": [], "more": {}, "hash": b"ab", "last": None, **values}
    fastavro.schemaless_writer(out, fastavro.parse_schema(wide[1], named), record)
    return out.getvalue()


WHOLE = payload(lines=[SMALL, SMALL], more={"a": SMALL}, last="A")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, None),
        (WHOLE, None),
        (payload(lines=[SMALL, LARGE]), "field lines[].amount: a decimal of 13 digits, and the schema says 12"),
        (payload(more={"k": LARGE}), "field more[].amount: a decimal of 13 digits, and the schema says 12"),
        (WHOLE + b"ab", "2 bytes too many, or written with another schema"),
        (WHOLE[:-1], "field last: 1 bytes asked, 0 left: cut short, or written with another schema"),
        (WHOLE[:3], "field place.city: 4 bytes asked, 1 left: cut short, or written with another schema"),
        (b"", "field id: 1 bytes asked, 0 left: cut short, or written with another schema"),
        (WHOLE[:-1] + b"\x08", "field last: number 4 of 1 symbols of the enum Kind, or written with another schema"),
        (WHOLE[:-2] + b"\x07\x00", "field last: number -4 of 2 branches of the union, or written with another schema"),
        (b"\x80\x80\x80\x80\x10" + WHOLE[1:], "field id: 2147483648 is outside of int"),
        (b"\xff" * 20, "field id: a number of more than ten bytes, or written with another schema"),
        # A million items in a few bytes: nobody looks on.
        (b"\x02\x00" + b"\x80\x80\x80\x80\x08" + b"\x00" * 400_000, None),
    ],
)
def test_what_is_wrong_is_said_with_the_field(data: bytes | None, said: str | None) -> None:
    """A decimal of too many digits was called cut short, bytes too many, or another schema: none of these."""
    assert fault(json.dumps(SCHEMA), (json.dumps(REFERENCE),))(data) == said


def test_a_masked_pipeline_is_told_the_field_alone() -> None:
    """No number of the payload, and no key of a map."""
    said = fault(json.dumps(SCHEMA), (json.dumps(REFERENCE),), withheld=True)(payload(more={"hidden": LARGE}))
    assert said == "field more[].amount does not fit its type, or the payload is cut short"


def test_a_schema_that_is_read_otherwise_says_nothing() -> None:
    """Rather than something wrong."""
    assert fault('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}')(b"a") is None
    assert fault('"int"')(b"") == "the value: 1 bytes asked, 0 left: cut short, or written with another schema"
