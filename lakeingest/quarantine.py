"""The quarantine: a Delta table of refused records beside the main one, with their bytes and what was wrong.

_topic STRING, _partition INT, _offset BIGINT      the record's coordinates
_timestamp TIMESTAMP                               the record's own timestamp
key BINARY, value BINARY                           the bytes as they came
headers ARRAY<STRUCT<key: STRING, value: BINARY>>
stage STRING                                       what refused: key, value, schema, partition, settle
reason STRING                                      a code: BROKEN_JSON, WRONG_TYPE, …
message STRING                                     what exactly is wrong: the place and the value
pipeline STRING, sequence BIGINT                   whose batch it was
refused_at TIMESTAMP                               when that batch ran
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeingest.record import HEADERS, OFFSET, PARTITION, RAW_KEY, RAW_VALUE, TIMESTAMP, TOPIC, Refusal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = (
    "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, stage STRING, reason STRING, message STRING, "
    "pipeline STRING, sequence BIGINT, refused_at TIMESTAMP"
)
"""The shape of the table, as DDL."""

SETTLED = "SETTLED"


def rows(refused: DataFrame, refusals: Sequence[Refusal], pipeline: str, sequence: int, now: datetime) -> DataFrame:
    """Refused records as rows of the quarantine, each with the first of `refusals` that is true for it.

    A record that none of them refuses any more was refused by an older version of the rules, in a batch whose
    quarantine was never written: stage settle, reason SETTLED.
    """
    from pyspark.sql import functions as F

    why = refused.withColumn("_why", _why(refusals))
    return why.select(
        TOPIC,
        PARTITION,
        OFFSET,
        TIMESTAMP,
        F.col(RAW_KEY).alias("key"),
        F.col(RAW_VALUE).alias("value"),
        F.col(HEADERS).alias("headers"),
        "_why.stage",
        "_why.reason",
        "_why.message",
        F.lit(pipeline).alias("pipeline"),
        F.lit(sequence).cast("bigint").alias("sequence"),
        F.lit(now).alias("refused_at"),
    )


def _why(refusals: Sequence[Refusal]) -> Column:
    from pyspark.sql import functions as F

    reasons = [
        F.when(
            refusal.when,
            F.struct(
                F.lit(refusal.stage).alias("stage"),
                refusal.diagnosis["reason"].alias("reason"),
                refusal.diagnosis["message"].alias("message"),
            ),
        )
        for refusal in refusals
    ]
    settled = F.struct(
        F.lit("settle").alias("stage"),
        F.lit(SETTLED).alias("reason"),
        F.lit("refused by the rules of its time, accepted by today's; the first writer ended before it said why").alias(
            "message"
        ),
    )
    return F.coalesce(*reasons, settled)


def reasons(table: DataFrame, samples: int) -> list[dict[str, Any]]:
    """Counts by stage and reason, the most frequent first, each with the first `samples` of its messages."""
    from pyspark.sql import functions as F

    place = F.concat(F.col(TOPIC), F.lit("-"), F.col(PARTITION), F.lit(":"), F.col(OFFSET))
    counted = table.groupBy("stage", "reason").count().orderBy(F.desc("count"), "stage", "reason").collect()
    found = []
    for row in counted:
        some = table.where((F.col("stage") == row["stage"]) & (F.col("reason") == row["reason"])).select(
            place.alias("coordinates"), "message"
        )
        shown = [sample.asDict() for sample in some.limit(samples).collect()]
        found.append({"stage": row["stage"], "reason": row["reason"], "count": row["count"], "samples": shown})
    return found


def record(table: DataFrame, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """The row of one record, None if it is not there."""
    from pyspark.sql import functions as F

    here = (F.col(TOPIC) == topic) & (F.col(PARTITION) == partition) & (F.col(OFFSET) == offset)
    rows = table.where(here).take(1)
    return rows[0].asDict(recursive=True) if rows else None
