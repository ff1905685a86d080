"""A machine whose disk is full, whose clock jumps, and whose memory is small."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import libfaketime
import psutil
import pytest
from support.faults import Cell, large
from support.records import DIRTY, clean_records, produce

from lakeingest.testing.process import Process
from lakeingest.testing.s3 import S3Proxy, call_before
from lakeingest.testing.steps import Step, reached

SMALL = {"trigger": {"max_records": 100}}
RETRIES = {"retry": {"wait": "3 seconds"}}


@pytest.mark.faults
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (Linux) for a disk of its own")
def test_a_full_disk(cell: Cell, tmp_path: Path) -> None:
    """The driver's disk takes no byte more: exit code 4, nothing half done; with room again all is completed."""
    large(cell)
    cell.produce(200)
    disk = tmp_path / "disk"
    disk.mkdir()
    # 8 MB, for s3a's parts of 5 MB alone: there is room for one, and not for what is written behind it.
    mount = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=8m none "{disk}" && exec "$@"', "sh")
    options = {"fs.s3a.buffer.dir": str(disk), "fs.s3a.multipart.size": "5M"}
    with cell.process("--until-caught-up", within=mount, storage={"options": options}, **RETRIES) as process:
        code = process.wait(240)
        assert code == 4, process.out + process.err
        assert re.search("No space left on device|Could not find any valid local directory", process.err), process.err
    cell.recover("full disk on the driver", "exit 4; went on when there was room")


@pytest.mark.faults
def test_the_clock_jumps_back(cell: Cell) -> None:
    """The run that follows lives an hour earlier: sequence numbers and frontiers come from the log, not the clock."""
    cell.produce(200)
    cell.run(**SMALL)
    cell.produce(200)
    library = Path(libfaketime.__file__).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    # A JVM waits by the monotonic clock, and spins where that is faked.
    monotonic = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    earlier = {"LD_PRELOAD": str(library), "FAKETIME": "-1h", **monotonic}
    begun = time.monotonic()
    with cell.process("--until-caught-up", env=earlier, **SMALL) as process:
        # The library that fakes the clock slows everything down.
        assert process.wait(480) == 0, process.out + process.err
        assert "2 commits" in process.out
    cell.produce(100)
    cell.recover(f"clock back an hour ({time.monotonic() - begun:.0f} s run)", "not noticed")


class Peak(threading.Thread):
    """The most memory that a process and its children held at once, in bytes."""

    def __init__(self, process: Process) -> None:
        super().__init__(daemon=True)
        self.bytes, self._process = 0, process
        self.start()

    def run(self) -> None:
        while self._process.code is None:
            try:
                family = psutil.Process(self._process.pid)
                held = sum(each.memory_info().rss for each in (family, *family.children(recursive=True)))
            except psutil.NoSuchProcess:
                continue
            self.bytes = max(self.bytes, held)
            time.sleep(0.2)


@pytest.mark.faults
def test_memory_is_bounded(cells: dict[str, Cell]) -> None:
    """Half a million records, all of them refused, in one batch, with a heap of 1 GiB: one commit, no more memory."""
    peaks = []
    for kind, count in (("clean", 1_000), ("dirty", 500_000)):
        cell = cells[kind]
        values = clean_records(count) if kind == "clean" else [DIRTY] * count
        cell.manifest.update(produce(cell.stack, cell.name, values, cell.partitions))
        begun = time.monotonic()
        with cell.process("--until-caught-up") as process:
            peak = Peak(process)
            assert process.wait(600) == 0, process.out + process.err
            assert "in 1 commit," in process.out
        peaks.append(peak.bytes / 2**20)
        cell.check(f"{count:,} records, all {kind}, at once", f"peak {peaks[-1]:,.0f} MiB", time.monotonic() - begun)
    # The heap may fill up to its bound, whatever comes; Python's workers hold a batch of Arrow each.
    assert peaks[1] < peaks[0] + 1536


@pytest.mark.faults
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "judged first"])
def test_an_executor_is_lost(cell: Cell, s3: S3Proxy, tmp_path: Path, *, gated: bool) -> None:
    """Of two executors one is killed while it writes: its tasks are done again, and no record is counted twice."""
    rule = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}))
    if gated:
        cell.changes["gate"] = {"suite": str(tmp_path / "s.json")}
    cell.produce(200)
    # The table asks for a shuffle before its files are written.
    cell.run()
    optimized = "SET TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')"
    cell.spark.sql(f"ALTER TABLE delta.`{cell.table}` {optimized}")
    cell.produce(6000)
    killed: list[int] = []

    def kill() -> None:
        for each in psutil.Process(process.pid).children(recursive=True):
            # Some of them have ended already.
            with suppress(psutil.Error):
                if not killed and "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                    each.kill()
                    killed.append(each.pid)

    begun = time.monotonic()
    cluster = {"SPARK_MASTER": "local-cluster[2,1,1024]"}
    with cell.process("--until-caught-up", s3=s3, env=cluster) as process:
        s3.fault(lambda r: reached(Step.WRITING, r, cell.table, cell.quarantine), call_before(kill), times=1)
        assert process.wait(300) == 0, process.out + process.err
    assert killed
    s3.clear()
    cell.check("an executor of two is killed", "its tasks were done again", time.monotonic() - begun)
