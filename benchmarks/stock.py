"""The hand-written jobs in a Spark of their own, as Spark and Delta come.

Told a topic as JSON on its command line, it takes that into each table that its input names, a line each with the
job's name, and answers each with a line. What it is told beyond Spark's and Delta's own settings: where S3 is, the
heap, and to have no UI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from by_hand import ByHand  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from support.pipelines import config_of  # noqa: E402

from lakeingest.local import Addresses, artifacts  # noqa: E402
from lakeingest.spark.s3a import s3a_options  # noqa: E402

_READY = "ready"
_DONE = "done"


class Stock:
    """The process, from where the benchmark is."""

    def __init__(self, stack: Addresses, topic: str, shape: str, format: str, batch: int) -> None:
        job = {"kafka": stack.kafka, "topic": topic, "shape": shape, "format": format, "batch": batch}
        options = s3a_options(config_of(stack, topic).storage)
        command = [sys.executable, __file__, json.dumps({"job": job, "s3a": options})]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._await(_READY)

    def take(self, job: Callable[[ByHand, str], None], table: str) -> None:
        """The topic into a new table, by one of the jobs."""
        assert self.process.stdin is not None
        print(job.__name__, table, file=self.process.stdin, flush=True)
        self._await(_DONE)

    def _await(self, word: str) -> None:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        assert answer == word, f"the stock job said {answer!r}, and has probably ended"

    def close(self) -> None:
        """It ends with its input."""
        self.process.communicate()


def main() -> None:
    """Serve until the input ends."""
    told = json.loads(sys.argv[1])
    settings = {
        "spark.driver.memory": "3g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, artifacts.fetch("spark"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **{f"spark.hadoop.{name}": value for name, value in told["s3a"].items()},
    }
    builder = SparkSession.builder.master("local[*]").appName("stock")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    job = ByHand(spark, **told["job"])
    print(_READY, flush=True)
    for line in sys.stdin:
        name, table = line.split()
        getattr(job, name)(table)
        print(_DONE, flush=True)


if __name__ == "__main__":
    main()
