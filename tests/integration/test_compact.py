"""Compaction: the same rows in fewer files, while a pipeline goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from support.pipelines import config_of, values_of
from support.records import DIRTY, clean_records, produce
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.delta.table import Table
from lakeingest.errors import UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

PARTITION = [{"by": "field", "field": "text"}]


@pytest.mark.slow
def test_the_same_rows_in_fewer_files(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Two partitions of three small files each become two files; the next batch and the audit go on."""
    columns = "n INT, text STRING"
    config = config_of(stack, named, partition=PARTITION, schema={"columns": columns})
    values = [json.dumps({"n": n, "text": "ab"[n % 2]}).encode() for n in range(40)]
    ingestion = Pipeline(config)
    for begin in range(0, 30, 10):
        produce(stack, named, [*values[begin : begin + 10], DIRTY])
        ingestion.run(until_caught_up=True)
    rows = Table(spark, config.table.path).read()
    before = spark.createDataFrame(rows.collect(), rows.schema)
    looked = ingestion.compact(2**20, dry_run=True)
    assert [(each.before.count, each.removed, each.added) for each in looked] == [(6, 0, 0), (3, 0, 0)]

    some, refused = ingestion.compact(2**20, where="text = 'a'")
    assert (some.before.count, some.after.count, some.removed, some.added) == (6, 4, 3, 1)
    assert (refused.before.count, refused.after.count) == (3, 1)
    every, again = ingestion.compact(2**20)
    assert (every.after.count, every.removed, every.added) == (2, 3, 1)
    assert (again.after.count, again.removed, again.added) == (1, 0, 0)
    assert spark.conf.get("spark.databricks.delta.optimize.minFileSize", None) is None

    assert_df_equality(Table(spark, config.table.path).read(), before, ignore_row_order=True, ignore_nullable=True)
    produce(stack, named, values[30:])
    assert ingestion.run(until_caught_up=True).accepted == 10
    assert ingestion.audit().conserved


def test_what_cannot_be_compacted(stack: Addresses, named: str) -> None:
    """No table yet, and a condition over a column that is no partition's."""
    produce(stack, named, clean_records(2))
    ingestion = Pipeline(config_of(stack, named, partition=PARTITION))
    with pytest.raises(UsageError, match="no Delta table"):
        ingestion.compact(2**20)
    ingestion.run(until_caught_up=True)
    with pytest.raises(UsageError, match="cannot be compacted where n = 1"):
        ingestion.compact(2**20, where="n = 1")
    with pytest.raises(UsageError, match="cannot be compacted where nonsense"):
        ingestion.compact(2**20, where="nonsense (")


def test_compact_as_a_command(stack: Addresses, named: str, tmp_path: Path) -> None:
    """As text and as JSON."""
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(values_of(stack, named)))
    for _ in range(2):
        produce(stack, named, clean_records(5))
        assert CliRunner().invoke(app, ["run", str(file), "--until-caught-up"]).exit_code == 0
    told = CliRunner().invoke(app, ["compact", str(file), "--dry-run"])
    assert told.exit_code == 0, told.output
    assert "dry run: nothing was done" in told.output
    ran = CliRunner().invoke(app, ["compact", str(file), "--output", "json"])
    main = json.loads(ran.output)["tables"][0]
    assert (main["before"]["count"], main["after"]["count"], main["removed"], main["added"]) == (2, 1, 2, 1)
