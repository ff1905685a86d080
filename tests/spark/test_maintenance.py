"""Tables that are kept in shape: bounded, resumed, beside others' commits, and without harm to any reader."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeingest.config import PipelineConfig, Storage, file
from lakeingest.config.maintenance import Maintenance
from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.inventory import Inventory
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.errors import FilesLost, UsageError
from lakeingest.ingest import maintenance
from lakeingest.ingest.maintenance import MaintenanceRequest
from lakeingest.operations.export import exports
from lakeingest.operations.export.request import ExportRequest

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def config_of(folder: Path, **changes: Any) -> PipelineConfig:
    """A pipeline file of a table that is cut by days."""
    values = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "b:1"},
        "schema": {"columns": "n INT, at TIMESTAMP"},
        "partition": [{"by": "time", "field": "at"}],
        "table": {"path": f"{folder}/t"},
        "maintenance": {"compact": {"after": "1 ms"}},
    }
    return file.from_mapping({**values, **changes})


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> PipelineTables:
    """A table of three days, three small files each."""
    made = PipelineTables(spark, config_of(tmp_path))
    spark.sql(f"CREATE TABLE {made.main.sql} (n INT, at TIMESTAMP, day DATE) USING DELTA PARTITIONED BY (day)")
    for n in range(3):
        rows = ", ".join(f"({n}, TIMESTAMP'{day} 12:00:00', DATE'{day}')" for day in DAYS)
        spark.sql(f"INSERT INTO {made.main.sql} VALUES {rows}")
    time.sleep(0.01)
    return made


def maintained(tables: PipelineTables, **changes: Any) -> TableMaintenance:
    """What becomes of the main table; the other options are those of the file."""
    options = Maintenance.model_validate({"compact": {"after": "1 ms"}, **changes.pop("options", {})})
    tables = PipelineTables(tables.spark, tables.config.model_copy(update={"maintenance": options}))
    request = MaintenanceRequest(options, **{"only": "compact", **changes})
    return maintenance.maintain(tables, Storage(), request, lambda _: None)[0]


def operations(table: Table) -> list[str]:
    """The newest last."""
    return [entry["operation"] for entry in TableHistory(table).history(None)][::-1]


def test_each_partition_is_a_commit(tables: PipelineTables) -> None:
    """The rows stay, and a second time nothing is due."""
    rows = sorted(map(tuple, tables.main.read().collect()))
    looked = maintained(tables, dry_run=True)
    assert (looked.due, looked.due_files, looked.partitions) == (3, 9, 0)
    done = maintained(tables)
    assert (done.before.count, done.after.count, done.partitions, done.removed, done.added) == (9, 3, 3, 9, 3)
    assert operations(tables.main)[4:] == ["OPTIMIZE"] * 3
    assert sorted(map(tuple, tables.main.read().collect())) == rows
    assert maintained(tables).due == 0
    assert len(operations(tables.main)) == 7


def test_a_day_that_goes_on_is_left_alone(tables: PipelineTables) -> None:
    """Files came to all of them a moment ago."""
    assert maintained(tables, options={"compact": {"after": "1 hour"}}).due == 0


def test_what_its_bytes_allow_is_done_and_the_rest_the_next_time(tables: PipelineTables) -> None:
    """Bounded and resumed: one partition each time."""
    largest = max(each.size for each in Inventory.of(tables.main, Storage()).files)
    options = {"compact": {"after": "1 ms"}, "most": {"bytes": 4 * largest}}
    for number in range(3):
        done = maintained(tables, options=options)
        assert (done.partitions, sum(done.remaining.values())) == (1, 2 - number)
    assert maintained(tables, options=options).due == 0


def test_no_time_is_left(tables: PipelineTables) -> None:
    """Nothing is begun, and it is said."""
    options = {"compact": {"after": "1 ms"}, "most": {"time": "1 ms"}}
    done = maintained(tables, only=None, options=options, before_commit=lambda _: time.sleep(0.01))
    assert done.partitions + done.remaining["more than 1 millisecond (maintenance.most.time)"] == 3
    assert done.partitions <= 1
    assert done.vacuum is None


def test_a_commit_of_others_is_never_in_the_way(tables: PipelineTables, spark: SparkSession) -> None:
    """Somebody's own OPTIMIZE, rows that are appended, and a DELETE, each right before ours."""
    statements: Iterator[str] = iter(
        (
            f"OPTIMIZE {tables.main.sql}",
            f"INSERT INTO {tables.main.sql} VALUES (9, TIMESTAMP'2026-01-01 12:00:00', DATE'2026-01-01')",
            f"DELETE FROM {tables.main.sql} WHERE n = 0",
        )
    )
    done = maintained(tables, before_commit=lambda _: spark.sql(next(statements)).collect() and None)
    assert done.failure is None
    assert sorted(row["n"] for row in tables.main.read().collect()) == [1, 1, 1, 2, 2, 2, 9]


def test_two_at_once(tables: PipelineTables) -> None:
    """Whoever comes second finds nothing to do, or tries again: no row is lost or double."""
    inner: list[TableMaintenance] = []

    def other(_: Table) -> None:
        if not inner:
            inner.append(maintained(tables))

    outer = maintained(tables, before_commit=other)
    assert (inner[0].partitions, outer.failure, outer.removed, outer.after.count) == (3, None, 0, 3)
    assert tables.main.read().count() == 9


def test_rows_are_sorted_once(tables: PipelineTables) -> None:
    """By Z-order; a second time nothing is due, and a wrong column is told."""
    options = {"compact": {"after": "1 ms", "order_by": ["n"]}}
    assert maintained(tables, options=options).partitions == 3
    entry = TableHistory(tables.main).history(1)[0]
    assert json.loads(entry["operationParameters"]["zOrderBy"]) == ["n"]
    assert maintained(tables, options=options).due == 0


def test_a_column_that_rows_cannot_be_sorted_by(tables: PipelineTables) -> None:
    """A partition column."""
    with pytest.raises(UsageError, match="cannot be sorted by day"):
        maintained(tables, options={"compact": {"after": "1 ms", "order_by": ["day"]}})


def test_a_clustered_table_is_clustered(spark: SparkSession, tmp_path: Path) -> None:
    """By its own columns, whatever the file says; and not again as long as nothing came."""
    tables = PipelineTables(spark, config_of(tmp_path, partition=[]))
    spark.sql(f"CREATE TABLE {tables.main.sql} (n INT, m INT) USING DELTA CLUSTER BY (n)")
    for n in range(3):
        spark.sql(f"INSERT INTO {tables.main.sql} VALUES ({n}, {n})")
    done = maintained(tables, options={"compact": {"order_by": ["m"]}})
    assert (done.partitions, done.after.count) == (1, 1)
    assert "n" in TableHistory(tables.main).history(1)[0]["operationParameters"]["clusterBy"]
    assert maintained(tables).due == 0


@pytest.mark.slow
def test_by_spark_the_same_is_due(tables: PipelineTables) -> None:
    """Where the log cannot be read without it: a partition of null too."""
    tables.main.spark.sql(f"INSERT INTO {tables.main.sql} VALUES (1, null, null)").collect()
    by_log = Inventory.of(tables.main, Storage())
    tables.main.spark.sql(
        f"ALTER TABLE {tables.main.sql} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', "
        "'delta.checkpointInterval' = '1')"
    )
    tables.main.spark.sql(f"INSERT INTO {tables.main.sql} VALUES (1, null, null)").collect()
    by_spark = Inventory.of(tables.main, Storage())
    assert by_spark.size.count == by_log.size.count + 1
    assert {tuple(each.partition.items()) for each in by_spark.files} == {
        tuple(each.partition.items()) for each in by_log.files
    }
    assert {type(each.modified) for each in by_spark.files} == {int}
    assert maintained(tables).partitions == 4


# VACUUM --------------------------------------------------------------------------------------------------------------


def data_files(tables: PipelineTables) -> int:
    return len([*Path(tables.main.identifier).rglob("*.parquet")]) - len(
        [*Path(tables.main.identifier, "_delta_log").rglob("*.parquet")]
    )


def test_seven_days_are_kept(tables: PipelineTables) -> None:
    """What was compacted a moment ago stays for whoever reads an older version."""
    done = maintained(tables, only=None)
    assert done.vacuum is not None
    assert abs(done.vacuum.before - (datetime.now(UTC) - timedelta(days=7))) < timedelta(minutes=1)
    assert (done.vacuum.files, done.vacuum.held_by, data_files(tables)) == (0, "", 12)
    assert operations(tables.main)[-2:] == ["VACUUM START", "VACUUM END"]


def test_less_than_seven_days_has_to_be_known(tables: PipelineTables) -> None:
    """A sentence with the cure; with --i-know it is done, and what is younger than an hour is never deleted."""
    options = {"compact": {"after": "1 ms"}, "vacuum": {"after": "1 hour"}}
    with pytest.raises(UsageError, match="is 1 hour: a VACUUM would delete") as refused:
        maintained(tables, only="vacuum", options=options)
    assert "--i-know" in refused.value.cure
    assert maintained(tables, options=options).partitions == 3
    done = maintained(tables, only="vacuum", options=options, i_know=True)
    assert done.vacuum is not None
    assert (done.vacuum.files, data_files(tables)) == (0, 12)


def test_the_table_s_property_holds_it_back(tables: PipelineTables) -> None:
    """Who wrote it reads older versions."""
    tables.main.set_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    looked = maintained(tables, only="vacuum", dry_run=True)
    assert looked.vacuum is not None
    assert looked.vacuum.held_by == "the table's property delta.deletedFileRetentionDuration = interval 30 days"
    assert looked.vacuum.before < datetime.now(UTC) - timedelta(days=29)


def aged(tables: PipelineTables, folder: Path, days: int) -> PipelineTables:
    """A copy of the table as if all of it had been done so many days ago."""
    shift = days * 86_400_000
    shutil.copytree(tables.main.identifier, folder / "aged")
    for commit in sorted((folder / "aged" / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            for kind, name in (
                ("commitInfo", "timestamp"),
                ("add", "modificationTime"),
                ("remove", "deletionTimestamp"),
            ):
                if kind in action:
                    action[kind][name] -= shift
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for path in (folder / "aged").rglob("*"):
        os.utime(path, (time.time() - days * 86_400,) * 2)
    for crc in (folder / "aged" / "_delta_log").glob(".*crc"):
        crc.unlink()
    values = {"table": {"path": f"{folder}/aged"}}
    return PipelineTables(tables.spark, config_of(folder, **values))


@pytest.fixture
def exported(spark: SparkSession, tmp_path: Path) -> PipelineTables:
    """A table that was exported three days ago, and compacted right after that."""
    tables = PipelineTables(spark, config_of(tmp_path, partition=[], schema={"columns": "n INT"}))
    columns = "_topic STRING, _partition INT, _offset BIGINT, n INT"
    spark.sql(f"CREATE TABLE {tables.main.sql} ({columns}) USING DELTA")
    for n in range(3):
        spark.sql(f"INSERT INTO {tables.main.sql} VALUES ('t', 0, {n}, {n})")
    assert exports.export(tables, Storage(), ExportRequest(place=f"{tmp_path}/out")).rows == 3
    assert maintained(tables).partitions == 1
    spark.sql(f"INSERT INTO {tables.main.sql} VALUES ('t', 0, 3, 3)")
    return aged(tables, tmp_path, 3)


def test_what_the_next_export_needs_is_kept(exported: PipelineTables, tmp_path: Path) -> None:
    """Its place is named in the file: so the version that was exported last stays, though a day is long enough."""
    place = f"{tmp_path}/out"
    options = {"vacuum": {"after": "1 day", "exports": [place]}}
    done = maintained(exported, only="vacuum", options=options, i_know=True)
    assert done.vacuum is not None
    assert (done.vacuum.files, done.vacuum.held_by) == (0, f"the next export into {place}")
    assert exports.export(exported, Storage(), ExportRequest(place=place)).rows == 1


def test_an_export_that_nobody_names_loses_its_files(exported: PipelineTables, tmp_path: Path) -> None:
    """A day is enough then, and the table's property stays; the next export is refused with the cure."""
    done = maintained(exported, only="vacuum", options={"vacuum": {"after": "1 day"}}, i_know=True)
    assert done.vacuum is not None
    assert (done.vacuum.files, done.vacuum.held_by) == (3, "")
    assert exported.main.read().count() == 4
    assert "delta.deletedFileRetentionDuration" not in exported.main.properties()
    with pytest.raises((FilesLost, UsageError), match="up to which was exported"):
        exports.export(exported, Storage(), ExportRequest(place=f"{tmp_path}/out"))


def test_longer_than_delta_remembers(tables: PipelineTables) -> None:
    """RETAIN alone would not keep them: the table's property says it from then on, once."""
    options = {"compact": {"after": "1 ms"}, "vacuum": {"after": "14 days"}}
    assert maintained(tables, only="vacuum", options=options).failure is None
    assert tables.main.properties()["delta.deletedFileRetentionDuration"] == "interval 336 hours"
    done = operations(tables.main)
    maintained(tables, only="vacuum", options=options)
    assert operations(tables.main)[len(done) :] == ["VACUUM START", "VACUUM END"]
