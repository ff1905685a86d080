"""A pipeline with five transforms beside a Spark job that makes the same columns by hand, in turn, in one run.

    python benchmarks/transforms.py [--records 1000000] [--rounds 3] [--json FILE]

lakeingest       with coordinates, quarantine, compatibility, exactly-once and receipts, as ever; and `transform`
without          the same pipeline without `transform`
by hand          Structured Streaming with from_json, where, the same SQL and renamed columns, without any check

All three read one topic of orders into a Delta table on S3, partitioned by day, in the same JVM. The first round warms
it up and does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lakeingest.pipeline import Pipeline

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from meter import spent  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from ways import Bench  # noqa: E402

STEPS: list[dict[str, Any]] = [
    {"where": {"paid": "paid"}},
    {"rename": {"name": "customer"}},
    {"cast": {"postcode": "STRING"}},
    {"derive": {"cents": "CAST(amount * 100 AS BIGINT)", "place": "upper(city) || ' ' || postcode"}},
    {"drop": ["channel"]},
]


def ours(bench: Bench, steps: list[dict[str, Any]], table: str) -> None:
    """The pipeline."""
    config = config_of(
        bench.stack,
        table,
        source={"topics": [bench.name]},
        schema={"columns": orders.NARROW},
        partition=[{"by": "time", "field": "ts", "every": "day"}],
        trigger={"max_records": bench.batch},
        transform=steps,
    )
    Pipeline(config).run(until_caught_up=True)


def by_hand(bench: Bench, table: str) -> None:
    """The job."""
    made = (
        bench.by_hand._rows()
        .select("topic", "partition", "offset", "timestamp", "order.*", "day")
        .where("paid")
        .withColumnRenamed("name", "customer")
        .withColumn("postcode", F.col("postcode").cast("string"))
        .withColumn("cents", F.expr("CAST(amount * 100 AS BIGINT)"))
        .withColumn("place", F.expr("upper(city) || ' ' || postcode"))
        .drop("channel")
    )
    where = f"s3a://lake/{table}"
    writer = made.writeStream.format("delta").partitionBy("day").option("checkpointLocation", f"{where}_checkpoint")
    writer.trigger(availableNow=True).start(where).awaitTermination()


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    ways: dict[str, Callable[..., object]] = {
        "lakeingest": partial(ours, steps=STEPS),
        "without": partial(ours, steps=[]),
        "by hand": by_hand,
    }
    took: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with embedded() as (stack, folder):
        bench = Bench(stack, folder, "narrow", "json", 0.0, asked.records)
        _ = bench.spark
        for turn in range(asked.rounds + 1):
            for at, (way, go) in enumerate(ways.items()):
                found = spent(partial(go, bench, table=f"transforms_{turn}_{at}"))
                print(f"  {turn} {way}: {found.seconds:.1f} s, {found.cpu_s:.1f} s of CPU", file=sys.stderr)
                if turn:
                    took[way].append((found.seconds, found.cpu_s))
        rows = {
            n: bench.spark.read.format("delta").load(f"s3a://lake/transforms_1_{n}").count() for n in range(len(ways))
        }
    medians = {way: [statistics.median(each) for each in zip(*found, strict=True)] for way, found in took.items()}
    base = medians["by hand"]
    print("| way | s | CPU s | × by hand | × its CPU | rows |\n|---|---|---|---|---|---|")
    for at, (way, (seconds, cpu_s)) in enumerate(medians.items()):
        print(
            f"| {way} | {seconds:.1f} | {cpu_s:.1f} | {seconds / base[0]:.2f} | {cpu_s / base[1]:.2f} | {rows[at]:,} |"
        )
    if asked.json:
        asked.json.write_text(json.dumps(medians, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
