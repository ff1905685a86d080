"""What is read without Spark is what Spark reads; and what would be another is not read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines.receipts import receipt, write
from support.tables import without_files

from lakeingest.config import PipelineConfig, Storage
from lakeingest.config.file import from_mapping
from lakeingest.decode import framing
from lakeingest.delta import commit, quarantine, replay_marks, sums
from lakeingest.delta.history import TableHistory
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader import rows
from lakeingest.delta.reader.log import NoTable, OfflineLog, Unreadable
from lakeingest.delta.receipt import Account, Counts, JobFields, Receipt, Run
from lakeingest.delta.sums import BatchSums
from lakeingest.delta.table import Table
from lakeingest.errors import TableMismatch
from lakeingest.gate import results as gate_results
from lakeingest.kafka.offsets import Topics
from lakeingest.operations import audit as audit_of
from lakeingest.operations import refused, schema_history
from lakeingest.operations import sql as ask_sql
from lakeingest.operations import status as status_of
from lakeingest.operations.readers import FileTables, PipelineReader, SparkTables, answer
from lakeingest.operations.results.audit import Report
from lakeingest.record import OffsetRange, OffsetRanges
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


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1, pytest.param(3, marks=pytest.mark.faults)])
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    commit.write(tables.quarantine, frame, made, "zstd")


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


@pytest.mark.slow
@pytest.mark.parametrize("samples", [0, 2, 10])
def test_refused_records_are_listed_alike(kept: Path, spark: SparkSession, samples: int) -> None:
    """Counts, samples and their order, of several files, and beside another pipeline's."""
    tables = PipelineTables(spark, config_of(kept))
    wanted = refused.reasons(SparkTables(tables), samples)
    assert len(wanted) == 3
    assert refused.reasons(FileTables(tables.config, Storage()), samples) == wanted


@pytest.mark.parametrize("offset", [1, 2, 5, 6, 99])
def test_a_refused_record_is_shown_alike(kept: Path, spark: SparkSession, offset: int) -> None:
    """With its bytes and headers; also one that was moved, and none that is not there, or another pipeline's."""
    tables = PipelineTables(spark, config_of(kept))
    expected = refused.record(SparkTables(tables), "t", 0, offset)
    assert (expected is None) == (offset == 99)
    assert refused.record(FileTables(tables.config, Storage()), "t", 0, offset) == expected
    assert expected is None or [*expected] == quarantine.schema().names


@pytest.mark.parametrize("glue", [False, True])
def test_what_a_schema_brought_is_counted_alike(spark: SparkSession, tmp_path: Path, *, glue: bool) -> None:
    """Rows of both tables, and no payload whose schema a header of the record names."""
    registry = {"glue": {"registry": "r", "region": "eu-west-1"}} if glue else {"url": "http://nowhere:1"}
    decode = {"value": {"format": "avro"}, "key": {"format": "avro"}}
    config = config_of(tmp_path, decode=decode, schema={}, registry=registry)
    tables = PipelineTables(spark, config)
    ids = ["00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"] if glue else [7, 2**31]
    by = framing.of_registry(config.registry)
    tables.ensure_quarantine()
    shape = "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _schema_id "
    shape += "STRING" if glue else "INT"
    rows = [("t", 0, n, AT + timedelta(seconds=n % 3), None if n == 4 else ids[0]) for n in range(5)]
    frame = spark.createDataFrame(rows, shape).coalesce(1)
    commit.write(tables.main, frame, receipt(1, 5), "zstd")
    named = [{"key": "__value_schema_id", "value": b"x"}, {"key": "other", "value": None}]
    refusals = [
        (10, by.header(ids[0]) + b"payload", None, None),
        (11, by.header(ids[1]), by.header(ids[0]), [{"key": "other", "value": b"__value_schema_id"}]),
        (12, by.header(ids[1]), by.header(ids[0]), named),
        (13, by.header(ids[1])[:-1], b"\xff", None),
        (14, None, by.header(ids[1])[:1] + b"\x05" + by.header(ids[1])[2:], []),
    ]
    values = []
    for offset, value, key, headers in refusals:
        row = dict.fromkeys(quarantine.schema().names) | {"_topic": "t", "_partition": 0, "_offset": offset}
        row |= {"_timestamp": AT, "value": value, "key": key, "headers": headers, "pipeline": "p"}
        values.append(tuple(row.values()))
    commit.write(tables.quarantine, spark.createDataFrame(values, quarantine.schema()), receipt(1, 5), "zstd")
    expected = schema_history._of_rows(SparkTables(tables))
    assert expected["value", ids[0]].rows == 4
    assert (expected["value", ids[1]].refused, expected["key", ids[0]].refused) == (1, 2)
    assert expected["value", ids[0]].last[1:] == ("t", 0, 2)
    files = FileTables(config, Storage())
    assert schema_history._of_rows(files) == expected
    assert schema_history.schema_history(files) == schema_history.schema_history(SparkTables(tables))


def test_status_says_alike(kept: Path, spark: SparkSession) -> None:
    """Frontier, commits, rows and sizes; what a replay moved is in quarantine no more."""
    tables = PipelineTables(spark, config_of(kept))
    wanted = status_of.status(SparkTables(tables), TOPICS)
    assert wanted.tables["quarantine"]["rows"] == 8
    by_files = status_of.status(FileTables(tables.config, Storage()), TOPICS)
    # What is due Spark tells dearly, and is not asked.
    assert by_files.maintenance is not None
    assert replace(by_files, maintenance=None).to_json() == wanted.to_json()


def test_status_says_alike_behind_a_long_backfill(spark: SparkSession, tables: PipelineTables) -> None:
    """The pipeline's own commits lie further back than those that are read at first."""
    log = Path(tables.main.identifier) / "_delta_log"
    done = replace(receipt(1, 1, pipeline="p:backfill"), job=JobFields("backfill", remaining=7)).to_json()
    info = {"timestamp": 1_790_000_000_000, "operation": "WRITE", "operationParameters": {}, "userMetadata": done}
    for version in range(13, 34):
        (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}))
    wanted = status_of.status(SparkTables(tables), TOPICS)
    assert wanted.commits
    assert [each["remaining"] for each in wanted.backfill] == [7]
    by_files = status_of.status(FileTables(tables.config, Storage()), TOPICS)
    # What is due Spark tells dearly, and is not asked.
    assert by_files.maintenance is not None
    assert replace(by_files, maintenance=None).to_json() == wanted.to_json()


def test_results_of_the_gate_are_alike(spark: SparkSession, tmp_path: Path) -> None:
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
    for batches in (1, 3, 50):
        wanted = refused.gate_results(SparkTables(tables), batches)
        assert len(wanted) == 2 * min(batches, len(times))
        assert refused.gate_results(FileTables(config, Storage()), batches) == wanted


@dataclass
class Owner:
    config: PipelineConfig
    storage: Storage
    tables: PipelineTables


def test_spark_is_asked_where_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A session knows more: its owner's settings, its catalog."""
    config = config_of(tmp_path)
    assert isinstance(
        answer(Owner(config, Storage(), PipelineTables(spark, config)), lambda reader: reader), SparkTables
    )


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


# The audit ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Table and quarantine of a pipeline that consumed twice ten offsets: 2 and 13 were refused, 4 was dropped."""
    folder = tmp_path_factory.mktemp("proved")
    tables = PipelineTables(spark, config_of(folder))
    tables.ensure_quarantine()
    consume(tables, 1, {0, 1, 3, 5, 6, 7, 8, 9}, dropped=1, refused={2})
    before = batch_sums(1, {0, 1, 3, 5, 6, 7, 8, 9}, {2})
    consume(tables, 2, {10, 11, 12, 14, 15, 16, 17, 18, 19}, refused={13}, before=before)
    return folder


def batch_sums(sequence: int, accepted: set[int], refused: set[int]) -> BatchSums:
    """What the receipt of the next batch says of a batch."""
    return BatchSums(sequence, *(sums.of(("t", 0, offset) for offset in each) for each in (accepted, refused)))


@pytest.fixture
def audited(proved: Path, spark: SparkSession, tmp_path: Path) -> PipelineTables:
    """The same, to be changed."""
    shutil.copytree(proved, tmp_path, dirs_exist_ok=True)
    return PipelineTables(spark, config_of(tmp_path))


def account(sequence: int, pipeline: str = "p", counts: Counts | None = None, job: JobFields | None = None) -> Receipt:
    """The receipt of a batch of ten offsets."""
    ranges = OffsetRanges((OffsetRange("t", 0, sequence * 10 - 10, sequence * 10),))
    became = Account(counts) if counts else None
    return Receipt(pipeline, sequence, Run(), "cluster", {"t": "id"}, ranges, "quarantine", job or JobFields(), became)


def add(tables: PipelineTables, made: Receipt, *places: tuple[Any, ...]) -> None:
    """Commit rows with these coordinates to the table."""
    shape = "_topic STRING, _partition INT, _offset BIGINT"
    commit.write(tables.main, tables.spark.createDataFrame(places, shape).coalesce(1), made, "zstd")


def consume(
    tables: PipelineTables,
    sequence: int,
    accepted: set[int],
    *,
    dropped: int = 0,
    refused: set[int] = frozenset(),  # type: ignore[assignment]
    pipeline: str = "p",
    before: BatchSums | None = None,
) -> None:
    """Commit a batch as a run does: the table first, then quarantine, if not every offset has a row."""
    made = replace(account(sequence, pipeline), before=before)
    add(tables, made, *(("t", 0, offset) for offset in sorted(accepted)))
    if len(accepted) < 10:
        counts = Counts(len(accepted) + len(refused) + dropped, len(accepted), len(refused), dropped)
        put_aside(tables, account(sequence, pipeline, counts), *refused)


def put_aside(tables: PipelineTables, made: Receipt, *offsets: int, moved: int | None = None) -> None:
    named = quarantine.schema().names
    done = None if moved is None else {"at": AT, "who": "me", "why": "so", "replay": moved}
    values = []
    for offset in offsets:
        row = dict.fromkeys(named) | {"_topic": "t", "_partition": 0, "_offset": offset, "stage": "value"}
        row |= {"pipeline": made.pipeline.partition(":")[0], "moved": done}
        values.append(tuple(row[name] for name in named))
    frame = tables.spark.createDataFrame(values, quarantine.schema()).coalesce(1)
    commit.write(tables.quarantine, frame, made, "zstd")


def nothing(_: PipelineTables) -> None:
    """All is well."""


def a_row_deleted(tables: PipelineTables) -> None:
    tables.spark.sql(f"DELETE FROM {tables.main.sql} WHERE _offset = 15")


def a_file_deleted_from_the_log(tables: PipelineTables) -> None:
    tables.spark.sql(f"DELETE FROM {tables.main.sql} WHERE _offset >= 10")


def one_twice_and_one_not_in_the_same_file(tables: PipelineTables) -> None:
    """Its statistics are what they were."""
    tables.spark.sql(f"UPDATE {tables.main.sql} SET _offset = 15 WHERE _offset = 16")


def in_both_tables(tables: PipelineTables) -> None:
    add(tables, account(9, "a tool"), ("t", 0, 2), ("t", 0, 13), ("t", 0, 13))


def strangers(tables: PipelineTables) -> None:
    add(tables, account(9, "a tool"), ("t", 0, 25), ("t", 1, 3), ("t", 1, -3), ("u", 0, 3), ("t", 0, 20), ("t", 0, 10))


def no_topic(tables: PipelineTables) -> None:
    add(tables, account(9, "a tool"), (None, 0, 25))


def refused_rows_deleted(tables: PipelineTables) -> None:
    tables.spark.sql(f"DELETE FROM {tables.quarantine.sql} WHERE _offset = 2")


def refused_twice(tables: PipelineTables) -> None:
    again = tables.refused().where("_offset = 2")
    again.write.format("delta").mode("append").save(tables.quarantine.identifier)


def killed_before_quarantine(tables: PipelineTables) -> None:
    add(tables, account(3), *(("t", 0, offset) for offset in range(20, 27)))


def a_gap_of_compaction(tables: PipelineTables) -> None:
    consume(tables, 3, {20, 23, 29})


def a_batch_left_out(tables: PipelineTables) -> None:
    consume(tables, 4, {*range(30, 40)})


def a_row_in_the_place_of_a_drop(tables: PipelineTables) -> None:
    """Neither counts nor coordinates tell: 4 is an offset of the batch, and no record of 3 is missed."""
    tables.spark.sql(f"UPDATE {tables.main.sql} SET _offset = 4 WHERE _offset = 3")


def a_batch_that_was_committed_wrong(tables: PipelineTables) -> None:
    """The rows are right now; the sums say that 15 was twice and 16 not there."""
    before = batch_sums(2, {10, 11, 12, 14, 15, 17, 18, 19}, {13})
    assert before.table is not None
    before = replace(before, table=before.table + sums.of([("t", 0, 15)]))
    consume(tables, 3, {*range(20, 30)}, before=before)


def a_batch_taken_again(tables: PipelineTables) -> None:
    consume(tables, 3, {*range(20, 30)})
    add(tables, replace(account(2), sequence=4), *(("t", 0, offset) for offset in range(10, 20)))


def an_accepted_loss(tables: PipelineTables) -> None:
    add(
        tables,
        account(4, job=JobFields(gaps=OffsetRanges((OffsetRange("t", 0, 20, 30),)))),
        *(("t", 0, offset) for offset in range(30, 40)),
    )


def an_accepted_loss_that_is_there(tables: PipelineTables) -> None:
    an_accepted_loss(tables)
    add(tables, account(9, "a tool"), ("t", 0, 22))


def another_pipeline(tables: PipelineTables) -> None:
    """What both have consumed is there twice."""
    consume(tables, 1, {0, 1, 5}, refused={2, 7}, pipeline="other")


def a_table_that_is_compacted(tables: PipelineTables) -> None:
    tables.spark.sql(f"OPTIMIZE {tables.main.sql}")
    tables.spark.sql(f"OPTIMIZE {tables.quarantine.sql}")


def a_replay(tables: PipelineTables) -> None:
    done = account(1, "p:replay", job=JobFields("replay", accepted={"who": "me", "why": "so"}))
    add(tables, done, ("t", 0, 13))
    tables.spark.sql(f"DELETE FROM {tables.quarantine.sql} WHERE _offset = 13")
    put_aside(tables, done, 13, moved=1)


def a_replay_that_marked_nothing(tables: PipelineTables) -> None:
    add(tables, account(1, "p:replay", job=JobFields("replay", accepted={"who": "me", "why": "so"})), ("t", 0, 13))


def a_duplicate_beside_a_killed_replay(tables: PipelineTables) -> None:
    """It was hidden as if the replay had moved it."""
    in_both_tables(tables)
    a_replay_that_marked_nothing(tables)


def others_topics(tables: PipelineTables) -> None:
    """Rows of a topic that the file no longer names."""
    made = replace(account(3), ranges=OffsetRanges((OffsetRange("t", 0, 20, 21), OffsetRange("u", 2, 5, 6))))
    add(tables, made, ("t", 0, 20), ("u", 2, 5))


def holes_and_doubles_without_end(tables: PipelineTables) -> None:
    add(tables, replace(account(3), ranges=OffsetRanges((OffsetRange("t", 0, 20, 120),))), ("t", 0, 20), ("t", 0, 119))
    many = [("t", 0, offset) for offset in range(30, 110, 3) for _ in range(2)]
    add(tables, account(9, "a tool"), *many, *(("t", 3, offset) for offset in range(50)))


@pytest.mark.faults
def test_what_a_restore_took_back_hides_no_duplicate(audited: PipelineTables) -> None:
    """While the newest replay stood taken back, whatever was in both tables counted once; and of several replays whose
    marks a RESTORE of quarantine took back, only the newest one's were made again.
    """
    main, refused = (f"RESTORE TABLE {table.sql} TO VERSION AS OF " for table in (audited.main, audited.quarantine))
    before, unmarked = (TableHistory(table).history(1)[0]["version"] for table in (audited.main, audited.quarantine))
    for number, offset in ((1, 2), (2, 13)):
        add(
            audited,
            account(number, "p:replay", job=JobFields("replay", accepted={"who": "me", "why": "so"})),
            ("t", 0, offset),
        )
        assert replay_marks.settle(audited) == 1
    audited.spark.sql(f"{refused}{unmarked}")
    found = audit_of.audit(SparkTables(audited))
    assert (found.conserved, found.table, found.quarantine) == (True, 19, 0), found
    assert replay_marks.settle(audited) == 2
    assert audit_of.audit(SparkTables(audited)) == found
    audited.spark.sql(f"{main}{before + 1}")
    add(audited, account(9, "a tool"), ("t", 0, 2))
    found = audit_of.audit(SparkTables(audited))
    assert (found.duplicated, found.missing, found.table, found.quarantine) == (1, 0, 19, 1), found
    audited.spark.sql(f"{main}{before}")
    add(audited, account(10, "a tool"), ("t", 0, 5), ("t", 0, 7))
    assert replay_marks.settle(audited) == 2
    add(audited, account(11, "a tool"), ("t", 0, 2))
    found = audit_of.audit(SparkTables(audited))
    assert (found.duplicated, found.missing, found.table, found.quarantine) == (3, 0, 20, 2), found


def restored(tables: PipelineTables) -> None:
    tables.spark.sql(f"RESTORE TABLE {tables.main.sql} TO VERSION AS OF 0")


def forgotten(tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})


def with_times_of_their_own(tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.enableInCommitTimestamps": "true"})


def without_statistics(tables: PipelineTables) -> None:
    """Of no file of both tables."""
    for table in (tables.main, tables.quarantine):
        for log in (Path(table.identifier) / "_delta_log").glob("*.json"):
            log.write_text(log.read_text().replace('"stats":', '"tags":{},"_stats":'))
            log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


def statistics_of_no_column(tables: PipelineTables) -> None:
    """Of new files they tell how many rows there are, and no more."""
    for table in (tables.main, tables.quarantine):
        table.set_properties({"delta.dataSkippingNumIndexedCols": "0"})
    consume(tables, 3, {*range(20, 28)}, refused={28}, dropped=1)


def checkpointed(tables: PipelineTables) -> None:
    """Each log begins with a checkpoint of the first form."""
    for table in (tables.main, tables.quarantine):
        table.set_properties({"delta.checkpointInterval": "1"})
    consume(tables, 3, {*range(20, 28)}, refused={28}, dropped=1)
    assert (Path(tables.main.identifier) / "_delta_log" / "_last_checkpoint").is_file()


def checkpoints_of_the_second_form(tables: PipelineTables) -> None:
    for table in (tables.main, tables.quarantine):
        table.set_properties({"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"})
    consume(tables, 3, {*range(20, 28)}, refused={28}, dropped=1)


def with_a_compacted_log(tables: PipelineTables) -> None:
    """Delta's minor compaction: the actions of several commits in a file beside them, which Spark reads."""
    log = Path(tables.main.identifier) / "_delta_log"
    commits = sorted(log.glob("*.json"))
    actions = [line for each in commits for line in each.read_text().splitlines() if "commitInfo" not in line]
    (log / f"{0:020}.{len(commits) - 1:020}.compacted.json").write_text("\n".join(actions))


def widened_column(tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.enableTypeWidening": "true"})
    tables.spark.sql(f"ALTER TABLE {tables.main.sql} ADD COLUMN (n INT)")
    tables.spark.sql(f"ALTER TABLE {tables.main.sql} ALTER COLUMN n TYPE BIGINT")
    consume(tables, 3, {*range(20, 30)})


def mapped_columns(tables: PipelineTables) -> None:
    for table in (tables.main, tables.quarantine):
        table.set_properties({"delta.columnMapping.mode": "name"})


def masked_row(tables: PipelineTables) -> None:
    tables.main.set_properties({"delta.enableDeletionVectors": "true"})
    tables.spark.sql(f"DELETE FROM {tables.main.sql} WHERE _offset = 15")


def lost_file(tables: PipelineTables) -> None:
    next(Path(tables.main.identifier).glob("*.parquet")).unlink()


def lost_refused(tables: PipelineTables) -> None:
    for file in Path(tables.quarantine.identifier).glob("*.parquet"):
        file.unlink()


def cleaned_up(tables: PipelineTables) -> None:
    """Nothing is left of the log but its checkpoint, and a commit of somebody's."""
    tables.main.set_properties({"delta.checkpointInterval": "1"})
    tables.main.set_properties({"kept": "by somebody"})
    log = Path(tables.main.identifier) / "_delta_log"
    for old in sorted(log.glob("*.json"))[:-1]:
        old.unlink()


def no_offset(tables: PipelineTables) -> None:
    add(tables, account(9, "a tool"), ("t", 0, None))


def no_table(tables: PipelineTables) -> None:
    shutil.rmtree(tables.main.identifier)


def no_quarantine(tables: PipelineTables) -> None:
    shutil.rmtree(tables.quarantine.identifier)


ANSWERS: dict[str, Callable[[PipelineReader], Any]] = {
    "audit": lambda reader: without_files(audit_of.audit(reader)),
    # What is due Spark tells dearly, and is not asked.
    "status": lambda reader: replace(status_of.status(reader, TOPICS), maintenance=None),
    "reasons": partial(refused.reasons, samples=3),
    "record": partial(refused.record, topic="t", partition=0, offset=2),
}
"""What is asked of both readers."""
ALL = tuple(ANSWERS)
COUNTED = ("audit",)
LOGS = ("audit", "status")
ROWS = ("audit", "reasons", "record")


@dataclass(frozen=True)
class Case:
    """What was done to the tables, and which answers files give, as Spark gives them.

    Attributes:
        by_spark: answers that are left to Spark: no answer is better than another one.
        conserved: what the audit says.
    """

    happens: Callable[[PipelineTables], None]
    alike: tuple[str, ...] = COUNTED
    by_spark: tuple[str, ...] = ()
    conserved: bool = True


CASES = [
    Case(a_replay_that_marked_nothing, ALL),
    Case(statistics_of_no_column, ALL),
    Case(checkpointed, ALL),
    Case(with_a_compacted_log, ALL),
    Case(widened_column, ALL),
    Case(masked_row, ("reasons", "record"), LOGS),
    Case(mapped_columns, ("status",), ROWS),
    Case(checkpoints_of_the_second_form, (), ALL),
    Case(lost_file, (), COUNTED),
]
"""Where the two readers could disagree most: what each reads of a log and of a file."""
SLOW_CASES = [
    Case(nothing, ALL),
    Case(one_twice_and_one_not_in_the_same_file, conserved=False),
    Case(a_duplicate_beside_a_killed_replay, conserved=False),
    Case(a_row_in_the_place_of_a_drop, conserved=False),
    Case(a_batch_that_was_committed_wrong, conserved=False),
    Case(without_statistics, ALL),
    Case(restored, (), LOGS),
    Case(with_times_of_their_own, ("reasons",), LOGS),
    Case(lost_refused, (), ROWS),
    Case(no_table, (), LOGS),
    Case(no_quarantine, (), ALL),
    Case(no_offset, (), COUNTED),
    Case(forgotten, (), LOGS),
    Case(cleaned_up, (), LOGS),
    Case(in_both_tables, conserved=False),
    Case(an_accepted_loss_that_is_there),
    Case(holes_and_doubles_without_end, conserved=False),
    Case(a_row_deleted, conserved=False),
    Case(a_file_deleted_from_the_log, conserved=False),
    Case(strangers, conserved=False),
    Case(no_topic),
    Case(refused_rows_deleted, conserved=False),
    Case(refused_twice, conserved=False),
    Case(killed_before_quarantine, conserved=False),
    Case(a_gap_of_compaction),
    Case(a_batch_left_out, conserved=False),
    Case(a_batch_taken_again, conserved=False),
    Case(an_accepted_loss),
    Case(another_pipeline, conserved=False),
    Case(a_table_that_is_compacted, ALL),
    Case(a_replay),
    Case(others_topics),
]
"""Most of the time of this file."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(each, marks=pytest.mark.faults) for each in SLOW_CASES)],
    ids=lambda case: case.happens.__name__,
)
def test_both_readers_answer_alike(audited: PipelineTables, case: Case) -> None:
    """Whatever was done to the tables: the same figures, verdict and places."""
    case.happens(audited)
    for name in case.by_spark:
        with pytest.raises(Unreadable):
            pytest.fail(f"{name}: {ANSWERS[name](FileTables(audited.config, Storage()))}")
    for name in case.alike:
        answer_of_spark = ANSWERS[name](SparkTables(audited))
        assert ANSWERS[name](FileTables(audited.config, Storage())) == answer_of_spark, name
        if name == "audit":
            _check_audit(answer_of_spark, case)


def _check_audit(report: Report, case: Case) -> None:
    assert report.conserved == case.conserved, report
    assert report.summed or case.happens is a_batch_taken_again, report
    if case.happens in {a_row_in_the_place_of_a_drop, a_batch_that_was_committed_wrong}:
        assert (report.missing, report.duplicated, report.unexpected, len(report.altered)) == (0, 0, 0, 1), report


def a_newer_lakeingest(tables: PipelineTables) -> None:
    log = Path(tables.main.identifier) / "_delta_log"
    info = {"commitInfo": {"operation": "WRITE", "userMetadata": json.dumps({"lakeingest": 99})}}
    (log / f"{len([*log.glob('*.json')]):020}.json").write_text(json.dumps(info))


def test_the_audit_knows_a_newer_receipt(audited: PipelineTables) -> None:
    """As Spark's does, with the same words."""
    a_newer_lakeingest(audited)
    with pytest.raises(TableMismatch, match="form 99"):
        audit_of.audit(FileTables(audited.config, Storage()))
    with pytest.raises(TableMismatch, match="form 99"):
        PipelineTables(audited.spark, audited.config).commit_logs(back=None)
