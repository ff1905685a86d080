"""What an audit takes: by the log alone, with the rows of some files, and with those of all.

    python benchmarks/audit.py [--rows 50000000] [--files 10000] [--made-up 1000000000] [--json FILE]

A table on the local disk, written as a run leaves it: Parquet files of ten Kafka partitions, ten files a commit, and
receipts with the sums of the batch before. The third figure is of the same table after somebody has deleted one row in
each of a hundred commits: the files of these are read. Then a log that is made up, of 10,000 commits whose files are
empty: nothing but the log can be read of it; as it is, and where a verdict has proved all batches. Each
audit is a process of its own, without Spark; its peak of memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from pyarrow import parquet  # noqa: E402
from support.tables import TOPIC, WrittenTable, remove  # noqa: E402

from lakeingest.delta import range_sums  # noqa: E402
from lakeingest.delta.receipt import Receipt, Run  # noqa: E402
from lakeingest.delta.sums import BatchSums, Sums  # noqa: E402
from lakeingest.record import OffsetRange, OffsetRanges  # noqa: E402

PARTITIONS, DELETED, COMMITS = 10, 100, 10_000
_AUDIT = """
import gc, json, resource, sys, time
from lakeingest.config import Storage
from lakeingest.config.file import from_mapping
from lakeingest.operations import audit
from lakeingest.operations.readers import FileTables
gc.set_threshold(50_000)  # As the command does.
folder, how = sys.argv[1:]
source = {"topics": ["t"], "bootstrap_servers": "nowhere:1"}
config = from_mapping({"name": "p", "source": source, "schema": {"columns": "n BIGINT"}, "table": {"path": folder}})
began, cpu = time.perf_counter(), time.process_time()
report = audit.audit(FileTables(config, Storage()), deep=how == "deep", proved=range(10**6 if how == "since" else 0))
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
names = ("table", "missing", "files_by_log", "files_read")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
times = {"s": round(seconds, 2), "cpu_s": round(cpu, 2)}
print(json.dumps({**times, "peak_mib": peak, **{name: getattr(report, name) for name in names}}))
"""


class Table:
    """A table and an empty quarantine, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self.main = WrittenTable(folder / "t")
        WrittenTable(folder / "t_quarantine", pipeline="p")
        self.number, self.before, self.last = 0, list[Sums](), dict[int, int]()

    def batch(self, offsets: int, write: Callable[[int, int, int], dict[str, Any]]) -> None:
        """Commit so many offsets of each partition, each a file; no offsets, no files."""
        self.number += 1
        places = [(p, self.last.get(p, 0), self.last.get(p, 0) + offsets) for p in range(PARTITIONS)]
        ranges = OffsetRanges(tuple(OffsetRange(TOPIC, *each) for each in places))
        before = BatchSums(self.number - 1, self.before[0], Sums()) if self.before else None
        receipt = Receipt("p", self.number, Run(), "c", {TOPIC: "i"}, ranges, "q", before=before)
        adds = [{"add": write(*each)} for each in places if offsets]
        metrics = {"numOutputRows": str(ranges.offsets), "numFiles": str(len(adds)), "numOutputBytes": "1"}
        self.main.commit(*adds, userMetadata=receipt.to_json(), operationMetrics=metrics)
        self.before, self.last = range_sums.of([ranges]), ranges_ends(ranges)

    def file(self, partition: int, start: int, end: int) -> dict[str, Any]:
        """A real one."""
        offsets = pa.array(range(start, end), pa.int64())
        topics = pa.DictionaryArray.from_arrays(pa.array([0] * len(offsets), pa.int32()), [TOPIC])
        columns = [topics, pa.array([partition] * len(offsets), pa.int32()), offsets, pc.multiply(offsets, 7919)]
        path = f"{partition}-{start}.parquet"
        parquet.write_table(pa.table(columns, ["_topic", "_partition", "_offset", "n"]), self.main.folder / path)
        return added(path, (self.main.folder / path).stat().st_size, partition, start, end)

    def empty(self, partition: int, start: int, end: int) -> dict[str, Any]:
        """One that nobody can read."""
        path = f"{partition}-{start}.parquet"
        (self.main.folder / path).touch()
        return added(path, 0, partition, start, end)

    def delete(self, count: int) -> None:
        """Delete a row in each of so many commits' files."""
        adds = [add for add in self.main.adds().values() if add["path"].startswith("0-")][:count]
        actions = list[dict[str, Any]]()
        for at, add in enumerate(adds):
            rows = parquet.read_table(self.main.folder / add["path"])[1:]
            parquet.write_table(rows, self.main.folder / f"deleted-{at}.parquet")
            size, start = (self.main.folder / f"deleted-{at}.parquet").stat().st_size, rows["_offset"][0].as_py()
            made = added(f"deleted-{at}.parquet", size, 0, start, start + len(rows))
            actions += [remove(add), {"add": made}]
        self.main.commit(*actions, operation="DELETE", operationMetrics={"numDeletedRows": str(len(adds))})


def ranges_ends(ranges: OffsetRanges) -> dict[int, int]:
    return {s.partition: s.end for s in ranges}


def added(path: str, size: int, partition: int, start: int, end: int) -> dict[str, Any]:
    names = {"_topic": TOPIC, "_partition": partition}
    stats = {"numRecords": end - start, "minValues": {**names, "_offset": start}}
    stats |= {"maxValues": {**names, "_offset": end - 1}, "nullCount": dict.fromkeys((*names, "_offset"), 0)}
    made = {"path": path, "size": size, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
    return {**made, "stats": json.dumps(stats)}


def measured(folder: Path, how: str = "log") -> dict[str, Any]:
    words = [sys.executable, "-c", _AUDIT, str(folder / "t"), how]
    result: dict[str, Any] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--made-up", type=int, default=1_000_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = dict[str, dict[str, Any]]()

    def show(name: str, result: dict[str, Any]) -> None:
        results[name] = result
        print(
            f"{name:<24}",
            "  ".join(f"{key} {value:,}" for key, value in result.items() if value is not None),
            flush=True,
        )

    with tempfile.TemporaryDirectory() as folder:
        began, real = time.perf_counter(), Table(Path(folder))
        for _ in range(options.files // PARTITIONS):
            real.batch(options.rows // options.files, real.file)
        print(f"written in {time.perf_counter() - began:.0f} s")
        show("log", measured(Path(folder)))
        show("all rows", measured(Path(folder), "deep"))
        real.delete(DELETED)
        show("log, and some rows", measured(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        made_up = Table(Path(folder))
        for _ in range(COMMITS):
            made_up.batch(options.made_up // COMMITS // PARTITIONS, made_up.empty)
        made_up.batch(0, made_up.empty)
        show("made up", measured(Path(folder)))
        show("made up, since", measured(Path(folder), "since"))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
