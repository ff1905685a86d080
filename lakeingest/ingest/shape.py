"""The columns that a pipeline's records become: of the value, of the key, and of the whole table. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructType

from lakeingest import config as file
from lakeingest.config import PipelineConfig, brings_schema, consistency, partition_format, uses_registry
from lakeingest.decode import Shape, framing, inferred, projection
from lakeingest.errors import PipelineFileError
from lakeingest.record import (
    HEADERS,
    KEY,
    OFFSET,
    OPERATION,
    PARTITION,
    RESCUED,
    SCHEMA_ID,
    TIMESTAMP,
    TOPIC,
    VALID_FROM,
    VALID_TO,
    is_reserved,
)
from lakeingest.schema import ddl, model, transforms
from lakeingest.schema.model import Schema
from lakeingest.spark.types import demanded, of_columns, struct


def value_columns(config: PipelineConfig, table: Schema | None) -> StructType:
    """The columns of a value.

    Args:
        table: the schema of all columns that values have; None before the first record that names one.
    """
    value = config.decode.value
    if isinstance(value, file.JsonValue):
        return inferred.columns(struct(config.declared), table)
    if isinstance(value, file.StringFormat | file.BytesFormat):
        return struct(f"value {'STRING' if value.format == 'string' else 'BINARY'}")
    return projection.struct_type(table) if table else StructType([])


def described(config: PipelineConfig, table: Schema | None) -> StructType:
    """The columns of a value with the comments that the file gives them, or the schema that its records bring.

    Args:
        table: see `value_columns`.
    """
    file_alone = not brings_schema(config.decode.value)
    if file_alone:
        return of_columns(transforms.apply(config.steps, consistency.columns(config.decode, config.schema_)))
    return of_columns(transforms.apply(config.steps, model.value_columns(table)) if table else ())


def key_type(config: PipelineConfig, table: Schema | None) -> DataType | None:
    """The type of the column _key; None before the first record whose key names a schema.

    Args:
        table: the schema of all that keys have.
    """
    key = config.decode.key
    if isinstance(key, file.JsonKey):
        return struct(key.columns)
    if isinstance(key, file.StringFormat | file.BytesFormat):
        return struct(f"k {'STRING' if key.format == 'string' else 'BINARY'}")["k"].dataType
    return projection.data_type(table) if table else None


def of_value(config: PipelineConfig, table: StructType) -> StructType:
    """The table's columns without those that lakeingest computes: coordinates and the like, and partitions."""
    computed = {name.lower() for part in config.partition for name in partition_format.computed(part)}
    computed |= {field.name for field in _of_mode(config)}
    return StructType([f for f in table if not is_reserved(f.name) and f.name.lower() not in computed])


def with_partitions(config: PipelineConfig, value: StructType, table: StructType) -> StructType:
    """With the fields that the table is partitioned by, though the current schema has them no more: null then."""
    paths = [part.field for part in config.partition if not isinstance(part, file.KafkaPartition)]
    names = {path.partition(".")[0].lower() for path in paths if path}
    names -= {f.name.lower() for f in value}
    return StructType([*value, *(f for f in table if f.name.lower() in names)])


def table_columns(config: PipelineConfig, shape: Shape) -> StructType:
    """The table's columns but for partition columns: coordinates, timestamp, key, headers, value, rescued.

    _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _op STRING (where deletes are rows),
    _valid_from TIMESTAMP, _valid_to TIMESTAMP (in mode history), _key (as
    decode.key and the steps say), _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _schema_id INT, or STRING of AWS
    Glue (where a registry holds the schema), the value's columns, _rescued STRING (not for text and bytes); none that
    the steps drop. The coordinates come first: Delta keeps statistics of the first 32 columns.

    Raises:
        PipelineFileError: two columns would have one name.
    """
    dropped = {name.lower() for step in config.steps if step.kind == "drop" for name in step.names}
    columns = StructType(
        [
            T.StructField(TOPIC, T.StringType()),
            T.StructField(PARTITION, T.IntegerType()),
            T.StructField(OFFSET, T.LongType()),
            T.StructField(TIMESTAMP, T.TimestampType()),
        ]
    )
    for each in _of_mode(config):
        if any(field.name.lower() == each.name for field in shape.table):
            raise PipelineFileError(
                f"the schema of the records has a column {each.name}, and so has the table",
                cure=f"give the records' one another name: schema: {{names: {{{each.name}: record{each.name}}}}}",
            )
        columns.add(each)
    if (key := shape.table_key) is not None:
        columns.add(KEY, key)
    if config.decode.headers and HEADERS not in dropped:
        columns.add(HEADERS, struct("h ARRAY<STRUCT<key: STRING, value: BINARY>>")["h"].dataType)
    if uses_registry(config.decode.value):
        columns.add(SCHEMA_ID, framing.of_registry(config.registry).id_type)
    for declared in demanded(shape.table):
        columns.add(declared)
    if config.decode.value.format not in ("string", "bytes") and RESCUED not in dropped:
        columns.add(RESCUED, T.StringType())
    return columns


def _of_mode(config: PipelineConfig) -> list[T.StructField]:
    """The columns that table.mode adds."""
    columns = [T.StructField(OPERATION, T.StringType())] if config.table.marks else []
    if config.table.dated:
        columns += [T.StructField(name, T.TimestampType()) for name in (VALID_FROM, VALID_TO)]
    return columns


def loosened(columns: StructType, paths: Collection[str]) -> StructType:
    """The columns, those that `paths` name as SQL does without their NOT NULL."""
    return StructType([T.StructField(f.name, f.dataType, f.nullable or ddl.quoted(f.name) in paths) for f in columns])
