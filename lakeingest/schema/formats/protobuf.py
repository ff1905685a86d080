"""Protobuf (.proto text) → the form that all formats share, by and large as Confluent's ProtobufConverter reads it.

    int32, sint32, sfixed32           int32
    int64, sint64, sfixed64           int64
    uint32, fixed32                   int64
    uint64, fixed64                   decimal(20,0): Confluent takes int64, and half of the numbers become negative
    float, double, bool, string       float32, float64, boolean, string
    bytes                             bytes
    enum                              string with its symbols, named as the enum
    message                           struct named as the message, optional; so are Any, Duration, google.type.Date and
                                      confluent.type.Decimal, which Delta has no type for, or which say no scale
    repeated, map                     array, map; what is missing is empty, so that is their default
    google.protobuf.Timestamp         timestamp in microseconds: nanoseconds are cut, as no column has them
    google.protobuf.Int64Value, …     int64, …, optional
    google.protobuf.Struct, Value     JSON text, and so is a message within another of its type: both are what
                                      Protobuf's own JSON has of them
    a message without fields          boolean, which is true where it is there

A field without presence (a scalar of proto3) is not optional and its default is zero, since one that is missing *is*
zero. One with presence (proto3's and proto2's `optional`, members of a oneof) is optional, and a default that proto2
gives it is kept. The members of a oneof are fields beside the others: Confluent puts them into a struct of their own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import util
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lakeingest.errors import SetupError
from lakeingest.schema import model
from lakeingest.schema.formats import protobuf_values
from lakeingest.schema.formats.protobuf_known import KNOWN
from lakeingest.schema.formats.protobuf_values import TIMESTAMP, WRAPPERS
from lakeingest.schema.model import Field, Schema, SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

_WAIT_S = 20
_NOISE = re.compile(r"WARNING: |[IW]\d{4} |.*: warning: ")
"""Lines of protoc that are no errors; it logs some of them in a format of its own."""
_DEEPEST = 64
_LARGEST = 20_000
"""Fields of one message and all that it holds: messages of a few lines can hold each other as often as one likes."""
_UNSIGNED = Schema("bytes", name=model.DECIMAL, parameters=((model.PRECISION, "20"), (model.SCALE, "0")))
_SCALARS: Mapping[str, Schema] = {
    **dict.fromkeys(("TYPE_INT32", "TYPE_SINT32", "TYPE_SFIXED32"), Schema("int32")),
    **dict.fromkeys(("TYPE_INT64", "TYPE_SINT64", "TYPE_SFIXED64", "TYPE_UINT32", "TYPE_FIXED32"), Schema("int64")),
    **dict.fromkeys(("TYPE_UINT64", "TYPE_FIXED64"), _UNSIGNED),
    "TYPE_FLOAT": Schema("float32"),
    "TYPE_DOUBLE": Schema("float64"),
    "TYPE_BOOL": Schema("boolean"),
    "TYPE_STRING": Schema("string"),
    "TYPE_BYTES": Schema("bytes"),
}


def read(text: str, references: Sequence[tuple[str, str]] = ()) -> Schema:
    """The first message of a .proto text; see `compile` and `read_message`.

    Raises:
        SchemaError: as these two do, or the text has no message.
    """
    descriptors = compile(text, references)
    first = messages(descriptors).get((0,))
    if first is None:
        raise SchemaError("the .proto text has no message")
    return read_message(descriptors, first)


def compile(text: str, references: Sequence[tuple[str, str]] = ()) -> bytes:
    """A .proto text as a serialized FileDescriptorSet, with all that it imports; its own file comes last.

    Args:
        text: the .proto text.
        references: (path that an `import` names, text) of other files, in any order. Google's own and Confluent's
            are known.

    Raises:
        SchemaError: it does not compile; the message is protoc's, with line and column.
        SetupError: grpcio-tools is not installed.
    """
    need("grpc_tools")
    main = "schema.proto"
    while any(name == main for name, _ in references):
        main = f"_{main}"
    with TemporaryDirectory(prefix="lakeingest-protoc-") as name:
        folder, out = Path(name) / "in", Path(name) / "out"
        for path, content in {**KNOWN, **dict(references), main: text}.items():
            _write(folder, path, content)
        # A process of its own, as protoc writes its errors straight to file descriptor 2; -P, as Python would else
        # import from where it runs.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        command += [f"--descriptor_set_out={out}", str(folder / main)]
        try:
            process = subprocess.run(command, capture_output=True, timeout=_WAIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise SchemaError(f"protoc did not come to an end in {_WAIT_S} s") from None
        if process.returncode:
            raise SchemaError(f"the .proto text does not compile: {_compiler_message(process.stderr, folder)}")
        return out.read_bytes()


def _write(folder: Path, path: str, content: str) -> None:
    """Registries let their users choose the names of references, so one could lead out of the folder."""
    parts = PurePosixPath(path)
    if not parts.name or parts.is_absolute() or ".." in parts.parts or not path.isprintable() or "\\" in path:
        raise SchemaError(f"a reference is named {path!r}, which is no path that an import can name")
    try:
        (folder / parts).parent.mkdir(parents=True, exist_ok=True)
        (folder / parts).write_text(content, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SchemaError(f"the reference {path!r} cannot be given to protoc: {error}") from None


def _compiler_message(stderr: bytes, folder: Path) -> str:
    lines = stderr.decode(errors="replace").replace(f"{folder}/", "").splitlines()
    lines = [line for line in lines if not _NOISE.match(line)]
    return "; ".join(lines[:5]) or "protoc does not say why"


def need(package: str) -> None:
    """Look whether a package of the extra is there, without importing it.

    Raises:
        SetupError: it is not.
    """
    try:
        spec = util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise SetupError("Protobuf needs packages that are not installed", cure="pip install 'lakeingest[protobuf]'")


def messages(descriptors: bytes) -> dict[tuple[int, ...], str]:
    """Confluent's message indexes of the main file → full names: (0,) the first message, (0, 2) its third inner one.

    Raises:
        SetupError: protobuf is not installed.
    """
    files = _files(descriptors).file
    return dict(_full_names(files[-1].message_type, (), files[-1].package)) if files else {}


def _full_names(messages: Sequence[Any], path: tuple[int, ...], within: str) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, message in enumerate(messages):
        name = f"{within}.{message.name}" if within else message.name
        yield (*path, number), name
        yield from _full_names(message.nested_type, (*path, number), name)


def read_message(descriptors: bytes, message: str) -> Schema:
    """A message, by its full name, as a struct.

    Raises:
        SchemaError: there is no such message, or it is far too large; the message says where.
        SetupError: protobuf is not installed.
    """
    return _MessageReader(message).struct(_descriptor(descriptors, message), (), "")


def _descriptor(descriptors: bytes, message: str) -> Descriptor:
    need("google.protobuf")
    try:
        return protobuf_values.descriptor(descriptors, message)
    except KeyError:
        raise SchemaError(f"there is no message {message} in the .proto text") from None
    except TypeError as error:
        raise SchemaError(f"the protobuf library refuses the .proto text: {error}") from None


def _files(descriptors: bytes) -> FileDescriptorSet:
    need("google.protobuf")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return FileDescriptorSet.FromString(descriptors)


class _MessageReader:
    """Walks a message; `place` is the way to a field within the record, `around` the messages that it lies in."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._fields = 0

    def struct(self, descriptor: Descriptor, around: tuple[str, ...], place: str) -> Schema:
        if len(around) >= _DEEPEST:
            raise SchemaError(f"{self._message}: {place} is nested deeper than {_DEEPEST} messages")
        around = (*around, descriptor.full_name)
        fields = (
            Field(f.name, self._field(f, around, f"{place}.{f.name}".removeprefix("."))) for f in descriptor.fields
        )
        return Schema("struct", name=descriptor.name, fields=tuple(fields))

    def _field(self, field: FieldDescriptor, around: tuple[str, ...], place: str) -> Schema:
        self._fields += 1
        if self._fields > _LARGEST:
            raise SchemaError(f"{self._message}: {place} makes more than {_LARGEST} fields")
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key, value = (self._single(entry.fields_by_name[part], around, f"{place}.*") for part in ("key", "value"))
            return Schema("map", key=key, value=value, default="{}")
        schema = self._single(field, around, place)
        if field.is_repeated:
            return Schema("array", value=schema, default="[]")
        return replace(schema, optional=field.has_presence and not field.is_required, default=_default(field))

    def _single(self, field: FieldDescriptor, around: tuple[str, ...], place: str) -> Schema:
        """The type of one value."""
        if (inner := field.message_type) is not None:
            if inner.full_name == TIMESTAMP:
                return Schema("int64", name=model.TIMESTAMP_MICROS)
            if inner.full_name in WRAPPERS:
                return self._single(inner.fields_by_name["value"], around, place)
            if reason := protobuf_values.no_column(inner, around):
                return model.json_text(reason)
            return self.struct(inner, around, place) if inner.fields else Schema("boolean")
        if field.enum_type is not None:
            symbols = ",".join(value.name for value in field.enum_type.values)
            return Schema("string", name=field.enum_type.name, parameters=((model.SYMBOLS, symbols),))
        return _scalar(field)


def _scalar(field: FieldDescriptor) -> Schema:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return _SCALARS[FieldDescriptorProto.Type.Name(field.type)]


def _default(field: FieldDescriptor) -> str | None:
    """Zero where a field has no presence, else what the text says."""
    if field.message_type is not None or (field.has_presence and not field.has_default_value):
        return None
    value = field.default_value
    if field.enum_type is not None:
        value = field.enum_type.values_by_number[value].name
    elif isinstance(value, bytes):
        value = value.decode("latin-1")
    elif _scalar(field) == _UNSIGNED:
        value = value.to_bytes(value.bit_length() // 8 + 1, "big").decode("latin-1")
    return model.default_text(value)
