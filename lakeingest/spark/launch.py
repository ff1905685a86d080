"""Starts Spark's JVM, which logs to a file of its own, of which the newest are kept, and ends with this process."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest.local.addresses import state_dir
from lakeingest.spark.platforms import capabilities

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="python")
"""What this process was started for, as in quarantine-list; its log is named by it."""
_KEPT = 10
_OF_A_VALUE = re.compile(r"SQLSTATE: (22|P0)|Traceback \(most")
"""What says why an expression fails for a record, and with which value; the JVM's own log has it without that."""


def log_for(pipeline: str) -> Path:
    """The log file for a session of this pipeline; the oldest logs of the same command are deleted."""
    folder, command = state_dir() / "logs" / pipeline, COMMAND.get()
    folder.mkdir(parents=True, exist_ok=True)
    # Those of other commands stay: who asks for the status each minute keeps the log of the run that failed.
    for old in sorted(folder.glob(f"{command}-[0-9]*.log"))[: 1 - _KEPT]:
        old.unlink(missing_ok=True)
    return folder / f"{command}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.log"


def launch(conf: SparkConf, log: Path) -> SparkSession:
    """A session in a JVM that is started for it, if this process has none yet."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:
        threading.Thread(target=_import_meanwhile, name="lakeingest-imports", daemon=True).start()
        with log.open("ab") as file, _unbroken():
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"stdout": file, "stderr": file}))
    before = signal.getsignal(signal.SIGINT)
    SparkContext.getOrCreate(conf)
    if before not in (None, signal.default_int_handler) and _interruptible():
        # Spark takes Ctrl-C for itself, also from whoever has taken it already.
        signal.signal(signal.SIGINT, before)
    _log_to(log)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _import_meanwhile() -> None:
    """Import, while Java starts, what is imported behind that in any case, for two seconds: pyspark.testing, by which
    pyspark sees with each value that goes into the JVM whether numpy is there (4.1 and newer); and what reads files.
    """
    for name in ("pyspark.testing.utils", "pyarrow.dataset", "duckdb"):
        with suppress(ImportError):
            import_module(name)


@contextmanager
def _unbroken() -> Iterator[None]:
    """Let Ctrl-C wait until the JVM is connected: pyspark would leave it behind for good.

    The JVM ends with our end of a pipe, but only if it could write where it listens; and pyspark, when it is
    interrupted, deletes the folder for that.
    """
    if not _interruptible():
        yield
        return
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            signal.raise_signal(signal.SIGINT)


def _interruptible() -> bool:
    """Whether this thread is the one that Python interrupts."""
    return threading.current_thread() is threading.main_thread()


def answer_promptly(session: SparkSession) -> None:
    """Let this process have at once what the JVM answers (see PromptAnswers.java), where there is one with our jar."""
    can = capabilities.of(session)
    if can.own_functions and not can.connect:
        gateway: Any = session.sparkContext._gateway
        # What an older jar lacks is a package to py4j, which cannot be called.
        with suppress(TypeError):
            gateway.jvm.io.lakeingest.PromptAnswers.start(gateway.java_gateway_server)


def hide_values() -> None:
    """Let pyspark's own loggers tell no failure of an expression: they log its message, which has a record's value."""
    for logger in _query_loggers():
        logger.addFilter(_has_no_value)


def _log_to(log: Path) -> None:
    """Let pyspark write to the log what it tells of a failed query: kilobytes of JSON, on the terminal by itself."""
    for logger in _query_loggers():
        logger.handlers.clear()
        logger.addHandler(logging.FileHandler(log, delay=True))


def _query_loggers() -> list[logging.Logger]:
    from pyspark.logger import PySparkLogger

    return [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]


def _has_no_value(record: logging.LogRecord) -> bool:
    return not _OF_A_VALUE.search(str(vars(record)))
