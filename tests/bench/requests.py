"""The S3 requests of a run's commits, counted by a proxy before the store: what a bill is made of.

    python tests/bench/requests.py [--commits 60] [--json FILE]

Each batch is a hundred clean orders of one Kafka partition, into a table without partitions: one file a commit. The
first ten commits are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

import kit  # noqa: E402
import orders  # noqa: E402
from embedded import embedded  # noqa: E402

from lakeingest.pipeline import Ingestion  # noqa: E402
from lakeingest.testing.s3 import S3Proxy  # noqa: E402

_WARM = 10


def main() -> None:
    """Bring up a stack of its own, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    with embedded() as (stack, _), S3Proxy(stack.s3) as proxy:
        encode = orders.encoder(stack, "counted", "json", "narrow")
        total = (asked.commits + _WARM) * 100
        kit.produce(stack, "counted", orders.values("narrow", total, 0, encode), 1)
        config = kit.config_of(
            stack,
            "counted",
            schema={"columns": orders.NARROW},
            storage={"endpoint": proxy.endpoint},
            trigger={"max_records": 100},
        )
        seen: list[Counter[str]] = []
        Ingestion(config).run(until_caught_up=True, on_progress=lambda _: seen.append(Counter(proxy.seen)))
    per = {kind: (seen[-1][kind] - seen[_WARM - 1][kind]) / asked.commits for kind in seen[-1]}
    if asked.json:
        asked.json.write_text(json.dumps(per, indent=2) + "\n", encoding="utf-8")
    for kind, count in sorted(per.items()):
        print(f"{kind:8} {count:6.2f} a commit")


if __name__ == "__main__":
    main()
