"""What a commit costs in a table that is old: 10,000 commits and 100,000 files later, beside the same when it was new.

    python benchmarks/age.py [--commits 10000] [--files 100000] [--rounds 10] [--json FILE]

The commits between are written into the log as a run of the pipeline would have written them (receipt, txn, and files
that are named but not there), with a checkpoint of Delta's own at the end. Ten batches of a hundred orders are timed on
either side, and a start of the pipeline that finds nothing to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakeingest.delta import commit_log
from lakeingest.delta.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import boto3  # noqa: E402
import orders  # noqa: E402
from embedded import embedded  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from support.records import produce  # noqa: E402

from lakeingest.config import PipelineConfig  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402


def pipeline(stack: Addresses) -> PipelineConfig:
    """The pipeline of all measurements."""
    partition = [{"by": "time", "field": "ts", "every": "day"}]
    return config_of(stack, "aged", schema={"columns": orders.NARROW}, partition=partition)


def batches(stack: Addresses, config: PipelineConfig, rounds: int) -> list[float]:
    """Seconds of each of `rounds` batches of one run, and of the start that comes before."""
    encode, seconds = orders.encoder(stack, "aged", "json", "narrow"), []
    for _ in range(rounds):
        produce(stack, "aged", orders.values("narrow", 100, 0, encode), 2)
        Pipeline(config).run(until_caught_up=True, on_progress=lambda each: seconds.append(each.seconds))
    return seconds


def starts(config: PipelineConfig, rounds: int) -> list[float]:
    """Seconds of starts that find nothing to do."""
    seconds = []
    for _ in range(rounds):
        begun = time.monotonic()
        Pipeline(config).run(until_caught_up=True)
        seconds.append(time.monotonic() - begun)
    return seconds


def grow(stack: Addresses, ingestion: Pipeline, commits: int, files: int) -> None:
    """Write as many commits behind the newest one, and let Delta make a checkpoint of them."""
    spark, path, name = ingestion.spark, ingestion.config.table.path, ingestion.config.name
    assert path is not None
    newest = commit_log.read(Table(spark, path), name).newest
    assert newest is not None
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
    bucket, _, folder = path.removeprefix("s3a://").partition("/")
    now = int(time.time() * 1000)

    def put(n: int) -> None:
        # The offsets stay: what the newest commit says is where the pipeline goes on.
        sequence = newest.receipt.sequence + n
        receipt = replace(newest.receipt, sequence=sequence)
        each = files // commits
        info = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": str(each), "numOutputRows": "100", "numOutputBytes": "5000"},
            "userMetadata": receipt.to_json(),
        }
        stats = {
            "numRecords": 10,
            "minValues": {"_topic": "aged", "_partition": 0, "_offset": -10 * n - 9, "id": 0},
            "maxValues": {"_topic": "aged", "_partition": 1, "_offset": -10 * n, "id": 99},
            "nullCount": {"_topic": 0, "_partition": 0, "_offset": 0, "id": 0},
        }
        lines: list[dict[str, Any]] = [
            {"commitInfo": info},
            {"txn": {"appId": f"lakeingest:{name}", "version": sequence, "lastUpdated": now}},
        ]
        for i in range(each):
            day = f"2026-11-{1 + i % 3:02}"
            add = {"path": f"day={day}/none-{n}-{i}.parquet", "partitionValues": {"day": day}, "size": 5000}
            lines.append({"add": {**add, "modificationTime": now, "dataChange": True, "stats": json.dumps(stats)}})
        key = f"{folder}/_delta_log/{newest.version + n:020}.json"
        client.put_object(Bucket=bucket, Key=key, Body="\n".join(map(json.dumps, lines)).encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(1, commits + 1)))
    client.close()
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr, attr-defined]
    log.clearCache()
    log.forTable(spark._jsparkSession, path).checkpoint()  # type: ignore[attr-defined]
    log.clearCache()


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    with embedded() as (stack, _):
        config = pipeline(stack)
        batches(stack, config, 3)
        found["new_batch_s"], found["new_start_s"] = batches(stack, config, asked.rounds), starts(config, 5)
        grow(stack, Pipeline(config), asked.commits, asked.files)
        found["first_batch_s"] = batches(stack, config, 1)
        found["old_batch_s"], found["old_start_s"] = batches(stack, config, asked.rounds), starts(config, 5)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for name, seconds in found.items():
        print(f"{name:14} {min(seconds):5.2f}  {statistics.median(seconds):5.2f}  {max(seconds):5.2f}")


if __name__ == "__main__":
    main()
