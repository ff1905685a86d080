"""Maintenance by the command: the same rows in fewer files, while a pipeline goes on; files that nobody needs go."""

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
    config = config_of(stack, named, partition=PARTITION, schema={"columns": "n INT, text STRING"})
    values = [json.dumps({"n": n, "text": "ab"[n % 2]}).encode() for n in range(40)]
    ingestion = Pipeline(config)
    for begin in range(0, 30, 10):
        produce(stack, named, [*values[begin : begin + 10], DIRTY])
        ingestion.run(until_caught_up=True)
    rows = Table(spark, config.table.path).read()
    before = spark.createDataFrame(rows.collect(), rows.schema)
    looked = ingestion.maintain(dry_run=True)
    assert [(each.before.count, each.due, each.due_files, each.removed) for each in looked] == [
        (6, 2, 6, 0),
        (3, 1, 3, 0),
    ]

    some, refused = ingestion.maintain()
    assert (some.before.count, some.after.count, some.partitions, some.removed, some.added) == (6, 2, 2, 6, 2)
    assert (refused.before.count, refused.after.count, refused.log) == (3, 1, "30 days")
    assert [each.vacuum and each.vacuum.files for each in (some, refused)] == [0, 0]
    assert [(each.due, each.removed) for each in ingestion.maintain("compact")] == [(0, 0), (0, 0)]
    assert spark.conf.get("spark.databricks.delta.optimize.minFileSize", None) is None
    assert spark.conf.get("spark.databricks.delta.vacuum.logging.enabled", None) is None

    assert_df_equality(Table(spark, config.table.path).read(), before, ignore_row_order=True, ignore_nullable=True)
    produce(stack, named, values[30:])
    assert ingestion.run(until_caught_up=True).accepted == 10
    assert ingestion.audit().conserved


def test_what_cannot_be_maintained(stack: Addresses, named: str) -> None:
    """No table yet, and rows that cannot be sorted."""
    produce(stack, named, clean_records(2))
    ingestion = Pipeline(config_of(stack, named, maintenance={"compact": {"order_by": ["m"]}}))
    with pytest.raises(UsageError, match="no Delta table"):
        ingestion.maintain()
    ingestion.run(until_caught_up=True)
    produce(stack, named, clean_records(2))
    ingestion.run(until_caught_up=True)
    with pytest.raises(UsageError, match=r"cannot be sorted by m: \[DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST\]"):
        ingestion.maintain()


def test_maintain_as_a_command(stack: Addresses, named: str, tmp_path: Path) -> None:
    """As text and as JSON, of one file and of a folder; and words that are no option."""
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(values_of(stack, named)))
    for _ in range(2):
        produce(stack, named, clean_records(5))
        assert CliRunner().invoke(app, ["run", str(file), "--until-caught-up"]).exit_code == 0
    told = CliRunner().invoke(app, ["maintain", str(file), "--dry-run"])
    assert told.exit_code == 0, told.output
    assert "dry run: nothing was done" in told.output
    assert f"s3a://lake/{named}: 2 small files in 1 partition, 0.0 MiB, are to be written anew" in told.output
    ran = CliRunner().invoke(app, ["maintain", str(file), "--output", "json", "--most-time", "5 minutes"])
    main = json.loads(ran.output)["tables"][0]
    assert (main["before"]["count"], main["after"]["count"], main["removed"], main["added"]) == (2, 1, 2, 1)
    assert main["vacuum"]["files"] == 0
    of_folder = CliRunner().invoke(app, ["maintain", str(tmp_path), "--only", "compact", "--output", "json"])
    (pipeline,) = json.loads(of_folder.output)["pipelines"]
    assert (pipeline["pipeline"], pipeline["tables"][0]["due"], pipeline["tables"][0]["vacuum"]) == (named, 0, None)
    for words in (["--only", "zip"], ["--most-time", "soon"], ["--most-bytes", "many"]):
        assert isinstance(CliRunner().invoke(app, ["maintain", str(file), *words]).exception, UsageError), words
