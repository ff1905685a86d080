"""What Spark says of a data file that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeingest.errors import FilesLost
from lakeingest.spark import failures


def test_a_data_file_that_somebody_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """It is told by its name, and not for a store that is away."""
    path = tmp_path / "t"
    spark.range(3).write.format("delta").save(str(path))
    for file in path.glob("*.parquet"):
        file.unlink()
    named = pytest.raises(FilesLost, match=r"\S+\.parquet is gone, and the log of \S+ names it")
    with named, failures.storage_failures(str(path)):
        spark.read.format("delta").load(str(path)).agg({"id": "sum"}).collect()
