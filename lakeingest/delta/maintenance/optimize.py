"""Many small files become few large ones, by Delta's OPTIMIZE: the same rows, in a commit without new data.

An append and a compaction do not stand in each other's way. A MERGE begins anew where a compaction has rewritten files
that it read. The small files stay in the store, for readers of older versions, until a VACUUM deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeingest.errors import UsageError
from lakeingest.schema import ddl
from lakeingest.spark.failures import spark_failures, translate
from lakeingest.spark.session import statement_session
from lakeingest.spark.settings import CODEC

if TYPE_CHECKING:
    from lakeingest.delta.table import Table

# Both of Delta's limits: a file that is as large as the target is left alone.
_LIMITS = ("spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize")


def compact(
    table: Table, target: int, compression: str, *, where: str = "", order_by: Sequence[str] = ()
) -> tuple[int, int]:
    """Rewrite the files that are smaller than the target, partition by partition, where there are two or more.

    Args:
        target: about how large the new files become, in bytes.
        compression: their codec, as `table.compression` has it.
        where: a condition over the partition columns, in Spark SQL; all partitions by default.
        order_by: columns that the rows are sorted by (Z-order); all files of the partitions are rewritten then.

    Returns:
        How many files were read and left behind, and how many written in their place.

    Raises:
        UsageError: there is no such table; or rows cannot be sorted by these columns.
        StorageUnreachable: the object store.
        TableChanged: another commit deleted or rewrote the same files meanwhile.
    """
    condition = f" WHERE {where}" if where else ""
    order = f" ZORDER BY ({', '.join(map(ddl.quoted_path, order_by))})" if order_by else ""
    try:
        # OPTIMIZE takes no option. By Spark's own codec, nine files became three of 1.27 times as many bytes.
        with statement_session(table.spark, {**dict.fromkeys(_LIMITS, str(target)), CODEC: compression}) as spark:
            metrics = spark.sql(f"OPTIMIZE {table.sql}{condition}{order}").collect()[0]["metrics"]
    except spark_failures() as failed:
        if order_by and "DELTA_ZORDERING" in str(failed):
            reason = next(iter(str(failed).splitlines()), "")
            raise UsageError(
                f"the rows of {table} cannot be sorted by {', '.join(order_by)}: {reason}",
                cure="name columns in maintenance.compact.order_by that are no partition columns, and have statistics: "
                "the first 32 of a table have some",
            ) from failed
        raise translate(table.identifier, failed) from failed
    return int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"])
