"""What lakeingest adds to Spark's own classes, in one jar; the stories are in the Java files beside this.

Wire it with `spark.jars` = `JAR`, and `spark.delta.logStore.s3a.impl` = `LOG_STORE`: Delta commits from several drivers
are safe on S3 then. Where the jar is, JSON and Avro are also read by functions of its own (`FUNCTIONS`), each in a
catalog (`catalog`).
"""

from pathlib import Path

JAR: Path = Path(__file__).with_name("lakeingest.jar")
LOG_STORE = "io.lakeingest.ConditionalS3LogStore"
# What every refusal of the log store begins with: Spark hands its text on, through Py4J and Connect alike.
REFUSAL = "Unsafe store: "
FUNCTIONS = {"json": "io.lakeingest.JsonFunctions", "avro": "io.lakeingest.AvroFunctions"}
"""Format → the class of the catalog whose functions read it in one step."""


def catalog(format: str) -> str:
    """The setting that makes a format's functions a catalog."""
    return f"spark.sql.catalog.lakeingest_{format}"


def function(format: str, schema: str) -> str:
    """The name, as SQL has it, of the function that reads values of this schema (see the catalog's class)."""
    quoted = schema.replace("`", "``")
    return f"lakeingest_{format}.`{quoted}`"


def offered(format: str) -> bool:
    """Whether the session that Columns are made for has the format's functions (see `session.attach`)."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session is not None and session.conf.get(catalog(format), None) == FUNCTIONS[format]
