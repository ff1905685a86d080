"""A backlog of ten million records, taken in batches of a million: whether memory and time stay as they are.

    python benchmarks/backlog.py [--records 10000000] [--batch 1000000] [--json FILE]

Prints, for each batch, its seconds, the CPU seconds, the most resident memory that Spark held while it ran, and what
was in use of its heap after it, once all garbage was collected.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from meter import Meter, spark_pid  # noqa: E402
from ways import Bench  # noqa: E402

from lakeingest.ingest.events import Committed  # noqa: E402


def live_mib() -> float:
    """What is in use of the heap of Spark's JVM, after a collection of all its garbage."""
    pid = str(spark_pid())
    subprocess.run(["jcmd", pid, "GC.run"], check=True, capture_output=True)
    told = subprocess.run(["jstat", "-gc", pid], check=True, capture_output=True, text=True).stdout
    names, values = (line.split() for line in told.splitlines())
    kib = dict(zip(names, values, strict=True))
    return sum(float(kib[name]) for name in ("S0U", "S1U", "EU", "OU")) / 2**10


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    with embedded() as (stack, folder):
        bench = Bench(stack, folder, "narrow", "json", 0.0, asked.records, asked.batch)
        ingestion = bench.ingestion("backlog")
        _ = ingestion.spark
        meters = [Meter()]

        def tell(progress: Committed) -> None:
            meter, cpu_s, live = meters[-1], meters[-1].stop(), live_mib()
            meters.append(Meter())
            found.append(
                {
                    "batch": progress.sequence,
                    "records": progress.counts.accepted,
                    "seconds": progress.seconds,
                    "cpu_s": cpu_s,
                    "peak_mib": meter.peak_mib,
                    "live_mib": live,
                }
            )
            print("  ".join(f"{name} {value:,.1f}" for name, value in found[-1].items()), flush=True)

        ingestion.run(until_caught_up=True, on_progress=tell)
        meters[-1].stop()
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
