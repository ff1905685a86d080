"""Protobuf messages whose numbers of 32 bits have room for 64. Executors run it, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto


def widened(message_type: Descriptor) -> Descriptor:
    """The message with 64 bits for every number of 32, which has the same bytes: what does not fit can be seen then."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, names = DescriptorPool(), set[str]()

    def add(file: FileDescriptor) -> None:
        if file.name in names:
            return
        names.add(file.name)
        for dependency in file.dependencies:
            add(dependency)
        copy = FileDescriptorProto.FromString(file.serialized_pb)
        for message in copy.message_type:
            _widen(message)
        pool.Add(copy)

    add(message_type.file)
    return pool.FindMessageTypeByName(message_type.full_name)


def _widen(message: DescriptorProto) -> None:
    for inner in message.nested_type:
        _widen(inner)
    for field in message.field:
        if field.type in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_UINT32, field.TYPE_ENUM):
            wide = {field.TYPE_SINT32: field.TYPE_SINT64, field.TYPE_UINT32: field.TYPE_UINT64}
            field.type = wide.get(field.type, field.TYPE_INT64)
            field.ClearField("type_name")
            field.ClearField("default_value")
