"""The tables of a pipeline are made as the file says, held to it, and grow by columns that may be null."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from chispa.schema_comparer import assert_schema_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakeingest.config import PipelineConfig, location
from lakeingest.config.file import from_mapping
from lakeingest.delta import kinds, table_properties
from lakeingest.delta.catalog.spark import register
from lakeingest.delta.commit_log import CommitLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.delta.writer import TableWriter
from lakeingest.errors import TableMismatch
from lakeingest.ingest import preflight
from lakeingest.ingest.batch_plan import plan_batch
from lakeingest.ingest.evolution import Evolution
from lakeingest.ingest.shape import table_columns
from lakeingest.spark import types

BY_N = [{"by": "field", "field": "n"}]


def made(spark: SparkSession, folder: Path, **parts: Any) -> PipelineConfig:
    """The pipeline whose tables in the folder were made, or held to the file."""
    values = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "nowhere:1"},
        "schema": {"columns": "n INT NOT NULL, s STRUCT<a: DATE>"},
        "table": {"path": str(folder / "table")},
        "partition": BY_N,
    }
    config = from_mapping({**values, **parts})
    tables = PipelineTables(spark, config)
    tables.ensure_quarantine()
    columns = tables.main.schema()
    properties = tables.main.properties() if columns is not None else {}
    ledger = table_properties.ledger(properties, config.known_as)
    evolution = Evolution(config, ledger, lambda: pytest.fail("no registry is asked"), columns)
    shape = evolution.shape(columns, strict=False)
    partitions = plan_batch(config, shape, None).layout.columns
    wanted = table_columns(config, shape)
    if columns is not None:
        preflight.check_columns(tables, columns, properties, wanted, partitions)
    TableWriter(tables, CommitLog("", "p", properties=properties), columns).ensure(wanted, partitions, ledger)
    if config.table.name:
        register(tables.main, config.table.name)
    return config


def test_the_shape_of_a_new_table(spark: SparkSession, tmp_path: Path) -> None:
    """Coordinates first, then key, headers, the declared columns, and what was not declared."""
    config = made(spark, tmp_path)
    wanted = (
        "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY, "
        "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>, n INT NOT NULL, s STRUCT<a: DATE>, _rescued STRING"
    )
    found = spark.read.format("delta").load(config.table.path).schema
    assert_schema_equality(found, StructType.fromDDL(wanted), ignore_nullable=True)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{config.table.path}`").collect()[0]
    assert detail["partitionColumns"] == ["n"]


def test_making_it_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A table that is as the file says gets no commit."""
    config = made(spark, tmp_path)
    made(spark, tmp_path)
    assert spark.sql(f"DESCRIBE HISTORY delta.`{config.table.path}`").count() == 1


@pytest.mark.slow
def test_a_log_folder_alone_is_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """What a run leaves that was killed while it made its tables does not stop the next, and they come out alike."""
    partition = [*BY_N, {"by": "kafka_partition"}, {"by": "time"}]
    whole = made(spark, tmp_path / "whole", partition=partition)
    for name in ("table", "table_quarantine"):
        (tmp_path / "killed" / name / "_delta_log").mkdir(parents=True)
    assert Table(spark, str(tmp_path / "killed" / "table")).schema() is None
    mended = made(spark, tmp_path / "killed", partition=partition)
    for one, other in ((whole.table, mended.table), (whole.quarantine, mended.quarantine)):
        schemas = [Table(spark, part.path).schema() for part in (one, other)]
        assert_schema_equality(*schemas, ignore_nullable=True)
        asked = "name", "partitionColumns", "properties"
        details = [spark.sql(f"DESCRIBE DETAIL delta.`{p.path}`").select(*asked).collect() for p in (one, other)]
        assert details[0] == details[1]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_is_made_over_what_making_it_has_left(spark: SparkSession, tmp_path: Path, rows: int) -> None:
    """A run was killed while it made the table in a log folder, where Delta writes a file without a row.

    A file with a row is somebody's.
    """
    place = tmp_path / "t"
    spark.range(rows).coalesce(1).write.parquet(str(place))
    (place / "_delta_log").mkdir()
    with nullcontext() if rows == 0 else pytest.raises(TableMismatch, match=r"something lies there: part-00000-"):
        Table(spark, str(place)).create(types.struct("n INT"))
        assert spark.read.format("delta").load(str(place)).dtypes == [("n", "int")]


def test_runs_at_once_make_a_table_of_a_log_folder_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Each is told that the table is there: none meets the commit of another."""
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    begin = threading.Barrier(4)

    def create(_: int) -> StructType:
        begin.wait(60)
        return Table(spark, str(tmp_path / "t")).create(
            types.struct("n INT, s STRING"), properties={"lakeingest.a": "b"}
        )

    with ThreadPoolExecutor(4) as pool:
        schemas = [*pool.map(create, range(4))]
    assert {schema.simpleString() for schema in schemas} == {"struct<n:int,s:string>"}
    assert Table(spark, str(tmp_path / "t")).properties()["lakeingest.a"] == "b"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"schema": {"columns": "n BIGINT NOT NULL, s STRUCT<a: DATE>"}},
            "n: Delta cannot widen|n is int in the table, which is partitioned by it",
        ),
        ({"schema": {"columns": "n INT NOT NULL, s STRUCT<a: DATE>, m INT NOT NULL"}}, "cannot be NOT NULL"),
        (
            {"schema": {"columns": "n INT NOT NULL, s STRUCT<a: TIMESTAMP>"}},
            "s.a: Delta cannot widen DATE to TIMESTAMP",
        ),
        ({"schema": {"columns": "n INT NOT NULL, s STRUCT<a: DATE>"}, "decode": {"key": {"format": "string"}}}, "_key"),
        ({"partition": []}, "is partitioned by n, the pipeline file says nothing"),
    ],
)
def test_what_a_table_cannot_become(spark: SparkSession, tmp_path: Path, parts: dict[str, Any], said: str) -> None:
    """Another type, a required column that rows lack, another layout: refused, with the cure."""
    made(spark, tmp_path)
    with pytest.raises(TableMismatch, match=said) as refused:
        made(spark, tmp_path, **parts)
    assert refused.value.cure


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"timezone": "Asia/Tokyo"}, "by time with timezone UTC, the pipeline file says timezone Asia/Tokyo"),
        ({"extract": "record", "field": None}, "field at, the pipeline file says field left out"),
        ({"field": "other"}, "field at, the pipeline file says field other"),
        ({"every": "month"}, "every day, the pipeline file says every month"),
        ({"extract": "field"}, None),
    ],
)
def test_a_changed_partition(spark: SparkSession, tmp_path: Path, change: dict[str, Any], said: str | None) -> None:
    """A time partition is its zone, field, extractor and period: under another one, records of one time lie apart."""
    part = {"by": "time", "field": "at", "format": "'day'=yyyy-MM-dd"}
    schema = {"columns": "at TIMESTAMP, other TIMESTAMP"}
    made(spark, tmp_path, schema=schema, partition=[part])
    with pytest.raises(TableMismatch, match=said) if said else nullcontext():
        made(spark, tmp_path, schema=schema, partition=[{**part, **change}])


def test_a_name_in_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """table.name makes the table known to SQL under that name."""
    config = made(spark, tmp_path, table={"path": str(tmp_path / "table"), "name": "named_in_tests.flights"})
    try:
        assert spark.sql("SELECT count(*) FROM named_in_tests.flights").collect()[0][0] == 0
        assert config.table.name == "named_in_tests.flights"
    finally:
        spark.sql("DROP SCHEMA named_in_tests CASCADE")


def test_no_table_of_a_pipeline_is_another_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Two files, or two processes, led both into one table, or one record stopped one of them for ever. A table says
    what it is for; the columns do where an older version made it.
    """
    made(spark, tmp_path)
    main, aside, within = (str(tmp_path / name) for name in ("table", "table_quarantine", "table/within"))

    def other(**parts: Any) -> PipelineTables:
        values = {"name": "q", "source": {"topics": ["u"], "bootstrap_servers": "nowhere:1"}}
        shape = {"schema": {"columns": "n INT"}, "partition": [{"by": "time", "every": "hour"}]}
        return PipelineTables(spark, from_mapping({**values, **shape, **parts}))

    def refused(ask: Callable[[], object], said: str) -> None:
        with pytest.raises(TableMismatch, match=said) as wrong:
            ask()
        assert "name another place" in wrong.value.cure or "a place beside that one" in wrong.value.cure

    into_aside = other(table={"path": aside})
    for _ in range(2):
        refused(lambda: into_aside.commit_logs(new={into_aside.quarantine}), "is a quarantine, .* as its table.path")
        # As an older version left it.
        Table(spark, aside).unset_properties([kinds.KIND])
    from_main = other(table={"path": str(tmp_path / "u")}, quarantine={"path": main})
    refused(from_main.ensure_quarantine, "is a pipeline's table .* as its quarantine.path")
    columns = Table(spark, main).schema()
    Table(spark, main).unset_properties([kinds.KIND])
    refused(from_main.ensure_quarantine, "is a pipeline's table .* as its quarantine.path")
    assert Table(spark, main).schema() == columns
    watched = {"contract": {"completeness": {"table": aside}}, "table": {"path": str(tmp_path / "u")}}
    completeness = other(**watched).completeness
    assert completeness is not None
    refused(completeness.newest, "is a quarantine, .* as its contract.completeness.table")
    inner = other(table={"path": str(tmp_path / "u")}, quarantine={"path": within})
    refused(inner.ensure_quarantine, f"would lie within the table {main}")
    # Of the same kind it may be another pipeline's, too.
    shared = other(table={"path": str(tmp_path / "u")}, quarantine={"path": aside})
    assert shared.ensure_quarantine() is False


def test_a_place_is_free_before_a_table_is_made_there(spark: SparkSession, tmp_path: Path) -> None:
    """Delta made a table around another pipeline's table, and over files, without a word: its VACUUM deletes them. Nor
    may one lie within a place of exports, and a link of the file system leads to what it names.
    """
    made(spark, tmp_path / "around" / "it")
    deep = tmp_path / "deep" / "1" / "2" / "3" / "4"
    made(spark, deep)
    Table(spark, str(deep / "table")).append(spark.sql("SELECT 't' AS _topic, 1 AS n"), {})
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "around" / "it" / "table" / "within")
    for folder in ("out", "log"):
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/{folder}/{location.EXPORTS}` (run STRING) USING DELTA")
    (tmp_path / "log" / "_delta_log").mkdir()
    for place, said in {
        "around": "something lies there: a Delta table",
        "around/it": "something lies there: a Delta table",
        "deep": "something lies there: 1/2/3/4/table/",
        "files": "something lies there: a.txt",
        "link": "would lie within the table .*/around/it/table, whose VACUUM would delete it",
        "out/of/it": "would lie within the exports in .*/out",
        "out": "something lies there: a Delta table",
        "log": "something lies there: a Delta table",
        f"out/{location.EXPORTS}/x": "would lie within the table",
    }.items():
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(TableMismatch, match=said):
            Table(spark, str(tmp_path / place)).create(StructType.fromDDL("n INT"))
        assert sorted(tmp_path.rglob("*")) == before


def test_a_catalogs_table_within_another_one(spark: SparkSession, tmp_path: Path) -> None:
    """Where a catalog puts a table, there may be another pipeline's, which is known by its path."""
    spark.sql(f"CREATE SCHEMA within LOCATION '{tmp_path}/table/schema'")
    made(spark, tmp_path)
    try:
        with pytest.raises(TableMismatch, match=r"within.x would lie within the table .*/table, whose VACUUM"):
            made(spark, tmp_path, name="q", table={"name": "within.x"}, quarantine={"path": str(tmp_path / "q")})
    finally:
        spark.sql("DROP SCHEMA within CASCADE")


def test_columns_of_records_make_no_other_kind_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Records with the fields of a quarantine: their table was taken for one, and got a quarantine's columns."""
    fields = "stage STRING, reason STRING, message STRING, pipeline STRING, sequence BIGINT, refused_at TIMESTAMP"
    config = made(spark, tmp_path, schema={"columns": f"{fields}, n INT"})
    table = Table(spark, config.table.identifier)
    columns, aside = table.schema(), {"path": config.table.path}
    for _ in range(2):
        with pytest.raises(TableMismatch, match="is a pipeline's table of accepted records"):
            made(spark, tmp_path, name="q", table={"path": str(tmp_path / "u")}, quarantine=aside)
        assert table.schema() == columns
        table.unset_properties([kinds.KIND])
