"""Columns become wider by writing all rows anew under the new types: for readers that know no type widening.

One commit: Delta reads the table within the transaction that overwrites it, so that rows which others commit meanwhile
are rewritten too, or make the commit fail. Rows, partitions, properties, constraints and comments stay. NOT NULL does
not, since no writer of Spark's keeps it; decoding refuses such nulls in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from lakeingest.delta.history import TableHistory
from lakeingest.errors import TableChanged
from lakeingest.schema import ddl
from lakeingest.spark import frames, types
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakeingest.delta.partitioning import PartitionColumn
    from lakeingest.delta.table import Table


def widen(
    table: Table, columns: StructType, target: StructType, partitions: Sequence[PartitionColumn], compression: str
) -> bool:
    """Give columns the types that are wanted, if any is wider than the table's; whether one was.

    Args:
        columns: those that the table has, as far as the caller knows.
        partitions: the table's, in their order: what Delta generates them by is said anew.

    Raises:
        TableChanged: somebody changed the columns meanwhile; the table is as it was.
        StorageUnreachable, UnsafeStore: the object store.
    """
    from pyspark.sql import functions as F

    wider = [f"{name} {kind}" for name, kind in types.widenings(columns, target)]
    if not wider:
        return False
    history = TableHistory(table)
    newest_version = history.newest()
    rows = table.read()
    _check_same(table, columns, rows.schema)
    generated = {p.name: {"delta.generationExpression": p.generated} for p in partitions if p.generated}
    widened = types.widened(columns, target)
    cast = [
        F.col(ddl.quoted(now.name))
        .cast(now.dataType)
        .alias(now.name, metadata={**was.metadata, **generated.get(was.name, {})})
        for was, now in zip(rows.schema, widened, strict=True)
    ]
    mark = f"lakeingest: {', '.join(wider)} by rewriting the table ({uuid4()})"
    options = {"overwriteSchema": "true", "optimizeWrite": "true", "compression": compression, "userMetadata": mark}
    widened_rows = frames.for_new_columns(rows.select(*cast))
    writer = widened_rows.write.format("delta").mode("overwrite").options(**options)
    with storage_failures(table.identifier):
        table.save(writer.partitionBy(*(p.name for p in partitions)))
    _check_unchanged(history, newest_version, mark, rows.schema)
    return True


def _check_same(table: Table, before: StructType, now: StructType) -> None:
    if types.ddl_columns(before) != types.ddl_columns(now):
        raise TableChanged(f"somebody changed the columns of {table} meanwhile", cure="run again")


def _check_unchanged(history: TableHistory, newest_version: int, mark: str, read: StructType) -> None:
    """Take the rewriting back if somebody changed the columns between its look at them and its transaction."""
    table = history.table
    version = next(entry["version"] for entry in history.since(newest_version) if entry["userMetadata"] == mark)
    with storage_failures(table.identifier):
        before = table.spark.sql(f"SELECT * FROM {table.sql} VERSION AS OF {version - 1}").schema
    if types.ddl_columns(before) == types.ddl_columns(read):
        return
    taken_back = history.take_back(version, lambda entry: entry["userMetadata"] == mark)
    cure = "run again" if taken_back else f"RESTORE TABLE {table.sql} TO VERSION AS OF {version - 1}, then run again"
    raise TableChanged(f"somebody changed the columns of {table} while it was rewritten", cure=cure)
