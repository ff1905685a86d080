"""The options of Spark for a job on EMR: those that lakeingest's own sessions have, and where its files lie.

    python infra/emr/spark_options.py s3://BUCKET/code s3://BUCKET/files.zip

prints them as arguments of spark-submit, for EMR on EC2.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lakeingest.local import artifacts
from lakeingest.spark import jvm
from lakeingest.spark.settings import AVRO_LIMITS, COMPILED, OWN

FOLDER = Path(__file__).resolve().parent
LISTING = (FOLDER / "jars.txt").read_text(encoding="utf-8")
RELEASE = "emr-spark-8.0.0"
"""Its Spark is 4.0.2 and its Delta 4.0.0."""
JARS = (*(each.file for each in artifacts.listed(RELEASE, LISTING)), jvm.JAR.name)
"""What the release lacks, by their names in CODE/jars."""
_DELTA = "/usr/share/aws/delta/lib"
"""Where a release of EMR has its own Delta, by its documentation."""
_OURS = (
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.delta.logStore.",
    "spark.redaction.",
    "spark.sql.session.",
)
_PYTHON = "./environment/bin/python"


def shared() -> dict[str, str]:
    """What a session needs wherever somebody else starts it."""
    java = f"{AVRO_LIMITS} {COMPILED}"
    own = {name: value for name, value in OWN.items() if name.startswith(_OURS)}
    return {**own, **{f"spark.{process}.extraJavaOptions": java for process in ("driver", "executor")}}


def on_emr(code: str, files: str) -> dict[str, str]:
    """On EMR.

    Args:
        code: where the folder lies that infra/emr/package.py makes: an address on S3.
        files: a zip of the folder of the pipeline file.
    """
    jars = [f"{_DELTA}/delta-spark.jar", f"{_DELTA}/delta-storage.jar", *(f"{code}/jars/{jar}" for jar in JARS)]
    return {
        **shared(),
        "spark.jars": ",".join(jars),
        "spark.archives": f"{code}/environment.tar.gz#environment,{files}#files",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": _PYTHON,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": _PYTHON,
        "spark.executorEnv.PYSPARK_PYTHON": _PYTHON,
    }


if __name__ == "__main__":
    print("\n".join(f"--conf\n{name}={value}" for name, value in on_emr(*sys.argv[1:3]).items()))
