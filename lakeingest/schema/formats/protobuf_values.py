"""Protobuf messages → Arrow, in the types that `protobuf.read_message` says. Executors run it, alone.

The protobuf library parses, which bounds memory (a length beyond the payload is an error at once), depth (100 messages
within each other) and text (UTF-8). What else makes a payload none of its message:

    a known field with another wire type        the library would take it for an unknown field
    a number beyond the 32 bits of its type     the library would cut it; a bool is true for every number but 0
    a number that a closed enum (proto2's) lacks; an open one's is written as its digits, as protobuf's JSON does
    a required field that is missing
    a Timestamp outside the years 0001 to 9999
    more than a million messages within it: an empty one takes two bytes there, and a hundred times as much in Python

Fields that the message does not know are passed over, as Protobuf has it; but an entry of a map must have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakeingest.schema import json_text
from lakeingest.schema.formats.protobuf_wide import widened

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_ANYTHING = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
_SECONDS = (-62_135_596_800, 253_402_300_799)
"""The years 0001 to 9999."""
_AT_ONCE = 1 << 20
"""Bytes of payloads whose Python values are held at once: these may take a hundred times as much."""
_MOST = 1_000_000

Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """The payload is none of the message; the message says why.

    Attributes:
        withheld: the same without any value of the payload.
    """

    def __init__(self, text: str, withheld: str | None = None) -> None:
        super().__init__(text)
        self.withheld = withheld or text


class Unparsed(Mismatch):
    """The protobuf library cannot parse it; it says neither which field it is, nor whether its message has a value."""


def descriptor(descriptors: bytes, message: str) -> Descriptor:
    """The protobuf library's descriptor of a message in a serialized FileDescriptorSet.

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
    readers: list[Message] = []

    def read(payloads: pa.Array) -> pa.Array:
        import pyarrow as pa

        if not readers:
            readers.append(Message(descriptor(descriptors, message)))
        kind = readers[0].type
        chunks = [pa.array(rows, kind) for rows in _portions(payloads, readers[0])]
        return pa.concat_arrays(chunks) if chunks else pa.array([], kind)

    return read


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

    def __init__(self, message_type: Descriptor) -> None:
        from google.protobuf import message, message_factory

        self._class = message_factory.GetMessageClass(widened(message_type))
        self._error = message.DecodeError
        self._looks = _Looks()
        self.type, self._values = _struct(message_type, self._looks, "", ())

    def read(self, payload: bytes) -> dict[str, Any]:
        """The values by field name.

        Raises:
            Mismatch: the payload is none of the message.
        """
        self._looks.messages = 0
        try:
            message = self._class.FromString(payload)
            if not message.IsInitialized():
                raise Mismatch("lacks a required field")
            values: dict[str, Any] = self._values(message)
            return values
        except (self._error, UnicodeDecodeError) as error:
            raise Unparsed(str(error)) from None


class _Looks:
    """Looks at each message within a payload.

    Attributes:
        messages: how many there were.
    """

    def __init__(self) -> None:
        from google.protobuf import unknown_fields

        self._unknown = unknown_fields.UnknownFieldSet
        self.messages = 0

    def at(self, message: Any, places: Mapping[int, str]) -> None:
        """Raises:
        Mismatch: it has a field of another wire type, or there are too many messages.
        """
        self.messages += 1
        if self.messages > _MOST:
            raise Mismatch(f"more than {_MOST} messages within one")
        for unknown in self._unknown(message):
            if unknown.field_number in places:
                raise Mismatch(f"field {places[unknown.field_number]} is not of the type that the schema says")


def _struct(message_type: Descriptor, looks: _Looks, place: str, around: tuple[str, ...]) -> tuple[Any, Convert]:
    """Arrow's type of a message, and what makes the values by field name."""
    import pyarrow as pa

    around = (*around, message_type.full_name)
    missing: dict[str, Any] = {}
    converts: dict[int, Convert] = {}
    types = []
    for field in message_type.fields:
        kind, convert, none = _field(field, looks, f"{place}{field.name}", around)
        types.append(pa.field(field.name, kind))
        converts[field.number] = convert
        missing[field.name] = none
    places = _places(message_type, place)

    def values(message: Any) -> dict[str, Any]:
        looks.at(message, places)
        row = dict(missing)
        for field, value in message.ListFields():
            if field.number in converts and not field.is_extension:
                row[field.name] = converts[field.number](value)
        return row

    return pa.struct(types), values


def _places(message_type: Descriptor, place: str) -> dict[int, str]:
    """The number of a field → its way from the record."""
    return {field.number: f"{place}{field.name}" for field in message_type.fields}


def _field(field: FieldDescriptor, looks: _Looks, place: str, around: tuple[str, ...]) -> tuple[Any, Convert, Any]:
    """Arrow's type, what makes its value, and the value where the field is missing."""
    import pyarrow as pa

    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        parts = [_single(f, looks, f"{place}.{f.name}", around) for f in field.message_type.fields]
        (key, of_key), (value, of_value) = parts
        return pa.map_(key, value), lambda items: [(of_key(k), of_value(v)) for k, v in items.items()], []
    kind, convert = _single(field, looks, place, around)
    if field.is_repeated:
        return pa.list_(kind), lambda items: [convert(value) for value in items], []
    zero = field.message_type is None and (not field.has_presence or field.has_default_value)
    return kind, convert, convert(field.default_value) if zero else None


def _single(field: FieldDescriptor, looks: _Looks, place: str, around: tuple[str, ...]) -> tuple[Any, Convert]:
    """Arrow's type and what makes its value, for one value of the field."""
    import pyarrow as pa

    if field.message_type is not None:
        return _message(field.message_type, looks, place, around)
    if field.enum_type is not None:
        return pa.string(), _symbol(field.enum_type, place)
    return _scalar(field, place)


def _message(inner: Descriptor, looks: _Looks, place: str, around: tuple[str, ...]) -> tuple[Any, Convert]:
    import pyarrow as pa

    if inner.full_name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC"), _micros(_places(inner, f"{place}."), looks)
    if inner.full_name in WRAPPERS:
        return _wrapped(inner, looks, place)
    if no_column(inner, around):
        return pa.string(), _json_text(inner, looks, place)
    return _struct(inner, looks, f"{place}.", around) if inner.fields else (pa.bool_(), _flag(looks))


def no_column(message_type: Descriptor, around: tuple[str, ...]) -> str | None:
    """The reason why a message within a record has the JSON text that Protobuf itself has of it; None for another.

    Args:
        around: the full names of the messages that it lies in.
    """
    if message_type.full_name in _ANYTHING:
        return f"is {message_type.full_name}, which may have any fields"
    return f"is {message_type.full_name} within another" if message_type.full_name in around else None


def _flag(looks: _Looks) -> Convert:
    """Makes true of a message that has no fields: it says only that it is there."""

    def flag(message: Any) -> bool:
        looks.at(message, {})
        return True

    return flag


def _json_text(message_type: Descriptor, looks: _Looks, place: str) -> Convert:
    """Makes the JSON text of a message, by the names of the .proto text."""
    from google.protobuf import json_format, message_factory

    exact = message_factory.GetMessageClass(message_type)

    def text(message: Any) -> str:
        _look_within(message, looks, place)
        same = exact.FromString(message.SerializeToString(deterministic=True))
        if same.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True):
            raise Mismatch(f"field {place} has a number within that is outside of its type")
        try:
            pool = message_type.file.pool
            tree = json_format.MessageToDict(same, preserving_proto_field_name=True, descriptor_pool=pool)
            # A map has no order of its own, and a record is to have one text.
            return json_text.written(_sorted(tree))
        except (json_format.Error, TypeError, ValueError) as error:
            raise Mismatch(f"field {place} has no JSON text: {error}", f"field {place} has no JSON text") from None

    return text


def _sorted(tree: Any) -> Any:
    """The same with each object's names in alphabetical order."""
    if isinstance(tree, dict):
        return {name: _sorted(tree[name]) for name in sorted(tree)}
    return [_sorted(each) for each in tree] if isinstance(tree, list) else tree


def _look_within(message: Any, looks: _Looks, place: str) -> None:
    """Looks at a message and at all within it."""
    looks.at(message, _places(message.DESCRIPTOR, f"{place}."))
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = value.values() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            inner = value if field.is_repeated else (value,)
        for each in inner:
            _look_within(each, looks, f"{place}.{field.name}")


def _wrapped(wrapper: Descriptor, looks: _Looks, place: str) -> tuple[Any, Convert]:
    places = _places(wrapper, f"{place}.")
    kind, convert = _single(wrapper.fields_by_name["value"], looks, f"{place}.value", ())

    def value(message: Any) -> Any:
        looks.at(message, places)
        return convert(message.value)

    return kind, value


def _symbol(enum: EnumDescriptor, place: str) -> Convert:
    names = {value.number: value.name for value in reversed(enum.values)}
    within = _within("INT32", place)

    def symbol(number: int) -> str:
        name: str | None = names.get(number)
        if name is not None:
            return name
        if enum.is_closed:
            rule = f"is no number of the enum {enum.name}"
            raise Mismatch(f"field {place}: {number} {rule}", f"field {place} {rule}")
        return str(within(number))

    return symbol


def _scalar(field: FieldDescriptor, place: str) -> tuple[Any, Convert]:
    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_")
    scalars: dict[str, tuple[Any, Convert]] = {
        **dict.fromkeys(("INT32", "SINT32"), (pa.int32(), _within(kind, place))),
        "UINT32": (pa.int64(), _within(kind, place)),
        "SFIXED32": (pa.int32(), int),
        **dict.fromkeys(("INT64", "SINT64", "SFIXED64", "FIXED32"), (pa.int64(), int)),
        **dict.fromkeys(("UINT64", "FIXED64"), (pa.decimal128(20, 0), Decimal)),
        "FLOAT": (pa.float32(), float),
        "DOUBLE": (pa.float64(), float),
        "BOOL": (pa.bool_(), bool),
        "STRING": (pa.string(), _text(place)),
        "BYTES": (pa.binary(), bytes),
    }
    return scalars[kind]


def _within(kind: str, place: str) -> Convert:
    """Takes a number of 64 bits if it is one of 32."""
    low, high = (0, 2**32 - 1) if kind == "UINT32" else (-(2**31), 2**31 - 1)

    def number(value: int) -> int:
        if low <= value <= high:
            return value
        rule = f"is outside of {kind.lower()}"
        raise Mismatch(f"field {place}: {value} {rule}", f"field {place} {rule}")

    return number


def _text(place: str) -> Convert:
    def text(value: Any) -> str:
        if not isinstance(value, str):
            # proto2 does not check, and the library gives what is no UTF-8 as bytes.
            raise Mismatch(f"field {place} is not UTF-8")
        return value

    return text


def _micros(places: Mapping[int, str], looks: _Looks) -> Convert:
    """Makes microseconds since 1970 of a Timestamp with these fields."""
    within, rule = _within("INT32", places[2]), "is outside the years 0001 to 9999"
    place = places[1].rpartition(".")[0]

    def micros(moment: Any) -> int:
        looks.at(moment, places)
        seconds, nanos = moment.seconds, within(moment.nanos)
        if not (_SECONDS[0] <= seconds <= _SECONDS[1] and 0 <= nanos < 1_000_000_000):
            raise Mismatch(f"field {place}: a Timestamp of {seconds} s and {nanos} ns {rule}", f"field {place} {rule}")
        return int(seconds * 1_000_000 + nanos // 1000)

    return micros
