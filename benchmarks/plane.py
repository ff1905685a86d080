"""A study: narrow JSON by Arrow, in Python tasks that Spark starts, beside lakeingest and the bare job; no product.

    python benchmarks/plane.py [--records 3000000] [--rounds 2] [--json FILE]

Each task of a `mapInArrow` gets one range of offsets: it reads them by librdkafka, parses them by pyarrow into the
declared columns, asks the benchmark's six expectations, and writes a Parquet file for each day, by itself. What comes
back to Spark is a row for each file; the driver commits them all by `deltalake`, with a txn. Where a record does not
parse, or breaks an expectation, it gives up: a task that kept lakeingest's promises would have to find that record, and
say why. docs/explanation/arrow-study.md has what was found.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
import pyarrow as pa  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from deltalake.transaction import AddAction, CommitProperties, Transaction, create_table_with_add_actions  # noqa: E402
from embedded import embedded  # noqa: E402
from meter import Spent, spent  # noqa: E402
from ways import PARTITIONS, Bench  # noqa: E402

_FILES = "path STRING, size BIGINT, day STRING, rows BIGINT, least BIGINT, most BIGINT"


def task(
    batches: Iterator[pa.RecordBatch], *, kafka: str, store: dict[str, str], topic: str, table: str, cities: list[str]
) -> Any:
    """What runs on executors, by value: ranges (partition, start, end) → the files that hold their records."""
    import io
    import uuid

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj
    import pyarrow.parquet as pq
    from confluent_kafka import Consumer, TopicPartition
    from pyarrow.fs import S3FileSystem

    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("city", pa.string()),
            pa.field("postcode", pa.string()),
            pa.field("name", pa.string()),
            pa.field("channel", pa.string()),
            pa.field("amount", pa.float64()),
            pa.field("paid", pa.bool_()),
        ]
    )
    asked = {
        "bootstrap.servers": kafka,
        "group.id": table,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    fetching = {"fetch.message.max.bytes": 2**23, "queued.max.messages.kbytes": 2**17}
    s3 = S3FileSystem(**store)

    def taken(partition: int, start: int, end: int) -> list[Any]:
        consumer = Consumer({**asked, **fetching})
        consumer.assign([TopicPartition(topic, partition, start)])
        found: list[Any] = []
        while not found or found[-1].offset() < end - 1:
            found += consumer.consume(10_000, 10)
        consumer.close()
        return [message for message in found if message.offset() < end]

    def parsed(messages: list[Any], partition: int) -> pa.Table:
        text = b"\n".join(message.value() for message in messages)
        rows = pj.read_json(
            io.BytesIO(text),
            pj.ReadOptions(use_threads=False, block_size=2**24),
            pj.ParseOptions(explicit_schema=columns, unexpected_field_behavior="error"),
        )
        if rows.num_rows != len(messages):
            raise ValueError("a record is no line")
        coordinates = {
            "_topic": pa.repeat(pa.scalar(topic), len(messages)),
            "_partition": pa.repeat(pa.scalar(partition, pa.int32()), len(messages)),
            "_offset": pa.array([message.offset() for message in messages], pa.int64()),
            "_timestamp": pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC")),
        }
        fine = [
            pc.is_valid(rows["id"]),
            pc.is_valid(rows["ts"]),
            pc.is_valid(rows["city"]),
            pc.is_in(rows["city"], pa.array(cities)),
            pc.match_substring_regex(rows["name"], "^customer "),
            pc.and_(pc.greater_equal(rows["amount"], 0), pc.less_equal(rows["amount"], 1000)),
            pc.is_valid(rows["paid"]),
            pc.greater_equal(rows["id"], 0),
        ]
        if not all(pc.all(test, skip_nulls=True).as_py() for test in fine):
            raise ValueError("an expectation is broken")
        made = pa.table({**coordinates, **{name: rows[name] for name in rows.column_names}})
        return made.append_column("day", rows["ts"].cast(pa.date32()))

    def written(rows: pa.Table) -> Iterator[dict[str, Any]]:
        for day in pc.unique(rows["day"]):
            of_day = rows.filter(pc.equal(rows["day"], day)).drop_columns(["day"])
            name = f"day={day}/part-{uuid.uuid4()}.zstd.parquet"
            with s3.open_output_stream(f"{table}/{name}") as out:
                pq.write_table(of_day, out, compression="zstd", coerce_timestamps="us")
                size = out.tell()
            ends = pc.min_max(of_day["_offset"]).as_py()
            yield {
                "path": name,
                "size": size,
                "day": str(day),
                "rows": of_day.num_rows,
                "least": ends["min"],
                "most": ends["max"],
            }

    for batch in batches:
        for span in batch.to_pylist():
            messages = taken(span["partition"], span["start"], span["end"])
            yield pa.RecordBatch.from_pylist(list(written(parsed(messages, span["partition"]))))


def plane(bench: Bench, table: str) -> None:
    """Take the topic in micro-batches, each of them one commit."""
    spark, stack = bench.spark, bench.stack
    endpoint = urlsplit(stack.s3)
    store = {
        "access_key": stack.s3_access_key,
        "secret_key": stack.s3_secret_key,
        "endpoint_override": endpoint.netloc,
        "scheme": endpoint.scheme,
        "region": "us-east-1",
    }
    work = partial(
        task, kafka=stack.kafka, store=store, topic=bench.name, table=f"lake/{table}", cities=list(orders.CITIES)
    )
    each, share = bench.records // PARTITIONS, bench.batch // PARTITIONS
    storage = {**stack.env(), "AWS_ALLOW_HTTP": "true"}
    for number, start in enumerate(range(0, each, share)):
        ranges = [(partition, start, min(start + share, each)) for partition in range(PARTITIONS)]
        frame = spark.createDataFrame(ranges, "partition INT, start BIGINT, end BIGINT").repartition(
            PARTITIONS, "partition"
        )
        files = frame.mapInArrow(work, _FILES).collect()
        assert sum(file["rows"] for file in files) == sum(end - begin for _, begin, end in ranges)
        actions = [AddAction(f.path, f.size, {"day": f.day}, int(time.time() * 1000), True, _stats(f)) for f in files]
        done = CommitProperties({"userMetadata": "a receipt"}, app_transactions=[Transaction(table, number)])
        where = f"s3://lake/{table}"
        if number == 0:
            create_table_with_add_actions(
                where, _schema(), actions, partition_by=["day"], storage_options=storage, commit_properties=done
            )
        else:
            DeltaTable(where, storage_options=storage).create_write_transaction(
                [*actions], "append", _schema(), ["day"], commit_properties=done
            )


def _stats(file: Any) -> str:
    return json.dumps(
        {"numRecords": file.rows, "minValues": {"_offset": file.least}, "maxValues": {"_offset": file.most}}
    )


def _schema() -> Any:
    from deltalake import Schema

    us = pa.timestamp("us", "UTC")
    coordinates = [("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("_timestamp", us)]
    texts = [(name, pa.string()) for name in ("city", "postcode", "name", "channel")]
    rest = [("amount", pa.float64()), ("paid", pa.bool_()), ("day", pa.date32())]
    return Schema.from_arrow(pa.schema([*coordinates, ("id", pa.int64()), ("ts", us), *texts, *rest]))


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="warm ones, after the cold one")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found: dict[str, list[Spent]] = {}
    with embedded() as (stack, folder):
        bench = Bench(stack, folder, "narrow", "json", 0.0, asked.records)
        _ = bench.spark
        ways: dict[str, Callable[[str], None]] = {
            "plane": partial(plane, bench),
            "lakeingest": bench.lakeingest,
            "bare": bench.by_hand.bare,
        }
        for n in range(asked.rounds + 1):
            for way, take in ways.items():
                took = spent(partial(take, f"{way}-{n}"))
                print(f"  round {n}, {way}: {took.seconds:.1f} s, {took.cpu_s:.1f} s of CPU", file=sys.stderr)
                if n:
                    found.setdefault(way, []).append(took)
        rows = (
            bench.spark.read.format("delta")
            .load("s3a://lake/plane-0")
            .selectExpr("count(*)", "count(DISTINCT id)")
            .first()
        )
        assert rows is not None
        assert tuple(rows) == (asked.records, asked.records), rows
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for way, each in found.items():
        seconds, cpu, _ = (statistics.median(column) for column in zip(*each, strict=True))
        print(
            f"{way:12} {asked.records / seconds:10,.0f} records/s  {cpu / asked.records * 1e6:6.1f} s of CPU a million"
        )


if __name__ == "__main__":
    main()
