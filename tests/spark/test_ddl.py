"""DDL text becomes the columns that Spark would make of it, and a typo a sentence that names it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.records.ddl_texts import TEXTS

from lakeingest.schema import ddl


@pytest.mark.parametrize("text", TEXTS)
def test_spark_parses_the_same_columns(spark: SparkSession, text: str) -> None:
    """Spark's own parser of DDL makes the same columns of the text."""
    from pyspark.sql.types import StructType

    assert StructType.fromDDL(text).json() == ddl.to_json(ddl.parse(text))
