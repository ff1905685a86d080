"""What it costs to be watched: runs with everything on beside runs without, in turn, in one process.

    python benchmarks/observed.py [--records 1000000] [--batch 250000] [--rounds 20] [--warm 3] [--json FILE]

On: a log as JSON into a file, an endpoint that is scraped each second, OpenLineage into a file, one more listener.
Off: none of these, and a batch observes neither its bytes nor its newest time, which it does for them alone. Each
round takes the same records into two new tables, now the one first, now the other, so a round gives a ratio of seconds
and one of CPU seconds (of Python and of Spark's JVM). What counts is the median of the rounds' ratios, and the interval
that it lies in with 95 % certainty. Java grows faster for some rounds: those to warm up do not count.

A machine whose own speed changes by more than a few per cent cannot show a difference of one per cent like that. So the
parts are measured too, and added up: the CPU seconds within the listeners of the runs above, those of a scrape (with
the client's half of it), a scrape a second, and those of bytes and newest time of a record. The last are the difference
of two queries over the same records in memory, in turn. The sum is told as a share of a run's CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from embedded import embedded  # noqa: E402
from meter import spent  # noqa: E402
from openlineage.client import OpenLineageClient  # noqa: E402
from pyspark.sql import DataFrame, Observation  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from ways import Bench  # noqa: E402

from lakeingest import extend  # noqa: E402
from lakeingest.ingest import batch_plan, microbatch  # noqa: E402
from lakeingest.ingest.events import Event  # noqa: E402
from lakeingest.ingest.listeners.endpoint import Endpoint  # noqa: E402
from lakeingest.ingest.listeners.lineage import Lineage  # noqa: E402
from lakeingest.ingest.listeners.log import Log  # noqa: E402
from lakeingest.kafka import reader  # noqa: E402
from lakeingest.record import (  # noqa: E402
    DROPPED,
    RAW_KEY,
    RAW_VALUE,
    REFUSED,
    TIMESTAMP,
    OffsetRanges,
    count_where,
)

_SCRAPES, _QUERIES = 300, 60


class Own:
    """A listener that does nothing."""

    def heard(self, pipeline: str, event: Event) -> None:
        pass


class Clock:
    """The CPU seconds of a thread within calls of some methods, as long as the block lasts."""

    def __init__(self, *methods: tuple[type, str]) -> None:
        self.cpu_s, self._methods, self._stack = 0.0, methods, ExitStack()

    def __enter__(self) -> Clock:
        for owner, name in self._methods:
            self._stack.enter_context(mock.patch.object(owner, name, self._clocked(getattr(owner, name))))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _clocked(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def clocked(*given: Any, **named: Any) -> Any:
            begun = time.thread_time()
            try:
                return method(*given, **named)
            finally:
                self.cpu_s += time.thread_time() - begun

        return clocked


def scrape_cpu_s(endpoint: Endpoint) -> float:
    """CPU seconds of one scrape, the client's half too."""

    def scrapes() -> None:
        for _ in range(_SCRAPES):
            urllib.request.urlopen(f"{endpoint.url}/metrics", timeout=5).read()

    begun = time.process_time()
    scrapes()
    return (time.process_time() - begun) / _SCRAPES


def observing_cpu_s(bench: Bench) -> float:
    """CPU seconds of bytes and newest time of one record: queries with them beside queries without, in turn."""
    ingestion = bench.ingestion("observing")
    ends = ingestion.source.topics().last
    records = reader.frame(
        ingestion.spark, ingestion.config.source, bench.stack.kafka, bench.name, OffsetRanges.up_to(ends)
    ).select(RAW_KEY, RAW_VALUE, TIMESTAMP)
    records = records.cache()
    # Both read all three columns, as a batch does that parses them.
    read = F.max(F.xxhash64(RAW_KEY, RAW_VALUE, TIMESTAMP))
    size = batch_plan._bytes()
    more = F.sum(size), F.unix_millis(F.max(TIMESTAMP))
    count = records.count()
    ways = (records.select(read), records.select(read, *more))
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(_QUERIES):
        for way, found in zip(ways, took, strict=True):
            found.append(spent(way.collect).cpu_s)
    records.unpersist()
    differences = [more - less for less, more in zip(*took, strict=True)]
    # The first half warms up.
    return max(0.0, statistics.fmean(differences[_QUERIES // 2 :])) / count


@contextmanager
def watched(folder: Path) -> Iterator[list[Any]]:
    """The listeners of a run with everything on."""
    endpoint, ended = Endpoint("127.0.0.1:0"), threading.Event()

    def scrape() -> None:
        while not ended.wait(1):
            with suppress(OSError):
                urllib.request.urlopen(f"{endpoint.url}/metrics", timeout=5).read()

    thread = threading.Thread(target=scrape)
    thread.start()
    transport = {"type": "file", "log_file_path": str(folder / "lineage"), "append": True}
    with (folder / "log").open("a") as out, mock.patch.dict(os.environ, OPENLINEAGE__TRANSPORT=json.dumps(transport)):
        log = Log("json", out.write)
        try:
            yield [log, endpoint, Own()]
        finally:
            log.close()
            ended.set()
            thread.join()
            endpoint.close()


def _less(decided: DataFrame, seen: Observation, *metrics: Any) -> DataFrame:
    """`batch_plan.observed` without bytes and time."""
    counts = count_where(F.col(REFUSED)).alias("refused"), count_where(F.col(DROPPED)).alias("dropped")
    nothing = F.max(F.lit(None).cast("bigint"))
    told = nothing.alias("bytes"), nothing.alias("newest")
    return decided.observe(seen, F.count(F.lit(1)).alias("consumed"), *counts, *told, *metrics)


@contextmanager
def unwatched() -> Iterator[list[Any]]:
    """As if nobody ever had asked for bytes and time."""
    with (
        mock.patch.object(batch_plan, "_bytes", return_value=F.lit(0)),
        mock.patch.object(microbatch, "observed", _less),
    ):
        yield []


def _interval(ratios: list[float]) -> tuple[float, float]:
    """Where the median of so many rounds lies in 95 of 100 cases: the rounds drawn again, with replacement."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return medians[250], medians[9750]


def main() -> None:
    """Bring up a stack of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm", type=int, default=3, help="rounds before these, which do not count")
    parser.add_argument("--bad", type=float, default=0.01)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
    with embedded() as (stack, folder):
        bench = Bench(stack, folder, "narrow", "json", asked.bad, asked.records, asked.batch)

        parts: dict[str, list[float]] = {"listeners": [], "scrape": []}

        def take(kind: str, table: str) -> None:
            ingestion = bench.ingestion(table)
            listening = [(each, "heard") for each in (Log, Endpoint, Own, Lineage)]
            with (
                Clock(*listening, (OpenLineageClient, "emit")) as clock,
                watched(folder) if kind == "on" else unwatched() as listeners,
            ):
                took = spent(
                    lambda: ingestion.run(
                        until_caught_up=True, on_event=lambda event: extend.tell(listeners, table, event)
                    )
                )
                if kind == "on":
                    parts["scrape"].append(scrape_cpu_s(listeners[1]))
            found[kind].append((took.seconds, took.cpu_s))
            if kind == "on":
                parts["listeners"].append(clock.cpu_s)
            print(f"{table} {kind}: {took.seconds:.2f} s, {took.cpu_s:.2f} CPU s", flush=True)

        _ = bench.ingestion("warm").spark
        for number in range(-asked.warm, asked.rounds):
            if number == 0:
                for rounds in found.values():
                    rounds.clear()
                for seconds in parts.values():
                    seconds.clear()
            for kind in ("on", "off") if number % 2 else ("off", "on"):
                take(kind, f"round_{number}_{kind}".replace("-", "warm_"))
        observing = observing_cpu_s(bench)
    result = {}
    for at, name in enumerate(("seconds", "cpu_s")):
        on, off = ([each[at] for each in found[kind]] for kind in ("on", "off"))
        ratios = [one / other for one, other in zip(on, off, strict=True)]
        low, high = _interval(ratios)
        result[name] = {
            "on": statistics.median(on),
            "off": statistics.median(off),
            "ratio": statistics.median(ratios),
            "low": low,
            "high": high,
        }
        print(name, "  ".join(f"{key} {value:.3f}" for key, value in result[name].items()))
    run = {name: result[name]["on"] for name in ("seconds", "cpu_s")}
    median = {name: statistics.median(each) for name, each in parts.items()}
    shares = {
        "listeners": median["listeners"] / run["cpu_s"],
        "scrapes": median["scrape"] * run["seconds"] / run["cpu_s"],
        "observing": observing * asked.records / run["cpu_s"],
    }
    result["parts"] = {
        "listeners_ms": 1e3 * median["listeners"],
        "scrape_ms": 1e3 * median["scrape"],
        "observing_ns_per_record": 1e9 * observing,
        **{f"{name}_share": share for name, share in shares.items()},
        "share": sum(shares.values()),
    }
    print("parts", "  ".join(f"{key} {value:.4f}" for key, value in result["parts"].items()))
    if asked.json:
        asked.json.write_text(json.dumps({"figures": result, "rounds": found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
