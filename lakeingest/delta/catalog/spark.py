"""Spark's own catalog: the session's metastore, whichever that is (Hive, Glue, Unity, or none behind it)."""

from __future__ import annotations

from lakeingest.delta.table import Table
from lakeingest.spark.failures import storage_failures


def register(table: Table, name: str) -> None:
    """Let a name stand for the table at its path, from now on; nothing happens where the name is known already.

    Args:
        name: table, or schema.table; the schema is made if it is missing.

    Raises:
        StorageUnreachable: the catalog or the store failed.
    """
    with storage_failures(table.identifier):
        if "." in name:
            table.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
        table.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION '{table.location}'")
