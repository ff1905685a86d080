"""lakeingest beside the Spark job that one writes by hand, over the same topic, in turn, in one session.

    python tests/bench/ingest.py [--records 1000000] [--rounds 3] [--formats json avro] [--bad 0 0.01] [--json FILE]

The ways:

lakeingest   with everything on: coordinates, quarantine, compatibility, six expectations, exactly-once, receipts
bare         Structured Streaming with from_json or from_avro into Delta, without any check
dead letters the same with foreachBatch: the batch is kept, its good rows are written, then its bad ones

All of them write one batch to S3, partitioned by day, under the same settings of Spark. The first round warms the JVM
up, and is told apart. CPU is that of Spark's JVM with its Python workers, and of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

import kit  # noqa: E402
import psutil  # noqa: E402
import registry_kit  # noqa: E402
from pyspark import SparkContext  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from lakeingest.local import Addresses  # noqa: E402
from lakeingest.local.stack import down, up  # noqa: E402
from lakeingest.pipeline import Ingestion  # noqa: E402

PARTITIONS = 4
COLUMNS = "id BIGINT NOT NULL, ts TIMESTAMP NOT NULL, city STRING, name STRING, amount DOUBLE, paid BOOLEAN"
CITIES = ("Amsterdam", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Florence", "Geneva", "Helsinki")
AVRO = registry_kit.record(
    "Order",
    id="long",
    ts={"type": "long", "logicalType": "timestamp-millis"},
    city=registry_kit.maybe("string"),
    name=registry_kit.maybe("string"),
    amount=registry_kit.maybe("double"),
    paid=registry_kit.maybe("boolean"),
)
RULES = [
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "city"}},
    {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "city", "value_set": CITIES}},
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "name", "regex": "^customer "}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0, "max_value": 1000}},
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "paid"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "min_value": 0}},
]


@dataclass(frozen=True)
class Took:
    """What one way cost, once.

    Attributes:
        seconds: from the call to the last commit.
        cpu_s: of Spark and of this process.
        peak_mib: the most memory that Spark held.
        files, commits: of the main table.
    """

    seconds: float
    cpu_s: float
    peak_mib: float
    files: int
    commits: int


class Meter(threading.Thread):
    """CPU seconds and memory of Spark's processes, from when it is made."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        assert SparkContext._gateway is not None
        self._spark = psutil.Process(SparkContext._gateway.proc.pid)
        self._ended = threading.Event()
        self.peak_mib, self._begun = 0.0, self._cpu_s()
        self.start()

    def _family(self) -> list[psutil.Process]:
        return [self._spark, *self._spark.children(recursive=True)]

    def _cpu_s(self) -> float:
        mine = os.times()
        return mine.user + mine.system + sum(sum(p.cpu_times()[:4]) for p in self._family())

    def run(self) -> None:
        while not self._ended.wait(0.2):
            held = sum(p.memory_info().rss for p in self._family()) / 2**20
            self.peak_mib = max(self.peak_mib, held)

    def stop(self) -> float:
        """The CPU seconds since it was made."""
        self._ended.set()
        self.join()
        return self._cpu_s() - self._begun


def values(count: int, bad: float, encode: Callable[[dict[str, Any]], bytes]) -> Iterator[bytes]:
    """Orders of three days, the same at each call; of the bad ones half cannot be decoded, half break a rule or two."""
    dice, begin = random.Random(7), datetime(2026, 11, 1, tzinfo=UTC)
    for n in range(count):
        order = {
            "id": n,
            "ts": begin + timedelta(milliseconds=n * 3 * 86_400_000 // count),
            "city": dice.choice(CITIES),
            "name": f"customer {dice.randrange(10**9):09}",
            "amount": dice.randrange(100_000) / 100,
            "paid": dice.random() < 0.9,
        }
        if dice.random() >= bad:
            yield encode(order)
        elif n % 2:
            yield encode(order)[:-9]
        else:
            yield encode({**order, "city": "Atlantis", "amount": -1.0})


def as_json(order: dict[str, Any]) -> bytes:
    return json.dumps({**order, "ts": order["ts"].isoformat(timespec="milliseconds")}).encode()


class Bench:
    """One topic of a format with a share of bad records, and the ways to take it into a table."""

    def __init__(self, stack: Addresses, folder: Path, format: str, bad: float, records: int) -> None:
        self.stack, self.folder, self.format, self.bad, self.records = stack, folder, format, bad, records
        self.name = f"{format}_{str(bad).replace('.', '_')}"
        writer = registry_kit.avro(stack, f"{self.name}-value", AVRO)
        encode = as_json if format == "json" else writer
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for value in values(records, bad, encode):
                size += len(value)
                yield value

        kit.produce(stack, self.name, counted(), PARTITIONS)
        self.mib = size / 2**20
        self.suite = folder / "orders.json"
        self.suite.write_text(json.dumps({"name": "orders", "expectations": RULES}))

    def lakeingest(self, table: str) -> None:
        """The product."""
        self.ingestion(table).run(until_caught_up=True)

    def ingestion(self, table: str) -> Ingestion:
        declared = {"schema": {"columns": COLUMNS if self.format == "json" else None}}
        if self.format == "avro":
            declared |= {"decode": {"value": {"format": "avro"}}, "registry": {"url": self.stack.registry}}
        config = kit.config_of(
            self.stack,
            table,
            source={"topics": [self.name]},
            partition=[{"by": "time", "field": "ts", "every": "day"}],
            trigger={"max_records": self.records},
            gate={"suite": str(self.suite)},
            **declared,
        )
        return Ingestion(config)

    def stream(self, spark: SparkSession) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.stack.kafka, "subscribe": self.name, "startingOffsets": "earliest"}
        return spark.readStream.format("kafka").options(**options).load()

    def rows(self, kafka: DataFrame) -> DataFrame:
        """What one writes by hand: the columns, null where a record does not parse."""
        if self.format == "json":
            parsed = F.from_json(F.col("value").cast("string"), COLUMNS.replace(" NOT NULL", ""))
        else:
            from pyspark.sql.avro.functions import from_avro

            parsed = from_avro(F.expr("substring(value, 6)"), json.dumps(AVRO), {"mode": "PERMISSIVE"})
        made = kafka.select("topic", "partition", "offset", "timestamp", "value", parsed.alias("order"))
        return made.withColumn("day", F.to_date("order.ts"))

    def bare(self, table: str) -> None:
        """Without any check."""
        spark = session()
        rows = self.rows(self.stream(spark)).select("topic", "partition", "offset", "timestamp", "order.*", "day")
        query = rows.writeStream.format("delta").partitionBy("day")
        where = f"s3a://lake/{table}"
        query.option("checkpointLocation", f"{where}_checkpoint").trigger(availableNow=True).start(
            where
        ).awaitTermination()

    def dead_letters(self, table: str) -> None:
        """Kept, and written twice."""
        where = f"s3a://lake/{table}"

        def write(batch: DataFrame, number: int) -> None:
            rows = batch.persist()
            once = {"txnAppId": table, "txnVersion": str(number)}
            good = F.col("order").isNotNull() & F.col("order.id").isNotNull() & F.col("order.city").isin(*CITIES)
            fine = rows.where(good).select("topic", "partition", "offset", "timestamp", "order.*", "day")
            fine.write.format("delta").mode("append").partitionBy("day").options(**once).save(where)
            dead = rows.where(~good | good.isNull()).select("topic", "partition", "offset", "timestamp", "value")
            dead.write.format("delta").mode("append").options(**once).save(f"{where}_dead")
            rows.unpersist()

        query = self.rows(self.stream(session())).writeStream.foreachBatch(write)
        query.option("checkpointLocation", f"{where}_checkpoint").trigger(availableNow=True).start().awaitTermination()

    def take(self, way: str, table: str) -> Took:
        """Go one way into a new table."""
        meter, begun = Meter(), time.monotonic()
        {"lakeingest": self.lakeingest, "bare": self.bare, "dead letters": self.dead_letters}[way](table)
        seconds, cpu_s = time.monotonic() - begun, meter.stop()
        where = f"delta.`s3a://lake/{table}`"
        files = session().sql(f"DESCRIBE DETAIL {where}").collect()[0]["numFiles"]
        return Took(seconds, cpu_s, meter.peak_mib, files, session().sql(f"DESCRIBE HISTORY {where}").count())


WAYS = ("lakeingest", "bare", "dead letters")


def session() -> SparkSession:
    found = SparkSession.getActiveSession()
    assert found is not None
    return found


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=("json", "avro"), default=["json", "avro"])
    parser.add_argument("--bad", nargs="+", type=float, default=[0.0, 0.01], help="shares of bad records")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        stack = up(Path(folder) / "stack")
        try:
            for format in asked.formats:
                for bad in asked.bad:
                    found += measured(Bench(stack, Path(folder), format, bad, asked.records), asked.rounds)
        finally:
            down(Path(folder) / "stack", wipe=True)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def measured(bench: Bench, rounds: int) -> list[dict[str, Any]]:
    """All ways in turn, `rounds` times warm; print the table, and return each round's figures."""
    # Whoever is first would pay for Spark's start.
    _ = bench.ingestion("warm").spark
    took: dict[str, list[Took]] = {way: [] for way in WAYS}
    for turn in range(rounds + 1):
        # Another one begins each time.
        for way in (*WAYS[turn % 3 :], *WAYS[: turn % 3]):
            took[way].append(bench.take(way, f"{bench.name}_{way.replace(' ', '_')}_{turn}"))
    title = f"{bench.format}, {bench.bad:.1%} bad: {bench.records:,} records, {bench.mib:,.0f} MiB"
    table = Table(title=title, title_justify="left")
    for heading in (
        "",
        "records/s",
        "min–max",
        "MiB/s",
        "CPU s/M",
        "min–max",
        "cold s",
        "peak MiB",
        "files",
        "commits",
    ):
        table.add_column(heading, justify="right" if heading else "left")
    for way, (cold, *warm) in took.items():
        rates = sorted(bench.records / each.seconds for each in warm)
        cpu = sorted(each.cpu_s / bench.records * 1e6 for each in warm)
        rate = statistics.median(rates)
        table.add_row(
            way,
            f"{rate:,.0f}",
            f"{rates[0]:,.0f}–{rates[-1]:,.0f}",
            f"{bench.mib * rate / bench.records:.1f}",
            f"{statistics.median(cpu):.1f}",
            f"{cpu[0]:.1f}–{cpu[-1]:.1f}",
            f"{cold.seconds:.1f}",
            f"{max(each.peak_mib for each in warm):,.0f}",
            f"{warm[-1].files}",
            f"{warm[-1].commits}",
        )
    console = Console(width=120)
    console.print(table)
    for other in WAYS[1:]:
        wall, cpu = (
            statistics.median(getattr(each, what) for each in took["lakeingest"][1:])
            / statistics.median(getattr(each, what) for each in took[other][1:])
            for what in ("seconds", "cpu_s")
        )
        console.print(f"lakeingest / {other}: wall {wall:.2f}, CPU {cpu:.2f}")
    return [
        {"format": bench.format, "bad": bench.bad, "records": bench.records, "way": way, "round": n, **asdict(each)}
        for way, all_ in took.items()
        for n, each in enumerate(all_)
    ]


if __name__ == "__main__":
    main()
