"""A session on this machine, from the pinned jars of the local cache: up in about 5 s, and nothing is resolved."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.errors import SetupError
from lakeingest.local import artifacts
from lakeingest.local.addresses import state_dir
from lakeingest.spark import jvm, launch
from lakeingest.spark.settings import AVRO_LIMITS, BRIEF, COMPILED, OWN, QUIET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEFT_S, _UNUSED_S = 3_600, 14 * 86_400
"""After how long an archive of classes is deleted: one half written (Java takes seconds), and one that nothing used."""
_FUNCTIONS = "org.apache.spark.sql.functions"
_EXERCISED = threading.Event()
_WRITES = "Java writes down what it has loaded, so that the next start takes half the time: some seconds, once\n"


def start(name: str, *, brief: bool = False) -> SparkSession:
    """A session in a JVM of this process, from the pinned jars of the local cache.

    Args:
        brief: whether the process ends within a minute.

    Raises:
        SetupError: Java is missing, the jars cannot be had or are not for this pyspark, or Spark does not start.
    """
    from pyspark import SparkConf

    java = artifacts.java()
    os.environ.setdefault("JAVA_HOME", str(java.parent.parent))
    files = jars()
    folder = os.environ.get("SPARK_CONF_DIR")
    # Java keeps no archive of classes where a folder with files is on its class path, and warns in each log.
    archive, recording = ("", None) if folder else _class_archive(java, files)
    master = os.environ.get("SPARK_MASTER", "local[*]")
    # One of the user's own says how Spark logs.
    has_log_config = folder is not None and Path(folder, "log4j2.properties").exists()
    logs = "" if has_log_config else f"-Dlog4j2.configurationFile={jvm.LOGGING.as_uri()}"
    started = settings(master, files, f"{archive} {QUIET} {logs} {BRIEF if brief else ''}")
    if _on_this_machine(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # Executors on other machines have a Python of their own, at a place of its own ($PYSPARK_PYTHON).
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAppName(f"lakeingest {name}").setAll([*started.items()])
    log = launch.log_for(name)
    try:
        spark = launch.launch(conf, log)
    except Exception as failed:
        raise SetupError(
            f"Spark did not start: {failed}", cure=f"look at the end of {log}; LAKEINGEST_DRIVER_MEMORY sets its memory"
        ) from failed
    # Else pyspark asks the JVM for this class at each call of a function, some hundred times a batch, and Java looks
    # through all of its jars each time.
    vars(spark._jvm)[_FUNCTIONS] = getattr(spark._jvm, _FUNCTIONS)
    if recording is not None:
        atexit.register(_keep_class_archive, recording)
    return spark


def jars() -> list[str]:
    """The files that a session needs: the pinned ones, and our own.

    Raises:
        SetupError: Java is missing, the jars cannot be had, or are not for this pyspark.
    """
    import pyspark

    pinned = next(artifact.version for artifact in artifacts.listed("spark") if artifact.group == "org.apache.spark")
    minor = ".".join(pinned.split(".")[:2])
    if not pyspark.__version__.startswith(f"{minor}."):
        raise SetupError(
            f"pyspark {pyspark.__version__} is installed, and lakeingest starts Spark with jars for {minor}",
            cure=f"pip install 'pyspark=={minor}.*', or start the session yourself, with Delta and Kafka for your "
            "version, before you call lakeingest.load(FILE) in the same process",
        )
    return [str(jar) for jar in (*artifacts.fetch("spark"), jvm.JAR)]


def settings(master: str, files: list[str], of_driver: str = "") -> dict[str, str]:
    """What a session of our own is started with.

    Args:
        files: see `jars`.
        of_driver: options of its JVM besides.
    """
    on_this_machine = _on_this_machine(master)
    # Spark's default of 200 is for a cluster; there it merges those that are small.
    of_cluster = {"spark.sql.shuffle.partitions"}
    return {
        **{name: value for name, value in OWN.items() if on_this_machine or name not in of_cluster},
        # A batch's garbage is short-lived: the parallel collector costs 5 to 8 % less than the default one.
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {COMPILED} {of_driver} {AVRO_LIMITS}",
        "spark.executor.extraJavaOptions": f"{COMPILED} {AVRO_LIMITS}",
        "spark.driver.extraClassPath": os.pathsep.join(files),
        # The driver has them on its class path; executors on other machines get them sent.
        "spark.jars": "" if re.fullmatch(r"local(\[.*\])?", master) else ",".join(files),
        "spark.driver.memory": os.environ.get("LAKEINGEST_DRIVER_MEMORY", "3g"),
        "spark.sql.warehouse.dir": str(state_dir() / "warehouse"),
    }


def _on_this_machine(master: str) -> bool:
    """Whether executors run here: as threads (local[*]), or as processes (local-cluster[2,1,1024])."""
    return master.startswith("local")


def _class_archive(java: Path, jars: list[str]) -> tuple[str, Path | None]:
    """The JVM's option for its archive of loaded classes, and where it is recorded if there is none yet.

    With the archive Spark starts in about half the time. Java goes without one that was recorded with other files, also
    where only their times differ, so it is named by them.
    """
    import pyspark

    files = [(path, os.stat(path)) for path in (str(java.resolve()), pyspark.__file__, *jars)]
    parts = (pyspark.__version__, *(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in files))
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    archive = artifacts.cache_dir() / "spark" / f"classes-{name}.jsa"
    with suppress(OSError):
        os.utime(archive)
    for other in archive.parent.glob("classes-*"):
        # Each has 230 MB: of a process that was killed, of an older version, of a folder that is gone.
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > (_UNUSED_S if other.suffix == ".jsa" else _LEFT_S):
                other.unlink()
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}", None
    recording = archive.with_suffix(f".{os.getpid()}")
    return f"-XX:ArchiveClassesAtExit={recording}", recording


def exercised() -> None:
    """Say that a batch was committed: by now the session's JVM has loaded what the next one will need at its start."""
    _EXERCISED.set()


def _keep_class_archive(recording: Path) -> None:
    """When this process ends: let the JVM write its archive, which takes some seconds; keep it if it is worth it.

    Whoever waits for the terminal is told: what a command prints last is not its end then.
    """
    from pyspark import SparkContext

    if sys.stderr.isatty():
        sys.stderr.write(_WRITES)

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
        if _EXERCISED.is_set() and recording.exists():
            recording.replace(recording.with_suffix(".jsa"))
    recording.unlink(missing_ok=True)
