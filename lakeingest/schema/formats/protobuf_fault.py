"""The reason why a Protobuf payload is none of its message: the field, and its problem. Executors run it, alone.

Asked of refused records alone: the protobuf library says of most payloads only that they cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeingest.schema.formats.protobuf_values import Message, Mismatch, Unparsed, descriptor

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_DEEPEST = 100
_FIXED = {1: 8, 5: 4}
"""Wire type → its bytes; of 0 (a number) and 2 (behind a length) the payload says how many."""
_STRING = 9


def fault(descriptors: bytes, message: str, *, withheld: bool = False) -> Callable[[bytes | None], str | None]:
    """A payload → why it is none of the message; None where it is one, and for None.

    Args:
        withheld: whether it is told without any value of the payload.
    """
    readers: list[tuple[Descriptor, Message]] = []

    def say(payload: bytes | None) -> str | None:
        if payload is None:
            return None
        if not readers:
            message_type = descriptor(descriptors, message)
            readers.append((message_type, Message(message_type)))
        try:
            readers[0][1].read(bytes(payload))
        except Unparsed as why:
            return unread(readers[0][0], bytes(payload)) or (None if withheld else str(why))
        except Mismatch as why:
            return why.withheld if withheld else str(why)
        return None

    return say


class _ProtobufFault(ValueError):
    """A problem, and its place."""


def unread(message_type: Descriptor, payload: bytes) -> str | None:
    """The place where the parser cannot go on; None if it is not found."""
    try:
        _walk(message_type, payload, "", 0)
    except _ProtobufFault as wrong:
        return str(wrong)
    return None


def _walk(message_type: Descriptor, payload: bytes, path: str, depth: int) -> None:
    """Step over the fields of a message.

    Raises:
        _Fault: one is none.
    """
    at = 0
    while at < len(payload) and depth <= _DEEPEST:
        tag, at = _number(payload, at, path.rstrip("."))
        field: FieldDescriptor | None = message_type.fields_by_number.get(tag >> 3)
        place, wire = f"{path}{field.name}" if field else path.rstrip("."), tag & 7
        if wire in (3, 4):
            # A group: nobody has written one for long.
            return
        if not tag >> 3 or wire > 5:
            raise _cut(place)
        if wire == 0:
            _, at = _number(payload, at, place)
            continue
        size, at = (_FIXED[wire], at) if wire in _FIXED else _number(payload, at, place)
        if at + size > len(payload):
            raise _cut(place)
        if wire == 2 and field is not None:
            _look(field, payload[at : at + size], place, depth)
        at += size


def _look(field: FieldDescriptor, content: bytes, place: str, depth: int) -> None:
    if field.message_type is not None:
        _walk(field.message_type, content, f"{place}.", depth + 1)
    elif field.type == _STRING:
        try:
            content.decode()
        except UnicodeDecodeError:
            raise _ProtobufFault(f"field {place} is not UTF-8") from None


def _number(payload: bytes, at: int, place: str) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(payload):
            break
        number |= (payload[at] & 0x7F) << shift
        at += 1
        if payload[at - 1] < 0x80:
            return number, at
    raise _cut(place)


def _cut(path: str) -> _ProtobufFault:
    place = f"field {path}" if path else "the payload"
    return _ProtobufFault(f"{place} is cut short, or written with another schema")
