"""The append of a batch, whose number the table must not have seen; where the jar is, without the state of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeingest.delta.table import Table
from lakeingest.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needs_state(table: Table) -> bool:
    """Whether each append to the table has Delta compute the state of its log (see `jvm.NUMBERED_APPEND`)."""
    return not (table.by_path and jvm.offered("log"))


def append(table: Table, rows: DataFrame, options: Mapping[str, str]) -> None:
    """Commit rows.

    Args:
        options: of Delta's writer, with txnAppId and txnVersion.
    """
    if needs_state(table):
        table.append(rows, options)
    else:
        rows.write.format(jvm.NUMBERED_APPEND).mode("append").options(**options).save(table.identifier)
