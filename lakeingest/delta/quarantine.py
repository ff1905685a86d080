"""The quarantine: a Delta table of refused records beside the main one, with their bytes and what was wrong.

_topic STRING, _partition INT, _offset BIGINT      the record's coordinates
_timestamp TIMESTAMP                               the record's own timestamp
key BINARY, value BINARY                           the bytes as they came
headers ARRAY<STRUCT<key: STRING, value: BINARY>>
stage STRING                                       what refused: key, value, schema, gate, partition, table, settle
reason STRING                                      a code: BROKEN_JSON, WRONG_TYPE, EXPECTATION, …
message STRING                                     what exactly is wrong: the place and the value
expectations ARRAY<STRING>                         stage gate: the names of all the expectations that it breaks
moved STRUCT<at, who, why, replay>                 it is here no more: a replay has moved it into the table;
                                                   or, where replay is -1, a RESTORE of the table took
                                                   its batch back, and a run reads it from Kafka again
discarded STRUCT<at, who, why>                     somebody has given it up; it stays
bytes STRING                                       where value is not as it came: encrypted, or left out; where key or
                                                   headers are not either, behind a colon which, as in
                                                   "encrypted: value, key"
pipeline STRING, sequence BIGINT                   whose batch it was
refused_at TIMESTAMP                               when that batch ran
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeingest.record import (
    HEADERS,
    OFFSET,
    PARTITION,
    RAW_HEADERS,
    RAW_KEY,
    RAW_REFUSED_AT,
    RAW_SEQUENCE,
    RAW_VALUE,
    TIMESTAMP,
    TOPIC,
    Refusal,
    count_where,
)
from lakeingest.spark import types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

COLUMNS = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, stage STRING, reason STRING, message STRING, "
    "pipeline STRING, sequence BIGINT, refused_at TIMESTAMP, expectations ARRAY<STRING>, "
    "moved STRUCT<at: TIMESTAMP, who: STRING, why: STRING, replay: BIGINT>, "
    "discarded STRUCT<at: TIMESTAMP, who: STRING, why: STRING>, bytes STRING"
)
"""The columns of the table, as DDL."""

WITHDRAWN = -1
"""In place of a replay's number, of a row whose batch a RESTORE of the table took back."""
SETTLED = "SETTLED"
REASONS = (
    "BATCH",
    "BROKEN_COMPRESSION",
    "BROKEN_JSON",
    "CONSTRAINT",
    "DIFFERENT_NAME",
    "DIFFERENT_PARAMS",
    "DIFFERENT_SCHEMA",
    "DIFFERENT_TYPE",
    "DIFFERENT_VERSION",
    "EXPECTATION",
    "INCOMPATIBLE_OPTIONALITY",
    "INVALID_UTF8",
    "MISSING_REQUIRED_FIELD",
    "NOT_AN_OBJECT",
    "NOT_COMPUTED",
    "NO_PARTITION_TIME",
    "NO_SCHEMA_ID",
    "NULL_KEY",
    "NULL_ORDER",
    "NULL_VALID_FROM",
    "NULL_VALUE",
    "PAYLOAD_MISMATCH",
    "REQUIRED_MISSING",
    "REQUIRED_NULL",
    "SCHEMA_ID_IN_HEADER",
    "SCHEMA_PRESENCE",
    "SETTLED",
    "TOO_LARGE",
    "UNDECLARED_FIELD",
    "UNKNOWN_SCHEMA_ID",
    "UNREADABLE",
    "UNSTORABLE_PARTITION_VALUE",
    "UNUSABLE_SCHEMA",
    "VERSION_REQUIRED",
    "WRONG_TYPE",
)
"""All that stand in the column reason."""
_LATER = {
    "expectations": "array<string>",
    "moved": "struct<at: timestamp, who: string, why: string, replay: bigint>",
    "discarded": "struct<at: timestamp, who: string, why: string>",
    "bytes": "string",
}
"""Columns that tables of older versions lack."""


def schema() -> StructType:
    """The columns of the table."""
    return types.struct(COLUMNS)


def no_rows(session: SparkSession) -> DataFrame:
    """Rows of the table, of which there are none."""
    # To make one of Python's values would make its session the thread's.
    return session.range(0).selectExpr(*(f"CAST(NULL AS {c.dataType.simpleString()}) AS {c.name}" for c in schema()))


def rows(refused: DataFrame, refusals: Sequence[Refusal], pipeline: str, sequence: int, now: datetime) -> DataFrame:
    """Refused records as rows of the quarantine, each with the first of `refusals` that is true for it.

    A record that none of them refuses any more was refused by an older version of the rules, in a batch whose
    quarantine was never written: stage settle, reason SETTLED.
    """
    from pyspark.sql import functions as F

    columns, why = refused.columns, refused.withColumn("_why", _why(refusals))
    return why.select(
        TOPIC,
        PARTITION,
        OFFSET,
        TIMESTAMP,
        F.col(RAW_KEY).alias("key"),
        F.col(RAW_VALUE).alias("value"),
        F.col(RAW_HEADERS if RAW_HEADERS in columns else HEADERS).alias("headers"),
        "_why.stage",
        "_why.reason",
        "_why.message",
        F.lit(pipeline).alias("pipeline"),
        (F.col(RAW_SEQUENCE) if RAW_SEQUENCE in columns else F.lit(sequence).cast("bigint")).alias("sequence"),
        (F.col(RAW_REFUSED_AT) if RAW_REFUSED_AT in columns else F.lit(now)).alias("refused_at"),
        F.col("_why.rules").alias("expectations"),
        *(F.lit(None).cast(_LATER[name]).alias(name) for name in ("moved", "discarded", "bytes")),
    )


def _why(refusals: Sequence[Refusal]) -> Column:
    from pyspark.sql import functions as F

    settled = F.struct(
        F.lit("settle").alias("stage"),
        F.lit(SETTLED).alias("reason"),
        F.lit("refused by the rules of its time, accepted by today's; the first writer ended before it said why").alias(
            "message"
        ),
        F.lit(None).cast("array<string>").alias("rules"),
    )
    return F.coalesce(*(refusal.explanation for refusal in refusals), settled)


def by_expectation(names: Sequence[str]) -> dict[str, Column]:
    """What counts, over `rows`, the records that break each of these expectations."""
    from pyspark.sql import functions as F

    return {
        name: count_where(F.array_contains("expectations", name)).alias(f"broken_{at}") for at, name in enumerate(names)
    }


def by_reason() -> Column:
    """STRING: what counts `rows` by their reason, as JSON. One column, as each costs calls into the JVM."""
    from pyspark.sql import functions as F

    counts = ", ".join(f"'{reason}', count_if(reason = '{reason}')" for reason in REASONS)
    return F.expr(f"to_json(map({counts}))").alias("reasons")


def reasons_of(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Reason → how many rows have it, those alone that some have, as `by_reason` has counted them."""
    return {reason: count for reason, count in json.loads(metrics["reasons"]).items() if count}


def whole(table: DataFrame) -> DataFrame:
    """The table with all of today's columns, though an older version made it and no run has added them yet."""
    from pyspark.sql import functions as F

    return table.select("*", *(F.lit(None).cast(k).alias(n) for n, k in _LATER.items() if n not in table.columns))


def of(table: DataFrame, pipeline: str) -> DataFrame:
    """The rows of one pipeline, without those that were withdrawn: several may have one quarantine."""
    from pyspark.sql import functions as F

    withdrawn = F.col("moved.replay").eqNullSafe(F.lit(WITHDRAWN))
    return whole(table).where((F.col("pipeline") == pipeline) & ~withdrawn)


def as_records(table: DataFrame) -> DataFrame:
    """Rows as the records that they were: for the columns see `kafka.reader.frame`."""
    from pyspark.sql import functions as F

    names = {"key": RAW_KEY, "value": RAW_VALUE, "headers": HEADERS}
    return table.select(TOPIC, PARTITION, OFFSET, TIMESTAMP, *(F.col(n).alias(raw) for n, raw in names.items()))


def unmoved(table: DataFrame) -> DataFrame:
    """The rows of records that are here and not in the main table: all but those that a replay has moved."""
    return table.where("moved IS NULL")


def open_rows(table: DataFrame) -> DataFrame:
    """The rows that somebody has to look at: neither moved nor discarded."""
    return unmoved(table).where("discarded IS NULL")


def reasons(table: DataFrame, samples: int) -> list[dict[str, Any]]:
    """Counts of open rows by stage and reason, the most frequent first, with the messages of the first
    `samples` of them by coordinates.

    A record that a gate refused is counted for each expectation that it breaks: their names stand for the reason.
    """
    from lakeingest.delta.reader.spark import query

    return by_stage(query(table.sparkSession, SAMPLES, {"rows": table}, samples=samples), samples)


SAMPLES = """
    WITH named AS (
        SELECT stage, explode(coalesce(expectations, array_repeat(reason, 1))) AS reason, _topic, _partition, _offset,
            message
        FROM {rows} WHERE moved IS NULL AND discarded IS NULL
    ), counts AS (
        SELECT stage, reason, count(*) AS count FROM named GROUP BY stage, reason
    ), first AS (
        SELECT *, row_number() OVER (PARTITION BY stage, reason ORDER BY _topic, _partition, _offset) AS number
        FROM named
    )
    SELECT first.*, counts.count FROM first JOIN counts
    ON first.stage IS NOT DISTINCT FROM counts.stage AND first.reason IS NOT DISTINCT FROM counts.reason
    WHERE number <= greatest(:samples, 1)
    ORDER BY number
"""
"""Of each stage and reason of open rows the first records, with the count of all: what `by_stage` takes."""


def by_stage(rows: Sequence[Mapping[str, Any]], samples: int) -> list[dict[str, Any]]:
    """See `reasons`.

    Args:
        rows: what `SAMPLES` gives. One with a count alone says how many more there are: its `number` is None.
    """
    groups: dict[tuple[str | None, str | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["stage"], row["reason"]), []).append(row)
    counts = {group: sum(row["count"] for row in each if row["number"] in (1, None)) for group, each in groups.items()}
    # Null before any name.
    order = sorted(counts, key=lambda group: (-counts[group], *((name is not None, name or "") for name in group)))
    return [
        {
            "stage": group[0],
            "reason": group[1],
            "count": counts[group],
            "samples": [
                {
                    "coordinates": f"{row[TOPIC]}-{row[PARTITION]}:{row[OFFSET]}",
                    "message": row["message"],
                }
                for row in groups[group]
                if row["number"] is not None and row["number"] <= samples
            ],
        }
        for group in order
    ]
