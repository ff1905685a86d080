"""One, two and four executors of one core each, on this machine: what grows with them, and what does not.

    python benchmarks/cluster.py [--records 2000000] [--rounds 2] [--json FILE]

Spark's `local-cluster` starts a process for each executor, as a cluster does; the topic has four partitions, and is
taken in batches of a million narrow JSON records. The first round of each is cold, and left out. Where they outnumber
the cores, it shows what they cost, and not what they gain.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from meter import spent  # noqa: E402
from ways import Bench  # noqa: E402

_EXECUTORS = (0, 1, 2, 4)
_MEMORY_MIB = 1024


def measured(bench: Bench, executors: int, rounds: int) -> dict[str, float]:
    """Seconds, CPU and memory of a run, with so many executors; without any, the driver does the work on all cores."""
    os.environ["SPARK_MASTER"] = f"local-cluster[{executors},1,{_MEMORY_MIB}]" if executors else "local[*]"
    spark = bench.ingestion("unused").spark
    took = []
    for n in range(rounds + 1):
        took.append(spent(partial(bench.lakeingest, f"by-{executors}-{n}")))
        print(
            f"  {executors} executors, round {n}: {took[n].seconds:.1f} s, {took[n].cpu_s:.1f} s of CPU",
            file=sys.stderr,
        )
    spark.stop()
    cold, *warm = took
    return {
        "executors": executors,
        "seconds": statistics.median(each.seconds for each in warm),
        "cpu_s": statistics.median(each.cpu_s for each in warm),
        "cold_s": cold.seconds,
        "peak_mib": max(each.peak_mib for each in took),
    }


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="warm ones, after the cold one")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    with embedded() as (stack, folder):
        bench = Bench(stack, folder, "narrow", "json", 0.0, asked.records)
        found = [measured(bench, executors, asked.rounds) for executors in _EXECUTORS]
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for row in found:
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()))


if __name__ == "__main__":
    main()
