"""What tells of a record which schema it was written with: a header before its payload, or the schema itself.

Confluent   byte 0, the schema's id in four bytes; or byte 1, the schema's GUID in sixteen; for Protobuf the indexes of
            the message behind it
AWS Glue    byte 3, a byte for the compression (0 none, 5 zlib), the UUID of the schema's version in sixteen bytes; for
            Protobuf the index of the message behind it, which is compressed with the payload

Confluent's serializers may put these bytes into a header of the record (`in_record_header`). The payload has nothing
before it then: its first bytes are never an id, whatever they are. As in Confluent's `DualSchemaIdDeserializer`, such a
header goes before the payload's own bytes, the last one where there are several, and one without a value is none.

Kafka Connect's JSON brings its schema along. Byte 0 and sixteen bytes of the SHA-256 of its text stand for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import ConnectJsonFormat, PipelineConfig, Registry
from lakeingest.record import HEADERS, RAW_KEY, RAW_VALUE
from lakeingest.schema.formats import wire
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import SchemaId, Side

_RAW: Mapping[Side, str] = {"key": RAW_KEY, "value": RAW_VALUE}
_ZLIB = 5
_GROUPS = ((0, 4), (4, 2), (6, 2), (8, 2), (10, 6))
"""A UUID's groups of digits: at which of its bytes each begins, and how many bytes it has."""


def in_record_header(side: Side, headers: str = HEADERS) -> Column:
    """BINARY: the record's header that names the schema of that side; null where it has none."""
    keys, name = F.col(headers)["key"], RECORD_HEADER[side]
    # No lambda: Spark compiles no stage that has one, and this one is on the way of each record.
    from_end = -F.array_position(F.reverse(keys), name).cast("int")
    return F.when(F.array_contains(keys, name), F.element_at(F.col(headers)["value"], from_end))


def size(framing: Framing, header: bytes) -> int:
    """Bytes of a header, without Protobuf's indexes."""
    return next(size for prefix, size in framing.sizes.items() if header.startswith(prefix))


def begins(framing: Framing, reference: Column) -> Column:
    """BOOLEAN: whether the bytes begin with such a header; null for null ones."""
    begin = F.lit(False)
    for prefix, size in framing.sizes.items():
        begin = begin | ((F.octet_length(reference) >= size) & reference.startswith(F.lit(bytearray(prefix))))
    return begin


def header_of(framing: Framing, reference: Column) -> Column:
    """BINARY: the header that the bytes begin with, without Protobuf's indexes."""
    length = F.lit(None).cast("int")
    for prefix, size in framing.sizes.items():
        length = F.when(reference.startswith(F.lit(bytearray(prefix))), F.lit(size)).otherwise(length)
    return F.substring(reference, F.lit(1), length)


class Framing(Protocol):
    """The header of records that name their schema."""

    format: Literal["registry", "glue", "connect_json"]
    """The name that `sniff` has for it."""
    sizes: Mapping[bytes, int]
    """What a header begins with → its bytes, without Protobuf's indexes."""

    @property
    def id_type(self) -> T.DataType | None:
        """Of the column _schema_id; None where the table has none."""

    strange_record_header: str
    """What is wrong with a record's header that names no schema."""

    def apart(self, side: Side) -> Column:
        """BINARY: the header of a record whose payload has nothing before it; null where it has one, or none at all."""

    def text(self, side: Side) -> Column:
        """STRING: the schema that a record brings along; null where it names one."""

    def id(self, header: bytes) -> SchemaId:
        """The id that a header names: a number, or a UUID as text."""

    def header(self, id: SchemaId) -> bytes:
        """The header of a record whose payload is not compressed."""

    def compressed(self, header: bytes) -> bool:
        """Whether the payload behind it is compressed with zlib."""

    def strange(self, raw: Column) -> Column:
        """STRING: what a header begins with, of bytes that have none."""

    def unknown(self, reference: Column) -> Column:
        """STRING: that the registry does not have the header's id."""

    def with_indexes(self) -> Callable[[bytes], bytes]:
        """What makes of a Protobuf record's first bytes its header with the message's indexes. Executors run it."""

    def message(self, indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
        """The message that indexes mean, of `protobuf.messages`; None where there is none."""


class Confluent:
    """The header of a registry with Confluent's API."""

    format: Literal["registry", "glue", "connect_json"] = "registry"
    sizes: Mapping[bytes, int] = {b"\0": 5, b"\1": 17}
    id_type: T.DataType = T.IntegerType()
    strange_record_header = (
        "which names no schema: a byte 0x00 and an id of four bytes do, or a byte 0x01 and a GUID of 16 bytes; correct "
        "the producer"
    )

    def apart(self, side: Side) -> Column:
        return in_record_header(side)

    def text(self, side: Side) -> Column:
        return F.lit(None).cast("string")

    def id(self, header: bytes) -> SchemaId:
        return str(uuid.UUID(bytes=header[1:17])) if header[:1] == b"\1" else int.from_bytes(header[1:5], "big")

    def header(self, id: SchemaId) -> bytes:
        return b"\0" + int(id).to_bytes(4, "big")

    def compressed(self, header: bytes) -> bool:
        return False

    def strange(self, raw: Column) -> Column:
        return F.lit("the registry's format begins with a byte 0x00 and a schema id of four bytes")

    def unknown(self, reference: Column) -> Column:
        number = F.conv(F.hex(F.substring(reference, 2, 4)), 16, 10)
        guid = F.concat(F.lit("GUID "), _uuid(reference, 2))
        name = F.when(reference.startswith(F.lit(bytearray(b"\0"))), F.concat(F.lit("id "), number)).otherwise(guid)
        return F.concat(F.lit("no schema of the registry has "), name, F.lit(" (or not that message)"))

    def with_indexes(self) -> Callable[[bytes], bytes]:
        return wire.header

    def message(self, indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
        return wire.message(indexes, names)


class Glue:
    """The header of AWS Glue Schema Registry."""

    format: Literal["registry", "glue", "connect_json"] = "glue"
    sizes: Mapping[bytes, int] = {bytes((3, 0)): 18, bytes((3, _ZLIB)): 18}
    id_type: T.DataType = T.StringType()
    strange_record_header = (
        "which Confluent's serializers write: the schema is in a registry with Confluent's API, and registry.glue asks "
        "AWS Glue; write registry.url instead, or correct the producer"
    )

    def apart(self, side: Side) -> Column:
        return in_record_header(side)

    def text(self, side: Side) -> Column:
        return F.lit(None).cast("string")

    def id(self, header: bytes) -> SchemaId:
        return str(uuid.UUID(bytes=header[2:18]))

    def header(self, id: SchemaId) -> bytes:
        return bytes((3, 0)) + uuid.UUID(str(id)).bytes

    def compressed(self, header: bytes) -> bool:
        return header[1:2] == bytes((_ZLIB,))

    def strange(self, raw: Column) -> Column:
        rule = "AWS Glue's format begins with a byte 0x03, a byte 0x00 or 0x05 (zlib), and a version's id of 16 bytes"
        other = F.concat(
            F.lit(f"{rule}: of a compression 0x"), F.hex(F.substring(raw, 2, 1)), F.lit(" nothing is known")
        )
        headed = (F.octet_length(raw) >= 18) & (F.substring(raw, 1, 1) == F.lit(bytearray((3,))))
        return F.when(headed, other).otherwise(F.lit(rule))

    def unknown(self, reference: Column) -> Column:
        return F.concat(F.lit("AWS Glue has no schema version "), _uuid(reference, 3), F.lit(" (or not that message)"))

    def with_indexes(self) -> Callable[[bytes], bytes]:
        return wire.glue_header

    def message(self, indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
        return wire.glue_message(indexes, names)


class Embedded:
    """The schema that stands beside the payload in Kafka Connect's JSON."""

    format: Literal["registry", "glue", "connect_json"] = "connect_json"
    sizes: Mapping[bytes, int] = {b"\0": 17}
    id_type: T.DataType | None = None
    strange_record_header = "which is no schema; write a format of a registry, or correct the producer"

    def apart(self, side: Side) -> Column:
        digest = F.unhex(F.substring(F.sha2(self.text(side), 256), 1, 32))
        return F.concat(F.lit(bytearray(b"\0")), digest)

    def text(self, side: Side) -> Column:
        return F.get_json_object(F.col(_RAW[side]).cast("string"), "$.schema")

    def id(self, header: bytes) -> SchemaId:
        return header[1:].hex()

    def header(self, id: SchemaId) -> bytes:
        return b"\0" + bytes.fromhex(str(id))

    def compressed(self, header: bytes) -> bool:
        return False

    def strange(self, raw: Column) -> Column:
        return F.lit('Kafka Connect writes {"schema": …, "payload": …} where schemas.enable is true')

    def unknown(self, reference: Column) -> Column:
        return F.lit("its schema is none that a table can hold")

    def with_indexes(self) -> Callable[[bytes], bytes]:
        raise NotImplementedError

    def message(self, indexes: bytes, names: Mapping[tuple[int, ...], str]) -> str | None:
        return None


def _uuid(reference: Column, first: int) -> Column:
    """STRING: a UUID in sixteen bytes.

    Args:
        first: the byte that it begins with, counted from 1.
    """
    groups = (F.hex(F.substring(reference, first + at, length)) for at, length in _GROUPS)
    return F.lower(F.concat_ws("-", *groups))


def of(config: PipelineConfig, side: Side) -> Framing:
    """The framing of a side's records, which bring their schema or name it."""
    if isinstance(config.decode.side(side), ConnectJsonFormat):
        return Embedded()
    return of_registry(config.registry)


def of_registry(registry: Registry) -> Confluent | Glue:
    """The framing of the records whose schemas this registry has."""
    return Glue() if registry.glue else Confluent()
