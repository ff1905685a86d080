"""Real flights through a gate: quarantine counts by rule what Great Expectations counts offline."""

from __future__ import annotations

import json
import logging
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle import assert_exactly_once
from support.pipelines import config_of
from support.records import Record, produce

from lakeingest.config import file as pipeline_file
from lakeingest.local import Addresses
from lakeingest.local.demo import flights
from lakeingest.pipeline import Pipeline

FILE = Path(__file__).parents[2] / "pipelines" / "flights.yaml"
COUNT = 12_000
NOT_CANCELLED = {"type": "nullity", "column": {"name": "dep_time"}, "is_null": False}
SUITE = [
    {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "distance", "min_value": 100, "max_value": 2500},
    },
    {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "dep_time", "min_value": 500, "max_value": 2359},
    },
    {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "carrier", "value_set": ["UA", "B6", "EV", "DL"]},
    },
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "arr_time", "row_condition": NOT_CANCELLED}},
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "tailnum", "regex": "^N.*[A-Z]$"}},
    {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["carrier", "dest", "time_hour"]}},
]


def offline(values: list[dict[str, Any]]) -> list[int]:
    """How many flights Great Expectations finds unexpected, expectation by expectation, with pandas."""
    gx, pandas = pytest.importorskip("great_expectations"), pytest.importorskip("pandas")
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    whole = (
        context.data_sources.add_pandas("pandas")
        .add_dataframe_asset("flights")
        .add_batch_definition_whole_dataframe("b")
    )
    frame = pandas.DataFrame(values).convert_dtypes()
    asked = [{**each, "meta": {"at": at}} for at, each in enumerate(SUITE)]
    answer = whole.get_batch({"dataframe": frame}).validate(gx.ExpectationSuite(name="flights", expectations=asked))
    assert not [r for r in answer.results if r.exception_info.get("raised_exception")]
    in_order = sorted(answer.results, key=lambda r: r.expectation_config.meta["at"])
    return [r.result["unexpected_count"] for r in in_order]


@pytest.mark.faults
def test_quarantine_counts_what_great_expectations_counts(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """A suite that real flights partly fail, among damaged ones, which no expectation is asked of."""
    produced = [Record(value, key, partition) for partition, key, value in islice(flights.records(), COUNT)]
    wanted = produce(stack, named, produced, flights.PARTITIONS)
    suite = tmp_path / "flights.json"
    suite.write_text(json.dumps({"name": "flights", "expectations": SUITE}))
    columns = pipeline_file.read(FILE, {}).schema_.columns
    ingestion = Pipeline(config_of(stack, named, schema={"columns": columns}, gate={"suite": str(suite)}))
    counts = ingestion.run(until_caught_up=True)
    assert_exactly_once(spark, ingestion, wanted)
    assert ingestion.audit().conserved

    good = [json.loads(each.value or b"") for n, each in enumerate(produced, start=1) if n % 1000]
    refused = {group["reason"]: group["count"] for group in ingestion.quarantined() if group["stage"] == "gate"}
    assert ingestion.suite is not None
    assert [refused.get(rule.name, 0) for rule in ingestion.suite.rules] == offline(good)
    assert all(count > 0 for count in refused.values())
    assert len(refused) == len(SUITE)
    assert counts.consumed == COUNT
    relaxed = {rule.name for rule in ingestion.suite.rules if "carrier" in rule.name}
    held = spark.read.format("delta").load(ingestion.config.quarantine.path).where("stage = 'gate'").collect()
    wanted_moves = {tuple(row)[:3] for row in held if set(row["expectations"]) <= relaxed}
    suite.write_text(json.dumps({"name": "flights", "expectations": [e for e in SUITE if "carrier" not in str(e)]}))
    again = Pipeline(config_of(stack, named, schema={"columns": columns}, gate={"suite": str(suite)}))
    done = again.replay("all carriers are welcome")
    assert (done.looked, done.moved) == (counts.refused, len(wanted_moves))
    marked = spark.read.format("delta").load(ingestion.config.quarantine.path).where("moved IS NOT NULL").collect()
    assert {tuple(row)[:3] for row in marked} == wanted_moves
    assert_exactly_once(spark, again, wanted)
    assert again.audit().conserved
    broken = {group["reason"] for group in ingestion.quarantined() if group["stage"] != "gate"}
    assert broken == {"BROKEN_JSON", "WRONG_TYPE", "INVALID_UTF8"}
