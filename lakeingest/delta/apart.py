"""What is in the way of a new table, or of a new place of exports: a table that it would lie within, or around.

Delta's VACUUM deletes whatever it does not know within a table's folder, and Delta makes a table by its path in a
folder that is not empty, without a word.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakeingest.config import location
from lakeingest.errors import StorageRefused, StorageUnreachable
from lakeingest.spark import listing
from lakeingest.spark.failures import spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DATA_FILE = re.compile(r"part-[^/]+\.parquet\Z")
_DEPTHS = range(1, 4)
"""Folders down to which a table without a row is found; one with rows is found at any depth."""


def above(spark: SparkSession, place: str) -> str | None:
    """The table, or the place of exports, that a path lies within, as the end of a sentence; None if there is none."""
    for parent in location.parents(place):
        # Who may write here need not have a right to the folders above.
        with suppress(StorageUnreachable, StorageRefused):
            if _is_table(spark, parent):
                return f"the table {parent}, whose VACUUM would delete it"
            if _is_table(spark, f"{parent}/{location.EXPORTS}"):
                return f"the exports in {parent}"
    return None


def below(spark: SparkSession, place: str, allowed: re.Pattern[str] | None = None) -> str | None:
    """Something that lies within a folder, as a path within it; None if nothing does. A log folder is nothing.

    Args:
        allowed: how the paths begin of what may be there.

    Raises:
        StorageUnreachable, UnsafeStore: the object store fails or refuses.
    """
    files = _files(spark, place)
    if files is None:
        return None
    root = listing.without_scheme(place)
    within = sorted(listing.without_scheme(unquote(path)).removeprefix(root).lstrip("/") for path in files)
    strange = next((path for path in within if allowed is None or not allowed.match(path)), None)
    # Spark does not list what lies in a folder whose name begins with _.
    first = "/*" if allowed is None else "/[^_]*"
    tables = (f"{place}{first}{'/*' * (depth - 1)}/_delta_log" for depth in _DEPTHS)
    return strange or next(("a Delta table" for table in tables if _files(spark, table) is not None), None)


def unfinished(spark: SparkSession, place: str) -> bool:
    """Whether nothing lies within a folder but what a run leaves that is killed while it makes a table: a log without a
    version, and files without a row, as Delta writes one to make a table there (see `Table.create`).

    Raises:
        StorageUnreachable, UnsafeStore: the object store fails or refuses.
    """
    if _files(spark, f"{place}/_delta_log") is None or not _files(spark, place):
        return False
    if below(spark, place, _DATA_FILE) is not None:
        return False
    with storage_failures(place):
        return spark.read.parquet(f"{place}/part-*.parquet").isEmpty()


def _files(spark: SparkSession, folder: str) -> list[str] | None:
    """The files that Spark lists below a folder; None where there is none."""
    from pyspark.errors import AnalysisException

    try:
        return list(listing.below(spark, folder).inputFiles())
    except AnalysisException as none:
        if none.getCondition() == "PATH_NOT_FOUND":
            return None
        raise translate(folder, none) from none
    except spark_failures() as failed:
        raise translate(folder, failed) from failed


def _is_table(spark: SparkSession, path: str) -> bool:
    """Whether a table with columns is there: Delta calls a mere log folder a table."""
    from pyspark.errors import AnalysisException

    with storage_failures(path), suppress(AnalysisException):
        return bool(spark.read.format("delta").load(path).schema)
    return False
