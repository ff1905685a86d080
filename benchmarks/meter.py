"""CPU seconds and memory of a JVM, Spark's as a rule, of its children and of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import psutil
from pyspark import SparkContext


class Spent(NamedTuple):
    """What something took."""

    seconds: float
    cpu_s: float
    peak_mib: float


def spark_pid() -> int:
    """The process id of Spark's JVM."""
    assert SparkContext._gateway is not None
    return int(SparkContext._gateway.proc.pid)


def spent(go: Callable[[], object], jvm: int | None = None) -> Spent:
    """What it takes to do this once.

    Args:
        jvm: the process id of the JVM that does it, if it is not Spark's.
    """
    meter, begun = Meter(jvm), time.monotonic()
    go()
    seconds = time.monotonic() - begun
    return Spent(seconds, meter.stop(), meter.peak_mib)


class Meter(threading.Thread):
    """Measures from when it is made until `stop`.

    Attributes:
        peak_mib: the most resident memory that the JVM, its Python workers and this process held together.
    """

    def __init__(self, jvm: int | None = None) -> None:
        super().__init__(daemon=True)
        self._jvm = psutil.Process(jvm or spark_pid())
        self._ended = threading.Event()
        self._before = dict(self._cpu_s())
        self._now = dict(self._before)
        self.peak_mib = 0.0
        self.start()

    def _family(self) -> list[psutil.Process]:
        return [psutil.Process(), self._jvm, *self._jvm.children(recursive=True)]

    def _cpu_s(self) -> Iterator[tuple[int, float]]:
        """(process id, CPU seconds) of each that lives."""
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                yield process.pid, sum(process.cpu_times()[:2])

    def _look(self) -> None:
        held = 0
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                held += process.memory_info().rss
        self.peak_mib = max(self.peak_mib, held / 2**20)
        # A worker of Python's may end before the run does: what it took until then was taken.
        self._now |= dict(self._cpu_s())

    def run(self) -> None:
        while not self._ended.wait(0.2):
            self._look()

    def stop(self) -> float:
        """The CPU seconds since it was made."""
        self._ended.set()
        self.join()
        self._look()
        return sum(spent - self._before.get(pid, 0.0) for pid, spent in self._now.items())
