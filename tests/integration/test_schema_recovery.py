"""A process killed behind the change of a table, and a registry that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.schema_world import SchemaWorld
from support.records import registered
from support.records.weather import AVRO, PAST_INT, TYPES, VERSIONS, weather

from lakeingest.delta.receipt import Counts
from lakeingest.errors import RegistryUnreachable
from lakeingest.ingest.events import Committed
from lakeingest.local import Addresses


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> SchemaWorld:
    return SchemaWorld(stack, spark, named, **AVRO)


# Killed between the change of the table and what follows

KILLED = """
import os, signal, sys
from pathlib import Path
from lakeingest.delta import commit
from lakeingest.config import file
from lakeingest.pipeline import Pipeline

write, moment = commit.write, sys.argv[2]

def killed(*given, **more):
    if moment == "committed":
        write(*given, **more)
    os.killpg(0, signal.SIGKILL)

commit.write = killed
Pipeline(file.read(Path(sys.argv[1]), {})).run(until_caught_up=True)
"""


@pytest.mark.faults
@pytest.mark.parametrize("moment", ["widened", "committed"])
def test_killed_behind_the_change_of_the_table(world: SchemaWorld, tmp_path: Path, moment: str) -> None:
    """SIGKILL behind the ALTER, and behind the evolving commit: the next run decides the same."""
    old, new = world.avro(VERSIONS[0]), world.avro(VERSIONS[3])
    world.produce(old(weather(1, 0)))
    world.ingestion().run(until_caught_up=True)
    world.produce(new(weather(4, 1)), new(weather(4, 2))[:-1], old(weather(1, 3)))
    (tmp_path / "pipeline.yaml").write_text(json.dumps(world.values()))
    env = {**os.environ, "LAKEINGEST_STATE": str(tmp_path / "state"), "LAKEINGEST_DRIVER_MEMORY": "1g"}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "pipeline.yaml"), moment]
    died = subprocess.run(command, env=env, start_new_session=True, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    rows = 1 if moment == "widened" else 3
    assert (world.table.count(), world.reasons) == (rows, {})
    assert world.value_types["wind"] == "bigint", "the ALTER came first"
    world.ingestion().run(until_caught_up=True)
    assert world.value_types == TYPES
    assert world.columns("origin", "wind", "gust", "_offset") == [
        ("v1-0", 100, None, 0),
        ("v4-1", PAST_INT + 1, 1.5, 1),
        ("v1-3", 103, None, 3),
    ]
    assert world.reasons[0, 2][:2] == ("value", "PAYLOAD_MISMATCH")
    assert [(e.version, e.action) for e in world.ledger.entries] == [(1, "evolve"), (2, "evolve")]
    world.checked()


# The registry is away


def test_the_registry_goes_away_and_comes_back(world: SchemaWorld) -> None:
    """Known ids go on; an unknown one ends the run with nothing committed, nothing quarantined, nothing lost."""
    old = world.avro(VERSIONS[0])
    world.produce(*(old(weather(1, n)) for n in range(8)))
    new = world.avro(VERSIONS[1])
    world.produce(new(weather(2, 8)), old(weather(1, 9)))
    with registered.proxied(world.stack) as proxy:
        world.changes |= {"registry": {"url": proxy.url, "wait": "1 second"}, "trigger": {"max_records": 4}}
        told: list[Committed] = []

        def cut(progress: Committed) -> None:
            told.append(progress)
            proxy.down()

        ingestion = world.ingestion()
        with pytest.raises(RegistryUnreachable, match=f"did not answer for 1 s, asked for schema id {new.id}"):
            ingestion.run(until_caught_up=True, on_progress=cut)
        assert [p.counts for p in told] == [Counts(4, 4)] * 2, "the second batch was written without it"
        assert (world.commit_log().frontier, world.reasons) == ({(world.name, 0): 8}, {})
        with pytest.raises(RegistryUnreachable, match="asked for schema id"):
            ingestion.run(until_caught_up=True)
        proxy.up()
        assert ingestion.run(until_caught_up=True) == Counts(2, 2)
    assert len(world.commit_log().commits) == 3
    assert world.reasons == {}
    world.changes["registry"] = {"url": world.stack.registry}
    world.checked()
