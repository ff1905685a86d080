"""What lakeingest adds to Spark's own classes, in one jar; the stories are in the Java files beside this.

Wire it with `spark.jars` = `JAR`, and `spark.delta.logStore.s3a.impl` = `LOG_STORE`: Delta commits from several drivers
are safe on S3 then. Where the jar is, `lakeingest` also reads JSON by `FUNCTIONS`, which `CATALOG` makes a catalog.
"""

from pathlib import Path

JAR: Path = Path(__file__).with_name("lakeingest.jar")
LOG_STORE = "io.lakeingest.ConditionalS3LogStore"
# What every refusal of the log store begins with: Spark hands its text on, through Py4J and Connect alike.
REFUSAL = "Unsafe store: "
FUNCTIONS = "io.lakeingest.JsonFunctions"
CATALOG = "spark.sql.catalog.lakeingest"


def json_function(schema: str) -> str:
    """The name, as SQL has it, of the function whose result has this schema: Spark's JSON of it."""
    quoted = schema.replace("`", "``")
    return f"lakeingest.json.`{quoted}`"
