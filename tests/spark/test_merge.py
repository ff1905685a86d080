"""The MERGE of mode upsert, and the memory of deletes, over real tables."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.oracle.latest import Change, expected, history, recut
from support.pipelines.receipts import receipt
from support.tables.merged import NOW, Applied, options

from lakeingest.delta import commit, latest
from lakeingest.delta.history import TableHistory
from lakeingest.delta.upsert import Upsert
from lakeingest.errors import PipelineFileError
from lakeingest.record import DELETES

COLUMNS = "h INT, k INT, o INT, _topic STRING, _partition INT, _offset BIGINT"


def record(at: int, change: Change) -> tuple[Any, ...]:
    order, partition, offset = change.order
    return (at, change.key, order, f"t{at}", partition, offset, change.deletes)


@pytest.mark.parametrize("marks", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["rewritten", "marked"])
def test_order_cuts_and_repetition_change_nothing(spark: SparkSession, tmp_path: Path, marks: bool) -> None:
    """Three hundred histories at once: their keys have nothing in common, nor have their coordinates."""
    dice = random.Random(47)
    histories = [history(dice) for _ in range(300)]
    applied = Applied(spark, tmp_path, COLUMNS, keys=["h", "k"], order_by=["o"])
    if marks:
        applied.mark()
    for cut in zip_longest(*(recut(dice, changes) for changes in histories), fillvalue=()):
        applied.apply([record(at, change) for at, batch in enumerate(cut) for change in batch])
    rows = [
        (at, key, order, f"t{at}", partition, offset)
        for at, changes in enumerate(histories)
        for key, (order, partition, offset) in expected(changes).items()
    ]
    assert_df_equality(applied.rows, spark.createDataFrame(rows, COLUMNS), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize(
    ("kind", "same", "others"),
    [
        ("DOUBLE", [0.0, -0.0], [1.0]),
        ("DOUBLE", [float("nan"), float("nan")], [1.0]),
        ("STRING", ["a", "a"], ["a ", "A", "", "\u00e9", "e\u0301"]),
        ("BINARY", [b"\xff", b"\xff"], [b"", b"\xff\x00"]),
        ("BIGINT", [-(2**63), -(2**63)], [2**63 - 1, 0]),
        ("TINYINT", [-128, -128], [127, 0]),
        ("BOOLEAN", [True, True], [False]),
        ("DATE", [NOW.date(), NOW.date()], []),
    ],
)
def test_which_keys_are_the_same(
    spark: SparkSession, tmp_path: Path, kind: str, same: list[Any], others: list[Any]
) -> None:
    """Within a batch, between batches, and with what was deleted."""
    columns = f"k {kind}, _topic STRING, _partition INT, _offset BIGINT"
    applied = Applied(spark, tmp_path, columns, keys=["k"])
    values = [*same, *others]
    applied.apply([(value, "t", 0, offset, False) for offset, value in enumerate(values)])
    assert applied.rows.count() == 1 + len(others)
    applied.apply([(same[1], "t", 0, 100, False)])
    assert applied.rows.count() == 1 + len(others)
    applied.apply([(same[0], "t", 0, 200, True)])
    applied.apply([(same[1], "t", 0, 150, False)])
    assert applied.rows.count() == len(others)


def test_the_memory_knows_its_version_and_joins_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """Behind a commit of its own it has the next version, unless somebody else has written to it too."""
    columns = "k INT, _topic STRING, _partition INT, _offset BIGINT"
    applied = Applied(spark, tmp_path, columns, keys=["k"])
    memory = replace(applied.deleted_keys, join_after=4)
    beside = replace(memory)
    rows = spark.createDataFrame([(1, "t", 0, 5, True)], f"{columns}, {DELETES} BOOLEAN")
    assert memory.version() is None
    assert memory.remember(rows, applied.latest, NOW, None) == 1
    assert memory.remember(rows, applied.latest, NOW, 1) == 2
    assert not memory.has_changed(2)
    beside.remember(rows, applied.latest, NOW, 2)
    assert memory.has_changed(2)
    assert memory.remember(rows, applied.latest, NOW, 2) == 2
    for _ in range(2):
        memory.join_files()
        operations = [entry["operation"] for entry in TableHistory(memory.table).history(None)]
        assert operations == ["OPTIMIZE", "WRITE", "WRITE", "WRITE", "WRITE", "CREATE TABLE"]
        assert memory.version() == 5
    spark.sql(f"DROP TABLE {memory.table.sql}")
    shutil.rmtree(tmp_path / "t_deletes", ignore_errors=True)
    assert memory.remember(rows, applied.latest, NOW, 5) == 5
    assert memory.version() == 1


def test_nulls_within_structs_stay(spark: SparkSession, tmp_path: Path) -> None:
    """An update to a struct of nulls, or to no struct, is not mixed up; and a new column comes with the commit."""
    columns = "k INT, s STRUCT<a: INT, b: STRUCT<c: INT>>, l ARRAY<STRUCT<a: INT>>"
    columns += ", _topic STRING, _partition INT, _offset BIGINT"
    applied = Applied(spark, tmp_path, columns, keys=["k"])
    full = ((1, (2,)), [(3,)])
    applied.apply([(key, *full, "t", 0, key, False) for key in range(4)])
    changes: list[Any] = [(None, None), ((None, None), [None]), ((None, (None,)), [(None,)]), ((1, None), [])]
    applied.apply([(key, *change, "t", 0, 10 + key, False) for key, change in enumerate(changes)])
    rows = [(key, *change, "t", 0, 10 + key) for key, change in enumerate(changes)]
    assert_df_equality(applied.rows, spark.createDataFrame(rows, columns), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"keys": ["x"]}, 'table.keys: "x" is not among the columns: k, s, l, m, _topic'),
        ({"keys": ["s.x"]}, 'table.keys: "s.x" is not among the columns of s: a, b'),
        ({"keys": ["k.x"]}, 'table.keys: "k.x": k is int, which has no fields'),
        ({"keys": ["l"]}, 'table.keys: "l" is array<int>, which cannot be compared'),
        ({"keys": ["s"]}, 'table.keys: "s.b" is map<string,int>, which cannot be compared'),
        ({"keys": ["k"], "order_by": ["m"]}, 'table.order_by: "m" is map<string,int>, which cannot be compared'),
    ],
)
def test_what_is_no_key(spark: SparkSession, values: dict[str, Any], mistake: str) -> None:
    columns = "k INT, s STRUCT<a: INT, b: MAP<STRING, INT>>, l ARRAY<INT>, m MAP<STRING, INT>, _topic STRING"
    schema: T.StructType = spark.createDataFrame([], columns).schema
    with pytest.raises(PipelineFileError) as wrong:
        latest.of(options(**values), schema)
    assert mistake in str(wrong.value)


def test_kept_records_are_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    """The session that merges finds what another one keeps: Kafka is not read again."""
    computed = spark.sparkContext.accumulator(0)

    def count(key: int) -> int:
        computed.add(1)
        return key

    columns = "k INT, _topic STRING, _partition INT, _offset BIGINT"
    applied = Applied(spark, tmp_path, columns, keys=["k"])
    rows = spark.createDataFrame([(n, "t", 0, n, n == 2) for n in range(5)], f"{columns}, {DELETES} BOOLEAN")
    kept = rows.withColumn("k", F.udf(count, "int", useArrow=False)("k")).persist()
    assert kept.count() == 5
    commit.write(applied.table, kept, receipt(1, 5), "zstd", mode=Upsert(applied.latest, spark.newSession()))
    kept.unpersist()
    assert (applied.rows.count(), computed.value) == (4, 5)
