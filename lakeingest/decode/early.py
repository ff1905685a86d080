"""Records of a batch before the first value that says the type of an undeclared JSON field.

As if each record were a batch of its own, no column is there for them yet: what they have of the field stays in
_rescued. It makes a difference where that is a value without a type, as [] or [1, "a"]: the column could refuse it, or
take it. So the records of a batch are parsed in segments, each with the columns that are there by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode.order import TopicPartition
from lakeingest.record import OFFSET, PARTITION, TOPIC
from lakeingest.schema.model import Schema

SEGMENT = "_parsed_segment"
_NEVER = 2**63 - 1


@dataclass(frozen=True)
class TypeSegment:
    """The records of a batch that come before a field has a type.

    Attributes:
        ends: of each partition, the first offset behind them; where none is given, all of its records are among them.
        columns: those that are there for them, of the columns of the whole batch.
    """

    ends: Mapping[TopicPartition, int]
    columns: T.StructType


def segment(segments: Sequence[TypeSegment]) -> Column:
    """INT: in which of the segments a record is, each of which begins where the last one ends; their number behind all
    of them.
    """
    partitions = sorted({partition for each in segments for partition in each.ends})
    number = F.lit(0)
    for topic, partition in partitions:
        ends = F.array(*(F.lit(each.ends.get((topic, partition), _NEVER)) for each in segments))
        behind = F.size(F.filter(ends, lambda end: end <= F.col(OFFSET)))
        number = F.when((F.col(TOPIC) == topic) & (F.col(PARTITION) == partition), behind).otherwise(number)
    return number


def columns_of(whole: T.StructType, schema: Schema) -> T.StructType:
    """The columns without the fields that the schema lacks."""
    columns = _part_of(whole, schema)
    assert isinstance(columns, T.StructType)
    return columns


def _part_of(whole: T.DataType, schema: Schema) -> T.DataType:
    match whole:
        case T.StructType() if schema.type == "struct":
            fields = [(f, kind) for f in whole if (kind := schema.field(f.name))]
            return T.StructType(
                [T.StructField(f.name, _part_of(f.dataType, kind), f.nullable, f.metadata) for f, kind in fields]
            )
        case T.ArrayType() if schema.value:
            return T.ArrayType(_part_of(whole.elementType, schema.value), whole.containsNull)
        case T.MapType() if schema.value:
            return T.MapType(whole.keyType, _part_of(whole.valueType, schema.value), whole.valueContainsNull)
    return whole
