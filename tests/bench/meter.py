"""CPU seconds and memory of Spark's processes and of this one."""

from __future__ import annotations

import os
import threading

import psutil
from pyspark import SparkContext


class Meter(threading.Thread):
    """Measures from when it is made until `stop`.

    Attributes:
        peak_mib: the most resident memory that Spark's JVM, its Python workers and this process held together.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        assert SparkContext._gateway is not None
        self._spark = psutil.Process(SparkContext._gateway.proc.pid)
        self._ended = threading.Event()
        self.peak_mib, self._begun = 0.0, self._cpu_s()
        self.start()

    def _family(self) -> list[psutil.Process]:
        return [self._spark, *self._spark.children(recursive=True)]

    def _cpu_s(self) -> float:
        mine = os.times()
        return mine.user + mine.system + sum(sum(p.cpu_times()[:4]) for p in self._family())

    def run(self) -> None:
        mine = psutil.Process()
        while not self._ended.wait(0.2):
            held = sum(p.memory_info().rss for p in (*self._family(), mine)) / 2**20
            self.peak_mib = max(self.peak_mib, held)

    def stop(self) -> float:
        """The CPU seconds since it was made."""
        self._ended.set()
        self.join()
        return self._cpu_s() - self._begun
