"""Brings the refused records of a batch to the driver while it is written: quarantine needs no second read then.

Each task gives those that it refuses, as they came, up to its share of a bound. Where some did not fit, or the session
lacks lakeingest's jar, the batch is read a second time, and `refused_bitmap` finds them again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakeingest.record import HEADERS, RAW_HEADERS, REFUSED, count_where
from lakeingest.schema import ddl
from lakeingest.spark import frames, jvm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_BYTES = 32 * 2**20
"""Of a batch's refused records."""
_KIND, _TAKEN, _METRIC = "records", "_taken", "taken"


def new_id() -> str:
    """What a frame is known by; each needs one of its own."""
    return uuid.uuid4().hex


def collected(decided: DataFrame, columns: StructType, frame_id: str) -> DataFrame:
    """The frame, with the column _taken (BOOLEAN) of which `aggregates` are made.

    Args:
        columns: those of a record as it came.
    """
    if not frames.stay_resolved(decided.sparkSession):
        return decided
    function = jvm.function(_KIND, f"take {frame_id} {MOST_BYTES} {columns.json()}")
    # Masked ones stand in the place of the headers.
    changed = {HEADERS: RAW_HEADERS} if RAW_HEADERS in decided.columns else {}
    sources = (F.col(ddl.quoted(changed.get(name, name))).alias(name) for name in columns.names)
    take = F.call_function(function, F.struct(*sources))
    # Of what is refused alone: a record that is accepted costs nothing.
    return decided.withColumn(_TAKEN, F.when(F.col(REFUSED), take).otherwise(F.lit(False)))


def aggregates(session: SparkSession) -> tuple[Column, ...]:
    """What has to be observed of a frame that `collected` gave, so that `records` knows whether all have come."""
    return (count_where(F.col(_TAKEN)).alias(_METRIC),) if frames.stay_resolved(session) else ()


def records(
    session: SparkSession,
    metrics: Mapping[str, Any],
    frame_id: str,
    table_id: str,
    marks: tuple[int, datetime],
    *,
    columns: StructType,
) -> DataFrame | None:
    """The refused records of a batch as they came, with _raw_sequence and _raw_refused_at; None where they did not all
    fit, or nobody took them.

    Args:
        session: whose frame they become.
        metrics: what was observed of the batch.
        table_id: an id too. What was made before of a frame with the same id, and the same columns, has these records
            and marks from now on.
        marks: the batch's number and time.
        columns: those of a record as it came, as `collected` took them.
    """
    if metrics.get(_METRIC) != metrics["refused"]:
        return None
    sequence, micros = marks[0], round(marks[1].timestamp() * 1_000_000)
    name = f"{table_id} {frame_id} {metrics[_METRIC]} {sequence} {micros} {columns.json()}"
    return session.table(jvm.function(_KIND, name))
