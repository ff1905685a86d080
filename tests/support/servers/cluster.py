"""A standalone Spark cluster on this machine, of processes: a master and two workers, from pyspark's own jars."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark
from support.servers import free_port

from lakeingest.local import artifacts

_HOME = Path(pyspark.__file__).parent


@dataclass
class Cluster:
    """A running one.

    Attributes:
        url: for SPARK_MASTER.
        workers: the processes of its workers.
    """

    url: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """What a driver is started with: the executors' Python has to be named, and theirs is ours."""
        return {"SPARK_MASTER": self.url, "PYSPARK_PYTHON": sys.executable}

    def executors(self) -> list[psutil.Process]:
        """Their JVMs, worker by worker."""
        children = [child for worker in self.workers for child in psutil.Process(worker.pid).children(recursive=True)]
        return [each for each in children if _is_executor(each)]

    def add_worker(self) -> None:
        """One more, of one core and 1 GiB."""
        name = f"worker-{len(self.workers)}"
        words = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.folder / name), self.url)
        self.workers.append(_started("worker.Worker", self.folder / f"{name}.log", "--host", "127.0.0.1", *words))


def _is_executor(process: psutil.Process) -> bool:
    # One that has ended may not be waited for yet, and has no command line.
    with suppress(psutil.Error):
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    return False


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """It ends with the block; the logs of its processes are in the folder."""
    port = free_port()
    log = folder / "master.log"
    made = Cluster(f"spark://127.0.0.1:{port}", folder)
    master = _started("master.Master", log, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    try:
        for _ in range(workers):
            made.add_worker()
        _wait(log, workers)
        yield made
    finally:
        for process in (*made.workers, master):
            process.terminate()
        for process in (*made.workers, master):
            process.wait(30)


def _started(kind: str, log: Path, *words: str) -> subprocess.Popen[bytes]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    # Without it a worker of pyspark's cannot tell which of Spark's builds it is, and starts no executor.
    env |= {"SPARK_HOME": str(_HOME), "SPARK_SCALA_VERSION": "2.13", "JAVA_HOME": str(artifacts.java().parent.parent)}
    command = [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *words]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=env, stdin=subprocess.DEVNULL)


def _wait(log: Path, workers: int) -> None:
    for _ in range(300):
        if log.read_text(errors="replace").count("Registering worker") >= workers:
            return
        time.sleep(0.2)
    raise AssertionError(f"no cluster: {log.read_text(errors='replace')[-2000:]}")
