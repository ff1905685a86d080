"""A trigger of one second under a steady stream: how late a commit is, and what becomes of the table's files.

    python benchmarks/small.py [--rate 1000] [--share 0] [--seconds 180] [--json FILE]

Each second `rate` orders are produced, one every millisecond or so, of which a share is refused. A record is as late as
the moment when a reader that asks the store all the time sees the commit that has it, minus the time it was produced.
The first minutes are left out. In the end the table is compacted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lakeingest.delta import commit_log
from lakeingest.delta.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import orders  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from embedded import embedded  # noqa: E402
from support.records import create_topic  # noqa: E402
from support.servers import s3_client  # noqa: E402
from ways import pipeline, suite  # noqa: E402

from lakeingest.ingest.events import Committed  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402

_POLL_S = 0.02
_WARM_S = 150.0
"""After which commits and records count: until then Java still compiles."""


def stream(stack: Addresses, topic: str, arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Produce `rate` orders a second, then say stop."""
    rate, encode = arguments.rate, orders.encoder(stack, topic, "json", "narrow")
    producer = Producer({"bootstrap.servers": stack.kafka, "linger.ms": 5})
    begun = time.monotonic()
    for n, value in enumerate(orders.values("narrow", rate * arguments.seconds, arguments.share, encode)):
        if (ahead := begun + n / rate - time.monotonic()) > 0.01:
            producer.poll(0)
            time.sleep(ahead)
        producer.produce(topic, value, partition=n % 2)
    producer.flush(60)
    time.sleep(5)
    stop.set()


def watch(stack: Addresses, path: str, readable: dict[int, float], stop: threading.Event) -> None:
    """Note when each version of a table's log can be read first, as an independent reader sees it."""
    place, client = urlsplit(path), s3_client(stack)
    folder = f"{place.path.strip('/')}/_delta_log"
    while not stop.is_set():
        try:
            client.head_object(Bucket=place.netloc, Key=f"{folder}/{len(readable):020}.json")
        except client.exceptions.ClientError:
            time.sleep(_POLL_S)
        else:
            readable[len(readable)] = time.time()


def measured(stack: Addresses, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the pipeline under the stream, look at its commits, and compact the table."""
    create_topic(stack, "small", 2)
    ingestion = pipeline(stack, "small", "narrow", "json", suite(folder), trigger={"every": "1 second"})
    config, readable, stop = ingestion.config, dict[int, float](), threading.Event()
    took: dict[int, float] = {}
    refused = 0
    spark, path = ingestion.spark, config.table.path
    assert path is not None
    producing = threading.Thread(target=stream, args=(stack, "small", arguments, stop))
    watching = threading.Thread(target=watch, args=(stack, path, readable, stop))
    producing.start()
    watching.start()

    def tell(progress: Committed) -> None:
        nonlocal refused
        refused += progress.counts.refused
        took[progress.sequence] = progress.seconds
        print(f"  {progress.sequence}: {progress.counts.accepted} in {progress.seconds:.2f} s", file=sys.stderr)

    ingestion.run(stop=stop, on_progress=tell)
    producing.join()
    watching.join()
    commits = commit_log.read(Table(spark, path), config.name, back=None).commits
    ends = {(s.topic, s.partition, s.end): readable[c.version] for c in commits for s in c.receipt.ranges}
    rows = spark.read.format("delta").load(path).select("_topic", "_partition", "_offset", "_timestamp").collect()
    first = min(row["_timestamp"].timestamp() for row in rows)
    late = []
    edges = {tp: sorted(end for *at, end in ends if tuple(at) == tp) for tp in {(t, p) for t, p, _ in ends}}
    for row in rows:
        if row["_timestamp"].timestamp() < first + _WARM_S:
            continue
        end = next(e for e in edges[row["_topic"], row["_partition"]] if e > row["_offset"])
        late.append(ends[row["_topic"], row["_partition"], end] - row["_timestamp"].timestamp())
    compacted = ingestion.maintain("compact")[0]
    when_readable = [(c.receipt.sequence, readable[c.version]) for c in commits]
    warm = [took[sequence] for sequence, when in when_readable if when >= first + _WARM_S]
    return {
        "rate": arguments.rate,
        "refused": refused,
        "commits": len(took),
        "warm_commits": len(warm),
        "commit_p50_s": statistics.median(warm),
        "commit_p95_s": statistics.quantiles(warm, n=20)[-1],
        "late_p50_s": statistics.median(late),
        "late_p95_s": statistics.quantiles(late, n=20)[-1],
        "files": compacted.before.count,
        "kib_per_file": compacted.before.bytes / compacted.before.count / 1024,
        "files_compacted": compacted.after.count,
        "mib_compacted": compacted.after.bytes / 2**20,
    }


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--share", type=float, default=0.0, help="of records that are refused")
    parser.add_argument("--seconds", type=int, default=300, help=f"of which the first {_WARM_S:.0f} do not count")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    with embedded() as (stack, folder):
        figures = measured(stack, folder, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print("\n".join(f"{name:16} {value:,.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
