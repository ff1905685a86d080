"""The table's history as a frame: each commit with what it wrote, and what the receipts account for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.receipt import of_backfill
from lakeingest.delta.table import Table
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = "STRUCT<refused: BIGINT, dropped: BIGINT>"
_RECEIPT = (
    "pipeline STRING, sequence BIGINT, run STRUCT<host: STRING, pid: BIGINT>, "
    f"offsets MAP<STRING, MAP<STRING, ARRAY<BIGINT>>>, account STRUCT<counts: {_COUNTS}, settles: BIGINT>, "
    f"counts {_COUNTS}, settles BIGINT"
)
"""What is read of a receipt, as DDL; see `delta.receipt`. Form 1 had no `account`, and its fields beside it."""
_OFFSETS = (
    "aggregate(flatten(transform(map_values(receipt.offsets), topic -> map_values(topic))), 0L, "
    "(sum, range) -> sum + range[1] - range[0])"
)
_METRICS = {"rows": "numOutputRows", "files": "numFiles", "bytes": "numOutputBytes"}
"""Delta's names of what a write wrote."""


def history(tables: PipelineTables) -> DataFrame:
    """See `Pipeline.history`."""
    from pyspark.sql import functions as F

    tables.main.existing()
    metric = F.col("operationMetrics")
    commits = _commits(tables.main, tables.config.known_as).select(
        "version",
        "timestamp",
        "operation",
        "receipt.pipeline",
        "receipt.sequence",
        (F.col("receipt.pipeline") == of_backfill(tables.config.known_as)).alias("backfill"),
        F.expr(_OFFSETS).alias("offsets"),
        *(metric[key].cast("bigint").alias(name) for name, key in _METRICS.items()),
        F.concat(F.lit("process "), "receipt.run.pid", F.lit(" on "), "receipt.run.host").alias("writer"),
    )
    whole = F.col("rows") == F.col("offsets")
    became = [F.when(whole, 0).otherwise(F.col(f"counts.{name}")).alias(name) for name in ("refused", "dropped")]
    names = ("version", "timestamp", "operation", "sequence", "offsets", "rows")
    joined = commits.join(_accounts(tables), ["pipeline", "sequence"], "left")
    return joined.select(*names, *became, "files", "bytes", "writer", "backfill").orderBy(F.desc("version"))


def _accounts(tables: PipelineTables) -> DataFrame:
    """What quarantine's commits say of batches: pipeline, sequence, counts. As in audit, of two the older counts."""
    from pyspark.sql import functions as F

    if tables.quarantine.schema() is None:
        return tables.spark.createDataFrame([], f"pipeline STRING, sequence BIGINT, counts {_COUNTS}")
    batch = F.coalesce("receipt.account.settles", "receipt.settles", "receipt.sequence").alias("sequence")
    of_batches = _commits(tables.quarantine, tables.config.known_as).groupBy("receipt.pipeline", batch)
    return of_batches.agg(F.min_by(F.coalesce("receipt.account.counts", "receipt.counts"), "version").alias("counts"))


def _commits(table: Table, pipeline: str) -> DataFrame:
    """DESCRIBE HISTORY with the receipts of a pipeline and its backfills; null at commits that are not theirs."""
    from pyspark.sql import functions as F

    with storage_failures(table.identifier):
        commits = table.spark.sql(f"DESCRIBE HISTORY {table.sql}")
    receipt = F.from_json("userMetadata", _RECEIPT)
    return commits.withColumn("receipt", F.when(receipt["pipeline"].isin(pipeline, of_backfill(pipeline)), receipt))
