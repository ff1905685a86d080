"""What lakeingest adds to Spark's own classes, in one jar; the stories are in the Java files beside this.

Wire it with `spark.jars` = `JAR`, and `spark.delta.logStore.s3a.impl` = `LOG_STORE`: Delta commits from several drivers
are safe on S3 then. Where the jar is, JSON and Avro are also read, zlib undone, texts held against patterns, refused
records brought to the driver and files of logs read, by functions of its own (`FUNCTIONS`), each kind in a catalog
(`catalog`); and an append to a table costs a quarter (`NUMBERED_APPEND`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR: Path = Path(__file__).with_name("lakeingest.jar")
LOGGING: Path = Path(__file__).with_name("log4j2.properties")
LOG_STORE = "io.lakeingest.ConditionalS3LogStore"
# What every refusal of the log store begins with: Spark hands its text on, through Py4J and Connect alike.
REFUSAL = "Unsafe store: "
NUMBERED_APPEND = "io.lakeingest.NumberedAppend"
"""Delta's append to a path as a format, which need not compute the state of the log first."""
KAFKA_RANGES, KAFKA_PLAN = "io.lakeingest.KafkaRanges", "lakeingest.plan"
"""Spark's Kafka source as a format whose offsets change below a plan, and the option that says which plan."""
FUNCTIONS = {
    "json": "io.lakeingest.JsonFunctions",
    "avro": "io.lakeingest.AvroFunctions",
    "pattern": "io.lakeingest.PatternFunctions",
    "zlib": "io.lakeingest.ZlibFunctions",
    "records": "io.lakeingest.RecordFunctions",
    "log": "io.lakeingest.LogFunctions",
}
"""What is read → the class of the catalog whose functions read it in one step."""


def catalog(kind: str) -> str:
    """The setting that makes a kind of functions a catalog."""
    return f"spark.sql.catalog.lakeingest_{kind}"


def function(kind: str, name: str) -> str:
    """A function as SQL has it; its name says what it does: the schema, or the pattern (see the catalog's class)."""
    quoted = name.replace("`", "``")
    return f"lakeingest_{kind}.`{quoted}`"


def of_log(session: SparkSession, name: str, path: str) -> Any:
    """What a function of the kind "log" says of a path. Spark computes it while it plans: there is no job."""
    read = f"SELECT {function('log', name)}(path) FROM VALUES ({ddl.text(path)}) AS files(path)"
    [(answer,)] = session.sql(read).collect()
    return answer


def offered(kind: str) -> bool:
    """Whether the session that Columns are made for has functions of this kind (see `session.attach`)."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        # Of whatever thread.
        session = SparkSession.active()
    except PySparkRuntimeError:
        return False
    return session.conf.get(catalog(kind), None) == FUNCTIONS[kind]
