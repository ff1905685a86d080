"""The S3 requests of a run's commits, counted by a proxy before the store: what a bill is made of.

    python benchmarks/s3_requests.py [--commits 60] [--json FILE]

Each batch is a hundred clean orders, into a table without partitions, from one Kafka partition and from five: so many
files has each commit. The first ten commits are left out. AWS has two prices: one for PUT and LIST, and a
twelfth of it for GET and HEAD; DELETE is free.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from support.records import produce  # noqa: E402

from lakeingest.local import Addresses  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402
from lakeingest.testing.s3 import S3Proxy  # noqa: E402

_WARM = 10
_MANY = 5


def counted(stack: Addresses, proxy: S3Proxy, files: int, commits: int) -> dict[str, float]:
    """Kind of request → how many a commit of so many files makes."""
    name = f"counted-{files}"
    encode = orders.encoder(stack, name, "json", "narrow")
    produce(stack, name, orders.values("narrow", (commits + _WARM) * 100, 0, encode), files)
    config = config_of(
        stack,
        name,
        schema={"columns": orders.NARROW},
        storage={"endpoint": proxy.endpoint},
        trigger={"max_records": 100},
    )
    seen: list[Counter[str]] = []
    Pipeline(config).run(until_caught_up=True, on_progress=lambda _: seen.append(Counter(proxy.seen)))
    return {kind: (seen[-1][kind] - seen[_WARM - 1][kind]) / commits for kind in seen[-1]}


def main() -> None:
    """Bring up a stack of its own, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    with embedded() as (stack, _), S3Proxy(stack.s3) as proxy:
        one, many = (counted(stack, proxy, files, asked.commits) for files in (1, _MANY))
    more = {kind: (many[kind] - one[kind]) / (_MANY - 1) for kind in one}
    found = {kind: {"commit": one[kind] - more[kind], "file": more[kind]} for kind in sorted(one)}
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for kind, each in found.items():
        print(f"{kind:8} {each['commit']:6.2f} a commit  {each['file']:6.2f} a file")


if __name__ == "__main__":
    main()
