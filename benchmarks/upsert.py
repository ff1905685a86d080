"""The latest row per key: mode upsert beside the MERGE that one writes by hand in foreachBatch, in turns.

    python benchmarks/upsert.py [--rows 1000000] [--rounds 3] [--only "1 % uniform" …] [--readers spark …] [--json FILE]

Each way begins with a table of so many rows. A round of a case is a batch of changes, which it takes from the same
topic. By hand: rows are parsed, the latest of each key is chosen by a window, kept, and merged by key, order and delete
marker; nothing is refused, counted or fenced, and no late delete is remembered. The third way is the same pipeline in
mode append. The first round is left out.

With --readers that all read deletion vectors, mode upsert marks rows there. By default none are named, and it rewrites
the files, as the way by hand does.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from meter import Meter, spent  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from support.pipelines import UPSERT, config_of  # noqa: E402
from support.records import produce  # noqa: E402

from lakeingest.ingest.events import Committed, Event, Looked  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402
from lakeingest.spark.s3a import s3a_options  # noqa: E402

WAYS = ("lakeingest", "by hand", "append")
COLUMNS = "id BIGINT, at BIGINT, op STRING, status STRING, customer STRING, amount DOUBLE"
TOPIC = "changes"
CASES: dict[str, tuple[float, str]] = {
    "1 % uniform": (0.01, "uniform"),
    "10 % uniform": (0.1, "uniform"),
    "1 % hot": (0.01, "hot"),
    "1 % new": (0.01, "new"),
}
"""Changes in a batch as a share of the table's rows; and of which keys: any, the newest, or new ones."""


@dataclass
class Changes:
    """What is produced, one batch behind the other; all of one topic with one partition.

    Attributes:
        rows: how many keys there are.
        clock: the order of the next change.
        offset: the first one that was not produced yet.
    """

    stack: Addresses
    rows: int
    clock: int = 0
    offset: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def begin(self) -> tuple[int, int]:
        """Each key once."""
        return self._produce(range(self.rows), self.rows)

    def batch(self, share: float, keys: str) -> tuple[int, int]:
        """Changes, one in a hundred of them a delete; the offsets from the first one to behind the last one."""
        count, below = int(self.rows * share), self.rows
        if keys == "new":
            self.rows += count
            return self._produce(range(below, self.rows), count)
        least = below - 1000 if keys == "hot" else 0
        return self._produce((self.dice.randrange(least, below) for _ in range(count)), count)

    def _produce(self, keys: Any, count: int) -> tuple[int, int]:
        begin = self.offset
        produce(self.stack, TOPIC, self._values(keys), 1)
        self.offset += count
        return begin, self.offset

    def _values(self, keys: Any) -> Iterator[bytes]:
        dice = self.dice
        for key in keys:
            self.clock += 1
            change = {
                "id": key,
                "at": self.clock,
                "op": "D" if dice.random() < 0.01 else "U",
                "status": dice.choice(("new", "paid", "sent", "done")),
                "customer": f"customer {dice.randrange(10**6):06}",
                "amount": dice.randrange(100_000) / 100,
            }
            yield json.dumps(change).encode()


def of_product(stack: Addresses, name: str, most: int, readers: list[str], **mode: Any) -> Pipeline:
    """A pipeline with everything on; its table has its name."""
    config = config_of(
        stack,
        name,
        source={"topics": [TOPIC]},
        schema={"columns": COLUMNS},
        table={"path": f"s3a://lake/{name}", **mode},
        trigger={"max_records": most},
        readers=readers,
    )
    return Pipeline(config)


@dataclass(frozen=True)
class ByHand:
    """What one writes: the body of foreachBatch."""

    spark: SparkSession
    kafka: str

    def take(self, begin: int, end: int) -> None:
        """The changes of these offsets into the table, which is made if it is missing."""
        latest = self._latest(begin, end).persist()
        where = "s3a://lake/by_hand"
        if begin == 0:
            latest.where("op <> 'D'").write.format("delta").save(where)
        else:
            latest.createOrReplaceTempView("latest")
            self.spark.sql(
                f"MERGE INTO delta.`{where}` AS t USING latest AS s ON t.id = s.id "
                "WHEN MATCHED AND s.op = 'D' AND s.at > t.at THEN DELETE "
                "WHEN MATCHED AND s.at > t.at THEN UPDATE SET * "
                "WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT *"
            ).collect()
        latest.unpersist()

    def _latest(self, begin: int, end: int) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.kafka,
            "subscribe": TOPIC,
            "startingOffsets": json.dumps({TOPIC: {"0": begin}}),
            "endingOffsets": json.dumps({TOPIC: {"0": end}}),
        }
        rows = self.spark.read.format("kafka").options(**options).load()
        parsed = rows.selectExpr(f"from_json(CAST(value AS STRING), '{COLUMNS}') AS r").select("r.*")
        parsed.createOrReplaceTempView("parsed")
        return self.spark.sql(
            "SELECT * EXCEPT (n) FROM "
            "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY at DESC) AS n FROM parsed) WHERE n = 1"
        )


def measured(stack: Addresses, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Of each case and round, the seconds and CPU seconds of each way; and at last whether the tables are the same."""
    changes, most = Changes(stack, arguments.rows), 2 * arguments.rows
    product = of_product(stack, "ours", most, arguments.readers, **UPSERT)
    appending = of_product(stack, "appended", most, arguments.readers)
    plain = product.spark.newSession()
    for name, value in s3a_options(product.storage).items():
        plain.conf.set(name, value)
    by_hand, figures = ByHand(plain, stack.kafka), list[dict[str, Any]]()

    def take(case: str, begin: int, end: int, *, first: str) -> None:
        ways: dict[str, Callable[[], dict[str, float]]] = {
            "lakeingest": lambda: of_batch(product),
            "by hand": lambda: spent(lambda: by_hand.take(begin, end))._asdict(),
            "append": lambda: of_batch(appending),
        }
        for way in sorted(ways, key=lambda each: each != first):
            took = {"case": case, "way": way, **ways[way]()}
            figures.append(took)
            print(f"  {took}", file=sys.stderr, flush=True)

    take("begin", *changes.begin(), first="lakeingest")
    for case, (share, keys) in CASES.items():
        if not arguments.only or case in arguments.only:
            for turn in range(arguments.rounds + 1):
                name = case if turn else f"{case} (first)"
                take(name, *changes.batch(share, keys), first=WAYS[turn % len(WAYS)])
    same(plain)
    return figures


def of_batch(product: Pipeline) -> dict[str, float]:
    """What the one batch of a run took, without the run's start."""
    meters, took = list[Meter](), dict[str, float]()

    def hear(event: Event) -> None:
        if isinstance(event, Looked) and not meters:
            meters.append(Meter())
        elif isinstance(event, Committed):
            took.update(seconds=event.seconds, cpu_s=meters[0].stop(), **event.stages)

    product.run(until_caught_up=True, on_event=hear)
    return took


def same(spark: SparkSession) -> None:
    """Both tables have the same rows: each key's order comes once, so that no late delete is among them."""
    columns = "id, at, op, status, customer, amount"
    tables = [f"SELECT {columns} FROM delta.`s3a://lake/{name}`" for name in ("ours", "by_hand")]
    for one, other in (tables, tables[::-1]):
        assert spark.sql(f"{one} EXCEPT ALL {other}").isEmpty()


def table(figures: list[dict[str, Any]]) -> str:
    """Medians of each case, and the product's as shares of the others'."""
    lines = [f"{'':14} {'lakeingest':>22} {'by hand':>22} {'ratio':>14} {'append':>22} {'ratio':>14}"]
    for case in dict.fromkeys(figure["case"] for figure in figures if "(first)" not in figure["case"]):
        product, *others = ([_median(figures, case, way, name) for name in ("seconds", "cpu_s")] for way in WAYS)
        cells = [_cell(product)]
        for other in others:
            ratios = (f"{one / another:6.2f}" for one, another in zip(product, other, strict=True))
            cells.append(f"{_cell(other)} {' '.join(ratios):>14}")
        lines.append(f"{case:14} {' '.join(cells)}")
    return "\n".join(lines)


def _cell(taken: list[float]) -> str:
    wall, cpu = taken
    return f"{f'{wall:8.2f} s {cpu:6.2f} s CPU':>22}"


def _median(figures: list[dict[str, Any]], case: str, way: str, name: str) -> float:
    return statistics.median(each[name] for each in figures if (each["case"], each["way"]) == (case, way))


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table")
    parser.add_argument("--rounds", type=int, default=3, help="of each case")
    parser.add_argument("--only", nargs="+", choices=CASES, help="some of the cases")
    parser.add_argument("--readers", nargs="*", default=[], help="the pipeline file's")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    with embedded() as (stack, _):
        figures = measured(stack, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(table(figures))


if __name__ == "__main__":
    main()
