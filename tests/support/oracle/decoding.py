"""What becomes of records that a batch decides: their columns, or why they were refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from support.pipelines import shape_of

from lakeingest import decode
from lakeingest.config import PipelineConfig
from lakeingest.delta import partitioning, quarantine
from lakeingest.ingest.batch_plan import BatchPlan, observed
from lakeingest.spark import types

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (
    "flight INT, big BIGINT, sm SMALLINT, carrier STRING, d DATE, t TIMESTAMP, dec DECIMAL(10,2), "
    "big_dec DECIMAL(38,19), dbl DOUBLE, "
    "fl FLOAT, b BOOLEAN, bin BINARY, st STRUCT<a: INT, b: DATE>, arr ARRAY<INT>, ard ARRAY<DATE>, m MAP<STRING,INT>, "
    "ntz TIMESTAMP_NTZ, sts ARRAY<STRUCT<x: INT NOT NULL>>, ms MAP<STRING,STRUCT<y: DECIMAL(4,1)>>"
)
KAFKA = (
    "_offset BIGINT, _raw_key BINARY, _raw_value BINARY, _topic STRING, _partition INT, _timestamp TIMESTAMP, "
    "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss"}


class Verdict(NamedTuple):
    """What became of a record: its columns as JSON text without nulls, or stage, reason and message."""

    columns: str | None = None
    stage: str | None = None
    reason: str | None = None
    message: str = ""


def pipeline(columns: str | None = COLUMNS, **decoding: Any) -> PipelineConfig:
    parts = {"source": {"topics": ["flights"]}, "table": {"path": "s3a://lake/flights"}, "decode": decoding}
    return PipelineConfig.model_validate(
        {"name": "flights", **parts, "schema": {"columns": columns} if columns else {}}
    )


def batch_of(config: PipelineConfig, columns: str | None = None) -> BatchPlan:
    shape = shape_of(config)
    if columns:
        shape = replace(shape, value=types.struct(columns))
    decoded = decode.decode(config, shape)
    names = tuple(name for name in decoded.columns if name != "_headers")
    return BatchPlan(NOW, shape, decoded, partitioning.Layout(), names)


def kafka(spark: SparkSession, records: Sequence[tuple[bytes | None, bytes | None]]) -> DataFrame:
    rows = [(i, key, value, "flights", 0, NOW, None) for i, (key, value) in enumerate(records)]
    return spark.createDataFrame(rows, KAFKA).coalesce(1)


def judge(
    spark: SparkSession,
    config: PipelineConfig,
    records: Sequence[tuple[bytes | None, bytes | None]],
    columns: str | None = None,
) -> list[Verdict | None]:
    """Decide many (key, value) at once, as a batch does; None for a record that is dropped.

    Args:
        columns: those of the value, if there are others than the file declares.
    """
    batch = batch_of(config, columns)
    decided = batch.decide(kafka(spark, records)).withColumn("_n", F.col("_offset"))
    nothing = [F.lit(None).cast("string").alias(name) for name in Verdict._fields]
    kept = decided.where("NOT _refused AND NOT _dropped").select(
        "_n", F.to_json(F.struct(*batch.columns), TIMES), *nothing[1:]
    )
    refused = quarantine.rows(observed(decided, Observation()).where("_refused"), batch.refusals, "flights", 1, NOW)
    found: list[Verdict | None] = [None] * len(records)
    for row in kept.union(refused.select("_offset", nothing[0], "stage", "reason", "message")).collect():
        found[row[0]] = Verdict(row[1], row[2], row[3], row[4] or "")
    return found
