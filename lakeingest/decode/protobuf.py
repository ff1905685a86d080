"""Protobuf messages by the protobuf library, in an Arrow UDF: Spark's own `from_protobuf` needs a jar beside Spark.

It would also make large numbers of fixed32 and fixed64 negative, and a row of nulls of what does not parse. The values
are made in portions, so that what a batch holds in Python's memory stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import Column
from pyspark.sql import types as T

from lakeingest.decode import projection
from lakeingest.decode.writers import PayloadReader
from lakeingest.errors import SetupError
from lakeingest.schema import json_text
from lakeingest.schema.formats import protobuf, protobuf_fault, protobuf_values, protobuf_wide
from lakeingest.schema.model import Schema
from lakeingest.spark import python

_OF_VALUES = (json_text, protobuf_wide, protobuf_values)
"""What executors need to make values."""


@dataclass(frozen=True)
class ProtobufReader(PayloadReader):
    """Reads messages of one type (see `writers.PayloadReader`).

    Attributes:
        descriptors: see `schema.protobuf.compile`.
        schema: the message under the names of the columns; None where these are the fields' own.
    """

    descriptors: bytes = field(repr=False)
    message: str
    schema: Schema | None = None

    @property
    def _schema(self) -> Schema:
        return self.schema or protobuf.read_message(self.descriptors, self.message)

    def parse(self, payload: Column) -> Column:
        if self.schema is None:
            return record(payload, self.descriptors, self.message)
        fields = protobuf.read_message(self.descriptors, self.message)
        kind = projection.under_field_names(projection.struct_type(self.schema), fields)
        return record(payload, self.descriptors, self.message, kind)

    def broken(self, parsed: Column) -> Column:
        return parsed.isNull()

    def value(self, parsed: Column) -> Column:
        # By position: fields may have other names than columns.
        return parsed.cast(_without_comments(projection.struct_type(self.schema))) if self.schema else parsed

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        fault = protobuf_fault.fault(self.descriptors, self.message, withheld=withheld)
        return python.by_value(fault, "STRING", (*_OF_VALUES, protobuf_fault))(payload)

    def rescued(self, parsed: Column, dropped: tuple[str, ...], names: Schema) -> Column | None:
        return projection.rescued(self.value(parsed), dropped, self._schema, names)


def record(payload: Column, descriptors: bytes, message: str, kind: T.StructType | None = None) -> Column:
    """BINARY, a message without header → STRUCT with the fields of `read_message`; null where it is none.

    Spark evaluates a UDF for every row, whatever condition stands around it: give null for rows of other messages.

    Args:
        payload: the message's bytes.
        descriptors: as `schema.protobuf.compile` gives them.
        message: its full name.
        kind: the columns of its fields, where they do not have the fields' names.

    Raises:
        SchemaError: see `schema.protobuf.read_message`, and an empty message.
        SetupError: protobuf is not installed, or Spark is older than 4.1.
    """
    from pyspark.sql.pandas import functions

    kind = kind or projection.struct_type(protobuf.read_message(descriptors, message))
    protobuf.need("pyarrow")
    if not hasattr(functions, "arrow_udf"):
        raise SetupError("Protobuf needs Spark 4.1", cure="run on Spark 4.1, or use another format")
    import pyarrow as pa

    for module in _OF_VALUES:
        register_pickle_by_value(module)
    read = protobuf_values.reader(descriptors, message)
    # Spark looks at the hints themselves, and wants no names of them.
    read.__annotations__ = {"payloads": pa.Array, "return": pa.Array}
    arrow_udf: Any = functions.arrow_udf
    decode: Callable[[Column], Column] = arrow_udf(read, _without_comments(kind))
    return decode(payload)


def _without_comments(kind: T.DataType) -> Any:
    """The type as Arrow has it: Spark compares the two to the last comment."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, _without_comments(f.dataType)) for f in kind])
        case T.ArrayType():
            return T.ArrayType(_without_comments(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, _without_comments(kind.valueType))
    return kind
