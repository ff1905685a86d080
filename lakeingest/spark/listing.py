"""The objects below a folder, as Spark lists them, in whatever store it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def below(spark: SparkSession, folder: str) -> DataFrame:
    """One row for each object, at any depth: path STRING, length BIGINT (bytes).

    Raises:
        AnalysisException: there is no such folder; PATH_NOT_FOUND.
    """
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
    return listed.select("path", "length")


def without_scheme(path: str) -> str:
    """A local path without its scheme, which Spark writes in two ways; another path as it is."""
    return re.sub(r"^file:/+", "/", path)
