"""What an export writes: each row once, in each format, whatever happens to the table between two exports."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.oracle import exports

from lakeingest.config import Storage, location
from lakeingest.config.file import from_mapping
from lakeingest.delta.export_log import ExportLog
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.errors import Fenced, FilesLost, UsageError
from lakeingest.operations.export import exports as operation
from lakeingest.operations.export.objects import ObjectWriter
from lakeingest.operations.export.request import FORMATS, ExportRequest
from lakeingest.operations.results.export import Exported, ExportFormat
from lakeingest.spark import session

COLUMNS = "_topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, day DATE, n INT, text STRING"


class Shop:
    """A table with records' coordinates, and a place that it is exported into."""

    def __init__(self, spark: SparkSession, folder: Path, format: ExportFormat = "jsonl", columns: str = COLUMNS):
        self.spark, self.path, self.place, self.format = spark, str(folder / "table"), folder / "an out%20+ü", format
        spark.sql(f"CREATE TABLE delta.`{self.path}` ({columns}) USING DELTA PARTITIONED BY (day)")

    @property
    def tables(self) -> PipelineTables:
        source = {"topics": ["t"], "bootstrap_servers": "nowhere:1"}
        config = {"name": "p", "source": source, "schema": {"columns": "n INT"}, "table": {"path": self.path}}
        return PipelineTables(self.spark, from_mapping(config))

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("{table}", f"delta.`{self.path}`")).collect()

    def append(self, offsets: Iterable[int], partition: int = 0) -> None:
        rows = [("t", partition, n, n, f"text {n}") for n in offsets]
        frame = self.spark.createDataFrame(rows, "_topic STRING, _partition INT, _offset BIGINT, n INT, text STRING")
        day = F.date_add(F.lit("2026-01-01"), (F.col("n") % 2).cast("int"))
        stamped = frame.withColumns({"_timestamp": F.timestamp_seconds(F.col("n") / 7), "day": day})
        stamped.coalesce(1).write.format("delta").mode("append").save(self.path)

    def export(self, *, dry_run: bool = False, **how: Any) -> Exported:
        wanted = ExportRequest(**{"place": str(self.place), "format": self.format, **how})
        return operation.export(self.tables, Storage(), wanted, dry_run=dry_run)

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)

    def objects(self) -> list[str]:
        return exports.objects(self.spark, str(self.place))

    def checked(self) -> None:
        """What is exported are the table's rows."""
        exports.assert_exported(self.spark, str(self.place), self.format, self.rows())

    def offsets(self) -> list[tuple[int, int]]:
        found = exports.exported(self.spark, str(self.place), self.format, self.rows().schema)
        return sorted((row._partition, row._offset) for row in found.select("_partition", "_offset").collect())


@pytest.fixture(autouse=True)
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Tables of ten rows: to write Java for each plan takes longer than to go without."""
    with session.setting(spark, {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        yield


@pytest.mark.slow
def test_each_row_once_in_each_format(spark: SparkSession, tmp_path: Path) -> None:
    """What was exported before a compaction is not exported again, by whatever name the place is called."""
    shop = Shop(spark, tmp_path)
    shop.append(range(6))
    looked = shop.export(dry_run=True)
    assert (looked.rows, looked.sequence, shop.place.exists()) == (6, None, False)
    first = shop.export()
    assert (first.sequence, first.from_version, first.rows, len(first.objects)) == (1, None, 6, 2)
    assert all("/day=2026-01-0" in each.path and each.bytes > 0 and each.rows == 3 for each in first.objects)
    shop.append(range(6, 10))
    shop.sql("OPTIMIZE {table}")
    second = shop.export(place=f"file:{shop.place}//./", compression="gzip")
    assert (second.sequence, second.from_version, second.rows) == (2, first.to_version, 4)
    again = shop.export()
    assert (again.sequence, again.rows, again.objects) == (None, 0, ())
    shop.checked()
    for format_ in FORMATS[1:]:
        shop.place, shop.format = tmp_path / format_, format_
        shop.export()
        shop.checked()


@pytest.mark.faults
def test_a_restore(spark: SparkSession, tmp_path: Path) -> None:
    """Exported rows that were taken back stop exports until it is undone; others do not."""
    shop = Shop(spark, tmp_path, "parquet")
    shop.append(range(2))
    shop.append(range(2, 4))
    done = shop.export()
    shop.append(range(4, 6))
    shop.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {done.to_version}")
    shop.append(range(4, 7))
    assert shop.export().rows == 3
    shop.sql("DELETE FROM {table} WHERE _offset = 3")
    shop.sql("RESTORE TABLE {table} TO VERSION AS OF 1")
    with pytest.raises(UsageError, match="was restored") as refused:
        shop.export()
    spark.sql(refused.value.cure.partition("undo it: ")[2]).collect()
    shop.sql("UPDATE {table} SET n = 0")
    assert shop.export().sequence is None
    assert shop.offsets() == [(0, n) for n in range(7)]


@pytest.mark.faults
def test_behind_a_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    """Files that new rows are compared with may be gone: of appends alone none are needed, of a compaction they are."""
    shop = Shop(spark, tmp_path)
    shop.append(range(4))
    shop.append(range(4, 6))
    shop.export()
    shop.append(range(6, 8))
    shop.sql("OPTIMIZE {table}")
    with session.setting(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        shop.sql("VACUUM {table} RETAIN 0 HOURS")
    with pytest.raises(FilesLost, match="or a VACUUM deleted it, and version 2, up to which was exported, has it"):
        shop.export()
    assert shop.offsets() == [(0, n) for n in range(6)]


class Walk:
    """A table that changes at random, and which of its offsets were there whenever it was exported."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random = shop, random.Random(seed)
        self.now, self.next = set[int](), 0
        self.ever = set[int]()
        self.versions: dict[int, tuple[set[int], int]] = {}
        self.exported_up_to = -1

    def note(self) -> None:
        self.versions[self.version] = (set(self.now), self.next)

    @property
    def version(self) -> int:
        newest = self.shop.spark.sql(f"DESCRIBE HISTORY delta.`{self.shop.path}` LIMIT 1").collect()
        return int(newest[0]["version"])

    def append(self) -> None:
        count = self.random.randint(1, 4)
        self.shop.append(range(self.next, self.next + count))
        self.now |= set(range(self.next, self.next + count))
        self.next += count

    def delete(self) -> None:
        gone = {n for n in self.now if self.random.random() < 0.3}
        self.shop.sql(f"DELETE FROM {{table}} WHERE _offset IN ({', '.join(map(str, [*gone, -1]))})")
        self.now -= gone

    def update(self) -> None:
        self.shop.sql(f"UPDATE {{table}} SET n = n + 100 WHERE _offset % 3 = {self.random.randrange(3)}")

    def compact(self) -> None:
        self.shop.sql("OPTIMIZE {table}")

    def restore(self) -> None:
        version = self.random.choice(sorted(self.versions))
        if version < self.exported_up_to:
            self.shop.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
            with pytest.raises(UsageError, match="was restored"):
                self.shop.export()
            # As the cure says.
            version = self.exported_up_to
        self.shop.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
        self.now, self.next = set(self.versions[version][0]), self.versions[version][1]

    def export(self) -> None:
        self.exported_up_to = self.shop.export().to_version
        self.ever |= self.now
        assert self.shop.offsets() == [(0, n) for n in sorted(self.ever)]


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_each_row_is_exported_once(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Appends, deletions, updates, compactions and RESTOREs at random: exported is all that ever was there, once."""
    shop = Shop(spark, tmp_path, "parquet")
    shop.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES (delta.enableDeletionVectors = '{str(seed % 2 == 0).lower()}')")
    walk = Walk(shop, seed)
    walk.note()
    steps = [walk.append, walk.delete, walk.update, walk.compact, walk.restore, walk.append]
    for _ in range(4):
        for step in walk.random.sample(steps, 3):
            step()
            walk.note()
        walk.export()


@pytest.mark.faults
def test_a_run_that_was_ended_leaves_nothing_that_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended between its objects and its commit, twice; the next export deletes what is left, and nothing else."""
    shop = Shop(spark, tmp_path, "csv")
    shop.append(range(4))
    with monkeypatch.context() as ended:
        ended.setattr(ExportLog, "commit", lambda *_: pytest.skip("ended here"))
        for _ in range(2):
            with pytest.raises(pytest.skip.Exception):
                shop.export()
    assert len(list(shop.place.glob("export=0000000001-*"))) == 2
    (shop.place / "export=0000000002-deadbeef").mkdir()
    (shop.place / "notes").mkdir()
    done = shop.export()
    assert (done.sequence, done.rows, done.removed) == (1, 4, 2)
    # One of the next number may be at work.
    assert sorted(each.name.partition("-")[0] for each in shop.place.iterdir()) == [
        "_lakeingest_export",
        "export=0000000001",
        "export=0000000002",
        "notes",
    ]
    shop.checked()


@pytest.mark.faults
def test_of_two_exports_at_once_one_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is told, and what it wrote is deleted; whether it is at its commit or still writes."""
    shop = Shop(spark, tmp_path)
    shop.append(range(3))
    written = ObjectWriter.written

    def overtaken(self: Any, *how: Any) -> Any:
        found = written(self, *how)
        with monkeypatch.context() as first:
            first.setattr(ObjectWriter, "written", written)
            shop.export()
        return found

    monkeypatch.setattr(ObjectWriter, "written", overtaken)
    with pytest.raises(Fenced, match=r"export 1 into .* was made meanwhile by"):
        shop.export()
    monkeypatch.undo()
    assert len(list(shop.place.glob("export=*"))) == 1
    shop.checked()


def test_what_a_place_refuses(spark: SparkSession, tmp_path: Path) -> None:
    """A sentence, and nothing is written."""
    shop = Shop(spark, tmp_path)
    shop.append(range(2))
    shop.export()
    before = sorted(map(str, shop.place.rglob("*")))
    every = tuple(column.split()[0] for column in COLUMNS.split(", "))
    for how, said in (
        ({"format": "csv"}, "holds exports of format jsonl, and this is csv"),
        ({"partition_by": ("color",)}, "no such column"),
        ({"partition_by": every}, "all columns"),
    ):
        with pytest.raises(UsageError, match=said):
            shop.export(**how)
    assert sorted(map(str, shop.place.rglob("*"))) == before


def test_a_place_within_another_one(spark: SparkSession, tmp_path: Path) -> None:
    """An export went into another pipeline's table, whose VACUUM deletes it, into other exports, and around a table;
    by a link of the file system also into its own table.
    """
    shop = Shop(spark, tmp_path)
    shop.append(range(2))
    shop.export()
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/others/table` (n INT) USING DELTA")
    (tmp_path / "link").symlink_to(shop.path)
    (tmp_path / "deeper").symlink_to(f"{shop.path}/day=2026-01-01")
    for place, said in {
        "others/table/out": "would lie within the table .*/others/table, whose VACUUM would delete it",
        "others": "holds something else than exports: a Delta table",
        "link": "meets the table",
        "deeper/out": "meets the table",
        "an out%20+ü/in": "would lie within the exports in .*/an out%20.ü",
        f"an out%20+ü/{location.EXPORTS}/in": "would lie within the table",
    }.items():
        with pytest.raises(UsageError, match=said):
            shop.export(place=str(tmp_path / place))
    shop.export()


@pytest.mark.faults
def test_a_place_of_something_else(spark: SparkSession, tmp_path: Path) -> None:
    """Foreign files, a Delta table, the table itself, what lies within it; another pipeline's, another table's."""
    shop = Shop(spark, tmp_path)
    shop.append(range(2))
    for place in (shop.path, f"{shop.path}/out", str(tmp_path)):
        with pytest.raises(UsageError, match="meets the table"):
            shop.export(place=place)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/other` (n INT) USING DELTA")
    with pytest.raises(UsageError, match="something else than exports: a Delta table"):
        shop.export(place=f"{tmp_path}/other")
    shop.place.mkdir()
    (shop.place / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"something else than exports: notes\.txt"):
        shop.export()
    assert [each.name for each in shop.place.iterdir()] == ["notes.txt"]
    (shop.place / "notes.txt").unlink()
    shop.export()
    shutil.rmtree(shop.path)
    spark.sql(f"CREATE TABLE delta.`{shop.path}` ({COLUMNS}) USING DELTA PARTITIONED BY (day)")
    shop.append(range(2))
    with pytest.raises(UsageError, match=r"exports of table id .*, and this is"):
        shop.export()
    stranger = shop.tables
    object.__setattr__(stranger.config, "name", "q")
    with pytest.raises(UsageError, match="exports of pipeline p, and this is q"):
        operation.export(stranger, Storage(), ExportRequest(place=str(shop.place)))


VALUES = {
    "text": ("STRING", "'a\"b,c\\\\d\\n\\r e '"),
    "nothing": ("STRING", "CAST(NULL AS STRING)"),
    "empty": ("STRING", "''"),
    "bytes": ("BINARY", "X'ff00'"),
    "utf8": ("BINARY", "X'c3bc'"),
    "price": ("DECIMAL(38,18)", "CAST(0 AS DECIMAL(38,18))"),
    "ratio": ("DOUBLE", "double('NaN')"),
    "at": ("TIMESTAMP_NTZ", "timestamp_ntz'2026-01-01 00:00:00.000001'"),
    "inner": ("STRUCT<a: BINARY, `b-c`: ARRAY<TIMESTAMP>>", "struct(X'fe', array(timestamp'2026-01-01 00:00:00Z'))"),
    "by_day": ("MAP<DATE, DECIMAL(3,1)>", "map(date'2026-01-01', 1.5)"),
    "free": ("VARIANT", "parse_json('{\"a\": [1, null]}')"),
    "größe": ("INT", "7"),
}
"""column → its type, and a value."""


@pytest.mark.slow
def test_values_of_all_types(spark: SparkSession, tmp_path: Path) -> None:
    """What JSON and CSV have no type for is text, as the page says; Avro lacks names."""
    columns = f"{COLUMNS.partition(', n INT')[0]}, " + ", ".join(f"`{n}` {kind}" for n, (kind, _) in VALUES.items())
    shop = Shop(spark, tmp_path, columns=columns)
    made = ", ".join(value for _, value in VALUES.values())
    at = "timestamp'2026-01-01 10:00:00.123456Z'"
    shop.sql(f"INSERT INTO {{table}} SELECT 't', 0, 0L, {at}, date'2026-01-01', {made}")
    shop.export()
    (line,) = (shop.place / shop.objects()[0]).read_text().split("\n")[:-1]
    assert json.loads(line) == {
        "_topic": "t",
        "_partition": 0,
        "_offset": 0,
        "_timestamp": "2026-01-01T10:00:00.123456Z",
        "day": "2026-01-01",
        "text": 'a"b,c\\d\n\r e ',
        "nothing": None,
        "empty": "",
        "bytes": {"base64": "/wA="},
        "utf8": "ü",
        "price": "0.000000000000000000",
        "ratio": "NaN",
        "at": "2026-01-01T00:00:00.000001",
        "inner": {"a": {"base64": "/g=="}, "b-c": ["2026-01-01T00:00:00Z"]},
        "by_day": {"2026-01-01": "1.5"},
        "free": {"a": [1, None]},
        "größe": 7,
    }
    shop.place, shop.format = tmp_path / "csv", "csv"
    shop.export()
    text = (shop.place / shop.objects()[0]).read_bytes().decode()
    assert text == (
        "_topic,_partition,_offset,_timestamp,text,nothing,empty,bytes,utf8,price,ratio,at,inner,by_day,free,größe\n"
        't,0,0,2026-01-01T10:00:00.123456Z,"a""b,c\\d\n\r e ",,"",/wA=,w7w=,0.000000000000000000,NaN,'
        '2026-01-01T00:00:00.000001,"{""a"":{""base64"":""/g==""},""b-c"":[""2026-01-01T00:00:00Z""]}",'
        '"{""2026-01-01"":""1.5""}","{""a"":[1,null]}",7\n'
    )
    shop.place, shop.format = tmp_path / "avro", "avro"
    with pytest.raises(UsageError, match="Avro has no field of the name 'b-c'"):
        shop.export()
    assert not shop.place.exists()


ODD = ("''", "NULL", "'__HIVE_DEFAULT_PARTITION__'", "'a'", "'A'", "'a '", "'a=b/c'", "'a%3Db'", "'ä'", "'a\u0308'")
"""Texts as SQL has them: some have one folder, some nearly."""
NO_UTF8 = ("CAST(X'FF' AS STRING)", "CAST(X'FE' AS STRING)", "'\ufffd'")


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_values_that_have_one_folder(spark: SparkSession, tmp_path: Path, format_: ExportFormat) -> None:
    """A text '' in one row, and null in another, ended each export; or files of one folder were written over."""
    shop = Shop(spark, tmp_path, format_)
    texts = [*ODD, *NO_UTF8]
    rows = [f"('t', 0, {n}, NULL, NULL, {n % 3}, {text})" for n, text in enumerate(texts * 3)]
    shop.sql(f"INSERT INTO {{table}} VALUES {', '.join(rows)}")
    done = shop.export(partition_by=("text", "n"))
    assert (done.rows, sum(each.rows for each in done.objects)) == (len(rows), len(rows))
    assert shop.offsets() == [(0, n) for n in range(len(rows))]
    # '', null and Hive's own word are one folder, and so are texts that are no UTF-8; all others have one each.
    assert len({each.path.split("/")[1] for each in done.objects}) == len(texts) - 4
    again = Shop.__new__(Shop)
    again.__dict__.update(shop.__dict__ | {"place": tmp_path / "by text alone"})
    assert again.export(partition_by=("text",)).rows == len(rows)


def test_a_value_that_is_too_long_for_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """It is told before anything is written, with a cure; it was a failure of the store."""
    shop = Shop(spark, tmp_path)
    shop.sql(f"INSERT INTO {{table}} VALUES ('t', 0, 1, NULL, NULL, 1, '{'%' * 84}')")
    with pytest.raises(UsageError, match=r"makes text= of 257 bytes; a folder's name has 255 at most"):
        shop.export(partition_by=("text",))
    assert not shop.place.exists()
    assert shop.export(partition_by=("n",)).rows == 1
