"""The header before a payload that names its schema: Confluent's of five bytes, or AWS Glue's of eighteen.

Confluent   byte 0, the schema's id in four bytes, for Protobuf the indexes of the message
AWS Glue    byte 3, a byte for the compression (0 none, 5 zlib), the UUID of the schema's version in sixteen bytes

Confluent's serializers may name the schema in a header of the record instead. The payload has nothing before it then:
its first bytes are never an id, whatever they are. Such records cannot be read yet.
"""

from __future__ import annotations

import uuid
from typing import Literal, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import Registry
from lakeingest.record import HEADERS
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import SchemaId, Side

_ZLIB = 5
_GROUPS = ((3, 4), (7, 2), (9, 2), (11, 2), (13, 6))
"""A UUID's groups of digits: at which byte of the header each begins, counted from 1, and how many bytes it has."""


def in_record_header(side: Side, headers: str = HEADERS) -> Column:
    """BOOLEAN, never null: whether a header of the record names the schema of that side."""
    return F.coalesce(F.array_contains(F.col(headers)["key"], RECORD_HEADER[side]), F.lit(False))


class Framing(Protocol):
    """The header of records that name their schema."""

    format: Literal["registry", "glue"]
    """The name that `sniff` has for it."""
    size: int
    """Bytes of the header, without Protobuf's indexes."""
    prefixes: tuple[bytes, ...]
    """What a header begins with."""
    id_type: T.DataType
    """Of the column _schema_id."""

    def begins(self, raw: Column) -> Column:
        """BOOLEAN: whether the bytes begin with such a header; null for a null one."""

    def id(self, header: bytes) -> SchemaId:
        """The id that a header names."""

    def header(self, id: SchemaId) -> bytes:
        """The header of a record whose payload is not compressed."""

    def id_of(self, raw: Column) -> Column:
        """The id in the first bytes, where they are a header: BIGINT (an INT cannot hold what is no id), or STRING."""

    def compressed(self, header: bytes) -> bool:
        """Whether the payload behind it is compressed with zlib."""

    def strange(self, raw: Column) -> Column:
        """STRING: what a header begins with, of bytes that have none."""

    def unknown(self, raw: Column) -> Column:
        """STRING: that the registry does not have the header's id."""


class Confluent:
    """The header of a registry with Confluent's API."""

    format: Literal["registry", "glue"] = "registry"
    size = 5
    prefixes: tuple[bytes, ...] = (b"\0",)
    id_type: T.DataType = T.IntegerType()

    def begins(self, raw: Column) -> Column:
        return (F.octet_length(raw) >= self.size) & (F.substring(raw, 1, 1) == F.lit(self.prefixes[0]))

    def id(self, header: bytes) -> SchemaId:
        return int.from_bytes(header[1 : self.size], "big")

    def header(self, id: SchemaId) -> bytes:
        return b"\0" + int(id).to_bytes(self.size - 1, "big")

    def id_of(self, raw: Column) -> Column:
        return F.conv(F.hex(F.substring(raw, 2, self.size - 1)), 16, 10).cast("bigint")

    def compressed(self, header: bytes) -> bool:
        return False

    def strange(self, raw: Column) -> Column:
        return F.lit("the registry's format begins with a byte 0x00 and a schema id of four bytes")

    def unknown(self, raw: Column) -> Column:
        return F.concat(F.lit("no schema of the registry has id "), self.id_of(raw), F.lit(" (or not that message)"))


class Glue:
    """The header of AWS Glue Schema Registry."""

    format: Literal["registry", "glue"] = "glue"
    size = 18
    prefixes: tuple[bytes, ...] = (bytes((3, 0)), bytes((3, _ZLIB)))
    id_type: T.DataType = T.StringType()

    def begins(self, raw: Column) -> Column:
        heads = F.substring(raw, 1, 2).isin(*map(F.lit, self.prefixes))
        return (F.octet_length(raw) >= self.size) & heads

    def id(self, header: bytes) -> SchemaId:
        return str(uuid.UUID(bytes=header[2 : self.size]))

    def header(self, id: SchemaId) -> bytes:
        return bytes((3, 0)) + uuid.UUID(str(id)).bytes

    def id_of(self, raw: Column) -> Column:
        groups = (F.hex(F.substring(raw, at, length)) for at, length in _GROUPS)
        return F.lower(F.concat_ws("-", *groups))

    def compressed(self, header: bytes) -> bool:
        return header[1:2] == bytes((_ZLIB,))

    def strange(self, raw: Column) -> Column:
        rule = "AWS Glue's format begins with a byte 0x03, a byte 0x00 or 0x05 (zlib), and a version's id of 16 bytes"
        other = F.concat(
            F.lit(f"{rule}: of a compression 0x"), F.hex(F.substring(raw, 2, 1)), F.lit(" nothing is known")
        )
        headed = (F.octet_length(raw) >= self.size) & (F.substring(raw, 1, 1) == F.lit(bytearray((3,))))
        return F.when(headed, other).otherwise(F.lit(rule))

    def unknown(self, raw: Column) -> Column:
        return F.concat(F.lit("AWS Glue has no schema version "), self.id_of(raw))


def of(registry: Registry) -> Framing:
    """The framing of the records whose schemas this registry has."""
    return Glue() if registry.glue else Confluent()
