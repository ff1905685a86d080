"""A Spark Connect server of the pinned jars, as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from support.servers import free_port, serving

from lakeingest.local import artifacts
from lakeingest.spark.platforms import local


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Its address, as in sc://127.0.0.1:15002; it ends with the block, and its log is server.log in the folder."""
    port = free_port()
    settings = {
        **local.settings("local[*]", local.jars()),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[*]", *words]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    # Spark shall think of no Connect of its own, and find the Python that the tests run with.
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    env |= {"JAVA_HOME": str(artifacts.java().parent.parent), "PYSPARK_PYTHON": sys.executable}
    env |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": "-XX:ReservedCodeCacheSize=400m"}
    with serving(command, port, folder / "server.log", env):
        yield f"sc://127.0.0.1:{port}"
