"""Many pipelines in one process, on one Spark: memory, CPU and how late commits are, idle and busy.

    python benchmarks/fleet.py [--pipelines 1 10 50 100] [--every 10] [--warm-up 30] [--seconds 60] [--rate 10]
        [--json FILE]

For each number of pipelines a process of its own: one topic, one table and one trigger for each pipeline. When each has
committed its first record, each topic gets `rate` records a second to warm Java up, until all are committed. Then
nothing is produced for so many seconds (idle), and then `rate` records a second again for as long (busy). A record is
as late as the moment when the run tells of its commit, minus the time it was sent. A trigger is kept if the pipeline's
commits while it is busy are as many as its triggers, or one less. Memory and CPU are those of Spark's JVM, of its
Python workers and of this process. LAKEINGEST_DRIVER_MEMORY sets Spark's heap (3g).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from lakeingest import Fleet

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from confluent_kafka import Producer  # noqa: E402
from embedded import embedded  # noqa: E402
from meter import Meter  # noqa: E402
from support.pipelines import config_of  # noqa: E402
from support.records import create_topic  # noqa: E402

from lakeingest.ingest.events import Committed, Ended, Event  # noqa: E402
from lakeingest.local import Addresses  # noqa: E402
from lakeingest.spark.session import attach  # noqa: E402


class Commits:
    """What a fleet tells: how late each record was, and how many commits each pipeline made since `begin`."""

    def __init__(self, names: list[str]) -> None:
        self.sent: dict[str, list[float]] = {name: [] for name in names}
        self.taken = dict.fromkeys(names, 0)
        self.late: list[float] = []
        self.count = dict.fromkeys(names, 0)

    def take(self, name: str, event: Event) -> None:
        if isinstance(event, Ended):
            print(f"  {name}: {event.outcome} {event.failure or ''}", file=sys.stderr)
        if isinstance(event, Committed):
            now, first = time.time(), self.taken[name]
            self.taken[name] = first + event.counts.consumed
            self.late += [now - sent for sent in self.sent[name][first : self.taken[name]]]
            self.count[name] += 1

    def begin(self) -> None:
        self.late.clear()
        self.count = dict.fromkeys(self.count, 0)


class Phases(NamedTuple):
    """Seconds between two batches, of the warm-up, and of each phase; records a second and topic."""

    every: int
    warm_up: int
    seconds: int
    rate: int


def produce(stack: Addresses, commits: Commits, rate: int, seconds: float) -> None:
    """So many records a second to each topic."""
    producer, begun = Producer({"bootstrap.servers": stack.kafka, "linger.ms": 5}), time.monotonic()
    for n in range(int(rate * seconds)):
        time.sleep(max(0.0, begun + n / rate - time.monotonic()))
        for topic, sent in commits.sent.items():
            sent.append(time.time())
            producer.produce(topic, f'{{"n": {n}, "text": "{topic}"}}'.encode())
        producer.poll(0)
    producer.flush(60)


def measured(stack: Addresses, pipelines: int, phases: Phases) -> dict[str, Any]:
    """Run so many pipelines, idle and then busy."""
    every, warm_up, seconds, rate = phases
    names = [f"fleet_{n:03}" for n in range(pipelines)]
    commits, stop = Commits(names), threading.Event()
    for name in names:
        create_topic(stack, name)
    configs = [config_of(stack, name, trigger={"every": f"{every} seconds"}) for name in names]
    # Spark starts in this thread.
    attach(configs[0].storage, "fleet")
    produce(stack, commits, 1, 1)
    fleet, begun = Fleet(configs), time.monotonic()
    running = threading.Thread(target=fleet.run, kwargs={"on_event": commits.take, "stop": stop})
    running.start()
    while not all(commits.taken.values()):
        time.sleep(0.1)
    found: dict[str, Any] = {"pipelines": pipelines, "first_commits_s": time.monotonic() - begun}
    # So that what is measured is not Java's compiler alone.
    produce(stack, commits, rate, warm_up)
    while any(commits.taken[name] < len(sent) for name, sent in commits.sent.items()):
        time.sleep(0.1)
    for what, records in (("idle", 0), ("busy", rate)):
        commits.begin()
        meter = Meter()
        if records:
            produce(stack, commits, records, seconds)
        else:
            time.sleep(seconds)
        found[f"{what}_cores"] = meter.stop() / seconds
        found[f"{what}_mib"] = meter.peak_mib
    kept = sum(count >= seconds // every - 1 for count in commits.count.values())
    late = commits.late or [float("nan")]
    found |= {
        "late_p50_s": statistics.median(late),
        "late_p95_s": statistics.quantiles(late, n=20)[-1] if len(late) > 1 else late[0],
        "commits": sum(commits.count.values()),
        "triggers_kept": f"{kept} of {pipelines}",
    }
    stop.set()
    running.join()
    return found


COLUMNS = {
    "pipelines": "pipelines",
    "first_commits_s": "first commits, s",
    "idle_cores": "idle: cores",
    "idle_mib": "idle: MiB",
    "busy_cores": "busy: cores",
    "busy_mib": "busy: MiB",
    "late_p50_s": "late p50, s",
    "late_p95_s": "late p95, s",
    "triggers_kept": "triggers kept",
}


def main() -> None:
    """Measure each number of pipelines in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[1, 10, 50, 100])
    parser.add_argument("--every", type=int, default=10, help="seconds of each trigger")
    parser.add_argument("--warm-up", type=int, default=30, help="seconds before anything is measured")
    parser.add_argument("--seconds", type=int, default=60, help="of each phase")
    parser.add_argument("--rate", type=int, default=10, help="records a second and topic, when busy")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    phases = Phases(asked.every, asked.warm_up, asked.seconds, asked.rate)
    if len(asked.pipelines) == 1:
        with embedded() as (stack, _):
            found = [measured(stack, asked.pipelines[0], phases)]
    else:
        found = []
        for count in asked.pipelines:
            names = "--every", "--warm-up", "--seconds", "--rate"
            own = [word for name, value in zip(names, phases, strict=True) for word in (name, str(value))]
            command = [sys.executable, __file__, "--pipelines", str(count), *own, "--json", "/dev/stdout"]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found += json.loads(said.partition("]")[0] + "]")
            print(f"{count}: {found[-1]}", file=sys.stderr)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"| {' | '.join(COLUMNS.values())} |\n|{'---|' * len(COLUMNS)}")
    for row in found:
        cells = (f"{row[name]:,.2f}" if isinstance(row[name], float) else str(row[name]) for name in COLUMNS)
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
