"""A program that starts a Spark session as its owner would, and then calls lakeingest, which uses it.

    python own_session.py PIPELINE_FILE JARS SETTINGS

JARS are as on a class path, SETTINGS is JSON. It prints as JSON what it was told and what came of the run.
"""

from __future__ import annotations

import json
import sys
import warnings

from pyspark.sql import SparkSession

import lakeingest
from lakeingest.spark import jvm

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    """Run the pipeline until it has caught up, and audit it."""
    file, jars, settings = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", jars)
    for name, value in {**SETTINGS, **json.loads(settings)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline = lakeingest.load(file)
        counts = pipeline.run(until_caught_up=True)
        conserved = pipeline.audit().conserved
    last = spark.sql(f"DESCRIBE HISTORY delta.`{pipeline.config.table.path}`").first()
    said = {
        "engine": last["engineInfo"],
        "counts": [counts.accepted, counts.refused],
        "conserved": conserved,
        "functions": [kind for kind in jvm.FUNCTIONS if pipeline.spark.conf.get(jvm.catalog(kind), None)],
        "warnings": [str(each.message) for each in caught if each.category is UserWarning],
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
