"""Headers that name a record's schema, and the message indexes of Protobuf records. Pure.

The indexes say which message of the schema's file a record is. Confluent's are a count and the indexes, each a zigzag
varint: (0, 2) is the third message within the file's first one. The first message, (0,), is the single byte 0x00. AWS
Glue's is one varint, the place of the message's full name among all of the file's in the order of the alphabet.
Executors run this: it imports nothing of lakeingest.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

RECORD_HEADER = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""A side of a record → the header that names its schema, where Confluent's serializers write no id into the payload."""
_DEEPEST = 32
"""Messages within messages; protoc itself refuses much less deep ones."""
_LONGEST = 5 * (_DEEPEST + 1)
"""Bytes that the indexes take at most."""
BEGIN = 1024
"""Bytes of a record that are enough for a header with its indexes, compressed ones too."""
_GLUE = 18


def prefix(path: tuple[int, ...]) -> bytes:
    """The indexes as a record bears them."""
    if path == (0,):
        return b"\x00"
    return b"".join(_varint(number) for number in (len(path), *path))


def index(payload: bytes) -> tuple[tuple[int, ...], int] | None:
    """The indexes that a payload begins with, and how many bytes they take; None where they are malformed."""
    count, at = _number(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _DEEPEST:
        return None
    path = []
    for _ in range(count):
        number, at = _number(payload, at)
        if number < 0:
            return None
        path.append(number)
    return tuple(path), at


def header(value: bytes) -> bytes:
    """The first bytes of a record up to its payload; without indexes where they are malformed."""
    before = 17 if value[:1] == b"\1" else 5
    position = index(value[before : before + _LONGEST])
    return value[: before + (position[1] if position else 0)]


def message(indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
    """The message that indexes mean; None where there is none.

    Args:
        names: the indexes of each message of the schema's file → its full name.
    """
    position = index(indexes)
    return names.get(position[0]) if position else None


def glue_header(value: bytes) -> bytes:
    """The same of AWS Glue: the index is told uncompressed, also where it lies in the record compressed."""
    behind = value[_GLUE:]
    if value[1:2] == b"\5":
        try:
            behind = zlib.decompressobj().decompress(behind, 5)
        except zlib.error:
            behind = b""
    length = next((at for at, byte in enumerate(behind[:5], start=1) if byte < 0x80), 0)
    return value[:_GLUE] + behind[:length]


def glue_message(indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
    """The message that AWS Glue's index means; None where there is none."""
    place = sum((byte & 0x7F) << (7 * at) for at, byte in enumerate(indexes))
    return dict(enumerate(sorted(names.values()))).get(place) if indexes else None


def _varint(number: int) -> bytes:
    number, out = number << 1, b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """A number that is not negative, and where the next one begins; -1 where there is none."""
    raw = 0
    for i, byte in enumerate(payload[at : at + 5]):
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (-1 if raw & 1 else raw >> 1), at + i + 1
    return -1, at
