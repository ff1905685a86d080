"""Each command that needs no Spark beside Spark's answer to the same question: wall time, CPU, and whether both say the
same.

    python benchmarks/offline.py [--commits 10000] [--rounds 3] [--only COMMAND …] [--json FILE]

A pipeline commits three batches of ten records; those between are written as it would have written them (data files,
statistics, receipts), with a checkpoint of Delta's own behind them; it commits the last three again. Each batch has a
record that cannot be decoded, each tenth one also a record that the gate refuses. So table, quarantine and the gate's
results have as many commits, and as many small files. Each answer is that of a process of its own; Spark is asked
where `$SPARK_CONF_DIR` names a folder. Before that, `read` tells how many of the files it opens for three batches.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import boto3  # noqa: E402
import psutil  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from botocore.config import Config  # noqa: E402
from embedded import embedded  # noqa: E402
from support.pipelines import values_of  # noqa: E402
from support.records import DIRTY, clean_records, produce  # noqa: E402

from lakeingest.config import file as pipeline_file  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.pipeline import Pipeline  # noqa: E402

NAME, BATCH, TAIL = "offline", 10, 3

_RULE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "n", "max_value": 1000},
    "meta": {"on_failure": "quarantine"},
}
_SQL = f"SELECT count(*) AS n, sum(n) AS total, max(_offset) AS newest FROM {NAME}"
_BY_SPARK = """
import json, sys, lakeingest
lakeingest.load(sys.argv[1]).table().createOrReplaceTempView("offline")
from pyspark.sql import SparkSession
print(json.dumps({"rows": [row.asDict() for row in SparkSession.active().sql(sys.argv[2]).collect()]}))
"""
COMMANDS = {
    "status": ["status", "FILE"],
    "audit": ["audit", "FILE"],
    "quarantine list": ["quarantine", "list", "FILE"],
    "gate history": ["gate", "history", "FILE"],
    "sql": ["sql", "FILE", _SQL],
}


def records(batches: int) -> Iterator[bytes]:
    """Ten a batch: the first is refused by the decoder, of each tenth batch the second by the gate."""
    for batch in range(batches):
        refused = b'{"n": 5000, "text": "too large"}' if (batch + 1) % 10 == 0 or batch == 2 else None
        yield from [DIRTY, *([refused] if refused else []), *clean_records(BATCH - 1 - bool(refused))]


def values(stack: Addresses, folder: Path) -> dict[str, Any]:
    """What the pipeline's file holds."""
    suite = folder / "suite.json"
    suite.write_text(json.dumps({"name": "s", "expectations": [_RULE]}), encoding="utf-8")
    return values_of(stack, NAME, gate={"suite": str(suite)}, trigger={"every": "1 second", "max_records": BATCH})


def run(pipeline: Pipeline, batches: int | None = None) -> None:
    """Commit so many batches, or all that there are."""
    stop, left = threading.Event(), iter(range((batches or 2**31) - 1, -1, -1))
    pipeline.run(until_caught_up=True, stop=stop, on_progress=lambda _: None if next(left) else stop.set())


@dataclass(frozen=True)
class Template:
    """A commit of one batch, with the bytes of its files, that others are made of."""

    actions: list[dict[str, Any]]
    files: Mapping[str, pa.Table]

    def moved(self, batches: int) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
        """The commit, and its files, of the batch that comes so many later."""
        actions, files = [], {}
        for action in json.loads(json.dumps(self.actions)):
            if info := action.get("commitInfo"):
                info["userMetadata"] = _receipt(info.get("userMetadata"), batches)
            if "txn" in action:
                action["txn"]["version"] += batches
            if add := action.get("add"):
                rows, add["path"] = self.files[add["path"]], f"part-{uuid.uuid4()}.zstd.parquet"
                files[add["path"]] = content = _parquet(_rows(rows, batches))
                add["size"] = len(content)
                add["stats"] = json.dumps(_stats(json.loads(add["stats"]), batches))
            actions.append(action)
        return actions, files


def _receipt(text: str | None, batches: int) -> str | None:
    if text is None:
        return None
    receipt = json.loads(text)
    receipt["sequence"] += batches
    receipt.pop("schemas", None)
    if "version" in receipt.get("decided", {}):
        receipt["decided"]["version"] += batches
    # These are of other rows.
    receipt.pop("before", None)
    receipt.get("account", {}).pop("table", None)
    for partitions in receipt["offsets"].values():
        for name, ends in partitions.items():
            partitions[name] = [end + batches * BATCH for end in ends]
    return json.dumps(receipt)


def _rows(rows: pa.Table, batches: int) -> pa.Table:
    later = {"_offset": BATCH * batches, "sequence": batches, "time": timedelta(minutes=batches)}
    for name, by in later.items():
        if name in rows.schema.names:
            at, kind = rows.schema.names.index(name), rows.schema.field(name).type
            moved = pc.add(rows[name], pa.scalar(by)).cast(kind)
            rows = rows.set_column(at, rows.schema.field(name), moved)
    return rows


def _parquet(rows: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(rows, written, compression="zstd", use_deprecated_int96_timestamps=True)
    return written.getvalue()


def _stats(stats: dict[str, Any], batches: int) -> dict[str, Any]:
    for end in ("minValues", "maxValues"):
        for name, by in {"_offset": BATCH * batches, "sequence": batches}.items():
            if name in stats[end]:
                stats[end][name] += by
        if "time" in stats[end]:
            time_ = pa.scalar(stats[end]["time"].removesuffix("Z")).cast(pa.timestamp("ms"))
            later = time_.as_py() + timedelta(minutes=batches)
            stats[end]["time"] = later.isoformat(timespec="milliseconds") + "Z"
    return stats


class Grown:
    """A table of the pipeline's that gets commits which no run has made."""

    def __init__(self, client: Any, path: str) -> None:
        self.client = client
        self.bucket, _, self.folder = path.removeprefix("s3a://").partition("/")
        listed = client.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.folder}/_delta_log/")["Contents"]
        names = sorted(each["Key"] for each in listed if each["Key"].endswith(".json"))
        self.version = len(names) - 1
        # The newest two commits with rows are those of the second and the third batch.
        made = [read for read in map(self._template, names) if read.files]
        self.templates = made[-2:]

    def _template(self, key: str) -> Template:
        actions = [json.loads(line) for line in self._get(key).decode().splitlines()]
        paths = [action["add"]["path"] for action in actions if "add" in action]
        files = {path: pq.read_table(io.BytesIO(self._get(f"{self.folder}/{path}"))) for path in paths}
        return Template(actions, files)

    def _get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def add(self, batch: int) -> None:
        """Commit a batch, the fourth or a later one."""
        whole = batch % 10 == 0
        actions, files = self.templates[whole].moved(batch - (3 if whole else 2))
        for path, content in files.items():
            self.client.put_object(Bucket=self.bucket, Key=f"{self.folder}/{path}", Body=content)
        key = f"{self.folder}/_delta_log/{self.version + batch - 3:020}.json"
        self.client.put_object(Bucket=self.bucket, Key=key, Body="\n".join(map(json.dumps, actions)).encode())


def grow(stack: Addresses, pipeline: Pipeline, commits: int) -> None:
    """Commit the batches behind the third one, in all tables, and let Delta make checkpoints of them."""
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    settings = Config(max_pool_connections=16, s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", config=settings, **keys)
    config, spark = pipeline.config, pipeline.spark
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr, attr-defined]
    for path in (config.table.identifier, config.quarantine.identifier, config.results):
        table = Grown(client, path)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(table.add, range(4, commits - TAIL + 1)))
        log.clearCache()
        log.forTable(spark._jsparkSession, path).checkpoint()  # type: ignore[attr-defined]
        log.clearCache()
        print(f"{path}: {commits - TAIL} batches", file=sys.stderr, flush=True)
    client.close()


def answer(words: list[str], environment: Mapping[str, str], folder: Path) -> tuple[float, float, Any]:
    """Seconds, CPU seconds of the process and of the JVM that it starts, and what it says."""
    said, spent, begun = folder / "said.json", dict[int, float](), time.monotonic()
    with said.open("w", encoding="utf-8") as out, (folder / "errors.txt").open("w", encoding="utf-8") as errors:
        asked = psutil.Popen(words, stdout=out, stderr=errors, env=dict(environment))
        while asked.poll() is None:
            # Whoever ended is asked no more: what it took until then was taken.
            with suppress(psutil.NoSuchProcess):
                family = [asked, *asked.children(recursive=True)]
                spent |= {each.pid: sum(each.cpu_times()[:2]) for each in family}
            time.sleep(0.02)
        seconds = time.monotonic() - begun
    if not (text := said.read_text(encoding="utf-8")):
        raise SystemExit(f"{' '.join(words)}: {(folder / 'errors.txt').read_text(encoding='utf-8')}")
    return seconds, sum(spent.values()), json.loads(text)


def measured(file: Path, rounds: int, only: list[str]) -> dict[str, Any]:
    """Each command, without Spark and with it."""
    program = [sys.executable, "-c", "from lakeingest.cli import main; main()"]
    found = {}
    with tempfile.TemporaryDirectory() as empty:
        plain = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_CONF_DIR")}
        by_spark = {**plain, "SPARK_CONF_DIR": empty}
        for name in only:
            words = [str(file) if word == "FILE" else word for word in COMMANDS[name]]
            asked = [*program, *words, "--output", "json"]
            other = [sys.executable, "-c", _BY_SPARK, str(file), _SQL] if name == "sql" else asked
            without = [answer(asked, plain, Path(empty)) for _ in range(rounds)]
            spark = [answer(other, by_spark, Path(empty)) for _ in range(max(1, rounds // 2))]
            said, wanted = without[-1][2], spark[-1][2]
            if name == "sql":
                said, wanted = said["rows"], wanted["rows"]
            found[name] = {
                "seconds": [each[0] for each in without],
                "cpu": [each[1] for each in without],
                "spark_seconds": [each[0] for each in spark],
                "spark_cpu": [each[1] for each in spark],
                "equal": said == wanted,
            }
            print(shown({name: found[name]}), file=sys.stderr, flush=True)
    return found


def opened(file: Path, commits: int) -> None:
    """What `read` opens of a table with a file for each commit, and how long it takes."""
    middle = commits * BATCH // 2
    ask = ["read", str(file), "--partition", "0", "--from-offset", str(middle), "--to-offset", str(middle + 3 * BATCH)]
    begun = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", "from lakeingest.cli import main; main()", *ask],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - begun
    print(
        f"read: {len(told.stdout.splitlines())} records in {seconds:.2f} s; {told.stderr.splitlines()[-1]}", flush=True
    )


def shown(found: Mapping[str, Any]) -> str:
    """A table in Markdown, of medians."""
    lines = [
        "| command | s | CPU s | Spark: s | CPU s | × Spark's time | × its CPU | same answer |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, each in found.items():
        s, cpu, of_spark, its_cpu = (
            statistics.median(each[kind]) for kind in ("seconds", "cpu", "spark_seconds", "spark_cpu")
        )
        same = "yes" if each["equal"] else "NO"
        lines.append(
            f"| `{name}` | {s:.2f} | {cpu:.2f} | {of_spark:.1f} | {its_cpu:.1f} | {s / of_spark:.2f} | "
            f"{cpu / its_cpu:.2f} | {same} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Bring up a stack of its own, make the tables, and ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    with embedded() as (stack, folder):
        produce(stack, NAME, records(asked.commits))
        config = values(stack, folder)
        file = folder / "offline.yaml"
        file.write_text(json.dumps(config), encoding="utf-8")
        run(Pipeline(pipeline_file.from_mapping(config)), 3)
        grow(stack, Pipeline(pipeline_file.from_mapping(config)), asked.commits)
        run(Pipeline(pipeline_file.from_mapping(config)))
        opened(file, asked.commits)
        found = measured(file, asked.rounds, asked.only)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(shown(found))


if __name__ == "__main__":
    main()
