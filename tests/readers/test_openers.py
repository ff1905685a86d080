"""What `lakeingest sql FILE` prints for each tool opens the table: run as it is printed, on the stack's S3.

Athena's alone cannot be run: it is AWS's service, and reads S3 of AWS alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import environments
import pytest
from pyspark.sql import SparkSession
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import clean_records

from lakeingest.local import Addresses
from lakeingest.local.loopback import direct

pytestmark = pytest.mark.readers
Rows = list[list[object]]


@pytest.fixture(scope="module")
def world(stack: Addresses, spark: SparkSession) -> World:
    """A table of twenty rows in two partitions, written by two batches, where its names have to be quoted."""
    table = {"path": "s3a://lake/2026-order"}
    world = World(stack, spark, "openers", table=table, partition=[{"by": "kafka_partition"}])
    for start in (0, 10):
        world.produce(*clean_records(10, start), partitions=2)
        world.run()
    return world


@pytest.fixture(scope="module")
def changelog(stack: Addresses, spark: SparkSession) -> World:
    """A table whose deletes are rows."""
    marker = {"field": "text", "values": ["gone"]}
    table = {"path": "s3a://lake/2026-log", "mode": "changelog", "keys": ["n"], "on_delete_marker": marker}
    world = World(stack, spark, "log", table=table)
    changes = [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (2, "gone")]
    world.produce(*(json.dumps({"n": n, "text": text}).encode() for n, text in changes))
    world.run()
    return world


LATEST = [[2, 1, "c"], [3, 3, "d"]]
"""Of the changelog."""


@pytest.fixture
def printed(world: World, lakeingest: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return code_of(world, lakeingest, tmp_path, monkeypatch)


@pytest.fixture
def printed_of_log(
    changelog: World, lakeingest: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    return code_of(changelog, lakeingest, tmp_path, monkeypatch)


def code_of(world: World, lakeingest: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Tool → code; the keys are where the command says that the tools look for them."""
    file = tmp_path / f"{world.name}.yaml"
    file.write_text(json.dumps(world.values()))
    told = lakeingest("sql", file, "--output", "json").data
    assert [*told["credentials"]] == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", world.stack.s3_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", world.stack.s3_secret_key)
    return {each["tool"]: each["code"] for each in told["open"]}


def wanted(world: World) -> Rows:
    return sorted([row["_offset"], row["n"], row["text"]] for row in world.rows())


def opened(tool: str, code: str, *port: int) -> Rows:
    """What the tool reads, in its environment."""
    python, script = environments.python("requirements-openers.txt"), environments.HERE / "opened.py"
    ran = subprocess.run(
        [python, script, tool, *map(str, port)], input=code, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    rows: Rows = json.loads(ran.stdout)
    return rows


@pytest.mark.parametrize("tool", ["DuckDB", "polars", "delta-rs", "pandas"])
def test_the_code_opens_the_table(tool: str, world: World, printed: dict[str, str]) -> None:
    """As it is printed; nothing is added but what fetches DuckDB's extensions."""
    with direct(world.stack.s3):
        assert opened(tool, printed[tool]) == wanted(world)


def test_spark_opens_the_table(world: World, printed: dict[str, str]) -> None:
    """In a session with Delta that reaches the bucket."""
    found = world.spark.sql(printed["Spark SQL"].rstrip(";"))
    assert sorted([row["_offset"], row["n"], row["text"]] for row in found.collect()) == wanted(world)


def test_the_latest_rows_of_a_changelog(changelog: World, printed_of_log: dict[str, str]) -> None:
    """By the view that is printed; who opens the files alone is told that the table has more."""
    statements = printed_of_log["Spark SQL"].rstrip(";").split(";\n")
    rows = [changelog.spark.sql(statement).collect() for statement in statements][-1]
    assert sorted([row["_offset"], row["n"], row["text"]] for row in rows) == LATEST
    with direct(changelog.stack.s3):
        assert opened("DuckDB", printed_of_log["DuckDB"]) == LATEST
        assert "_op is delete where one deletes" in printed_of_log["polars"]
        assert len(opened("polars", printed_of_log["polars"])) == 5


def test_trino_opens_the_tables(
    world: World, printed: dict[str, str], printed_of_log: dict[str, str], tmp_path: Path
) -> None:
    """With the settings of the catalog that stand in comments, and the statements."""
    if (java := environments.java()) is None:
        pytest.skip(f"Trino needs Java {environments.OLDEST_JAVA} or newer, and this machine has none")
    settings = dict(line.split("=", 1) for line in re.findall(r"^-- (\S+=.*)$", printed["Trino"], re.M))
    (tmp_path / "trino").mkdir()
    with (
        environments.trino(java, world.stack, tmp_path / "trino", settings) as port,
        direct(f"http://127.0.0.1:{port}"),
    ):
        assert opened("Trino", printed["Trino"], port) == wanted(world)
        assert opened("Trino", printed_of_log["Trino"], port) == LATEST
