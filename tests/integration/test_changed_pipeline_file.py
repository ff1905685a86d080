"""A pipeline file that was changed: its name, its partitions, its columns. What the table can become, and what not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from support.pipelines import World, values_of
from support.records import clean_records, mixed_records
from support.servers import s3_client
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.delta.table import Table
from lakeingest.errors import NotConserved, TableMismatch, UsageError
from lakeingest.ingest import shape
from lakeingest.local import Addresses
from lakeingest.local.s3 import BUCKET
from lakeingest.pipeline import Pipeline
from lakeingest.spark import types
from lakeingest.spark.types import not_null_fields

Ask = Callable[[Pipeline], object]
ALL: dict[str, Ask] = {
    "run": lambda ingestion: ingestion.run(until_caught_up=True),
    "plan": lambda ingestion: ingestion.plan(),
    "replay": lambda ingestion: ingestion.replay("again"),
}
TWO = "2024-06-30T23:30:00Z"


def order(number: int, amount: object, **more: object) -> bytes:
    return json.dumps({"n": number, "amount": amount, **more}).encode()


def columns(text: str) -> dict[str, str]:
    return {"columns": text}


def amounts(world: World) -> list[str]:
    rows = world.spark.read.format("delta").load(world.ingestion().config.table.path)
    return sorted(str(row["amount"]) for row in rows.collect())


def refused_by_all(world: World, match: str, **changes: Any) -> None:
    """Run, plan and replay say the same of a file, and nothing was written."""
    version = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.ingestion().config.table.path}`").count()
    said = set()
    for ask in ALL.values():
        with pytest.raises(TableMismatch, match=match) as refused:
            ask(world.ingestion(**changes))
        said.add(str(refused.value))
    assert len(said) == 1
    assert world.spark.sql(f"DESCRIBE HISTORY delta.`{world.ingestion().config.table.path}`").count() == version


# The name ------------------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_renamed_pipeline(stack: Addresses, spark: SparkSession) -> None:
    """The same file under another name would write all again: it is refused, and goes on with renamed_from."""
    world = World(stack, spark, "renamed_a", quarantine={"path": "s3a://lake/renamed_a_quarantine"})
    world.produce(*mixed_records(20))
    world.run()
    refused_by_all(world, "by pipeline 'renamed_a', batch 1, and none by 'renamed_b'", name="renamed_b")
    assert world.ingestion(name="renamed_b").audit().others == {"renamed_a": 1}
    world.produce(*mixed_records(20))
    world.run(name="renamed_b", renamed_from="renamed_a")
    world.checked(name="renamed_b", renamed_from="renamed_a")
    # Once more it has to name the first name, not the second; and it can have its old name back.
    again = {"name": "renamed_c", "renamed_from": "renamed_b"}
    refused_by_all(world, "by pipeline 'renamed_a', batch 2, and none by 'renamed_b'", **again)
    assert world.ingestion().run(until_caught_up=True).consumed == 0
    moved = world.ingestion(name="renamed_b", renamed_from="renamed_a", schema=columns("n STRING, text STRING"))
    assert sum(each["count"] for each in moved.quarantined()) == 8


@pytest.mark.faults
def test_a_table_whose_maker_has_not_committed(
    stack: Addresses, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second pipeline of the topic neither starts beside the first batch, nor where both meant to make the table."""
    world = World(stack, spark, "maker_a", quarantine={"path": "s3a://lake/maker_a_quarantine"})
    world.produce(*clean_records(10))
    with monkeypatch.context() as cut:
        cut.setattr("lakeingest.ingest.attempt.Attempt.next_batch", _fail)
        with pytest.raises(RuntimeError, match="killed"):
            world.run(schema=columns("n INT, text STRING"))
    shared = {"name": "maker_b", "schema": columns("n INT, text STRING")}
    refused_by_all(world, "was made for maker_a of pipeline 'maker_a', whose first batch may be under way", **shared)
    asked, real = list[str](), Table.schema

    def missing_at_first(table: Table) -> StructType | None:
        asked.append(table.identifier)
        return None if asked.count(world.ingestion().config.table.path) == 1 else real(table)

    with monkeypatch.context() as both:
        both.setattr(Table, "schema", missing_at_first)
        with pytest.raises(TableMismatch, match="was made for maker_a of pipeline 'maker_a'"):
            world.run(**shared)
    world.run(schema=columns("n INT, text STRING"))
    world.checked()


def _fail(*_: object) -> None:
    raise RuntimeError("killed")


def delete(stack: Addresses, prefix: str) -> None:
    with closing(s3_client(stack)) as client:
        for each in client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]:
            client.delete_object(Bucket=BUCKET, Key=each["Key"])


def test_a_deleted_table(stack: Addresses, spark: SparkSession) -> None:
    """Run, plan, status and audit say the same of a table that is gone while its quarantine is there."""
    world = World(stack, spark, "deleted_table")
    world.produce(*mixed_records(20))
    world.run()
    delete(stack, "deleted_table/")
    said = set()
    for ask in (ALL["run"], ALL["plan"], Pipeline.status, Pipeline.audit):
        with pytest.raises(
            TableMismatch, match="holds nothing of pipeline 'deleted_table', but its quarantine"
        ) as told:
            ask(world.ingestion())
        said.add(str(told.value))
    assert len(said) == 1


@pytest.mark.faults
def test_a_table_that_is_deleted_while_a_run_goes(stack: Addresses, spark: SparkSession) -> None:
    """The run stops, and each command says that what is there is not the whole."""
    world = World(stack, spark, "deleted_meanwhile")
    world.produce(*mixed_records(9))
    with pytest.raises(TableMismatch, match="was deleted before batch 2, while the pipeline ran"):
        world.ingestion(trigger={"max_records": 3}).run(
            until_caught_up=True, on_progress=lambda _: delete(stack, "deleted_meanwhile/")
        )
    for ask in (ALL["run"], ALL["plan"]):
        with pytest.raises(TableMismatch, match="what was there up to version 1 is gone"):
            ask(world.ingestion())
    report = world.ingestion().audit()
    assert not report.conserved
    assert report.breaks == ("before commit 2 the table was deleted, with all that it held",)
    # The cure.
    delete(stack, "deleted_meanwhile")
    world.run()
    world.checked()


@pytest.mark.faults
def test_another_topic_into_the_same_table(stack: Addresses, spark: SparkSession) -> None:
    """Two pipelines of different topics may share a table, and its audit names no other."""
    one, other = World(stack, spark, "shared_one"), World(stack, spark, "shared_two")
    for world in (one, other):
        world.produce(*clean_records(5))
    one.run()
    other.changes = {"table": {"path": "s3a://lake/shared_one"}, "quarantine": {"path": "s3a://lake/shared_two_q"}}
    other.run()
    assert spark.read.format("delta").load("s3a://lake/shared_one").count() == 10
    assert one.ingestion().audit().others == {}
    assert other.ingestion().audit().others == {}


@pytest.mark.faults
def test_the_audit_names_who_doubled(stack: Addresses, spark: SparkSession) -> None:
    """A table that was doubled by an older version: the audit counts what is double, and names the other pipeline."""
    world = World(stack, spark, "doubled_a")
    world.produce(*clean_records(10))
    world.run()
    with unchecked():
        world.run(name="doubled_b", quarantine={"path": "s3a://lake/doubled_b_q"})
    report = world.ingestion().audit()
    assert (report.duplicated, report.others) == (10, {"doubled_b": 1})


@pytest.mark.faults
def test_the_audit_command_names_the_other_one(stack: Addresses, spark: SparkSession, tmp_path: Path) -> None:
    """In its text and its error: the cure was to let the pipeline run, which is refused."""
    world = World(stack, spark, "audited_a", quarantine={"path": "s3a://lake/audited_a_q"})
    world.produce(*clean_records(10))
    world.run()
    asked = CliRunner().invoke(app, ["audit", str(world_file(world, tmp_path, name="audited_b"))])
    assert "  pipeline 'audited_a' has written records of these topics to the table too" in asked.output
    assert isinstance(asked.exception, NotConserved)
    assert "has committed nothing to the table, and pipeline 'audited_a' has" in asked.exception.what
    assert "renamed_from" in asked.exception.cure
    with unchecked():
        world.run(name="audited_b", quarantine={"path": "s3a://lake/audited_b_q"})
    asked = CliRunner().invoke(app, ["audit", str(world_file(world, tmp_path))])
    assert isinstance(asked.exception, NotConserved)
    assert "10 duplicated, 0 unexpected; pipeline 'audited_b' has written to the table too" in asked.exception.what


@contextmanager
def unchecked() -> Iterator[None]:
    """Runs within the block are those of an older version, which did not look whose the table is."""
    with pytest.MonkeyPatch.context() as older:
        older.setattr("lakeingest.ingest.preflight._check_name", lambda *_: None)
        older.setattr("lakeingest.ingest.preflight.check_maker", lambda *_: None)
        older.setattr("lakeingest.delta.pipeline_tables.PipelineTables._frontier_of_rows", lambda *_: {})
        yield


def world_file(world: World, folder: Path, **changes: Any) -> Path:
    values = values_of(world.stack, world.name, **{**world.changes, **changes})
    (folder / "p.yaml").write_text(json.dumps(values))
    return folder / "p.yaml"


# Partitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_partitions_of_an_older_table(stack: Addresses, spark: SparkSession) -> None:
    """A table that an older version made takes the file's partitions for its own with the next commit."""
    part = {"by": "time", "field": "at"}
    world = World(stack, spark, "partition_kept", partition=[part], schema=columns("n INT, at TIMESTAMP"))
    world.produce(order(1, 1, at=TWO))
    world.run()
    (name,) = [row["key"] for row in spark.sql("SHOW TBLPROPERTIES delta.`s3a://lake/partition_kept`").collect()
               if row["key"].startswith("lakeingest.partition.")]  # fmt: skip
    world.sql(f"ALTER TABLE {{table}} UNSET TBLPROPERTIES ('{name}')")
    world.produce(order(2, 1, at=TWO))
    world.run()
    refused_by_all(world, "timezone UTC", partition=[{**part, "timezone": "Asia/Tokyo"}])


@pytest.mark.parametrize(
    ("number", "other", "match"),
    [
        (0, [{"by": "time", "field": "at", "every": "day", "format": "'day'=yyyyMMdd"}], "with format left out"),
        pytest.param(
            1,
            [{"by": "field", "field": "n"}, {"by": "time", "field": "at"}],
            "partitioned by day, n",
            marks=pytest.mark.faults,
        ),
    ],
    ids=["format", "order"],
)
def test_another_format_or_order(
    stack: Addresses, spark: SparkSession, number: int, other: list[dict[str, str]], match: str
) -> None:
    """Rows of one time would lie in two places: run, plan and replay refuse it alike."""
    parts = [{"by": "time", "field": "at"}, {"by": "field", "field": "n"}]
    declared = columns("n INT, at TIMESTAMP, amount INT")
    world = World(stack, spark, f"partition_other_{number}", partition=parts[: 1 + number], schema=declared)
    world.produce(order(1, 1, at=TWO))
    world.run()
    refused_by_all(world, match, partition=other)


def test_a_wider_column_under_full(stack: Addresses, spark: SparkSession) -> None:
    """New rows must be readable as the old schema says, so that run, plan and replay refuse it alike."""
    world = World(stack, spark, "full_declared", schema={**columns("n INT, amount INT"), "compatibility": "FULL"})
    world.produce(order(1, 1))
    world.run()
    wider = {**columns("n BIGINT, amount INT"), "compatibility": "FULL"}
    refused_by_all(world, "under FULL, new rows must be readable as the old schema says", schema=wider)


# Columns -------------------------------------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_corrected_schema_and_a_replay(stack: Addresses, spark: SparkSession) -> None:
    """Wrong types and missing required fields leave quarantine once the declaration was widened and loosened."""
    world = World(stack, spark, "corrected", schema=columns("n INT NOT NULL, amount DECIMAL(10,2)"))
    world.produce(order(1, 1.25), order(2, 907.152), order(2**40, 3), b'{"amount": 4}')
    world.run()
    assert sum(each["count"] for each in world.ingestion().quarantined()) == 3
    world.changes["schema"] = columns("n BIGINT, amount DECIMAL(14,6)")
    with pytest.raises(UsageError, match=r"does not have yet: .*amount DECIMAL\(10,2\) → DECIMAL\(14,6\)"):
        world.ingestion().replay("corrected")
    assert world.ingestion().replay("corrected", dry_run=True).moved == 3
    world.run()
    assert world.ingestion().replay("corrected").moved == 3
    assert amounts(world) == ["1.250000", "3.000000", "4.000000", "907.152000"]
    world.checked()


def test_not_null_is_dropped(stack: Addresses, spark: SparkSession) -> None:
    """A column that was declared NOT NULL, a nested one or a partition's too, takes nulls when the file says so."""
    was = "n INT NOT NULL, amount INT, s STRUCT<a: INT NOT NULL>"
    by_n = [{"by": "field", "field": "n"}]
    world = World(stack, spark, "loosened", schema=columns(was), partition=by_n)
    world.produce(order(1, 1, s={"a": 1}))
    world.run()
    world.changes["schema"] = columns(was.replace(" NOT NULL", ""))
    world.produce(b'{"amount": 2}', order(3, 3, s={}))
    world.run()
    world.produce(b'{"amount": 4}')
    world.run()
    assert amounts(world) == ["1", "2", "3", "4"]
    world.checked()


@pytest.mark.faults
def test_not_null_within_what_may_be_null(stack: Addresses, spark: SparkSession) -> None:
    """It is demanded of a struct that is there, and of none that is missing."""
    inner = "s STRUCT<a: INT NOT NULL>, l ARRAY<STRUCT<b: INT NOT NULL>>"
    world = World(
        stack, spark, "within", schema=columns(f"n INT NOT NULL, t STRUCT<c: INT NOT NULL> NOT NULL, {inner}")
    )
    world.produce(order(1, 1, t={"c": 1}, s={"a": 1}, l=[{"b": 1}]), order(2, 2, t={"c": 1}))
    world.produce(*(order(n, n, **bad) for n, bad in enumerate(({"t": {}}, {"t": {"c": 1}, "s": {}}, {"s": {"a": 1}}))))
    world.produce(order(9, 9, t={"c": 1}, l=[{}]))
    assert world.run().refused == 4
    world.checked()
    there = spark.read.format("delta").load(world.path()).schema
    assert [path for path, _ in not_null_fields(there)] == ["`n`", "`t`", "`t`.`c`"]


@pytest.mark.faults
def test_a_table_that_demands_too_much_is_loosened(
    stack: Addresses, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an older version made it: no record without the struct could be committed, ever."""
    world = World(stack, spark, "demanding", schema=columns("n INT, amount INT, s STRUCT<a: INT NOT NULL>"))
    world.produce(order(1, 1, s={"a": 1}))
    with monkeypatch.context() as older:
        for module in (shape, types):
            older.setattr(module, "demanded", lambda wanted: wanted)
        world.run()
    assert [path for path, _ in not_null_fields(spark.read.format("delta").load(world.path()).schema)] == ["`s`.`a`"]
    world.produce(order(2, 2), order(3, 3, s={}))
    assert world.run().refused == 1
    world.checked()


@pytest.mark.faults
def test_a_required_column_is_declared_no_more(stack: Addresses, spark: SparkSession) -> None:
    """A column that the file drops stays in the table, and is null from then on, though it was NOT NULL."""
    world = World(stack, spark, "undeclared", schema=columns("n INT NOT NULL, amount INT"))
    world.produce(order(1, 1))
    world.run()
    world.changes["schema"] = columns("amount INT")
    world.produce(order(2, 2))
    world.run()
    assert amounts(world) == ["1", "2"]


@pytest.mark.faults
def test_a_loosening_that_was_cut_off(stack: Addresses, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the change of the column and the commit: the next run takes it from there."""
    world = World(stack, spark, "loosened_cut", schema=columns("n INT NOT NULL, amount DECIMAL(4,1)"))
    world.produce(order(1, 1))
    world.run()
    world.changes["schema"] = columns("n INT, amount DECIMAL(6,2)")
    world.produce(b'{"amount": 2.25}')
    with monkeypatch.context() as killed:
        killed.setattr("lakeingest.delta.commit.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.run()
    world.run()
    assert amounts(world) == ["1.00", "2.25"]
    world.checked()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_a_table_cannot_become(stack: Addresses, spark: SparkSession) -> None:
    """A declaration that Delta has no way to is refused by all three, with what to do."""
    world = World(stack, spark, "unbecoming", schema=columns("n INT, amount DECIMAL(10,2)"))
    world.produce(order(1, 1))
    world.run()
    refused_by_all(world, r"but to DECIMAL\(14,6\)", schema=columns("n INT, amount DECIMAL(12,6)"))


def test_columns_are_added_with_the_next_commit(stack: Addresses, spark: SparkSession) -> None:
    """A newly declared column is one more version of the ledger, without any record too; nested ones as well."""
    world = World(stack, spark, "declared_more", schema=columns("n INT, amount INT"))
    world.produce(order(1, 1))
    world.run()
    world.changes["schema"] = columns("n INT, amount INT, `more.of` MAP<STRING, STRUCT<`b.c``d`: INT>>")
    world.run()
    schema = spark.read.format("delta").load(world.ingestion().config.table.path).schema
    assert schema["more.of"].dataType.simpleString() == "map<string,struct<b.c`d:int>>"
    steps = [step.entry.changes for step in world.ingestion().schemas().steps]
    assert steps[-1] == ("+ `more.of` MAP<STRING, STRUCT<b.c`d: INT>>",)
    version = world.ingestion().status().commits[0]["version"]
    world.run()
    assert world.ingestion().status().commits[0]["version"] == version
