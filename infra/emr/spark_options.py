"""The options of Spark for a job on EMR: those that lakeingest's own sessions have, and where its files lie.

    python infra/emr/spark_options.py s3://BUCKET/code s3://BUCKET/files.zip [RELEASE]

prints them as arguments of spark-submit, for EMR on EC2.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lakeingest.local import artifacts
from lakeingest.spark import jvm
from lakeingest.spark.settings import AVRO_LIMITS, COMPILED, OWN

FOLDER = Path(__file__).resolve().parent
LISTING = (FOLDER / "jars.txt").read_text(encoding="utf-8")
RELEASE = "emr-spark-8.1.0"
"""Its Spark is 4.1.1 and its Delta 4.2.0; those of emr-spark-8.0.0 are 4.0.2 and 4.0.0 (EMR's release guide)."""
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


def lacking(release: str) -> tuple[artifacts.Artifact, ...]:
    """What a release lacks.

    Raises:
        SystemExit: nobody has listed that.
    """
    try:
        return artifacts.listed(release, LISTING)
    except KeyError:
        releases = re.findall(r"^\[(.+)\]$", LISTING, re.MULTILINE)
        raise SystemExit(
            f"for {release} nobody has listed the jars that it lacks: name one of {', '.join(releases)}, or add it to "
            "infra/emr/jars.txt; releases that begin with emr-7 have Spark 3.5, which lakeingest refuses"
        ) from None


def on_emr(code: str, files: str, release: str = RELEASE) -> dict[str, str]:
    """On EMR.

    Args:
        code: where the folder lies that infra/emr/package.py makes for the release: an address on S3.
        files: a zip of the folder of the pipeline file.

    Raises:
        SystemExit: see `lacking`.
    """
    own = [f"{code}/jars/{name}" for name in (*(each.file for each in lacking(release)), jvm.JAR.name)]
    jars = [f"{_DELTA}/delta-spark.jar", f"{_DELTA}/delta-storage.jar", *own]
    return {
        **shared(),
        "spark.jars": ",".join(jars),
        "spark.archives": f"{code}/environment.tar.gz#environment,{files}#files",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": _PYTHON,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": _PYTHON,
        "spark.executorEnv.PYSPARK_PYTHON": _PYTHON,
    }


if __name__ == "__main__":
    print("\n".join(f"--conf\n{name}={value}" for name, value in on_emr(*sys.argv[1:4]).items()))
