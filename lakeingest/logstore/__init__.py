"""The log store that makes Delta commits from several drivers safe on S3; the story is in the Java file beside this.

Wire it with `spark.jars` = `JAR` and `spark.delta.logStore.s3a.impl` = `CLASS`.
"""

from pathlib import Path

JAR: Path = Path(__file__).with_name("lakeingest-logstore.jar")
CLASS = "io.lakeingest.ConditionalS3LogStore"
# What every refusal of the class begins with: Spark hands its text on, through Py4J and Connect alike.
REFUSAL = "Unsafe store: "
