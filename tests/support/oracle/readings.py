"""What becomes of payloads whose schema brings its own reader, with lakeingest's jar and without."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.decode.readers import Reading
from lakeingest.spark import jvm, session


def values(spark: SparkSession, kind: str, way: str, reading: Reading | None, payloads: list[bytes]) -> list[Any]:
    """What becomes of payloads, in their order; None for what is refused.

    Args:
        kind: of the jar's functions (see `jvm.FUNCTIONS`).
        way: "jar", or anything else to read without it.
    """
    assert reading is not None
    function = jvm.FUNCTIONS[kind] if way == "jar" else "none"
    with session.setting(spark, {jvm.catalog(kind): function}):
        numbered = [(n, bytearray(payload)) for n, payload in enumerate(payloads)]
        frame = spark.createDataFrame(numbered, "n INT, raw BINARY")
        parsed = frame.select("n", reading.reader.parse(F.col("raw")).alias("parsed"))
        value = F.when(~reading.reader.broken(F.col("parsed")), reading.reader.value(F.col("parsed")))
        rows = parsed.select("n", value.alias("value")).orderBy("n").collect()
    return [row["value"] and row["value"].asDict(recursive=True) for row in rows]
