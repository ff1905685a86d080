"""The ways to take a topic of orders into a Delta table on S3, partitioned by day: the product's, and those by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import orders
import pyarrow as pa
import pyarrow.json
from by_hand import ByHand
from confluent_kafka import Consumer, TopicPartition
from deltalake import write_deltalake
from kafka_connect import Connect
from pyspark.sql import SparkSession
from stock import Stock
from support.pipelines import config_of
from support.records import produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.spark.s3a import s3a_options

PARTITIONS = 4
"""Of the topic."""
_OWN = {"own bare": ByHand.bare, "own dead letters": ByHand.dead_letters}
"""The jobs by hand in a Spark of their own."""
WAYS = ("lakeingest", "bare", "dead letters", *_OWN, "loop", "iceberg")
_MOST = 1_000_000


def suite(folder: Path) -> Path:
    """The file of the orders' expectations, written into the folder."""
    file = folder / "orders.json"
    file.write_text(json.dumps({"name": "orders", "expectations": orders.RULES}))
    return file


def pipeline(stack: Addresses, table: str, shape: str, format: str, suite: Path, **parts: Any) -> Pipeline:
    """Of a topic of orders, by day, with a gate; `parts`: more of the pipeline file."""
    if format == "json":
        declared: dict[str, Any] = {"schema": {"columns": orders.SHAPES[shape].columns}}
    else:
        registry = {"url": stack.registry}
        declared = {"schema": None, "decode": {"value": {"format": format}}, "registry": registry}
    config = config_of(
        stack,
        table,
        partition=[{"by": "time", "field": "ts", "every": "day"}],
        gate={"suite": str(suite)},
        **declared,
        **parts,
    )
    return Pipeline(config)


@dataclass
class Bench:
    """A topic of orders, produced when this is made.

    Attributes:
        batch: the most records of a micro-batch, for each way but Kafka Connect.
        connect: a worker of Kafka Connect that runs, if that is among the ways.
        first: how many of the records are there, until `produce_rest` brings the others; else all.
    """

    stack: Addresses
    folder: Path
    shape: str
    format: str
    bad: float
    records: int
    batch: int = _MOST
    connect: Connect | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        self.name = f"{self.shape}_{self.format}_{str(self.bad).replace('.', '_')}"
        encode = orders.encoder(self.stack, f"{self.name}-value", self.format, self.shape)
        self.mib = 0.0
        self._values = orders.values(self.shape, self.records, self.bad, encode)
        produce(self.stack, self.name, self._next(self.first), PARTITIONS)
        self.suite = suite(self.folder)

    def produce_rest(self) -> None:
        """The records after the first."""
        produce(self.stack, self.name, self._next(None), PARTITIONS)

    def _next(self, count: int | None) -> Iterator[bytes]:
        for value in islice(self._values, count):
            self.mib += len(value) / 2**20
            yield value

    def take(self, way: str, table: str) -> None:
        """Go one way into a table, which is made if it is not there, and else goes on where it is; but `loop` and
        `iceberg` always begin.
        """
        ways = {
            "lakeingest": self.lakeingest,
            "bare": self.by_hand.bare,
            "dead letters": self.by_hand.dead_letters,
            "loop": self.loop,
            "iceberg": self.iceberg,
        }
        if way in _OWN:
            self.stock.take(_OWN[way], table)
        else:
            ways[way](table)

    def jvm(self, way: str) -> int | None:
        """The process id of what goes this way, if it is not lakeingest's JVM."""
        if way in _OWN:
            return self.stock.process.pid
        return self.connect.process.pid if self.connect and way == "iceberg" else None

    def close(self) -> None:
        """End the Spark of the jobs by hand, which holds memory."""
        if "stock" in vars(self):
            self.stock.close()

    def made(self, way: str, table: str) -> tuple[int, int]:
        """Data files, and commits, of a table."""
        if self.connect and way == "iceberg":
            return self.connect.files(table)
        where = f"delta.`s3a://lake/{table}`"
        files = self.spark.sql(f"DESCRIBE DETAIL {where}").collect()[0]["numFiles"]
        return files, self.spark.sql(f"DESCRIBE HISTORY {where}").count()

    @property
    def ways(self) -> tuple[str, ...]:
        """Those that there are for this topic: without Spark only for clean JSON, of which no record is in the way, and
        into a new table.

        The sink's table has the narrow columns.
        """
        ways: tuple[str, ...] = ("lakeingest", "bare", "dead letters", *_OWN)
        if self.format == "json" and not self.bad and self.first is None:
            ways += ("loop", "iceberg") if self.connect and self.shape == "narrow" else ("loop",)
        return ways

    # The product.

    def lakeingest(self, table: str) -> None:
        """With everything on: coordinates, quarantine, compatibility, expectations, exactly-once, receipts."""
        self.ingestion(table).run(until_caught_up=True)

    def ingestion(self, table: str) -> Pipeline:
        """The pipeline of `lakeingest`."""
        parts = {"source": {"topics": [self.name]}, "trigger": {"max_records": self.batch}}
        return pipeline(self.stack, table, self.shape, self.format, self.suite, **parts)

    # By hand, with Spark.

    @cached_property
    def spark(self) -> SparkSession:
        """The same Spark, with none of the settings of lakeingest's own session."""
        ours = self.ingestion("unused")
        plain = ours.spark.newSession()
        for name, value in s3a_options(ours.storage).items():
            plain.conf.set(name, value)
        return plain

    @cached_property
    def by_hand(self) -> ByHand:
        """The jobs by hand, within lakeingest's JVM."""
        return ByHand(self.spark, self.stack.kafka, self.name, self.shape, self.format, self.batch)

    @cached_property
    def stock(self) -> Stock:
        """The Spark of their own."""
        return Stock(self.stack, self.name, self.shape, self.format, self.batch)

    # Without Spark.

    def iceberg(self, table: str) -> None:
        """Kafka Connect with Iceberg's sink, exactly once: one task, a commit each five seconds."""
        assert self.connect is not None
        self.connect.take(self.name, self.records, table)

    def loop(self, table: str) -> None:
        """A Python loop: confluent-kafka, pyarrow's JSON, `deltalake`. One process, no check, nothing exactly once."""
        asked = {"bootstrap.servers": self.stack.kafka, "group.id": table, "enable.auto.commit": False}
        consumer = Consumer({**asked, "fetch.message.max.bytes": 2**23, "queued.max.messages.kbytes": 2**18})
        consumer.assign([TopicPartition(self.name, partition, 0) for partition in range(PARTITIONS)])
        storage = {**self.stack.env(), "AWS_ALLOW_HTTP": "true"}
        left = self.records
        while left:
            taken: list[Any] = []
            while left and len(taken) < self.batch:
                messages = consumer.consume(min(left, 10_000), 10)
                assert messages, "the topic ended early"
                taken += messages
                left -= len(messages)
            text = io.BytesIO(b"\n".join(message.value() for message in taken))
            options = pyarrow.json.ReadOptions(block_size=2**24)
            rows = pyarrow.json.read_json(text, options)
            rows = rows.append_column("partition", pa.array([m.partition() for m in taken], pa.int32()))
            rows = rows.append_column("offset", pa.array([m.offset() for m in taken], pa.int64()))
            rows = rows.append_column("day", rows["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.date32()))
            where = f"s3://lake/{table}"
            write_deltalake(where, rows, mode="append", partition_by=["day"], storage_options=storage)
        consumer.close()
