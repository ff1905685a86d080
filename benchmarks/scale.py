"""What rates from 1 MB/s to 1 GB/s need, derived from what the other benchmarks measured: docs/explanation/scale.md.

    python benchmarks/scale.py

Nothing is run; the figures below are those of RESULTS.md, and the arithmetic is all here.
"""

from __future__ import annotations

import math

_DAY_S = 86_400
_MB = 10**6

_CPU_S_PER_MB = 0.042
"""ingest.py, three million narrow JSON records: 7.1 s for a million of 171 bytes, commits and start included."""
_BUSY = 0.6
"""Of a core, on average: what is left is for peaks, for catching up, and for what else the machine does."""
_PACKED = 0.21
"""backlog.py and small.py: bytes of Parquet for a byte of JSON."""
_PER_COMMIT = {"PUT, LIST": 6.4, "GET, HEAD": 33.6}
_PER_FILE = {"PUT, LIST": 2.0, "GET, HEAD": 3.0}
"""s3_requests.py."""
_PRICE = {"PUT, LIST": 0.005 / 1000, "GET, HEAD": 0.0004 / 1000}
"""Dollars, as AWS lists them for S3 Standard in us-east-1; look them up for yours."""
_CORES_PER_EXECUTOR = 4
_RATES = (1, 10, 100, 1000)
_TRIGGERS_S = (10, 60, 300)


def rows() -> list[list[str]]:
    """One for each rate and trigger."""
    found = []
    for rate in _RATES:
        cores = max(1, math.ceil(rate * _CPU_S_PER_MB / _BUSY))
        for trigger in _TRIGGERS_S:
            commits = _DAY_S // trigger
            files = commits * cores
            size = rate * trigger * _PACKED / cores
            asked = {kind: commits * _PER_COMMIT[kind] + files * _PER_FILE[kind] for kind in _PER_COMMIT}
            dollars = sum(count * _PRICE[kind] for kind, count in asked.items())
            found.append(
                [
                    f"{rate:,} MB/s",
                    f"{cores}",
                    f"{math.ceil(cores / _CORES_PER_EXECUTOR)}",
                    f"{trigger} s",
                    f"{rate * trigger:,} MB",
                    f"{files:,}",
                    f"{size:,.1f} MB",
                    *(f"{count:,.0f}" for count in asked.values()),
                    f"{dollars:,.2f}",
                ]
            )
    return found


def main() -> None:
    """Print the table."""
    kinds = list(_PER_COMMIT)
    head = [
        "rate",
        "cores",
        f"executors of {_CORES_PER_EXECUTOR}",
        "trigger",
        "a batch",
        "files a day",
        "of",
        *kinds,
        "$ a day",
    ]
    print("| " + " | ".join(head) + " |")
    print("| ---: " * len(head) + "|")
    for row in rows():
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
