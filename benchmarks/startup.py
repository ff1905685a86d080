"""From the prompt to the first commit, and to the end of a short run: `lakeingest run` beside the least by hand.

    python benchmarks/startup.py [--rounds 3] [--json FILE]

Each is a process of its own, timed from its start until it tells of its first commit of a thousand orders: into a table
that is not there yet, and into the one that it has just made. By hand is one read of Kafka, `from_json`, and one append
by Spark's writer, in a session with the same jars and settings: no frontier, no quarantine, no check. "flights" is the
whole process that takes the demo's 336,776 flights, four batches with a gate, into new tables. All come after one run
that is not counted, and that leaves Java's archive of loaded classes behind.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from support.pipelines import values_of  # noqa: E402
from support.records import produce  # noqa: E402

from lakeingest.config import file  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.local.demo import flights  # noqa: E402
from lakeingest.spark import session  # noqa: E402

FLIGHTS = ROOT / "pipelines" / "flights.yaml"
_RECORDS = 1000
_WAYS = ("lakeingest", "by hand")
_TABLES = ("new table", "old table")


def by_hand(config: Path) -> None:
    """What the process by hand does."""
    from pyspark.sql import functions as F

    pipeline = file.read(config, os.environ)
    spark = session.attach(pipeline.storage, "by-hand", pipeline.paths)
    options = {"kafka.bootstrap.servers": pipeline.source.bootstrap_servers, "subscribe": pipeline.source.topics[0]}
    values = spark.read.format("kafka").options(**options).load().select(F.col("value").cast("string").alias("v"))
    rows = values.select(F.from_json("v", orders.NARROW).alias("r")).select("r.*")
    rows.write.format("delta").mode("append").save(pipeline.table.path)
    print("committed", flush=True)


def first(command: list[str]) -> float:
    """Seconds until a process tells of its first commit; it is waited for, and has to end well."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = process.stdout.readline()
    took = time.monotonic() - begun
    process.stdout.read()
    assert told, command
    assert process.wait() == 0, command
    return took


def flights_file(folder: Path, n: int) -> Path:
    """The demo's pipeline file, with tables of its own."""
    text = FLIGHTS.read_text(encoding="utf-8")
    text = text.replace("name: flights", f"name: flights_{n}").replace("lake/flights", f"lake/flights_{n}")
    file = folder / f"flights_{n}.yaml"
    file.write_text(text.replace("../expectations", str(ROOT / "expectations")), encoding="utf-8")
    return file


def whole(command: list[str], env: dict[str, str]) -> float:
    """Seconds that a process takes, which has to end well."""
    begun = time.monotonic()
    subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def measured(stack: Addresses, folder: Path, rounds: int) -> dict[str, list[float]]:
    """What and where → seconds of each round."""
    encode = orders.encoder(stack, "any", "json", "narrow")
    lakeingest = str(Path(sys.executable).with_name("lakeingest"))
    flights.produce(stack.kafka)
    # The demo's file has no addresses: those of the embedded stack are taken.
    env = {"LAKEINGEST_STATE": str(folder / "stack")}
    seconds: dict[str, list[float]] = {}
    for n in range(-1, rounds):
        for way in _WAYS:
            name = f"startup-{way.replace(' ', '-')}-{n}".replace("--", "-before-")
            at = folder / f"{name}.yaml"
            values = values_of(stack, name, schema={"columns": orders.NARROW})
            at.write_text(json.dumps(values), encoding="utf-8")
            run = [lakeingest, "run", str(at), "--until-caught-up"]
            command = (
                [*run, "--output", "json"] if way == "lakeingest" else [sys.executable, __file__, "--by-hand", str(at)]
            )
            for where in _TABLES:
                produce(stack, name, orders.values("narrow", _RECORDS, 0, encode), 2)
                took = first(command)
                print(f"  {way}, {where}: {took:.1f} s", file=sys.stderr)
                if n >= 0:
                    seconds.setdefault(f"{way}, {where}", []).append(took)
        took = whole([lakeingest, "run", str(flights_file(folder, n + 1)), "--until-caught-up"], env)
        print(f"  flights: {took:.1f} s", file=sys.stderr)
        if n >= 0:
            seconds.setdefault("flights", []).append(took)
    return seconds


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--by-hand", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_hand:
        by_hand(arguments.by_hand)
        return
    with embedded() as (stack, folder):
        seconds = measured(stack, folder, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps(seconds, indent=2) + "\n", encoding="utf-8")
    for name, took in seconds.items():
        print(f"{name:24} {statistics.median(took):5.1f} s ({min(took):.1f} to {max(took):.1f})")


if __name__ == "__main__":
    main()
