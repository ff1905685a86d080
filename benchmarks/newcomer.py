"""The first half hour of somebody with orders of their own: each step as its own command, and how long it takes.

    python benchmarks/newcomer.py [--orders 50000] [--json FILE]

The pipeline file is written as the orders look at first sight. Nearly half of them have an amount with more places than
the file says, some lack their customer: they go to quarantine, `plan` tells what would take them, the file is
corrected, and a replay brings them in. The audit has to prove at the end that none is missing or double.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakeingest.local import addresses

_FILE = """\
name: orders
source: {topics: [orders]}
schema:
  columns: >-
    order_id BIGINT NOT NULL, customer STRING%s, amount DECIMAL(%s), currency STRING, placed TIMESTAMP
partition:
  - {by: time, field: placed, every: day, timezone: Europe/Berlin}
table: {path: "s3a://lake/orders"}
"""
FIRST, CORRECTED = _FILE % (" NOT NULL", "10,2"), _FILE % ("", "14,6")


def order(number: int) -> bytes:
    """An order: of every nine, four have an amount with three places; one of 500 has no customer."""
    cents = 1999 + 37 * number % 90_000
    made: dict[str, Any] = {
        "order_id": number,
        "customer": f"customer {number % 4_000}",
        "amount": cents / 1000 if number % 9 < 4 else cents / 100,
        "currency": ("EUR", "USD", "GBP")[number % 3],
        "placed": f"2026-{1 + number % 11:02}-{1 + number % 27:02}T{number % 24:02}:15:00Z",
    }
    if number % 500 == 7:
        del made["customer"]
    return json.dumps(made).encode()


class Newcomer:
    """A folder of their own, and the seconds of each step.

    Attributes:
        steps: what was done, seconds, exit code, and the last line of what it said.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "orders.yaml"
        self.environment = {**os.environ, "LAKEINGEST_STATE": str(folder / "state")}
        self.steps: list[dict[str, Any]] = []

    def types(self, *words: str) -> str:
        """Run a command of lakeingest's as its own process; what it printed."""
        begun = time.monotonic()
        command = [str(Path(sys.executable).with_name("lakeingest")), *words]
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        said = (done.stdout + done.stderr).strip()
        self._note(" ".join(words), begun, done.returncode, said.splitlines()[-1] if said else "")
        return said

    def produces(self, count: int) -> None:
        begun = time.monotonic()
        os.environ["LAKEINGEST_STATE"] = self.environment["LAKEINGEST_STATE"]
        stack = addresses.running()
        assert stack is not None
        broker = AdminClient({"bootstrap.servers": stack.kafka})
        broker.create_topics([NewTopic("orders", 2)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": stack.kafka, "linger.ms": 20})
        for number in range(count):
            producer.produce("orders", order(number))
            producer.poll(0)
        producer.flush(60)
        self._note(f"(produces {count:,} orders)", begun, 0, "")

    def _note(self, step: str, begun: float, code: int, said: str) -> None:
        seconds = round(time.monotonic() - begun, 1)
        self.steps.append({"step": step, "seconds": seconds, "exit": code, "said": said})
        sys.stdout.write(f"{seconds:7.1f} s  exit {code}  {step}\n{'':19}{said[:100]}\n")
        sys.stdout.flush()


def walk(folder: Path, count: int) -> Newcomer:
    """All steps; the last one is the proof."""
    newcomer = Newcomer(folder)
    file = newcomer.file.name
    newcomer.types("stack", "up")
    try:
        newcomer.produces(count)
        newcomer.file.write_text(FIRST)
        newcomer.types("check", file)
        sys.stdout.write(newcomer.types("plan", file) + "\n")
        newcomer.types("run", file, "--until-caught-up")
        newcomer.types("quarantine", "list", file)
        newcomer.file.write_text(CORRECTED)
        newcomer.types("plan", file)
        newcomer.types("run", file, "--until-caught-up")
        newcomer.types("quarantine", "replay", file, "--reason", "amounts have more places, customers may be missing")
        newcomer.types("status", file)
        newcomer.types("audit", file)
    finally:
        newcomer.types("stack", "down", "--wipe")
    return newcomer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=50_000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        newcomer = walk(Path(folder), asked.orders)
    total = sum(step["seconds"] for step in newcomer.steps)
    sys.stdout.write(f"{total:7.1f} s  in all\n")
    if asked.json:
        asked.json.write_text(json.dumps(newcomer.steps, indent=2))


if __name__ == "__main__":
    main()
