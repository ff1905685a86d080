"""A real database, by Debezium, while runs, the Connect worker and the broker are killed: the lake has its rows."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.cdc.captured import ENGINES, Captured, world_of
from support.faults import QUICK
from support.servers.brokers import Cluster
from support.servers.debezium import JSON_WITH_SCHEMA, ConnectWorker, connect_worker

from lakeingest.local import Addresses
from lakeingest.testing.process import Process

pytestmark = pytest.mark.faults

_ROUNDS = 3


@pytest.mark.parametrize(
    "cell", [(engine, seed) for engine in ENGINES for seed in range(1, 6)], ids=lambda cell: f"{cell[0]}-{cell[1]}"
)
def test_a_database_s_table_whatever_is_killed(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, cell: tuple[str, int]
) -> None:
    """At three positions of its log: the table in the lake is the one of the database, row by row."""
    engine, seed = cell
    dice, name = random.Random(seed), named.replace("-", "_")
    with Cluster(tmp_path / "kafka") as cluster, ENGINES[engine].running(tmp_path) as database:
        own_stack = replace(stack, kafka=cluster.bootstrap)
        with connect_worker(own_stack, tmp_path, JSON_WITH_SCHEMA) as worker:
            world = world_of(own_stack, spark, name, ENGINES[engine], retry={"wait": "2 minutes"})
            captured = Captured(world, ENGINES[engine], database, worker, seed)
            captured.workload.create()
            captured.workload.run(40)
            captured.start(tmp_path, skipped_operations="none")
            faults = _faults(worker, cluster)
            # Killed before it has noted the snapshot's end, it makes another: what is deleted between is in no event.
            captured.catch_up(claims=False)
            captured.check()
            for _ in range(_ROUNDS):
                _disturbed(captured, tmp_path / "p.yaml", dice, faults)
                captured.catch_up()
                captured.check()


def _faults(worker: ConnectWorker, cluster: Cluster) -> list[Callable[[], None]]:
    def restart_connect() -> None:
        worker.kill()
        worker.start()

    def restart_broker() -> None:
        cluster.kill(1)
        time.sleep(1)
        cluster.start(1)

    return [restart_connect, restart_broker]


def _disturbed(captured: Captured, file: Path, dice: random.Random, faults: list[Callable[[], None]]) -> None:
    """Changes of the table while a run is at work, which is killed, and one fault more."""
    file.write_text(json.dumps(captured.world.values(trigger={"every": "1 second", "max_records": 50})))
    with Process(file, env={"LAKEINGEST_DRIVER_MEMORY": "1g", **QUICK}) as process:
        captured.workload.run(20, empties=True)
        dice.choice(faults)()
        captured.workload.run(40, empties=True)
        # A start takes its time; then any moment is one to be killed at.
        time.sleep(12 + dice.uniform(0, 15))
        assert process.code is None, process.out + process.err
        process.kill()
    captured.workload.run(10)
