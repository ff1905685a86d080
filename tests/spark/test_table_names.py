"""A table is known by its path, or by the name that a catalog has for it, and all that is asked of it is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pipelines.receipts import receipt

from lakeingest.delta import commit, commit_log
from lakeingest.delta.catalog.spark import register
from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance import optimize
from lakeingest.delta.partitioning import PartitionColumn
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced, TableMismatch, UsageError
from lakeingest.record import OffsetRange, OffsetRanges
from lakeingest.spark import types
from lakeingest.spark.types import struct

COLUMNS = "_topic STRING, _partition INT, _offset BIGINT, n INT NOT NULL"


@pytest.fixture(params=[pytest.param("path", marks=pytest.mark.faults), "name"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    """A table that is not there yet, by a path, and managed by the session's catalog."""
    if request.param == "path":
        yield Table(spark, str(tmp_path / "t"))
        return
    spark.sql("CREATE SCHEMA IF NOT EXISTS named")
    try:
        yield Table(spark, f"named.{request.node.originalname}")
    finally:
        spark.sql("DROP SCHEMA named CASCADE")


def made(table: Table) -> Table:
    from pyspark.sql import types as T

    table.create(struct(COLUMNS), [PartitionColumn("_partition", T.IntegerType())], {"mine": "kept"})
    return table


def add(table: Table, sequence: int, columns: str = "n") -> commit_log.Commit:
    kind = table.existing().schema["n"].dataType.simpleString()
    values = f"SELECT 't' AS _topic, 0 AS _partition, {sequence}L AS _offset, {sequence}::{kind} AS n, 1.5 AS more"
    rows = table.spark.sql(values).select("_topic", "_partition", "_offset", *columns.split())
    return commit.write(table, rows, receipt(sequence, sequence + 1), "zstd", evolve=columns != "n")


def test_what_is_not_there(table: Table) -> None:
    """It has no columns, and whoever needs it is told to run the pipeline."""
    assert table.schema() is None
    with pytest.raises(UsageError, match=f"there is no Delta table at {table} yet"):
        table.existing()


def test_made_and_asked(table: Table) -> None:
    """Columns, partitions and properties are as they were wanted; made twice, it is made once."""
    assert made(made(table)).properties()["mine"] == "kept"
    assert table.partition_columns() == ["_partition"]
    assert [f.name for f in table.existing().schema] == ["_topic", "_partition", "_offset", "n"]
    assert (Path(table.location.removeprefix("file:")) / "_delta_log").is_dir()
    assert len(TableHistory(table).history(None)) == 1


def test_commits_are_read_back(table: Table) -> None:
    """Each commit bears its receipt; a number that was taken is lost; the frontier is the newest receipt's."""
    made(table)
    assert [add(table, n).version for n in (1, 2)] == [1, 2]
    log = commit_log.read(table, "p", back=None)
    assert (log.frontier, log.last_sequence, [c.rows for c in log.commits]) == ({("t", 0): 3}, 2, [1, 1])
    with pytest.raises(Fenced, match="is held by another writer"):
        add(table, 2)
    assert table.coordinates(OffsetRanges((OffsetRange("t", 0, 2, 9),))).count() == 1


def test_a_version_is_read_as_it_stood(table: Table) -> None:
    """With its own columns; one that never was is told."""
    made(table)
    add(table, 1)
    add(table, 2, "n more")
    assert [table.existing(version).count() for version in (0, 1, 2)] == [0, 1, 2]
    assert "more" not in table.existing(1).columns
    with pytest.raises(UsageError, match="has no version 3"):
        table.existing(3)


def test_columns_change(table: Table) -> None:
    """They are widened, lose NOT NULL, are added by hand and by a commit."""
    made(table)
    columns = table.existing().schema
    assert table.widen(columns, struct(COLUMNS.replace(" n INT", " n BIGINT")))
    assert table.drop_not_null(["n"])
    table.add_columns(columns, struct("later STRING"))
    add(table, 1, "n more")
    kinds = {f.name: f.dataType.simpleString() for f in table.existing().schema}
    assert (kinds["n"], kinds["later"], kinds["more"]) == ("bigint", "string", "decimal(2,1)")


@pytest.mark.slow
def test_a_restore_is_noticed_and_taken_back(table: Table) -> None:
    """RESTORE is read from the history, and a commit can be taken back by one of ours."""
    made(table)
    for n in (1, 2):
        add(table, n)
    assert TableHistory(table).take_back(2, lambda _: True)
    assert TableHistory(table).restored(2)
    assert commit_log.read(table, "p").frontier == {("t", 0): 2}


def test_files_become_few(table: Table) -> None:
    """Compaction, which keeps the codec, and a column that is taken over from other rows."""
    made(table)
    for n in (1, 2, 3):
        add(table, n)
    done = optimize.compact(table, 2**20, "zstd")
    assert {row[0].split(".", 1)[1] for row in table.read().select("_metadata.file_name").collect()} == {
        "c000.zstd.parquet"
    }
    assert done == (3, 1)
    table.update(table.read().selectExpr("_offset", "7 AS n"), ("_offset",), "q.n = 2", "n")
    assert sorted(row["n"] for row in table.read().collect()) == [1, 3, 7]


DESCRIBED = (
    "n INT COMMENT 'a \"n\"', s STRUCT<`a.b`: INT COMMENT 'in', l: ARRAY<STRUCT<e: INT COMMENT 'it'>>> COMMENT 's', "
    "m MAP<STRING, STRUCT<v: INT COMMENT 'value'>> COMMENT 'of ${spark.app.name}'"
)


def test_columns_get_comments(table: Table) -> None:
    """Of a field and the one around it at once, at any depth, without a setting of Spark's in them; and only once."""
    wanted = struct(DESCRIBED)
    table.create(struct("n INT, s STRUCT<`a.b`: INT, l: ARRAY<STRUCT<e: INT>>>, m MAP<STRING, STRUCT<v: INT>>"))
    new = types.new_comments(table.existing().schema, wanted)
    assert len(new) == 6
    table.comment_columns(new)
    assert dict(types.comments(table.existing().schema)) == dict(types.comments(wanted))
    assert types.new_comments(table.existing().schema, wanted) == {}


def test_a_table_gets_a_comment(table: Table) -> None:
    """In a commit, if it has another one."""
    made(table)
    for _ in range(2):
        table.comment("it's ${env:HOME}\nand more")
    assert table.details()["Comment"] == "it's ${env:HOME}\nand more"
    assert len(TableHistory(table).history(None)) == 2


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        ("CREATE VIEW {name} AS SELECT 1 AS n", "is no Delta table in Spark's catalog"),
        ("CREATE TABLE {name} (n INT) USING PARQUET", "is no Delta table in Spark's catalog"),
        ("CREATE TABLE {name} (n INT) USING DELTA", "is the table at file:"),
    ],
)
def test_a_name_that_is_taken(spark: SparkSession, tmp_path: Path, taken: str, said: str) -> None:
    """It is left to whom it belongs, and told."""
    ours = made(Table(spark, str(tmp_path / "t")))
    spark.sql("CREATE SCHEMA IF NOT EXISTS taken")
    try:
        spark.sql(taken.format(name="taken.t"))
        with pytest.raises(TableMismatch, match=said):
            register(ours, "taken.t")
        assert spark.table("taken.t").columns == ["n"]
    finally:
        spark.sql("DROP SCHEMA taken CASCADE")


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        # Delta 4.0 does not know it.
        ("catalogManaged", "managed by a catalog|does not know"),
        pytest.param("catalogOwned-preview", "managed by a catalog", marks=pytest.mark.faults),
        pytest.param("madeUp", "does not know", marks=pytest.mark.faults),
    ],
)
def test_a_table_whose_log_is_not_all_is_refused(table: Table, feature: str, said: str) -> None:
    """Its newest commits were left out, or the error said that the store has to be looked at."""
    made(table)
    table.set_properties({"delta.enableInCommitTimestamps": "true"})
    log = Path(table.location.removeprefix("file:")) / "_delta_log"
    of_readers = [feature, "vacuumProtocolCheck"]
    of_writers = [*of_readers, "inCommitTimestamp", "appendOnly", "invariants"]
    features = {"readerFeatures": of_readers, "writerFeatures": of_writers}
    info = {"inCommitTimestamp": 9 * 10**12, "timestamp": 1, "operation": "UPGRADE PROTOCOL", "operationParameters": {}}
    actions = [
        {"commitInfo": info},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
    ]
    (log / f"{len([*log.glob('*.json')]):020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(TableMismatch, match=said):
        Table(table.spark, table.identifier).schema()
    with pytest.raises(TableMismatch, match=said):
        commit_log.read(table, "p")
    if "catalog" in feature and not table.by_path:
        # Files of the log are there, and not its newest ones.
        with pytest.raises(TableMismatch, match=said):
            TableHistory(Table(table.spark, table.identifier)).entry(0)
