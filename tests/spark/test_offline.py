"""What is read without Spark is what Spark reads; and what would be another is not read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from receipts import receipt, write

from lakeingest.config import PipelineConfig, Storage
from lakeingest.config.file import from_mapping
from lakeingest.delta import commit, quarantine
from lakeingest.delta.history import TableHistory
from lakeingest.delta.offline import rows
from lakeingest.delta.offline.log import NoTable, OfflineLog, Unreadable
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.gate import results as gate_results
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import offline, offline_refused, refused
from lakeingest.operations import sql as ask_sql
from lakeingest.operations import status as status_of
from lakeingest.spark import types

TOPICS = Topics("cluster", {"t": "id"}, {("t", 0): 0, ("t", 1): 2}, {("t", 0): 99, ("t", 1): 5})
AT = datetime(2026, 11, 1, 12, 30, 0, 123456, tzinfo=UTC)


def log_of(path: Path) -> OfflineLog:
    return OfflineLog(str(path), Storage())


def config_of(folder: Path, **parts: Any) -> PipelineConfig:
    values = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "nowhere:1"},
        "schema": {"columns": "id INT"},
        "table": {"path": str(folder / "table")},
    }
    return from_mapping({**values, **parts})


def described(spark: SparkSession, path: Path) -> Any:
    return spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]


# The log ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [1, 3])
def test_the_log_is_the_one_that_spark_reads(spark: SparkSession, tmp_path: Path, interval: int) -> None:
    """History, files, bytes, rows and properties, wherever the last checkpoint lies, and of rewritten files."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 1))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '{interval}')")
    for sequence in (2, 3, 4):
        write(spark, path, receipt(sequence, sequence))
    spark.sql(f"OPTIMIZE delta.`{path}`")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 0")
    write(spark, path, receipt(5, 5))
    log, table = log_of(path), Table(spark, str(path))
    detail = described(spark, path)
    found = log.state
    assert (len(found.files), sum(f.size for f in found.files)) == (detail["numFiles"], detail["sizeInBytes"])
    assert sum(f.statistics["numRecords"] for f in found.files) == table.read().count()
    assert found.properties.items() <= table.properties().items()
    for limit in (3, None):
        wanted = TableHistory(table).history(limit)
        named = ("version", "timestamp", "operation", "operationMetrics", "userMetadata")
        assert [{n: e[n] for n in named} for e in log.history(limit)] == [{n: e[n] for n in named} for e in wanted]


def test_a_version_that_is_missing_between_others_is_not_overlooked(spark: SparkSession, tmp_path: Path) -> None:
    """Else the table would end before it."""
    path = tmp_path / "t"
    for sequence in (1, 2, 3):
        write(spark, path, receipt(sequence, sequence))
    (path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Unreadable, match="version 1 is missing"):
        _ = log_of(path).state


@pytest.mark.parametrize("broken", ["{", '{"add": {}}', '{"add": []}', "\udcff", "[]", "null"])
def test_a_commit_that_is_none_is_for_spark(spark: SparkSession, tmp_path: Path, broken: str) -> None:
    """Whatever stands in it, no bug of ours is shown."""
    path = tmp_path / "t"
    write(spark, path, receipt(1, 1))
    (path / "_delta_log" / f"{1:020}.json").write_text(broken, errors="surrogateescape")
    with pytest.raises(Unreadable):
        _ = log_of(path).state


def test_no_table_is_told_from_an_unreadable_one(tmp_path: Path) -> None:
    """Also where there is a log without a version."""
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    for name in ("empty", "nothing"):
        with pytest.raises(NoTable):
            _ = log_of(tmp_path / name).state
    with pytest.raises(Unreadable, match="catalog"):
        OfflineLog("lake.flights", Storage())


# The rows -----------------------------------------------------------------------------------------------------------


def partitioned(spark: SparkSession, path: Path) -> None:
    """Partitions with values that a path, or a log, writes otherwise."""
    values = [("a b", 1), ("50%", 2), ("x/y=z", 3), ("ü€", 4), (None, 5), ("", 6), ("%20", 7)]
    frame = spark.createDataFrame(values, "s STRING, n INT").selectExpr(
        "*", "date'2024-02-29' AS d", "n > 2 AS big", "s AS same"
    )
    frame.write.format("delta").partitionBy("s", "n", "d", "big").save(str(path))


def evolved(spark: SparkSession, path: Path) -> None:
    """Columns, and fields within others, that older files lack."""
    spark.sql("SELECT 1 AS n, named_struct('a', 1) AS s, array(named_struct('a', 1)) AS l").write.format("delta").save(
        str(path)
    )
    newer = spark.sql(
        "SELECT 2 AS n, named_struct('a', 2, 'b', 'x') AS s, array(named_struct('a', 2, 'b', 'y')) AS l, "
        "map('k', named_struct('c', 1.5D)) AS m, X'FF' AS bytes, CAST(NULL AS INT) AS nothing"
    )
    newer.write.format("delta").mode("append").option("mergeSchema", True).save(str(path))


def widened(spark: SparkSession, path: Path) -> None:
    """Columns whose older files have narrower types, within others too."""
    columns = "n INT, d DECIMAL(5, 2), f FLOAT, t DATE, s STRUCT<n: SMALLINT>"
    features = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING DELTA TBLPROPERTIES ({features})")
    row = "{n}, {d}, {f}, date'2024-01-01', named_struct('n', CAST(3 AS SMALLINT))"
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {row.format(n=1, d=1.25, f=0.5)}")
    wider = {"n": "BIGINT", "d": "DECIMAL(12, 4)", "f": "DOUBLE", "t": "TIMESTAMP_NTZ", "s.n": "INT"}
    for column, kind in wider.items():
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {column} TYPE {kind}")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {row.format(n=2**40, d=2.5, f=0.25)}")


def early(spark: SparkSession, path: Path) -> None:
    """Times before 1677 and after 2262, which have no nanoseconds since 1970."""
    times = (
        "explode(array(timestamp'0001-01-01 00:00:00', timestamp'2024-03-10 02:30:00.123456', timestamp'9999-12-31'))"
    )
    spark.sql(f"SELECT {times} AS t, date'1582-10-04' AS d").write.format("delta").save(str(path))


def deleted(spark: SparkSession, path: Path) -> None:
    """Rows of which some were deleted, and files that went with them."""
    spark.range(100).repartition(4).write.format("delta").save(str(path))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 0 OR id > 90")


def empty(spark: SparkSession, path: Path) -> None:
    """No file at all."""
    spark.sql(f"CREATE TABLE delta.`{path}` (n INT, s STRING) USING DELTA PARTITIONED BY (s)")


@pytest.mark.parametrize("make", [partitioned, evolved, widened, early, deleted, empty])
def test_the_rows_are_those_that_spark_reads(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], None]
) -> None:
    """With their columns, in their order, of their types."""
    path = tmp_path / "t"
    make(spark, path)
    table = Table(spark, str(path)).read()
    found = rows.dataset(log_of(path)).to_table()
    assert found.schema.names == table.columns
    wanted = table.toArrow()
    assert [*map(str, found.schema.types)] == [*map(str, wanted.schema.types)]
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def mapped(spark: SparkSession, path: Path) -> str:
    spark.sql("SELECT 1 AS a").write.format("delta").option("delta.columnMapping.mode", "name").save(str(path))
    return "columnMapping"


def masked(spark: SparkSession, path: Path) -> str:
    spark.range(9).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(path))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    return "deletion vectors"


def variant(spark: SparkSession, path: Path) -> str:
    spark.sql("SELECT parse_json('1') AS v").write.format("delta").save(str(path))
    return "variantType"


def second_form(spark: SparkSession, path: Path) -> str:
    spark.range(1).write.format("delta").option("delta.checkpointPolicy", "v2").save(str(path))
    return "v2Checkpoint"


def by_time(spark: SparkSession, path: Path) -> str:
    spark.sql("SELECT 1 AS n, timestamp'2024-01-01' AS t").write.format("delta").partitionBy("t").save(str(path))
    return "partitioned by t, a timestamp"


def cloned(spark: SparkSession, path: Path) -> str:
    spark.range(3).write.format("delta").save(f"{path}_source")
    spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{path}_source`")
    return "outside"


@pytest.mark.parametrize("make", [mapped, masked, variant, second_form, by_time, cloned])
def test_what_cannot_be_read_is_refused(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], str]
) -> None:
    """The reason names what is in the way."""
    why = make(spark, tmp_path / "t")
    with pytest.raises(Unreadable, match=why):
        rows.dataset(log_of(tmp_path / "t"))


# The commands' answers ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Table and quarantine of a pipeline that committed twelve batches, and of another that shares both."""
    folder = tmp_path_factory.mktemp("kept")
    tables = PipelineTables(spark, config_of(folder))
    tables.ensure_quarantine()
    for sequence in range(1, 13):
        write(spark, folder / "table", receipt(sequence, sequence * 3))
    write(spark, folder / "table", receipt(12, 7, pipeline="other"))
    set_aside(tables, 2, *REFUSALS)
    set_aside(tables, 12, (2, "value", "WRONG_TYPE", "second", None, False, False))
    set_aside(tables, 3, (1, "value", "OTHER", "another's", None, False, False), pipeline="other")
    return folder


@pytest.fixture
def tables(kept: Path, spark: SparkSession, tmp_path: Path) -> PipelineTables:
    """The same, to be changed."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return PipelineTables(spark, config_of(tmp_path))


def set_aside(tables: PipelineTables, sequence: int, *refusals: tuple[Any, ...], pipeline: str = "p") -> None:
    """Commit rows to quarantine: offset, stage, reason, message, expectations, moved, discarded."""
    done = {"at": AT, "who": "me", "why": "so"}
    named = quarantine.schema().names
    values = []
    for offset, stage, reason, message, expectations, moved, discarded in refusals:
        row = dict.fromkeys(named) | {"_topic": "t", "_partition": 0, "_offset": offset, "stage": stage}
        row |= {"reason": reason, "message": message, "expectations": expectations, "pipeline": pipeline}
        row |= {"sequence": sequence, "refused_at": AT}
        row |= {"moved": {**done, "replay": 1} if moved else None, "discarded": done if discarded else None}
        values.append(tuple(row[name] for name in named))
    made = receipt(sequence, sequence * 3, pipeline=pipeline)
    frame = tables.spark.createDataFrame(values, quarantine.schema())
    commit.append(tables.quarantine, frame, made, "zstd")


REFUSALS = (
    (1, "value", "WRONG_TYPE", "first", None, False, False),
    (5, "value", "WRONG_TYPE", "third\nline", None, False, False),
    (3, "value", "WRONG_TYPE", None, None, False, False),
    (4, "value", "BROKEN_JSON", "given up", None, False, True),
    (6, "value", "BROKEN_JSON", "moved", None, True, False),
    (7, "gate", "EXPECTATION", "both", ["b", "a"], False, False),
    (8, "gate", "EXPECTATION", "one", ["b"], False, False),
    (9, "gate", "EXPECTATION", "none", [], False, False),
)


@pytest.mark.parametrize("samples", [0, 2, 10])
def test_refused_records_are_listed_alike(kept: Path, spark: SparkSession, samples: int) -> None:
    """Counts, samples and their order, of several files, and beside another pipeline's."""
    tables = PipelineTables(spark, config_of(kept))
    wanted = refused.reasons(tables, samples)
    assert len(wanted) == 3
    assert offline_refused.reasons(tables.config, Storage(), samples) == wanted


def test_status_says_alike(kept: Path, spark: SparkSession) -> None:
    """Frontier, commits, rows and sizes; what a replay moved is in quarantine no more."""
    tables = PipelineTables(spark, config_of(kept))
    wanted = status_of.status(tables, TOPICS)
    assert wanted.tables["quarantine"]["rows"] == 8
    assert offline.status(tables.config, Storage(), TOPICS).to_json() == wanted.to_json()


def restored(spark: SparkSession, tables: PipelineTables) -> None:
    spark.sql(f"RESTORE TABLE {tables.main.sql} TO VERSION AS OF 3")


def forgetting(spark: SparkSession, tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})


def with_times_of_their_own(spark: SparkSession, tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.enableInCommitTimestamps": "true"})


def lost_in_others(spark: SparkSession, tables: PipelineTables) -> None:
    log = Path(tables.main.identifier) / "_delta_log"
    info = {"commitInfo": {"operation": "WRITE", "userMetadata": receipt(1, 1, pipeline="other").to_json()}}
    for version in range(13, 34):
        (log / f"{version:020}.json").write_text(json.dumps(info))


def without_statistics(spark: SparkSession, tables: PipelineTables) -> None:
    (newest,) = (Path(tables.main.identifier) / "_delta_log").glob(f"{12:020}.json")
    newest.write_text(newest.read_text().replace('"stats":', '"tags":{},"_stats":'))


def masked_rows(spark: SparkSession, tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.enableDeletionVectors": "true"})
    spark.range(9).coalesce(1).write.format("delta").mode("append").save(tables.main.identifier)
    spark.sql(f"DELETE FROM {tables.main.sql} WHERE id = 8")


@pytest.mark.parametrize(
    "happens", [restored, forgetting, with_times_of_their_own, lost_in_others, without_statistics, masked_rows]
)
def test_status_is_asked_of_spark_where_it_would_differ(
    spark: SparkSession, tables: PipelineTables, happens: Callable[[SparkSession, PipelineTables], None]
) -> None:
    """No answer is better than another one."""
    happens(spark, tables)
    with pytest.raises(Unreadable):
        offline.status(tables.config, Storage(), TOPICS)


@pytest.mark.parametrize("batches", [1, 3, 50])
def test_results_of_the_gate_are_alike(spark: SparkSession, tmp_path: Path, batches: int) -> None:
    """The newest batches, whatever order their files were written in; times that differ by a microsecond are two."""
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": []}))
    config = config_of(tmp_path, gate={"suite": str(tmp_path / "suite.json")})
    tables = PipelineTables(spark, config)
    times = [AT, AT + timedelta(microseconds=1), AT - timedelta(hours=1), AT + timedelta(hours=1)]
    times += [AT - timedelta(days=day) for day in range(1, 4)]
    for at, time in enumerate(times):
        for pipeline in ("p", "other") if at == 3 else ("p",):
            values = [
                (pipeline, at, time, "committed", "s", "f", name, "{}", "warn", True, 5, None, None, ["x"], "{}")
                for name in ("b", "a")
            ]
            frame = spark.createDataFrame(values, types.struct(gate_results.COLUMNS)).coalesce(1)
            frame.write.format("delta").mode("append").save(config.results)
    wanted = refused.gate_results(tables, batches)
    assert len(wanted) == 2 * min(batches, len(times))
    assert offline.results(config, Storage(), batches) == wanted


def test_spark_is_asked_where_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A session knows more: its owner's settings, its catalog."""
    config = config_of(tmp_path)
    assert offline.answered(config, Storage(), lambda: pytest.fail("answered without it"), lambda: 1) == 1


def test_sql_counts_what_spark_counts(kept: Path, spark: SparkSession) -> None:
    """Over the table, its quarantine and its history."""
    tables = PipelineTables(spark, config_of(kept))
    query = """
        SELECT (SELECT count(*) FROM "table"), (SELECT sum(id) FROM "table" WHERE id > 2),
            (SELECT count(*) FROM quarantine WHERE moved IS NULL),
            (SELECT max(sequence) FROM history WHERE pipeline = 'p'), (SELECT count(*) FROM history)
    """
    found = ask_sql.ask(tables.config, Storage(), query, 10, as_json=True)
    table = tables.main.read()
    total = table.where("id > 2").groupBy().sum("id").collect()[0][0]
    assert found.rows == ((table.count(), total, 9, 12, len(TableHistory(tables.main).history(None))),)
