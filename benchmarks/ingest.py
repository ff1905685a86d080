"""lakeingest beside the Spark jobs that one writes by hand, and two ways without Spark: one topic, in turn, in one run.

    python benchmarks/ingest.py [--records 1000000] [--rounds 3] [--only wide/avro/0 …] [--ways lakeingest bare …]
        [--old] [--json FILE]

The ways:

lakeingest   with everything on: coordinates, quarantine, compatibility, six expectations, exactly-once, receipts
bare         Structured Streaming with from_json or from_avro into Delta, without any check
dead letters the same with foreachBatch: the batch is kept, its good rows are written, then its bad ones
own bare, own dead letters
             these two jobs in a process of their own, with Spark's and Delta's own settings (see stock.py)
loop         confluent-kafka, pyarrow's JSON and deltalake in one Python process, without any check
iceberg      Kafka Connect with Iceberg's sink, one task: exactly once, into an Iceberg table; a record that it cannot
             read ends it. It is done when a commit has all records, and commits each five seconds, so that up to five
             seconds of its time are waiting

All write to S3, partitioned by day, and all but Kafka Connect in micro-batches of a million records; lakeingest, bare
and dead letters in the same JVM. These two have Spark's own settings, but for what lakeingest starts every session with
(the collector, the classes that are kept, and some of Delta's). The first round warms the JVMs up, and is told apart
("cold s"; Spark and Kafka Connect run already). Every table is new; with --old each has a thousand of the records
already, so that what is measured is how a pipeline goes on, and not how it makes its tables. CPU is that of the way's
JVM with its Python workers, and of this process; Kafka and S3 run on the same machine, and are not counted.

A way that fails, by running out of memory say, goes no further: that it failed is its result. Each topic has a process
and servers of its own, so that the next one is measured all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from kafka_connect import connect  # noqa: E402
from meter import spent  # noqa: E402
from rich.console import Console  # noqa: E402
from ways import WAYS, Bench  # noqa: E402

CELLS = (
    ("narrow", "json", 0.0),
    ("narrow", "json", 0.001),
    ("narrow", "json", 0.01),
    ("narrow", "json", 0.1),
    ("narrow", "json", 1.0),
    ("narrow", "avro", 0.0),
    ("narrow", "avro", 0.01),
    ("narrow", "protobuf", 0.0),
    ("wide", "json", 0.0),
    ("wide", "avro", 0.0),
    ("nested", "json", 0.0),
    ("nested", "avro", 0.0),
    ("large", "json", 0.0),
)
_FIRST = 1_000


@dataclass(frozen=True)
class Took:
    """What one way cost, once.

    Attributes:
        seconds: from the call to the last commit.
        cpu_s: of Spark and of this process.
        peak_mib: the most memory that they held.
        files, commits: of the main table.
    """

    seconds: float
    cpu_s: float
    peak_mib: float
    files: int
    commits: int


def take(bench: Bench, way: str, table: str) -> Took:
    """Go one way into a table."""
    took = spent(partial(bench.take, way, table), bench.jvm(way))
    return Took(*took, *bench.made(way, table))


def measured(bench: Bench, ways: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """These ways in turn, once cold and `rounds` times warm."""
    # Whoever is first would pay for Spark's start.
    _ = bench.spark
    tables = {(way, turn): f"{bench.name}_{way.replace(' ', '_')}_{turn}" for way in ways for turn in range(rounds + 1)}
    if bench.first is not None:
        for (way, _), table in tables.items():
            bench.take(way, table)
        bench.produce_rest()
    topic = {"shape": bench.shape, "format": bench.format, "bad": bench.bad, "records": bench.records, "mib": bench.mib}
    failed = set[str]()
    for turn in range(rounds + 1):
        # Another one begins each time.
        first = turn % len(ways)
        for way in (*ways[first:], *ways[:first]):
            if way in failed:
                continue
            try:
                took = take(bench, way, tables[way, turn])
            # Whatever it is: the others are measured.
            except Exception as error:
                failed.add(way)
                failure = str(error).strip().partition("\n")[0] or type(error).__name__
                print(f"  round {turn}, {way}: {failure}", file=sys.stderr, flush=True)
                yield {**topic, "way": way, "round": turn, "failure": failure}
            else:
                text = f"{took.seconds:.1f} s, {took.cpu_s:.1f} s of CPU"
                print(f"  round {turn}, {way}: {text}", file=sys.stderr, flush=True)
                yield {**topic, "way": way, "round": turn, **asdict(took)}


HEADINGS = ("", "records/s", "min–max", "MiB/s", "CPU s/M", "min–max", "cold s", "peak MiB", "files", "commits")


def rows(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The table of one topic: a row for each way, of its warm rounds."""
    table = []
    for way in dict.fromkeys(each["way"] for each in found):
        cold, *warm = (each for each in found if each["way"] == way)
        if failure := (cold, *warm)[-1].get("failure"):
            table.append((way, f"failed in round {len(warm)}: {failure}", *[""] * (len(HEADINGS) - 2)))
            continue
        records = cold["records"]
        rates = sorted(records / each["seconds"] for each in warm)
        cpu = sorted(each["cpu_s"] / records * 1e6 for each in warm)
        rate = statistics.median(rates)
        table.append(
            (
                way,
                f"{rate:,.0f}",
                f"{rates[0]:,.0f}–{rates[-1]:,.0f}",
                f"{cold['mib'] * rate / records:.1f}",
                f"{statistics.median(cpu):.1f}",
                f"{cpu[0]:.1f}–{cpu[-1]:.1f}",
                f"{cold['seconds']:.1f}",
                f"{max(each['peak_mib'] for each in warm):,.0f}",
                f"{warm[-1]['files']}",
                f"{warm[-1]['commits']}",
            )
        )
    return table


def median(found: Sequence[Mapping[str, Any]], way: str, what: str) -> float:
    """Of a topic's warm rounds."""
    return statistics.median(each[what] for each in found if each["way"] == way and each["round"])


def ratios(found: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """Another way → lakeingest's wall time and CPU as shares of its own, medians of the warm rounds."""
    failed = {each["way"] for each in found if "failure" in each}
    if "lakeingest" in failed:
        return {}
    others = dict.fromkeys(each["way"] for each in found if each["way"] not in {"lakeingest", *failed})
    return {
        way: tuple(median(found, "lakeingest", what) / median(found, way, what) for what in ("seconds", "cpu_s"))
        for way in others
    }


def report(found: Sequence[Mapping[str, Any]]) -> str:
    """All topics' tables and ratios, as Markdown."""
    cells: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for each in found:
        cells.setdefault((each["shape"], each["format"], each["bad"]), []).append(each)
    rule = ("---", *["---:"] * (len(HEADINGS) - 1))
    parts = []
    for (shape, format, bad), cell in cells.items():
        size = cell[0]["mib"] / cell[0]["records"] * 2**20
        table = "\n".join(f"| {' | '.join(row)} |" for row in (HEADINGS, rule, *rows(cell)))
        shares = "; ".join(
            f"lakeingest / {way}: wall {wall:.2f}, CPU {cpu:.2f}" for way, (wall, cpu) in ratios(cell).items()
        )
        title = f"### {shape} {format}, {bad:.1%} bad: {cell[0]['records']:,} records of {size:,.0f} bytes"
        parts.append(f"{title}\n\n{table}\n\n{shares}\n")
    return "\n".join(parts)


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, help="narrow ones; of the larger there are fewer")
    parser.add_argument("--rounds", type=int, default=3, help="warm ones, after the cold one")
    parser.add_argument("--only", nargs="+", help="topics as shape/format/share of bad ones: narrow/json/0.01")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="some of them")
    parser.add_argument("--old", action="store_true", help="into tables that are there already")
    parser.add_argument("--json", type=Path, help="a file for each round's figures")
    arguments = parser.parse_args()
    cells = [(s, f, float(b)) for s, f, b in (each.split("/") for each in arguments.only)] if arguments.only else CELLS
    if len(cells) == 1:
        rounds = topic(arguments, *cells[0])
    else:
        rounds = [each for cell in cells for each in elsewhere(arguments, cell)]
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=2) + "\n", encoding="utf-8")
    made = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}"
    Console(width=140, highlight=False).print(f"{made}\n\n{report(rounds)}")


def topic(arguments: argparse.Namespace, shape: str, format: str, bad: float) -> list[dict[str, Any]]:
    """Each round of each way with one topic, over a stack of its own."""
    print(f"{shape} {format}, {bad:.1%} bad", file=sys.stderr, flush=True)
    with embedded() as (stack, folder), ExitStack() as others:
        is_plain = (shape, format, bad, arguments.old) == ("narrow", "json", 0.0, False)
        is_connect_taken = is_plain and "iceberg" in (arguments.ways or WAYS)
        worker = others.enter_context(connect(stack, folder)) if is_connect_taken else None
        records = max(1, int(arguments.records * orders.SHAPES[shape].share))
        first = _FIRST if arguments.old else None
        bench = Bench(stack, folder, shape, format, bad, records, connect=worker, first=first)
        others.callback(bench.close)
        ways = [way for way in bench.ways if way in (arguments.ways or bench.ways)]
        return list(measured(bench, ways, arguments.rounds))


def elsewhere(arguments: argparse.Namespace, cell: tuple[str, str, float]) -> list[dict[str, Any]]:
    """The same in a process of its own: whatever a way does to Spark, the next topic has a new one."""
    ways = ["--ways", *arguments.ways] if arguments.ways else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rounds.json"
        own = ["--records", str(arguments.records), "--rounds", str(arguments.rounds), *["--old"] * arguments.old]
        name = "/".join(map(str, cell))
        command = [sys.executable, __file__, "--only", name, *ways, *own, "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
