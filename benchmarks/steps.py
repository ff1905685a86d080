"""What each step of a record's way costs: one more step each time, in turn, and the rows thrown away or written.

    python benchmarks/steps.py [--format json] [--shape narrow] [--records 1000000] [--rounds 4]

Prints CPU seconds per million records, the least and the median of the rounds; two rounds before them warm up. Tables,
sources and plans are made beforehand, so that nothing is in these figures but the records' way.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lakeingest.kafka import offsets

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from meter import spent  # noqa: E402
from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from ways import Bench  # noqa: E402

from lakeingest.delta.commit_log import CommitLog  # noqa: E402
from lakeingest.ingest.decided import decide  # noqa: E402
from lakeingest.ingest.microbatch import MicroBatchExecution  # noqa: E402

_WARM = 2


def steps(bench: Bench) -> dict[str, Callable[[], None]]:
    """The ways to be timed, by name."""
    ingestion = bench.ingestion("steps")
    topics = ingestion.context.source.topics()
    execution = MicroBatchExecution(ingestion.context, None, CommitLog("", ingestion.config.name))
    kafka = execution.reader.frame(offsets.next_ranges(topics.first, topics.last, bench.records))
    execution.discover_schemas(kafka, 1)
    batch = execution.plan(strict=False)
    parsed = kafka
    for stage in batch.decoded.parsed:
        parsed = parsed.withColumns(stage)
    options = {"kafka.bootstrap.servers": bench.stack.kafka, "subscribe": bench.name}
    plain = bench.spark.read.format("kafka").options(**options).load()
    coordinates = ("topic", "partition", "offset", "timestamp")
    by_hand = plain.select(*coordinates, bench.by_hand.parsed(F.col("value")).alias("order"))
    by_hand = by_hand.withColumn("day", F.to_date("order.ts")).select(*coordinates, "order.*", "day")

    def accepted() -> DataFrame:
        return decide(batch, kafka).accepted

    stages = [name for stage in batch.decoded.parsed for name in stage]
    return {
        "by hand: read": lambda: _drop(plain.select("value", "offset")),
        "by hand: and parse": lambda: _drop(by_hand),
        "by hand: and write": lambda: _write(by_hand, "snappy"),
        "lakeingest: read": lambda: _drop(kafka.select("_raw_value", "_offset")),
        "lakeingest: and parse": lambda: _drop(parsed.select("_offset", *stages)),
        "lakeingest: and decide": lambda: _drop(accepted()),
        "lakeingest: and write": lambda: _write(accepted(), "zstd"),
    }


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _write(rows: DataFrame, compression: str) -> None:
    path = f"s3a://lake/steps_{time.monotonic_ns()}"
    rows.write.format("delta").mode("append").option("compression", compression).partitionBy("day").save(path)


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("json", "avro", "protobuf"), default="json")
    parser.add_argument("--shape", choices=("narrow", "wide", "nested", "large"), default="narrow")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    asked = parser.parse_args()
    with embedded() as (stack, folder):
        ways = steps(Bench(stack, folder, asked.shape, asked.format, 0.0, asked.records))
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked.rounds + _WARM):
            for name, go in ways.items():
                took[name].append(spent(go).cpu_s / asked.records * 1e6)
    for name, all_ in took.items():
        print(f"{name:24} {min(all_[_WARM:]):6.2f} {statistics.median(all_[_WARM:]):6.2f}")


if __name__ == "__main__":
    main()
