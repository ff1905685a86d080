"""Faults at random, for minutes: whatever happens, each record is there once at the end.

make soak MINUTES=10 KILLS=50 SEED=1
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.faults import KINDS, Cell, Row, shown

from lakeingest.local import Addresses
from lakeingest.testing.s3 import (
    Act,
    Request,
    S3Proxy,
    cut,
    half_answer,
    hang,
    internal_error,
    lose_answer,
    slow,
    slow_down,
)

MINUTES = float(os.environ.get("MINUTES", "10"))
KILLS = int(os.environ.get("KILLS", "50"))
SEED = int(os.environ.get("SEED", str(random.randrange(10**6))))


def weather(dice: random.Random) -> tuple[str, Act]:
    """A fault of the store."""
    return dice.choice(
        [
            ("503", slow_down()),
            ("500", internal_error()),
            ("reset", cut()),
            ("lost answer", lose_answer()),
            ("half an answer", half_answer()),
            ("slow", slow(300_000)),
            ("hanging", hang(dice.uniform(1, 5))),
        ]
    )


@pytest.mark.soak
def test_soak(
    stack: Addresses, spark: SparkSession, s3: S3Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs are killed at random moments while the store fails at random and records keep coming."""
    dice, rows = random.Random(SEED), list[Row]()
    cell = Cell(stack, spark, f"soak_{SEED}", "evolving", tmp_path, rows, partitions=3)
    ended, kills, begun, spoilt = threading.Event(), 0, time.monotonic(), 0
    with capsys.disabled():
        print(f"\nsoak: seed {SEED}, at least {MINUTES:g} minutes and {KILLS} kills")

    def produce() -> None:
        mine = random.Random(SEED + 1)
        while not ended.wait(mine.uniform(0.2, 2.0)):
            cell.produce(mine.randrange(1, 200), mine.choice(KINDS))

    producer = threading.Thread(target=produce)
    producer.start()
    limits = {"trigger": {"every": "1 second", "max_records": 300}, "retry": {"wait": "10 minutes"}}
    try:
        while time.monotonic() - begun < MINUTES * 60 or kills < KILLS:
            before = s3.seen.total()
            with cell.process(s3=s3, **limits) as process:
                # A start takes its time, and is no moment to be killed at: nothing is under way.
                while s3.seen.total() == before:
                    assert process.code is None, process.out + process.err
                    time.sleep(0.1)
                until = time.monotonic() + dice.uniform(0, 12)
                while time.monotonic() < until:
                    _, act = weather(dice)
                    share, kind = dice.uniform(0.2, 0.8), dice.choice(["PUT", "GET", "HEAD", "LIST"])
                    random_share = random.Random(dice.random())

                    def hits(
                        request: Request, kind: str = kind, share: float = share, some: random.Random = random_share
                    ) -> bool:
                        return request.kind == kind and some.random() < share

                    fault = s3.fault(hits, act)
                    time.sleep(dice.uniform(0.5, 3.0))
                    fault.lift()
                    spoilt += fault.hits
                assert process.code is None, process.out + process.err
                process.kill()
                kills += 1
            with capsys.disabled():
                passed = time.monotonic() - begun
                print(
                    f"\rsoak: {passed:4.0f} s, {kills} kills, {spoilt} requests spoilt, {len(cell.manifest):,} records",
                    end="",
                )
    finally:
        ended.set()
        producer.join()
        s3.clear()
    with capsys.disabled():
        print()
    assert spoilt, "no request was spoilt"
    cell.recover(f"soak, seed {SEED}", f"{kills} kills, {spoilt} requests spoilt")
    with capsys.disabled():
        print("\n".join(shown([row.texts for row in rows])))
