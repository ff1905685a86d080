"""Many small files of a table become few large ones, by Delta's OPTIMIZE: the same rows, in a commit without new data.

Runs of the pipeline go on meanwhile: an append and a compaction do not stand in each other's way. The small files stay
in the store, for readers of older versions, until a VACUUM deletes them (Delta keeps them for seven days at least).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeingest.errors import UsageError
from lakeingest.spark.failures import spark_failures, translate
from lakeingest.spark.session import setting

if TYPE_CHECKING:
    from lakeingest.delta.table import Table

# Both of Delta's limits: a file that is as large as the target is left alone.
_LIMITS = ("spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize")
_CODEC = "spark.sql.parquet.compression.codec"
"""OPTIMIZE takes no option. By Spark's own codec, nine files of flights became three of 1.27 times as many bytes."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one moment: how many there are, and their bytes."""

    count: int
    bytes: int


@dataclass(frozen=True)
class Compacted:
    """What a compaction did to one table.

    Attributes:
        table: its path.
        before, after: its files; the same where nothing was to be done, and of a dry run.
        removed, added: how many files were read and left behind, how many written in their place.
    """

    table: str
    before: TableFiles
    after: TableFiles
    removed: int = 0
    added: int = 0


def table_files(table: Table) -> TableFiles:
    """The table's files as they stand now.

    Raises:
        UsageError: there is no such table.
        StorageUnreachable: the object store.
    """
    detail = table.measured()
    return TableFiles(int(detail["numFiles"]), int(detail["sizeInBytes"]))


def compact(table: Table, target_bytes: int, compression: str, where: str | None = None) -> Compacted:
    """Rewrite the files that are smaller than the target, partition by partition, where there are two or more.

    Args:
        target_bytes: about how large the new files become.
        compression: their codec, as `table.compression` has it.
        where: a condition over the partition columns, in Spark SQL; all partitions by default.

    Raises:
        UsageError: there is no such table, or the condition is none over its partition columns.
        StorageUnreachable: the object store.
        TableChanged: another commit deleted or rewrote the same files meanwhile.
    """
    from pyspark.errors import AnalysisException, ParseException

    before = table_files(table)
    try:
        with setting(table.spark, {**dict.fromkeys(_LIMITS, str(target_bytes)), _CODEC: compression}):
            metrics = table.spark.sql(f"OPTIMIZE {table.sql}{f' WHERE {where}' if where else ''}").collect()[0][
                "metrics"
            ]
    except (AnalysisException, ParseException) as refused:
        reason = next(iter(str(refused).splitlines()), "")
        raise UsageError(
            f"{table} cannot be compacted where {where}: {reason}", cure="name partition columns alone, in Spark SQL"
        ) from refused
    except spark_failures() as failed:
        raise translate(table.identifier, failed) from failed
    return Compacted(
        table.identifier, before, table_files(table), int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"])
    )
