"""Commands that ask about a pipeline: what they show, what they print for programs, what they end with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import config_of, values_of
from support.pipelines.command_line import Command
from support.records import DIRTY, Record, clean_records, mixed_records, produce

from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.process import Process

ASKED = "asked"


def written(folder: Path, values: dict[str, Any]) -> Path:
    """The pipeline file; JSON is YAML too."""
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps(values))
    return path


def ran(stack: Addresses, name: str, folder: Path) -> Path:
    """The file of a pipeline that ran over four records, one of them refused, and has one to go.

    | offset | 0     | 1     | 2     | 3     | 4           |
    | ------ | ----- | ----- | ----- | ----- | ----------- |
    | record | clean | clean | clean | dirty | not yet run |
    """
    produce(stack, name, [*clean_records(3), Record(DIRTY, b"key \xff", headers=(("h", b"1"),))])
    Pipeline(config_of(stack, name)).run(until_caught_up=True)
    produce(stack, name, clean_records(1))
    return written(folder, values_of(stack, name))


@pytest.fixture(scope="module")
def asked(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline `ran`, of the name ASKED: for commands that change nothing."""
    return ran(stack, ASKED, tmp_path_factory.mktemp(ASKED))


@pytest.fixture
def file(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> Path:
    """The pipeline `ran`, of the test's own name."""
    return ran(stack, named, tmp_path)


@pytest.mark.slow
def test_status(asked: Path, lakeingest: Command) -> None:
    """Frontier, lag, commits and tables, for people and for programs."""
    said = lakeingest("status", asked)
    assert (said.code, said.err) == (0, "")
    assert all(word in said.out for word in (f"{ASKED}: lag 1", "last commits", f"s3a://lake/{ASKED}_quarantine"))
    data = lakeingest("status", asked, "--output", "json").data
    assert data["partitions"] == [{"topic": ASKED, "partition": 0, "frontier": 4, "end": 5, "lag": 1}]
    assert data["lag"] == 1
    (commit,) = data["commits"]
    assert {name: commit[name] for name in ("sequence", "rows", "offsets", "refused", "dropped")} == {
        "sequence": 1,
        "rows": 3,
        "offsets": 4,
        "refused": 1,
        "dropped": 0,
    }
    assert {name: table["rows"] for name, table in data["tables"].items()} == {"table": 3, "quarantine": 1}


def test_audit(asked: Path, lakeingest: Command) -> None:
    """A proof, for people and for programs."""
    said = lakeingest("audit", asked)
    assert said.code == 0
    assert said.out.splitlines() == [
        f"{ASKED}: 4 records consumed in 1 commit",
        "  3 in the table + 1 in quarantine + 0 dropped; 0 missing, 0 duplicated",
        "  conserved: every record is there, exactly once",
    ]
    data = lakeingest("audit", asked, "--output", "json").data
    assert (data["conserved"], data["consumed"], data["named"]) == (True, 4, {})


@pytest.mark.faults
def test_audit_of_a_broken_table(file: Path, named: str, spark: SparkSession, lakeingest: Command) -> None:
    """Exit code 1, and the coordinates that are missing, on stderr and in the JSON."""
    spark.sql(f"DELETE FROM delta.`s3a://lake/{named}` WHERE _offset = 1")
    said = lakeingest("audit", file, "--output", "json")
    assert said.code == 1
    assert f"missing: {named}-0 offsets 1 to 1" in said.err
    assert said.data["named"] == {"missing": [f"{named}-0 offsets 1 to 1"]}


def test_quarantine_list(asked: Path, lakeingest: Command) -> None:
    """Refused records by stage and reason, with samples."""
    said = lakeingest("quarantine", "list", asked)
    assert said.code == 0
    assert all(word in said.out for word in ("refused records in", "WRONG_TYPE", f"{ASKED}-0:3"))
    data = lakeingest("quarantine", "list", asked, "--output", "json").data
    (group,) = data["reasons"]
    assert (group["stage"], group["reason"], group["count"]) == ("value", "WRONG_TYPE", 1)
    assert group["samples"][0]["coordinates"] == f"{ASKED}-0:3"


def test_quarantine_show(asked: Path, lakeingest: Command) -> None:
    """One record, its bytes as text where they are."""
    said = lakeingest("quarantine", "show", asked, f"{ASKED}-0:3")
    assert said.code == 0
    assert f"       value  {DIRTY.decode()}" in said.out.splitlines()
    data = lakeingest("quarantine", "show", asked, f"{ASKED}-0:3", "--output", "json").data
    assert (data["value"], data["key"], data["headers"]) == (
        DIRTY.decode(),
        "key \\xff",
        [{"key": "h", "value": "1"}],
    )
    missing = lakeingest("quarantine", "show", asked, f"{ASKED}-0:0")
    assert (missing.code, missing.out) == (2, "")
    assert "is not in quarantine" in missing.err
    assert lakeingest("quarantine", "show", asked, "nowhere").code == 2


def test_run(file: Path, named: str, lakeingest: Command) -> None:
    """Run tells each commit and the sum; as JSON, the sum alone. The log tells from the beginning what it does."""
    said = lakeingest("run", file, "--until-caught-up", "--log-format", "none")
    assert said.code == 0
    assert " · commit 2 at " in said.out
    total, times = said.out.splitlines()[-2:]
    assert total.startswith("caught up: 1 record in 1 commit,")
    assert re.fullmatch(r"in \d+ s, of which \d+ s passed before the first batch", times)
    again = lakeingest("run", file, "--until-caught-up", "--output", "json", "--log-format", "json")
    summary = again.data
    # Before a first batch there is none here.
    assert summary.pop("seconds") > summary.pop("start_seconds") == 0
    assert summary == {
        "pipeline": named,
        "commits": 0,
        "consumed": 0,
        "accepted": 0,
        "refused": 0,
        "dropped": 0,
        "lag": 0,
        "catalog_behind": {},
        "stopped": False,
    }
    log = [json.loads(line) for line in again.err.splitlines()]
    assert [line["message"] for line in log[:2]] == ["starting Spark", "reading the tables' logs"]
    assert [line["event"] for line in log[2:]] == ["Started", "Looked", "Ended"]
    assert log[-1]["outcome"] == "caught up"


def test_status_before_the_first_run(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, lakeingest: Command
) -> None:
    """Without tables there is nothing to show, and the message says what to do, without a traceback."""
    produce(stack, named, clean_records(1))
    said = lakeingest("status", written(tmp_path, values_of(stack, named)))
    assert said.code == 2
    assert "run the pipeline first" in said.err
    assert f"s3a://lake/{named}" in said.err


@pytest.mark.slow
@pytest.mark.faults
def test_executors_of_their_own_get_the_jars(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """Clean records and refused ones, read, decoded and written by two processes that the driver starts."""
    wanted = produce(stack, named, mixed_records(40), 2)
    file = written(tmp_path, values_of(stack, named))
    with Process(file, "--until-caught-up", env={"SPARK_MASTER": "local-cluster[2,1,1024]"}) as process:
        assert process.wait(180) == 0, process.err
    assert_exactly_once(spark, Pipeline(config_of(stack, named)), wanted)
