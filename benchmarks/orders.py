"""The benchmark's records, the same at each call: orders of three days, in four shapes and three formats."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka.schema_registry import Schema
from google.protobuf import message_factory
from support.records import registered

from lakeingest.local import Addresses
from lakeingest.schema.formats import protobuf, protobuf_values

Order = dict[str, Any]
CITIES = ("Amsterdam", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Florence", "Geneva", "Helsinki")
CHANNELS = ("web", "shop", "phone", "partner")
NARROW = (
    "id BIGINT NOT NULL, ts TIMESTAMP NOT NULL, city STRING, postcode STRING, name STRING, channel STRING, "
    "amount DOUBLE, paid BOOLEAN"
)
RULES = [
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "city"}},
    {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "city", "value_set": CITIES}},
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "name", "regex": "^customer "}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0, "max_value": 1000}},
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "paid"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "min_value": 0}},
]
MESSAGE = """
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; google.protobuf.Timestamp ts = 2; optional string city = 3; optional string postcode = 4;
  optional string name = 5; optional string channel = 6; optional double amount = 7; optional bool paid = 8;
}
"""
_WIDE = 192
_LINES = "STRUCT<sku: STRING, count: INT, price: DOUBLE>"
_MAYBE = registered.maybe
_SKU = registered.record("Line", sku="string", count="int", price="double")


@dataclass(frozen=True)
class Shape:
    """What an order looks like.

    Attributes:
        columns: as DDL.
        fields: the same as Avro's fields.
        share: how many of these there are for each narrow one, so that all runs take about as long.
        more: what an order has beside the narrow columns.
    """

    columns: str
    fields: dict[str, Any]
    share: float
    more: Callable[[random.Random], Order]


def _wide(dice: random.Random) -> Order:
    return {f"c{n}": dice.randrange(10**6) if n % 2 else f"text {dice.randrange(10**4)}" for n in range(_WIDE)}


def _nested(dice: random.Random) -> Order:
    lines = [
        {"sku": f"sku-{dice.randrange(999)}", "count": 1 + n, "price": dice.randrange(9999) / 100} for n in range(4)
    ]
    return {"first": lines[0], "lines": lines, "tags": {"channel": "web", "campaign": f"c{dice.randrange(99)}"}}


def _large(dice: random.Random) -> Order:
    return {"body": dice.randbytes(25_000).hex()}


_COLUMNS = {
    "id": "long",
    "ts": {"type": "long", "logicalType": "timestamp-millis"},
    "city": _MAYBE("string"),
    "postcode": _MAYBE("string"),
    "name": _MAYBE("string"),
    "channel": _MAYBE("string"),
    "amount": _MAYBE("double"),
    "paid": _MAYBE("boolean"),
}
SHAPES = {
    "narrow": Shape(NARROW, _COLUMNS, 1, lambda dice: {}),
    "wide": Shape(
        ", ".join([NARROW, *(f"c{n} {'BIGINT' if n % 2 else 'STRING'}" for n in range(_WIDE))]),
        {**_COLUMNS, **{f"c{n}": _MAYBE("long" if n % 2 else "string") for n in range(_WIDE)}},
        0.05,
        _wide,
    ),
    "nested": Shape(
        f"{NARROW}, first {_LINES}, lines ARRAY<{_LINES}>, tags MAP<STRING, STRING>",
        {
            **_COLUMNS,
            "first": _SKU,
            "lines": {"type": "array", "items": "x.Line"},
            "tags": {"type": "map", "values": "string"},
        },
        0.25,
        _nested,
    ),
    "large": Shape(f"{NARROW}, body STRING", {**_COLUMNS, "body": _MAYBE("string")}, 0.01, _large),
}


def avro(shape: str) -> Any:
    """The Avro schema of a shape."""
    return registered.record("Order", **SHAPES[shape].fields)


def encoder(stack: Addresses, subject: str, format: str, shape: str) -> Callable[[Order], bytes]:
    """What writes orders as a producer does, under a schema of that subject where the format has one."""
    if format == "json":
        return lambda order: json.dumps(
            {**order, "ts": order["ts"].isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        ).encode()
    if format == "avro":
        return registered.avro(stack, subject, avro(shape))
    begin = registered.header(registered.client(stack).register_schema(subject, Schema(MESSAGE, "PROTOBUF"))) + b"\0"
    message = message_factory.GetMessageClass(protobuf_values.descriptor(protobuf.compile(MESSAGE), "Order"))
    return lambda order: begin + message(**order).SerializeToString()


def values(shape: str, count: int, bad: float, encode: Callable[[Order], bytes]) -> Iterator[bytes]:
    """Values of three days; of the bad ones, a share of all, half cannot be decoded, half break a rule or two."""
    dice, begin = random.Random(7), datetime(2026, 11, 1, tzinfo=UTC)
    for n in range(count):
        order = {
            "id": n,
            "ts": begin + timedelta(milliseconds=n * 3 * 86_400_000 // count),
            "city": dice.choice(CITIES),
            "postcode": f"{dice.randrange(10**5):05}",
            "name": f"customer {dice.randrange(10**9):09}",
            "channel": dice.choice(CHANNELS),
            "amount": dice.randrange(100_000) / 100,
            "paid": dice.random() < 0.9,
            **SHAPES[shape].more(dice),
        }
        if dice.random() >= bad:
            yield encode(order)
        elif n % 2:
            yield encode(order)[:-9]
        else:
            yield encode({**order, "city": "Atlantis", "amount": -1.0})
