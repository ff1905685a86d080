"""What a place of exports holds, as whoever reads it finds it: by the objects that it names, with plain Spark."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

FOLDER = "_lakeingest_export"


def objects(spark: SparkSession, place: str) -> list[str]:
    """The objects that count."""
    exports = spark.read.format("delta").load(f"{place}/{FOLDER}")
    return [row.path for row in exports.select(F.explode("objects.path").alias("path")).collect()]


def exported(spark: SparkSession, place: str, format_: str, schema: StructType) -> DataFrame:
    """The rows of these objects, with the types of the table."""
    paths = [f"{place}/{path}" for path in objects(spark, place)]
    if not paths:
        return spark.createDataFrame([], schema)
    if format_ == "jsonl":
        return spark.read.schema(schema).json(paths)
    options = {"header": True, "escape": '"', "multiLine": True} if format_ == "csv" else {}
    found = spark.read.format(format_).options(basePath=place, **options).load(paths)
    # CSV has no types.
    return found.select(*(F.col(field.name).cast(field.dataType) for field in schema))


def assert_exported(spark: SparkSession, place: str, format_: str, rows: DataFrame) -> None:
    """What the place holds are these rows, each once."""
    found = exported(spark, place, format_, rows.schema)
    assert_df_equality(found, rows, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
