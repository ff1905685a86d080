"""What a gate costs clean batches: the same flights with and without the shipped suite, in turn, in one session.

    python benchmarks/gate.py [--batches 4] [--records 300000] [--rounds 5]

Prints the seconds of each round: until the first commit, which has the start of the run in it, and from there to the
end, and the ratios of the medians. The suite's nineteen expectations of rows set records aside, one warns. The flights
with a foreign tail number and the damaged ones are left out, so that each batch is clean.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import chain, islice, repeat
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from support.records import Record, produce  # noqa: E402

from lakeingest.config import file as pipeline_file  # noqa: E402
from lakeingest.ingest.events import Committed  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.local.demo import flights  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402

FILE = ROOT / "pipelines" / "flights.yaml"
SUITE = ROOT / "expectations" / "flights.json"


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--records", type=int, default=300_000, help="of a batch")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with embedded() as (stack, _):
        measure(stack, asked.batches, asked.records, asked.rounds)


def measure(stack: Addresses, batches: int, records: int, rounds: int) -> None:
    """One topic; a new pipeline and table for each round."""
    clean = [
        Record(value, key, partition)
        for number, (partition, key, value) in enumerate(flights.records(), start=1)
        if number % 1000 and b'"tailnum":"D' not in value
    ]
    produce(stack, "bench", islice(chain.from_iterable(repeat(clean)), batches * records), flights.PARTITIONS)
    columns = pipeline_file.read(FILE, {}).schema_.columns
    seconds: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    # The first round of each warms the JVM up.
    for turn in range(rounds + 1):
        for way in ("without", "with") if turn % 2 else ("with", "without"):
            gate = {"gate": {"suite": str(SUITE)}} if way == "with" else {}
            changes = {"source": {"topics": ["bench"]}, "schema": {"columns": columns}, **gate}
            config = config_of(stack, f"bench_{way}_{turn}", trigger={"max_records": records}, **changes)
            times = [time.monotonic()]

            def note(_: Committed, times: list[float] = times) -> None:
                times.append(time.monotonic())

            counts = Pipeline(config).run(until_caught_up=True, on_progress=note)
            took = times[1] - times[0], time.monotonic() - times[1]
            assert (counts.accepted, counts.refused) == (batches * records, 0)
            if turn:
                seconds[way].append(took)
                print(
                    f"round {turn}, {way:7} a gate: {took[0]:6.2f} s to the first commit of {records:,} records, "
                    f"{took[1]:6.2f} s for {counts.consumed - records:,} more",
                    flush=True,
                )
    for at, part in enumerate(("start and first batch", "all further batches")):
        gated, bare = (statistics.median(took[at] for took in seconds[way]) for way in ("with", "without"))
        print(f"{part}: median with {gated:.2f} s, without {bare:.2f} s, ratio {gated / bare:.2f}")


if __name__ == "__main__":
    main()
