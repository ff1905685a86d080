"""What a run would do is told beforehand, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession
from support.pipelines import config_of, values_of
from support.records import DIRTY, clean_records, create_topic, produce
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.config import Gate
from lakeingest.errors import UsageError
from lakeingest.gate import suite
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.schema import ddl

COLUMNS = "n INT NOT NULL, text STRING"
SUITE = {
    "name": "s",
    "expectations": [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 90}},
        {
            "type": "expect_column_mean_to_be_between",
            "kwargs": {"column": "n", "max_value": 10},
        },
    ],
}


def objects(stack: Addresses, prefix: str) -> list[str]:
    keys = {"aws_access_key_id": stack.s3_access_key, "aws_secret_access_key": stack.s3_secret_key}
    client = boto3.client("s3", endpoint_url=stack.s3, region_name="us-east-1", **keys)
    try:
        return [each["Key"] for each in client.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", ())]
    finally:
        client.close()


def test_a_plan_names_the_type_that_would_do(stack: Addresses, spark: SparkSession, named: str) -> None:
    """One type for all values that a column refused, and how many records it would let pass."""
    produce(stack, named, [b'{"n": 1}', b'{"n": 3000000000}', b'{"n": 4000000000}', b'{"n": 907.152}', b"{"])
    made = Pipeline(config_of(stack, named)).plan()
    assert made.corrections == ({"column": "n", "type": "DOUBLE", "records": 3, "possible": True},)
    made = Pipeline(config_of(stack, named, schema={"columns": "n DOUBLE, text STRING"})).plan()
    assert (made.counts["refused"], made.corrections) == (1, ())


def test_one_text_does_not_hide_the_type_of_the_others(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A type for the numbers comes before the one that takes all, and it is told what the table cannot become."""
    columns = "n BIGINT, d DECIMAL(10,2), s STRUCT<a: ARRAY<INT>>"
    values = [b'{"d": 907.152}', b'{"d": 1.1234}', b'{"d": "n/a"}', b'{"n": 1.5}', b'{"s": {"a": [1.5]}}']
    produce(stack, named, [b'{"n": 1}', *values])
    ingestion = Pipeline(config_of(stack, named, schema={"columns": columns}))

    def told(ingestion: Pipeline) -> list[tuple[Any, ...]]:
        return sorted(tuple(each.values()) for each in ingestion.plan().corrections)

    wanted = [("d", "DECIMAL(12,4)", 2), ("d", "STRING", 3), ("n", "DOUBLE", 1), ("s.a[*]", "DOUBLE", 1)]
    assert told(ingestion) == [(*each, True) for each in wanted]
    ingestion.run(until_caught_up=True)
    possible = (True, False, False, True)
    assert told(ingestion) == [(*each, can) for each, can in zip(wanted, possible, strict=True)]
    full = {"columns": columns, "compatibility": "FULL"}
    assert {each[-1] for each in told(Pipeline(config_of(stack, named, schema=full)))} == {False}


@pytest.mark.slow
def test_a_plan_is_what_a_run_then_does(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """Counts, reasons, columns, expectations and partitions, before there is a table and after; nothing is written."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SUITE))
    gate = {"suite": str(path), "on_batch_failure": "hold"}
    partition = [{"by": "field", "field": "text", "name": "label"}, {"by": "kafka_partition"}]
    values = values_of(stack, named, gate=gate, partition=partition)
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(values))
    produce(stack, named, [*clean_records(100), DIRTY, b"{"])

    ran = CliRunner().invoke(app, ["plan", str(file), "--output", "json", "--suggest-suite"])
    assert ran.exit_code == 1, ran.output
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["counts"] == {"consumed": 102, "accepted": 91, "refused": 11, "dropped": 0}
    assert {(r["stage"], r["reason"], r["count"]) for r in told["refusals"]} == {
        ("gate", "expect_column_values_to_be_between(n)", 9),
        ("value", "WRONG_TYPE", 1),
        ("value", "BROKEN_JSON", 1),
    }
    assert [(r["success"], r["unexpected"], r["observed"]) for r in told["results"]] == [
        (False, 9, None),
        (False, None, "45.0"),
    ]
    assert told["held"][0].startswith("hold: expect_column_mean_to_be_between")
    assert {"name": "n", "type": "int", "new": True, "was": None} in told["columns"]
    assert told["forecast"]["partitions"] == 91
    assert objects(stack, named) == []

    suggested = tmp_path / "suggested.json"
    suggested.write_text(json.dumps(told["suggested"]))
    rules = suite.load(Gate(suite=str(suggested)), ddl.parse(COLUMNS)).rules
    assert [rule.text for rule in rules] == [
        'expect_column_values_to_not_be_null(column="n")',
        'expect_column_values_to_be_between(column="n", min_value=0, max_value=90)',
        'expect_column_values_to_not_be_null(column="text")',
    ]

    path.write_text(json.dumps({**SUITE, "expectations": SUITE["expectations"][:1]}))
    ingestion = Pipeline(config_of(stack, named, gate=gate, partition=partition))
    counts = ingestion.run(until_caught_up=True)
    assert vars(counts) == told["counts"]
    written = objects(stack, named)
    again = ingestion.plan()
    assert (again.counts, again.schemas, again.committed) == (told["counts"], (), True)
    assert not any(column["new"] for column in again.columns)
    assert objects(stack, named) == written
    caught_up = CliRunner().invoke(app, ["plan", str(file)])
    assert "caught up: these are the newest records, and they were committed before" in caught_up.output
    produce(stack, named, clean_records(10))
    fine = CliRunner().invoke(app, ["plan", str(file)])
    assert fine.exit_code == 0, fine.output
    assert "caught up" not in fine.output
    assert fine.output.splitlines()[:4] == [
        f"{named}: all of 10 records sampled would be committed",
        "  records  10 to the table, 0 to quarantine, 0 dropped",
        "  columns  11, no change",
        "  gate     1 of 1 expectation met",
    ]
    assert "a day: " in fine.output


def test_nothing_can_be_told(stack: Addresses, spark: SparkSession, named: str) -> None:
    """An empty topic: neither fine nor wrong."""
    create_topic(stack, named)
    with pytest.raises(UsageError, match="holds no record") as told:
        Pipeline(config_of(stack, named)).plan()
    assert told.value.exit_code == 2
