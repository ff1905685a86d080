"""Expectations of a whole batch: warned of, held back, let through, set aside, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import config_of, values_of
from support.records import DIRTY, clean_records, produce
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.delta.table import PROPERTIES
from lakeingest.errors import BatchHeld
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

MEAN = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "n", "max_value": 100}}

ROWS = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}}

SMALL = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 200}}

NAMED = {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "text", "regex": "^text"}}

MOSTLY = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 100, "mostly": 0.5}}

ONCE = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "n"}}

SQL = {
    "type": "unexpected_rows_expectation",
    "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n > 200"},
}


def on_failure(what: str, expectation: dict[str, Any]) -> dict[str, Any]:
    return {**expectation, "meta": {"lakeingest": {"on_failure": what}}}


def gated(stack: Addresses, name: str, folder: Path, *expectations: dict[str, Any]) -> Pipeline:
    suite = folder / "suite.json"
    suite.write_text(json.dumps({"name": "s", "expectations": list(expectations)}))
    return Pipeline(config_of(stack, name, gate={"suite": str(suite)}))


def found(ingestion: Pipeline, batches: int = 1) -> list[tuple[Any, ...]]:
    named = "sequence", "outcome", "expectation", "success", "evaluated", "unexpected"
    return [tuple(row[name] for name in named) for row in ingestion.results(batches)]


@pytest.mark.slow
def test_a_batch_is_held_and_let_through(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """Nothing is written but the results; with a reason it goes through, once, and the receipt says who and why."""
    ingestion = gated(
        stack, named, tmp_path, MEAN, ROWS, MOSTLY, NAMED, on_failure("warn", SMALL), on_failure("warn", ONCE)
    )
    wanted = dict(produce(stack, named, clean_records(50)))
    ingestion.run(until_caught_up=True)
    between = "expect_column_values_to_be_between(n)"
    assert found(ingestion) == [
        (1, "committed", "expect_column_mean_to_be_between(n)", True, None, None),
        (1, "committed", between, True, 50, 0),
        (1, "committed", f"{between}#2", True, 50, 0),
        (1, "committed", "expect_column_values_to_be_unique(n)", True, 50, 0),
        (1, "committed", "expect_column_values_to_match_regex(text)", True, 50, 0),
        (1, "committed", "expect_table_row_count_to_be_between()", True, None, None),
    ]
    wanted |= produce(stack, named, [*clean_records(50, 190), b'{"n": 300, "text": "x"}', DIRTY])
    with pytest.raises(BatchHeld) as held:
        ingestion.run(until_caught_up=True)
    told = str(held.value).splitlines()
    assert f"batch 2 of pipeline '{named}' is kept back ({named}-0 50 to 101)" in told[0]
    assert told[1:3] == [
        '  hold: expect_column_mean_to_be_between(column="n", max_value=100): observed 214.5',
        '  hold: expect_column_values_to_be_between(column="n", max_value=100, mostly=0.5): '
        "51 of 51 break it, as 190, 300",
    ]
    assert ingestion.status().lag == 52
    assert ingestion.audit().consumed == 50
    assert {(row[0], row[1]) for row in found(ingestion)} == {(2, "held")}

    ingestion.run(until_caught_up=True, accept_held="the numbers grew")
    assert_exactly_once(spark, ingestion, wanted)
    assert ingestion.audit().conserved
    newest = ingestion.results(1)
    assert {(row["sequence"], row["outcome"]) for row in newest} == {(2, "accepted")}
    by_name = {row["expectation"]: row for row in newest}
    assert by_name["expect_column_values_to_match_regex(text)"]["unexpected"] == 1
    assert by_name[f"{between}#2"]["unexpected"] == 40
    assert by_name[f"{between}#2"]["sample"] == ["201", "300"]
    receipt = spark.sql(f"DESCRIBE HISTORY delta.`s3a://lake/{named}`").select("userMetadata").first()
    assert receipt is not None
    accepted = json.loads(receipt[0])["job"]["accepted"]
    assert accepted["why"] == "the numbers grew"
    assert [each.partition("(")[0] for each in accepted["broken"]] == [
        "hold: expect_column_mean_to_be_between",
        "hold: expect_column_values_to_be_between",
    ]

    produce(stack, named, clean_records(20, 500))
    with pytest.raises(BatchHeld, match="batch 3"):
        ingestion.run(until_caught_up=True)

    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(values_of(stack, named, gate={"suite": str(tmp_path / "suite.json")})))
    told = CliRunner().invoke(app, ["gate", "history", str(file), "--failed", "--batches", "1"])
    assert told.exit_code == 0, told.output
    assert "expect_column_mean_to_be_between(n)" in told.output
    assert "expect_table_row_count" not in told.output


@pytest.mark.faults
@pytest.mark.slow
def test_fail_is_never_let_through(stack: Addresses, named: str, tmp_path: Path) -> None:
    """A reason does not help against on_failure: fail; and custom SQL is asked as well."""
    ingestion = gated(stack, named, tmp_path, on_failure("fail", SQL))
    produce(stack, named, clean_records(20, 195))
    with pytest.raises(BatchHeld, match="fail: unexpected_rows_expectation") as held:
        ingestion.run(until_caught_up=True, accept_held="please")
    assert "--accept-held" not in held.value.cure
    assert ingestion.audit().consumed == 0


@pytest.mark.slow
def test_a_whole_batch_is_set_aside(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """All its records go to quarantine, each with its own reason first; the next batch is asked anew."""
    ingestion = gated(stack, named, tmp_path, on_failure("quarantine", MEAN), NAMED)
    wanted = dict(produce(stack, named, [*clean_records(10, 500), b'{"n": 1, "text": "x"}', DIRTY]))
    ingestion.run(until_caught_up=True)
    wanted |= produce(stack, named, clean_records(10))
    counts = ingestion.run(until_caught_up=True)
    assert_exactly_once(spark, ingestion, wanted)
    assert (counts.accepted, counts.refused) == (10, 0)
    assert {(g["stage"], g["reason"], g["count"]) for g in ingestion.quarantined()} == {
        ("gate", "expect_column_mean_to_be_between(n)", 10),
        ("gate", "expect_column_values_to_match_regex(text)", 1),
        ("value", "WRONG_TYPE", 1),
    }
    assert {row[1] for row in found(ingestion, 2)} == {"set aside", "committed"}


@pytest.mark.faults
def test_a_failure_budget(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """When suddenly everything fails, the batch is kept back, its reasons are told, and quarantine stays empty."""
    ingestion = Pipeline(config_of(stack, named, quarantine={"path": f"s3a://lake/{named}_q", "max_refused": "2%"}))
    wanted = dict(produce(stack, named, [*clean_records(49), DIRTY]))
    assert ingestion.run(until_caught_up=True).refused == 1
    wanted |= produce(stack, named, [DIRTY, DIRTY, b"{", *clean_records(7)])
    with pytest.raises(BatchHeld) as held:
        ingestion.run(until_caught_up=True)
    assert "3 of 10 records are refused, and quarantine.max_refused is 2%: 2 WRONG_TYPE (value), 1 BROKEN_JSON" in str(
        held.value
    )
    assert ingestion.audit().quarantine == 1
    assert ingestion.run(until_caught_up=True, accept_held="a test").refused == 3
    assert_exactly_once(spark, ingestion, wanted)


@pytest.mark.slow
def test_results_of_quick_batches_are_written_together(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """In fewer commits than batches, behind the one that makes their table; each has its rows when the run is over."""
    suite = tmp_path / "suite.json"
    suite.write_text(json.dumps({"name": "s", "expectations": [MEAN]}))
    produce(stack, named, clean_records(20))
    config = config_of(stack, named, gate={"suite": str(suite)}, trigger={"max_records": 5})
    ingestion = Pipeline(config)
    ingestion.run(until_caught_up=True)
    assert [(row[0], row[1]) for row in found(ingestion, 9)] == [(n, "committed") for n in (4, 3, 2, 1)]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{config.results}`").orderBy("version").collect()
    first, *writes = [row["operation"] for row in history]
    # One, where the four batches take less than ten seconds.
    assert (first, set(writes), len(writes) < 4) == ("CREATE TABLE", {"WRITE"}, True)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{config.results}`").collect()[0]
    assert PROPERTIES.items() <= detail["properties"].items()
