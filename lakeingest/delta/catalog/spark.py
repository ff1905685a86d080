"""Spark's own catalog: the session's metastore, whichever that is (Hive, Glue, Unity, or none behind it).

An entry names a path, and Spark takes columns and comments from Delta's log there: it is never out of date. (Hive's
metastore holds a placeholder for the columns, unless spark.databricks.delta.catalog.update.enabled is set; then it has
those of the last commit that was made by the table's name.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.config import location
from lakeingest.delta.catalog import foreign
from lakeingest.delta.table import Table
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(table: Table, name: str) -> None:
    """Let a name stand for the table at its path, from now on; nothing happens where it does already.

    Args:
        name: table, or schema.table; the schema is made if it is missing.

    Raises:
        TableMismatch: the name stands for something else.
        StorageUnreachable: the catalog or the store failed.
    """
    with storage_failures(table.identifier):
        Table(table.spark, name).ensure_schema()
        table.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{table.location}'")
    check(table, name)


def exists(session: SparkSession, name: str) -> bool:
    """Whether the session's catalog has a table or a view of that name.

    Raises:
        StorageUnreachable: the catalog failed.
    """
    with storage_failures(name):
        return session.catalog.tableExists(name)


def check(table: Table, name: str) -> None:
    """Notice that a name, which must be there, stands for another table, or for a view.

    Raises:
        TableMismatch: with what to do about it.
    """
    details = Table(table.spark, name).details()
    if details.get("Provider", "").lower() != "delta":
        raise foreign(name, "Spark's catalog", "no Delta table")
    if not location.place(details["Location"]).same(location.place(table.location)):
        raise foreign(name, "Spark's catalog", f"the table at {details['Location']}")
