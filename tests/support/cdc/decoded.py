"""Values of records as they are decoded, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest import config
from lakeingest.decode import projection, readers, writers
from lakeingest.decode.writers import SchemaBranch, SchemaBranches

RULES = readers.SchemaRules(envelope=config.DebeziumEnvelope(format="debezium"))


def decoded(
    spark: SparkSession, format: config.ValueFormat, type: str, text: str, values: Sequence[bytes]
) -> list[Any]:
    """Of each payload of a change event the row, or why there is none.

    Args:
        type: of the schema; see `readers.read`.
        text: the schema.
    """
    reading = readers.read(format, type, text, (), b"", rules=RULES)
    assert reading is not None
    frame = spark.createDataFrame([(at, bytearray(each)) for at, each in enumerate(values)], "at INT, raw BINARY")
    branch = SchemaBranch(b"", None, "it", reading.schema, reading.reader, reading.schema)
    target = projection.struct_type(reading.schema)
    read = writers.read("value", F.col("raw"), SchemaBranches((branch,), None), target, 2**24)
    for stage in read.stages:
        frame = frame.withColumns(stage)
    (misfit,) = read.refusals
    row = F.when(~misfit.when, F.struct(*(column.alias(name) for name, column in read.columns.items()))).alias("row")
    reason = F.when(misfit.when, misfit.diagnosis()["message"]).alias("why")
    return list(frame.orderBy("at").select(row, reason).collect())
