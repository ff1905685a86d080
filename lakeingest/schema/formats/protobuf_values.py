"""Protobuf messages → Arrow, in the types that `protobuf.read_message` says. Executors run it, alone.

The protobuf library parses, which bounds memory (a length beyond the payload is an error at once), depth (100 messages
within each other) and text (UTF-8). What else makes a payload none of its message:

    a known field with another wire type        the library would take it for an unknown field
    a number that a closed enum (proto2's) lacks; an open one's is written as its digits, as protobuf's JSON does
    a required field that is missing
    a Timestamp outside the years 0001 to 9999
    more than a million messages within it: an empty one takes two bytes there, and a hundred times as much in Python

Fields that the message does not know are passed over, as Protobuf has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_SECONDS = (-62_135_596_800, 253_402_300_799)
"""The years 0001 to 9999."""
_AT_ONCE = 1 << 20
"""Bytes of payloads whose Python values are held at once: these may take a hundred times as much."""
_MOST = 1_000_000

Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """The payload is none of the message; the message says why."""


def descriptor(descriptors: bytes, message: str) -> Descriptor:
    """What the protobuf library knows of a message of a serialized FileDescriptorSet.

    Raises:
        KeyError: there is no such message.
        TypeError: the library does not take the files.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(message)


def reader(descriptors: bytes, message: str) -> Callable[[pa.Array], pa.Array]:
    """Arrow's BINARY → STRUCT, null for what is null or none of the message. Made anew wherever it is unpickled.

    Raises, when it is called first:
        KeyError, TypeError: see `descriptor`.
    """
    made: list[Message] = []

    def read(payloads: pa.Array) -> pa.Array:
        import pyarrow as pa

        if not made:
            made.append(Message(descriptor(descriptors, message)))
        kind = made[0].type
        chunks = [pa.array(rows, kind) for rows in _portions(payloads, made[0])]
        return pa.concat_arrays(chunks) if chunks else pa.array([], kind)

    return read


def fault(descriptors: bytes, message: str) -> Callable[[bytes | None], str | None]:
    """A payload → why it is none of the message; None where it is one, and for None."""
    made: list[Message] = []

    def say(payload: bytes | None) -> str | None:
        if payload is None:
            return None
        if not made:
            made.append(Message(descriptor(descriptors, message)))
        try:
            made[0].read(bytes(payload))
        except Mismatch as why:
            return str(why)
        return None

    return say


def _portions(payloads: pa.Array, message: Message) -> Iterator[list[dict[str, Any] | None]]:
    rows: list[dict[str, Any] | None] = []
    size = 0
    for payload in payloads:
        data = payload.as_py()
        try:
            rows.append(None if data is None else message.read(data))
        except Mismatch:
            rows.append(None)
        size += len(data or b"")
        if size > _AT_ONCE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


class Message:
    """Reads the messages of one type.

    Attributes:
        type: Arrow's type of them.
    """

    def __init__(self, found: Descriptor, count: list[int] | None = None) -> None:
        """Look at a message and all that it holds; these share the `count` of messages within one payload."""
        import pyarrow as pa
        from google.protobuf import message, message_factory, unknown_fields

        self._class = message_factory.GetMessageClass(found)
        self._error = message.DecodeError
        self._unknown = unknown_fields.UnknownFieldSet
        self._count = [0] if count is None else count
        self._missing: dict[str, Any] = {}
        self._converts: dict[int, Convert] = {}
        types = []
        for field in found.fields:
            kind, convert, missing = _field(field, self._count)
            types.append(pa.field(field.name, kind))
            self._converts[field.number] = convert
            self._missing[field.name] = missing
        self.type = pa.struct(types)

    def read(self, payload: bytes) -> dict[str, Any]:
        """The values by field name.

        Raises:
            Mismatch: the payload is none of the message.
        """
        self._count[0] = 0
        try:
            message = self._class.FromString(payload)
            if not message.IsInitialized():
                raise Mismatch("lacks a required field")
            return self.values(message)
        except (self._error, UnicodeDecodeError) as error:
            raise Mismatch(str(error)) from None

    def values(self, message: Any) -> dict[str, Any]:
        """The values of a message that was parsed, by field name."""
        self._count[0] += 1
        if self._count[0] > _MOST:
            raise Mismatch(f"more than {_MOST} messages within one")
        for unknown in self._unknown(message):
            if unknown.field_number in self._converts:
                raise Mismatch(f"field number {unknown.field_number} is not of the type that the schema says")
        values = dict(self._missing)
        for field, value in message.ListFields():
            if field.number in self._converts and not field.is_extension:
                values[field.name] = self._converts[field.number](value)
        return values


def _field(field: FieldDescriptor, count: list[int]) -> tuple[Any, Convert, Any]:
    """Arrow's type, what makes its value, and the value where the field is missing."""
    import pyarrow as pa

    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        (key, of_key), (value, of_value) = (_single(f, count) for f in field.message_type.fields)
        return pa.map_(key, value), lambda found: [(of_key(k), of_value(v)) for k, v in found.items()], []
    kind, convert = _single(field, count)
    if field.is_repeated:
        return pa.list_(kind), lambda found: [convert(value) for value in found], []
    zero = field.message_type is None and (not field.has_presence or field.has_default_value)
    return kind, convert, convert(field.default_value) if zero else None


def _single(field: FieldDescriptor, count: list[int]) -> tuple[Any, Convert]:
    """Arrow's type and what makes its value, for one value of the field."""
    import pyarrow as pa

    if (inner := field.message_type) is not None:
        if inner.full_name == TIMESTAMP:
            return pa.timestamp("us", tz="UTC"), _micros
        if inner.full_name in WRAPPERS:
            kind, convert = _single(inner.fields_by_name["value"], count)
            return kind, lambda wrapper: convert(wrapper.value)
        nested = Message(inner, count)
        return nested.type, nested.values
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return pa.string(), lambda number: names.get(number) or str(number)
    return _scalar(field)


def _scalar(field: FieldDescriptor) -> tuple[Any, Convert]:
    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    scalars: dict[str, tuple[Any, Convert]] = {
        **dict.fromkeys(("INT32", "SINT32", "SFIXED32"), (pa.int32(), int)),
        **dict.fromkeys(("INT64", "SINT64", "SFIXED64", "UINT32", "FIXED32"), (pa.int64(), int)),
        **dict.fromkeys(("UINT64", "FIXED64"), (pa.decimal128(20, 0), Decimal)),
        "FLOAT": (pa.float32(), float),
        "DOUBLE": (pa.float64(), float),
        "BOOL": (pa.bool_(), bool),
        "STRING": (pa.string(), _text),
        "BYTES": (pa.binary(), bytes),
    }
    return scalars[FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_")]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        # proto2 does not check, and the library gives what is no UTF-8 as bytes.
        raise Mismatch("a string is not UTF-8")
    return value


def _micros(moment: Any) -> int:
    seconds, nanos = moment.seconds, moment.nanos
    if not (_SECONDS[0] <= seconds <= _SECONDS[1] and 0 <= nanos < 1_000_000_000):
        raise Mismatch(f"a Timestamp of {seconds} s and {nanos} ns is outside the years 0001 to 9999")
    return int(seconds * 1_000_000 + nanos // 1000)
