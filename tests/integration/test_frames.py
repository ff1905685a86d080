"""The frames of a pipeline: its table as it is and was, quarantine and history; and what a notebook shows of it."""

from __future__ import annotations

from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from support.pipelines import World
from support.records import clean_records, mixed_records

from lakeingest.errors import UsageError
from lakeingest.pipeline import Pipeline

BATCHES = "sequence BIGINT, offsets BIGINT, rows BIGINT, refused BIGINT, dropped BIGINT"


def batches(pipeline: Pipeline) -> Any:
    """The pipeline's own commits, oldest first."""
    names = ("sequence", "offsets", "rows", "refused", "dropped")
    return pipeline.history().where("sequence IS NOT NULL").select(*names).orderBy("version")


@pytest.fixture
def world(stack: Any, spark: SparkSession, named: str) -> World:
    return World(stack, spark, named, decode={"on_null": "ignore"})


def test_history_has_what_became_of_each_batch(world: World, spark: SparkSession) -> None:
    """Refused and dropped ones from quarantine's receipts; commits of others are there, without a sequence."""
    world.produce(*mixed_records(10), None, partitions=2)
    world.run()
    pipeline = world.ingestion()
    table = pipeline.table()
    assert_df_equality(table, spark.read.format("delta").load(world.path()), ignore_row_order=True)
    world.produce(*clean_records(4, 10), partitions=2)
    world.run()
    # Others write what they like into userMetadata.
    for text in ("no JSON", '{"pipeline": "other", "sequence": 7, "lakeingest": 1, "offsets": {}}'):
        nothing = table.limit(0).write.format("delta").mode("append")
        nothing.option("userMetadata", text).save(world.path())
    world.sql("OPTIMIZE {table}")

    wanted = spark.createDataFrame([(1, 11, 8, 2, 1), (2, 4, 4, 0, 0)], BATCHES)
    assert_df_equality(batches(pipeline), wanted, ignore_nullable=True)
    history = pipeline.history().collect()
    assert [row["version"] for row in history] == [*reversed(range(len(history)))]
    assert history[0]["operation"] == "OPTIMIZE"
    own = [row for row in history if row["sequence"] is not None]
    assert all(row["writer"].startswith("process ") and row["bytes"] > 0 and row["files"] > 0 for row in own)
    assert {row["writer"] for row in history} == {None, *(row["writer"] for row in own)}


@pytest.mark.faults
def test_an_account_that_is_not_there_yet_is_null(world: World, spark: SparkSession) -> None:
    """A crash before quarantine's commit leaves nothing known; the next run settles it."""
    world.produce(*mixed_records(10))
    world.crash()
    pipeline = world.ingestion()
    unknown = spark.createDataFrame([(1, 10, 8, None, None)], BATCHES)
    assert_df_equality(batches(pipeline), unknown, ignore_nullable=True)
    world.run()
    settled = spark.createDataFrame([(1, 10, 8, 2, 0)], BATCHES)
    assert_df_equality(batches(pipeline), settled, ignore_nullable=True)


@pytest.mark.faults
def test_quarantine_is_the_pipelines_own_with_todays_columns(world: World, spark: SparkSession) -> None:
    """It counts what the command counts: no rows of another pipeline, and none that were given up."""
    world.produce(*mixed_records(10))
    world.run()
    pipeline = world.ingestion()
    rows = spark.read.format("delta").load(world.path("_quarantine"))
    rows.selectExpr(*rows.drop("pipeline").columns, "'other' AS pipeline").write.format("delta").mode("append").save(
        world.path("_quarantine")
    )
    assert pipeline.quarantine().count() == 2
    assert pipeline.discard("junk", where="_offset = 0") == 1
    assert pipeline.quarantine().count() == sum(each["count"] for each in pipeline.quarantined()) == 1
    assert pipeline.quarantine(closed=True).count() == 2


def test_what_a_notebook_shows_of_a_run_pipeline(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Each result has its line, its HTML and its frames, of real tables."""
    world.produce(*mixed_records(10))
    pipeline = world.ingestion()
    assert pipeline.run(until_caught_up=True, progress=True).refused == 2
    assert "10 records, 2 refused, lag 0" in " ".join(capsys.readouterr().err.split())
    lines = {
        "status": f"<Status {world.name}: lag 0, 8 rows in the table, 2 in quarantine, commit 1 at ",
        "audit": f"<Report {world.name}: conserved, 10 consumed = 8 in the table + 2 in quarantine + 0 dropped>",
        "plan": f"<Plan {world.name}: of 10 records sampled, 8 to the table, 2 to quarantine, 0 dropped; caught up",
        "schemas": f"<SchemaHistory {world.name}: FORWARD, ",
    }
    for name, line in lines.items():
        result = getattr(pipeline, name)()
        assert repr(result).startswith(line)
        assert result._repr_html_().startswith("<div")
        for listing, rows in result.listings.items():
            assert len(result.to_pandas(listing)) == result.to_arrow(listing).num_rows == len(rows)
    assert [*pipeline.quarantined().to_pandas()["count"]] == [2]


def test_a_version_that_is_not_there(world: World) -> None:
    """It is named, with where to look."""
    world.produce(*clean_records(1))
    world.run()
    pipeline = world.ingestion()
    for version in (99, -1):
        with pytest.raises(UsageError, match=rf"has no version {version}"):
            pipeline.table(version)
    assert pipeline.table(0).count() == 0
