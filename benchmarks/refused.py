"""What refused records cost a batch: batches with some and without take turns, in one run.

    python benchmarks/refused.py [--records 1000] [--share 0.01] [--batches 40] [--format json] [--json FILE]

The first quarter of the batches is left out: until then Java still compiles.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from meter import Meter  # noqa: E402
from support.records import produce  # noqa: E402
from ways import pipeline, suite  # noqa: E402

from lakeingest.ingest.events import Committed  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402

_NAME = "refused"


def turns(stack: Addresses, arguments: argparse.Namespace) -> Iterator[bytes]:
    """The values: of one batch after the other, each second one with its share of bad records."""
    count = arguments.records * arguments.batches
    encode = orders.encoder(stack, f"{_NAME}-value", arguments.format, "narrow")
    clean, dirty = (orders.values("narrow", count, share, encode) for share in (0.0, arguments.share))
    return chain.from_iterable(islice((clean, dirty)[turn % 2], arguments.records) for turn in range(arguments.batches))


def measured(stack: Addresses, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each batch: how many records it refused, its seconds, those of its stages, and its CPU seconds."""
    # One partition: the batches are as they were produced.
    produce(stack, _NAME, turns(stack, arguments), 1)
    trigger = {"max_records": arguments.records}
    ingestion = pipeline(stack, _NAME, "narrow", arguments.format, suite(folder), trigger=trigger)
    batches = list[dict[str, Any]]()
    _ = ingestion.spark
    meter = Meter()

    def tell(progress: Committed) -> None:
        nonlocal meter
        cpu_s, meter = meter.stop(), Meter()
        figures = {"refused": progress.counts.refused, "seconds": progress.seconds, "cpu_s": cpu_s}
        batches.append(figures | dict(progress.stages))
        print(f"  {progress.sequence}: {figures}", file=sys.stderr)

    ingestion.run(until_caught_up=True, on_progress=tell)
    return batches[len(batches) // 4 :]


def table(batches: list[dict[str, Any]]) -> str:
    """The medians of both, and the ratio."""
    names = sorted({name for batch in batches for name in batch} - {"refused"}, key=("seconds", "cpu_s").__contains__)
    lines = [f"{'':12} {'clean':>8} {'refused':>8} {'ratio':>6}"]
    for name in names:
        clean, dirty = (
            statistics.median(batch.get(name, 0.0) for batch in batches if bool(batch["refused"]) is refused)
            for refused in (False, True)
        )
        lines.append(f"{name:12} {clean:8.3f} {dirty:8.3f} {dirty / clean if clean else 0:6.2f}")
    return "\n".join(lines)


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1000, help="of a batch")
    parser.add_argument("--share", type=float, default=0.01, help="of bad records, in each second batch")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--format", choices=("json", "avro"), default="json")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    with embedded() as (stack, folder):
        batches = measured(stack, folder, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(batches, indent=2) + "\n", encoding="utf-8")
    print(table(batches))


if __name__ == "__main__":
    main()
