"""A driver of its own that writes to one table, and obeys lines on stdin: create, append N, optimize N, count.

    python appender.py JARS TABLE ENDPOINT ACCESS_KEY SECRET_KEY LOG_STORE_CLASS

Every order is answered with one line of JSON; what `append` answers are the appends that were acknowledged, and
`optimize`, those of the N that found files to compact, and so made a version.
"""

import json
import os
import sys

from pyspark.sql import DataFrame, SparkSession

from lakeingest.spark import jvm


def session(jars: str, endpoint: str, access_key: str, secret_key: str, log_store: str) -> SparkSession:
    """A small session whose only way to S3 is the log store that was asked for."""
    conf = {
        "spark.driver.extraClassPath": os.pathsep.join([jars, str(jvm.JAR)]),
        # A driver that lives for seconds spends them on its compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.delta.logStore.s3a.impl": log_store,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.properties.defaults.checkpointInterval": "1000",
        "spark.databricks.delta.stats.collect": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": access_key,
        "spark.hadoop.fs.s3a.secret.key": secret_key,
    }
    builder = SparkSession.builder.master("local[1]").appName("appender")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Obey until stdin ends."""
    jars, table, *store = sys.argv[1:]
    spark = session(jars, *store)

    def write(frame: DataFrame) -> None:
        frame.coalesce(1).write.format("delta").mode("append").save(table)

    for line in sys.stdin:
        match line.split():
            case ["create"]:
                write(spark.range(1))
                answer = {"created": table}
            case ["append", times]:
                for _ in range(int(times)):
                    write(spark.range(1))
                answer = {"acknowledged": int(times)}
            case ["optimize", times]:
                done = [spark.sql(f"OPTIMIZE delta.`{table}`").first() for _ in range(int(times))]
                answer = {"compacted": sum(each.metrics.numFilesAdded > 0 for each in done)}
            case ["count"]:
                versions = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count()
                answer = {"rows": spark.read.format("delta").load(table).count(), "versions": versions}
            case order:
                raise SystemExit(f"no such order: {order}")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
