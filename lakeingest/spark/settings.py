"""What a session of lakeingest's own is set to, and what any session is, with the reasons."""

from __future__ import annotations

from lakeingest.config import location
from lakeingest.record import OFFSET, TOPIC
from lakeingest.spark import jvm

UTC = "spark.sql.session.timeZone"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
CODEC = "spark.sql.parquet.compression.codec"
"""What a statement takes that has no options of a writer."""
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{part}.maxLength={most}"
    for part, most in (("bytes", 2**27), ("string", 2**27), ("collectionItems", 10**7))
)
"""A damaged Avro record may claim two billion elements; Avro makes room for them before it reads the first one. So an
item of more than 128 MiB, and a collection of more than ten million, makes the record unreadable, and not the JVM."""
COMPILED = "-XX:-DontCompileHugeMethods"
"""By itself Java interprets each method of more than 8,000 bytes of its code for ever. What Spark generates to decide a
record of a dozen columns is larger: with nested Avro a batch then takes 1.4 times the CPU."""
BRIEF = "-XX:TieredStopAtLevel=1"
"""Java's second compiler pays off after a minute. In a process that ends before that, it takes a quarter of the time of
two cores: a first commit comes after 15 s instead of 20 s."""
HIDDEN = (
    "(?i)secret|password|passphrase|token|credential|access[.]?key|encryption[.]|jaas|user[.]?info|keystore|ssl[.]key|"
    "fs[.]s3a"
)
"""Spark shows nobody (event log, UI, SET) a setting with one of these in its name or value. By itself it knows secret,
password, token and access key. Every option of s3a is among them: any may hold a secret."""
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
CHEAPER = {
    # Spark's default, but for Kafka: its older source makes each record an object of the JVM first, and a row of that.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark's default is Parquet's INT96: twelve bytes that nothing can skip by, and no reader needs any more.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Each offset is another: a dictionary of them is built in vain.
    f"parquet.enable.dictionary#{OFFSET}": "false",
    # Parquet compares each text with the least and the greatest one, byte by byte. Delta's log has both for each file.
    f"parquet.column.statistics.enabled#{TOPIC}": "false",
}
"""What makes reads and commits cheaper and changes no value; a session that has them set otherwise is left as it is."""
FOR_FEW_ROWS = {
    # Each task writes Java for its rows before it finds that it is compiled already.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Else each step is planned anew when the one before is done.
    "spark.sql.adaptive.enabled": "false",
}

OWN = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    **{f"spark.delta.logStore.{scheme}.impl": jvm.LOG_STORE for scheme in location.S3},
    **{f"spark.hadoop.fs.{scheme}.impl": S3A for scheme in location.S3},
    # The default of Hadoop 3.5, "analytics", fails where an answer of S3 ends in the middle; this one reads it again.
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
    # Where a store asks to slow down, the default of 20 is days: each wait is twice the one before, from half a second.
    # With 6 it is half a minute, and then the run's own retries say what it waits for.
    "spark.hadoop.fs.s3a.retry.throttle.limit": "6",
    **{jvm.catalog(format): functions for format, functions in jvm.FUNCTIONS.items()},
    "spark.databricks.delta.snapshotPartitions": "2",
    # What it would say is in the log too, and without a rename one costs s3a two dozen requests.
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Spark keeps 100 generated classes by default. A run needs about 70, so that where two tables take turns each
    # would compile its own again and again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Else each call that makes a Column makes more of them into the JVM, to tell it which line of Python that is.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The default lets ten thousand records into one batch for Python, however large they are.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**26),
    "spark.ui.enabled": "false",
    # Without a UI nobody looks at them, and each holds its plan as text: the shortest one there is.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": HIDDEN,
    UTC: "UTC",
}
"""Of each session that lakeingest starts; what depends on the machine is in `platforms.local`."""
