"""A MERGE as a commit of a batch: its options are settings of the session, and new columns come before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakeingest.delta.commit import LAST_VERSION
from lakeingest.delta.table import Table
from lakeingest.spark import frames
from lakeingest.spark.session import setting
from lakeingest.spark.settings import CODEC, USER_METADATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "userMetadata": USER_METADATA,
    "txnAppId": "spark.databricks.delta.write.txnAppId",
    "txnVersion": "spark.databricks.delta.write.txnVersion",
    "compression": CODEC,
    "optimizeWrite": "spark.databricks.delta.optimizeWrite.enabled",
}
"""Option of Delta's writer → the setting from which a MERGE takes it."""


def add_columns(table: Table, rows: DataFrame, options: Mapping[str, str]) -> None:
    """Add the columns of the rows that the table lacks, if it is to have them, in a commit before, of no rows: Delta
    4.0 adds no column by a MERGE that names it.
    """
    if options["mergeSchema"] == "true":
        table.append(rows.where("false"), {"mergeSchema": "true"})


def commit(
    session: SparkSession,
    table: Table,
    source: DataFrame,
    options: Mapping[str, str],
    statement: Callable[[str], str],
) -> None:
    """Execute a MERGE.

    Args:
        session: that in which nothing else commits.
        options: of Delta's writer.
        statement: makes the MERGE, in SQL, of the name of a view of the source.
    """
    settings = {_SETTINGS[name]: value for name, value in options.items() if name in _SETTINGS}
    with frames.view(source, session) as view, setting(session, settings):
        session.sql(statement(view)).collect()
        version = session.conf.get(LAST_VERSION, None)
    if table.spark is not session and version is not None:
        table.spark.conf.set(LAST_VERSION, version)
