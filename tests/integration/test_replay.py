"""Refused records move into the table once, or are given up, and it is known by whom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.faults import BUCKET, Cell, records
from support.oracle import assert_exactly_once
from support.pipelines import World
from support.records import DIRTY, clean_records, produce
from typer.testing import CliRunner

from lakeingest.cli import app
from lakeingest.delta import receipt
from lakeingest.errors import StorageError, UsageError
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.testing.s3 import Request, S3Proxy, denied
from lakeingest.testing.steps import OF_REPLAY, Step


class GatedWorld(World):
    """A pipeline whose suite lets n up to a bound pass; twenty records, and one that is no record at all."""

    def __init__(self, stack: Addresses, spark: SparkSession, name: str, folder: Path, **changes: Any) -> None:
        super().__init__(stack, spark, name, **changes)
        self.suite = folder / "suite.json"
        self.produce(*clean_records(20), b"{")

    def with_most(self, most: int) -> Pipeline:
        rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": most}}
        self.suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
        return self.ingestion(gate={"suite": str(self.suite)})

    def check(self, ingestion: Pipeline, table: int) -> None:
        assert_exactly_once(self.spark, ingestion, self.produced)
        report = ingestion.audit()
        assert report.conserved, report
        assert (report.table, report.quarantine) == (table, len(self.produced) - table)


@pytest.mark.slow
def test_what_passes_moves_once(stack: Addresses, spark: SparkSession, named: str, tmp_path: Path) -> None:
    """By condition and limit; a dry run moves nothing, nor does a second time; the rest is discarded."""
    world = GatedWorld(stack, spark, named, tmp_path)
    world.with_most(5).run(until_caught_up=True)
    relaxed = world.with_most(14)
    dry = relaxed.replay("a look", dry_run=True)
    assert (dry.looked, dry.moved) == (15, 9)
    assert {(r["stage"], r["count"]) for r in dry.refused} == {("gate", 5), ("value", 1)}
    assert relaxed.replay("one of them", where="_offset = 7").moved == 1
    assert relaxed.replay("two of them", limit=2).moved == 2
    # What a replay has moved is in quarantine no longer.
    assert {name: part["rows"] for name, part in relaxed.status().tables.items()} == {"table": 9, "quarantine": 12}

    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(world.values(gate={"suite": str(world.suite)})))
    told = CliRunner().invoke(app, ["quarantine", "replay", str(file), "--reason", "all of them"])
    assert told.exit_code == 0, told.output
    assert "12 records checked again, 6 moved to the table, 6 stay" in told.output
    assert relaxed.replay("again").moved == 0
    rows = spark.read.format("delta").load(relaxed.config.quarantine.path).where("moved IS NOT NULL").collect()
    assert {(row["_offset"], row["moved"]["why"]) for row in rows} == {
        (6, "two of them"),
        (7, "one of them"),
        (8, "two of them"),
        *((offset, "all of them") for offset in range(9, 15)),
    }
    assert {row["moved"]["who"] for row in rows} == {receipt.somebody()}

    with pytest.raises(UsageError, match="is no condition"):
        relaxed.discard("no", where="nothing = 1")
    told = CliRunner().invoke(
        app, ["quarantine", "discard", str(file), "--where", "stage = 'value'", "--reason", "noise", "--output", "json"]
    )
    assert json.loads(told.stdout) == {"pipeline": named, "discarded": 1}
    assert {group["stage"] for group in relaxed.quarantined()} == {"gate"}
    world.check(relaxed, 15)
    assert world.with_most(99).replay("the last").looked == 5
    assert CliRunner().invoke(app, ["quarantine", "discard", str(file)]).exit_code == 2
    produce(stack, named, clean_records(5))
    assert relaxed.run(until_caught_up=True).accepted == 5


@pytest.mark.faults
def test_behind_a_restore_to_the_beginning(world: World) -> None:
    """The ledger of schemas went with it: a replay goes on where the table has all that the file declares. It looks at
    nothing, since the run is to read all of it again.
    """
    world.produce(b"{", *clean_records(2))
    world.run()
    world.sql("RESTORE TABLE {table} TO VERSION AS OF 0")
    version = world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").first()["version"]  # type: ignore[index]
    for columns in ("n BIGINT NOT NULL, text STRING", "n INT NOT NULL, text STRING, more INT"):
        with pytest.raises(UsageError, match="declares columns that the table does not have yet"):
            world.ingestion(schema={"columns": columns}).replay("too early")
    assert world.ingestion().replay("the columns are there").looked == 0
    assert world.spark.sql(f"DESCRIBE HISTORY delta.`{world.path()}`").first()["version"] == version  # type: ignore[index]


def _log_of(name: str) -> Callable[[Request], bool]:
    return lambda request: request.kind == "PUT" and f"/{name}/_delta_log/" in f"/{request.key}" and request.text != ""


def _data_of(name: str) -> Callable[[Request], bool]:
    return lambda request: (
        request.kind == "PUT" and f"/{name}/" in f"/{request.key}" and "_delta_log" not in request.key
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "table"),
    [
        pytest.param("before the files", 6, marks=pytest.mark.faults),
        pytest.param("before the table's commit", 6, marks=pytest.mark.faults),
        pytest.param("before the marks' files", 15, marks=pytest.mark.faults),
        pytest.param("before the marks", 15, marks=pytest.mark.faults),
    ],
)
def test_cut_off(
    stack: Addresses, spark: SparkSession, s3: S3Proxy, named: str, tmp_path: Path, *, step: str, table: int
) -> None:
    """At whatever step: the audit holds at once, and after the next replay everything is where it belongs."""
    world = GatedWorld(stack, spark, named, tmp_path, table={"path": f"s3a://{BUCKET}/{named}"})
    world.with_most(5).run(until_caught_up=True)
    relaxed = world.with_most(14)
    spoil = _data_of if "files" in step else _log_of
    fault = s3.fault(spoil(f"{named}_quarantine" if "marks" in step else named), denied(), times=None)
    with pytest.raises(StorageError):
        relaxed.replay("a try")
    assert fault.hits
    s3.clear()
    report = relaxed.audit()
    assert report.conserved, report
    assert (report.table, report.quarantine) == (table, 21 - table)
    # A batch of Kafka's meanwhile changes nothing.
    world.produce(*clean_records(3))
    relaxed.run(until_caught_up=True)
    assert relaxed.replay("once more").moved == 15 - table
    world.check(relaxed, 18)


@pytest.mark.faults
@pytest.mark.parametrize("step", OF_REPLAY, ids=lambda step: step.name.lower())
def test_killed(cells: dict[str, Cell], s3: S3Proxy, tmp_path: Path, step: Step) -> None:
    """A process of its own, killed; the next replay, elsewhere, completes it: each record is there once, before too."""
    cell, suite = cells["dirty"], tmp_path / "suite.json"
    rule = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 99}}
    suite.write_text(json.dumps({"name": "s", "expectations": [rule]}))
    cell.changes = {"gate": {"suite": str(suite)}}
    cell.produce(300)
    cell.run()
    suite.write_text(json.dumps({"name": "s", "expectations": [{**rule, "kwargs": {"column": "n", "max_value": 249}}]}))
    cell.killed(s3, step, "--reason", "more is welcome", command=("quarantine", "replay"))
    between = cell.ingestion().audit()
    assert between.conserved, between
    assert between.table in (good(100), good(250))
    cell.produce(100)
    begun = time.monotonic()
    cell.run()
    moved = cell.ingestion().replay("once more").moved
    cell.check(f"replay killed {step}", "the next replay completed it", time.monotonic() - begun)
    assert cell.ingestion().audit().table == good(250)
    assert moved == good(250) - between.table


def good(end: int) -> int:
    """How many of a dirty cell's first records can be decoded."""
    return sum(record.value not in (None, DIRTY, b"\xff{") for record in records("dirty", end))
