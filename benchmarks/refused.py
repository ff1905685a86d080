"""What refused records cost a batch: batches with and without them take turns, in one run.

    python benchmarks/refused.py [--records 1000] [--shares 0.01] [--rounds 20] [--row 1] [--format json] [--json FILE]

A round is a row of batches without bad records, and one for each share. The first quarter of the rounds is left out:
until then Java still compiles. So is the first batch of a row of several: what a batch reads ahead for the next one
depends on whether it has bad records.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
from itertools import islice
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


def produce_rounds(stack: Addresses, arguments: argparse.Namespace) -> None:
    """All rounds' batches, one behind the other. One partition: the batches are as they were produced."""
    encode = orders.encoder(stack, f"{_NAME}-value", arguments.format, "narrow")
    # The same records in each round, so that they are made once.
    batches = [
        list(islice(orders.values("narrow", arguments.records, share, encode), arguments.records))
        for share in (0.0, *arguments.shares)
    ]
    for _ in range(arguments.rounds):
        for batch in batches:
            for _ in range(arguments.row):
                produce(stack, _NAME, batch, 1)


def measured(stack: Addresses, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Each batch: its share of bad records, its seconds, those of its stages, CPU seconds, and the most memory held."""
    # In a process of its own: the records would count as memory of this one.
    producing = multiprocessing.get_context("spawn").Process(target=produce_rounds, args=(stack, arguments))
    producing.start()
    producing.join()
    assert producing.exitcode == 0
    trigger = {"max_records": arguments.records}
    ingestion = pipeline(stack, _NAME, "narrow", arguments.format, suite(folder), trigger=trigger)
    batches = list[dict[str, Any]]()
    shares = (0.0, *arguments.shares)
    _ = ingestion.spark
    meter = Meter()

    def tell(progress: Committed) -> None:
        nonlocal meter
        cpu_s, peak_mib, meter = meter.stop(), meter.peak_mib, Meter()
        share = shares[len(batches) // arguments.row % len(shares)]
        figures = {"share": share, "refused": progress.counts.refused, "seconds": progress.seconds, "cpu_s": cpu_s}
        assert progress.counts.consumed == arguments.records, progress
        batches.append({**figures, "peak_mib": peak_mib, **dict(progress.stages)})
        print(f"  {progress.sequence}: {figures}", file=sys.stderr, flush=True)

    ingestion.run(until_caught_up=True, on_progress=tell)
    meter.stop()
    warm = arguments.rounds // 4 * len(shares) * arguments.row
    return [batch for at, batch in enumerate(batches) if at >= warm and (arguments.row == 1 or at % arguments.row)]


def ratios(batches: list[dict[str, Any]]) -> dict[float, tuple[float, float]]:
    """Share of bad records → median wall and CPU seconds of its batches, as shares of a clean batch's."""
    shares = dict.fromkeys(batch["share"] for batch in batches if batch["share"])
    return {
        share: (
            median(batches, share, "seconds") / median(batches, 0.0, "seconds"),
            median(batches, share, "cpu_s") / median(batches, 0.0, "cpu_s"),
        )
        for share in shares
    }


def median(batches: list[dict[str, Any]], share: float, name: str) -> float:
    """Of a figure of the batches with this share of bad records; a stage that a batch did not have took no time."""
    return statistics.median(batch.get(name, 0.0) for batch in batches if batch["share"] == share)


def table(batches: list[dict[str, Any]]) -> str:
    """The medians of each share, and their ratios to a clean batch."""
    shares = list(dict.fromkeys(batch["share"] for batch in batches))
    last = ("seconds", "cpu_s", "peak_mib")
    names = sorted({name for batch in batches for name in batch} - {"share", "refused"}, key=last.__contains__)
    lines = [f"{'':12}" + "".join(f" {share:>12.1%}" for share in shares)]
    for name in names:
        clean = median(batches, 0.0, name)
        cells = ((median(batches, share, name), share) for share in shares)
        lines.append(
            f"{name:12}"
            + "".join(
                f" {value:7,.3f} {f'{value / clean:.2f}' if clean and share else '':>4}" for value, share in cells
            )
        )
    return "\n".join(lines)


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1000, help="of a batch")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01], help="of bad records, a batch for each")
    parser.add_argument("--rounds", type=int, default=20, help="of clean batches and some for each share")
    parser.add_argument("--row", type=int, default=1, help="batches of a share, one behind the other")
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
