"""Every command over a real Spark Connect server: this machine's process has no JVM, and the results are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from support.pipelines import World
from support.records import Record, clean_records, mixed_records
from support.servers import connect

from lakeingest.local import Addresses
from lakeingest.testing.process import Process

pytestmark = [pytest.mark.classic, pytest.mark.pinned]
COLUMNS = "n INT NOT NULL, text STRING"
SUITE = {
    "name": "few",
    "expectations": [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 7}}],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect.server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.mark.cluster
def test_every_command_over_connect(
    server: str, stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """Made, evolved, held, corrected, compacted, proved; NOT NULL included, which a write alone would lose."""
    world = World(stack, spark, named)
    world.changes = {"schema": {"columns": COLUMNS}, "gate": {"suite": str(tmp_path / "suite.json")}}
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    file = tmp_path / "pipeline.yaml"

    def command(*words: str, code: int = 0) -> str:
        file.write_text(yaml.safe_dump(world.values()))
        named, options = [w for w in words if not w.startswith("-")], [w for w in words if w.startswith("-")]
        with Process(file, *options, command=named, env={"SPARK_REMOTE": server}) as process:
            assert process.wait(120) == code, process.out + process.err
            return process.out

    world.produce(*mixed_records(10), partitions=2)
    assert "on Spark Connect" in command("doctor")
    command("plan", code=1)
    command("run", "--until-caught-up")
    assert not spark.read.format("delta").load(world.path()).schema["n"].nullable
    world.changes["schema"] = {"columns": COLUMNS.replace("n INT", "n BIGINT")}
    world.produce(*clean_records(3, 3), partitions=2)
    command("run", "--until-caught-up")
    assert json.loads(command("status", "--output=json"))["lag"] == 0
    command("quarantine", "list")
    command("quarantine", "discard", "--reason=junk", "--where=_partition = 1")
    world.changes["gate"]["on_row_failure"] = "warn"
    command("quarantine", "replay", "--reason=again")
    command("gate", "history")
    command("schema", "history")
    command("compact")
    assert "conserved" in command("audit")
    world.checked()


@pytest.mark.cluster
def test_complete_over_connect(server: str, stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """Said by a run, waited for and shown, and taken back with a RESTORE: all by the server."""
    world = World(stack, spark, named)
    hour = (datetime.now(UTC) - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    world.changes = {
        "partition": [{"by": "time", "every": "hour"}],
        "contract": {"completeness": {"late": "0 seconds"}, "freshness": "1 hour"},
        "trigger": {"max_records": 1},
    }
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(world.values()))

    def command(*words: str, code: int = 0) -> str:
        named, options = [w for w in words if not w.startswith("-")], [w for w in words if w.startswith("-")]
        with Process(file, *options, command=named, env={"SPARK_REMOTE": server}) as process:
            assert process.wait(120) == code, process.out + process.err
            return process.out

    waits = ("wait", f"--complete={hour:%Y-%m-%dT%H}", "--timeout=0", "--output=json")
    world.produce(*(Record(value, at=hour) for value in clean_records(2)), *clean_records(1))
    command("run", "--until-caught-up")
    assert json.loads(command(*waits))["complete"]
    said = {each["promise"]: each for each in json.loads(command("status", "--output=json"))["contract"]}
    assert said["completeness"]["found"].startswith(f"complete up to {hour:%Y-%m-%dT%H}, ")
    world.sql("RESTORE TABLE {table} TO VERSION AS OF 1")
    assert json.loads(command(*waits, code=1))["missing"] == [
        {"topic": named, "partition": 0, "frontier": 1, "needed": 2}
    ]
    command("run", "--until-caught-up")
    assert json.loads(command(*waits))["complete"]
    world.checked()


@pytest.mark.slow
def test_the_shorter_choice(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """A run, and what is in its tables."""
    world = World(stack, spark, named)
    world.produce(*mixed_records(10), partitions=2)
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(world.values()))
    with (
        connect.server(tmp_path) as address,
        Process(file, "--until-caught-up", env={"SPARK_REMOTE": address}) as process,
    ):
        assert process.wait(120) == 0, process.out + process.err
    assert not spark.read.format("delta").load(world.path()).schema["n"].nullable
    world.checked()
