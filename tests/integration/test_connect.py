"""Every command over a real Spark Connect server: this machine's process has no JVM, and the results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
FRAMES = """
import sys
from pyspark.sql import functions as F
from pyspark.sql import types as T
from lakeingest.spark import frames
from lakeingest.spark.platforms import connect

session = connect.session()
names = T.StructType().add("a-b", T.StringType(), metadata={"comment": "it's"}).add("c", T.IntegerType())
typed = session.range(1).select(F.lit("x").cast(T.StringType()).alias("text"), F.lit(None).cast(names).alias("x.y"))
frames.for_new_columns(typed).write.format("delta").save(sys.argv[1])
deep = session.range(3)
for number in range(60):
    deep = deep.selectExpr("*", f"id AS id_{number}")
statement = "SELECT count(*) AS rows, '{{}}' AS braces FROM {rows}"
print(frames.computed(session, statement, {"rows": deep}, lambda result: result.collect()))
print(session.catalog.listTables())
"""
WAITING = """
from lakeingest.spark.platforms import connect
print(connect.session().range(2).count(), flush=True)
input()
"""


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
    command("maintain")
    for kind, *more in (("jsonl",), ("csv", "--partition-by=n")):
        to = f"--to=s3a://lake/{named}_{kind}"
        assert json.loads(command("export", to, f"--format={kind}", "--output=json", *more))["rows"] > 0
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


@pytest.mark.cluster
def test_types_and_statements_of_a_client(server: str, tmp_path: Path) -> None:
    """Spark 4.2's client names a collation with each type of text, which delta-rs cannot read; and protobuf's library
    takes no plan of more than a hundred messages within each other.
    """
    table, env = tmp_path / "table", {**os.environ, "SPARK_REMOTE": server}
    words = [sys.executable, "-c", FRAMES, table]
    ended = subprocess.run(words, timeout=120, check=False, capture_output=True, text=True, env=env)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["[Row(rows=3, braces='{}')]", "[]"]
    actions = [json.loads(line) for line in (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    schema = json.loads(next(each["metaData"] for each in actions if "metaData" in each)["schemaString"])
    assert [field["name"] for field in schema["fields"]] == ["text", "x.y"]
    assert schema["fields"][0]["type"] == "string"
    assert [(each["name"], each["type"], each["metadata"]) for each in schema["fields"][1]["type"]["fields"]] == [
        ("a-b", "string", {"comment": "it's"}),
        ("c", "integer", {}),
    ]


@pytest.mark.cluster
def test_a_client_ends_though_its_server_has_ended(tmp_path: Path) -> None:
    """It tried to clean up there for ten minutes."""
    words = [sys.executable, "-c", WAITING]
    with connect.server(tmp_path) as address:
        env = {**os.environ, "SPARK_REMOTE": address}
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        assert client.stdout is not None
        assert client.stdout.readline() == "2\n"
    client.communicate("end\n", timeout=60)
    assert client.returncode == 0
