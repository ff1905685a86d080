"""The rows that came to the table since the last export, as objects of a format that needs no Delta to be read.

How far a place has come stands in the place itself (`delta.export_log`), which makes each export happen once:

1. The place tells its newest export; the table's newest version is taken, and stays the one that is read.
2. The rows that came since are written into a folder of this run's own. Nobody reads it yet.
3. The objects are listed, and their rows counted, from what is written.
4. One commit makes them count. Of two exports at once one is refused here.
5. Folders that no export names, and that none can name any more, are deleted: a run was ended before its commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import Storage, location
from lakeingest.delta import additions, apart
from lakeingest.delta.additions import Additions
from lakeingest.delta.export_log import ExportLog
from lakeingest.delta.history import TableHistory
from lakeingest.delta.partitioning import MAX_NAME, NULL, directory_bytes
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.reader.log import Unreadable, reading, store
from lakeingest.delta.receipt import Run, somebody
from lakeingest.delta.table import Table
from lakeingest.errors import FilesLost, LakeingestError, StorageError, UsageError, number_of
from lakeingest.operations.results.export import Exported, ExportedObject, ExportFormat
from lakeingest.record import COORDINATES, HEADERS, KEY, TIMESTAMP
from lakeingest.schema import ddl
from lakeingest.spark import listing, maps, s3a, text_values
from lakeingest.spark.failures import spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
COMPRESSIONS = ("none", "gzip")
"""Of texts. Spark writes zstd with a native library of Hadoop's alone, which no wheel of Spark's has."""
ROWS_OF_AN_OBJECT = 1_000_000
_OURS = re.compile(r"export=(\d{10})-[0-9a-f]{8}")
_LINE = "_lakeingest_line"
_FOLDER = "_lakeingest_folder_"
_OF_A_FILE = 250
"""Bytes of a key besides its place and its folders: those of a file that Spark has not committed yet."""
_FOLDED = (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.DecimalType)
"""Types of which each value has one name as a folder."""
_CSV = {
    "header": "true",
    "quote": '"',
    # RFC 4180: a quote is doubled.
    "escape": '"',
    "emptyValue": '""',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How rows are exported.

    Attributes:
        place: a folder of its own: s3a://bucket/folder, or a local path from /.
        partition_by: columns that become folders; None for the table's own partition columns.
        compression: of jsonl and csv: "none" or "gzip".

    Raises:
        UsageError: it cannot be meant.
    """

    place: str
    format: ExportFormat = "jsonl"
    partition_by: tuple[str, ...] | None = None
    compression: str = "none"
    tell: Callable[[str], None] = field(default=lambda _: None, compare=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f'--format "{self.format}" is not a format', cure=f"write one of {', '.join(FORMATS)}")
        if self.compression not in COMPRESSIONS:
            what = f'--compression "{self.compression}" is none that Spark writes everywhere'
            raise UsageError(what, cure=f"write one of {', '.join(COMPRESSIONS)}")
        if self.compression != "none" and self.format not in ("jsonl", "csv"):
            raise UsageError(
                f"--compression is of jsonl and csv: {self.format} has its own", cure="leave --compression out"
            )
        location.check_option("--to", self.place)


def export(tables: PipelineTables, storage: Storage, wanted: Wanted, *, dry_run: bool = False) -> Exported:
    """See `Pipeline.export`."""
    s3a.check_listens(storage, [wanted.place])
    s3a.let_in(tables.spark, storage, [wanted.place])
    return _Export(tables, storage, wanted).run(dry_run=dry_run)


class _Export:
    def __init__(self, tables: PipelineTables, storage: Storage, wanted: Wanted) -> None:
        self.table, self.pipeline, self.storage, self.wanted = tables.main, tables.config.name, storage, wanted
        self.codec = tables.config.table.compression
        self.others = tables.config.paths
        self.place = _normal(wanted.place)
        self.log = ExportLog(tables.spark, self.place)

    def run(self, *, dry_run: bool) -> Exported:
        self.table.existing()
        history = TableHistory(self.table)
        until = int(history.history(1)[0]["version"])
        columns = self.table.existing(until).schema
        folders = self._partitions(columns)
        if self.wanted.format == "avro":
            _check_avro(columns)
        last = self._last(history)
        since = int(last["to_version"]) if last else None
        if since == until:
            return self._found(since, until, Additions(0, 0, ()), dry_run=dry_run)
        came = self._came(since, until)
        found = self._found(since, until, came, dry_run=dry_run)
        new = additions.rows(self.table, since, until, came.offsets)
        self.wanted.tell("counting rows")
        with self._compared(since):
            found = replace(found, rows=self._counted(new, folders))
        if dry_run:
            return found
        sequence = int(last["sequence"]) + 1 if last else 1
        writer = Run()
        run = writer.id[:8]
        folder = f"export={sequence:010}-{run}"
        try:
            if found.rows:
                self.wanted.tell(f"writing {number_of(found.rows, 'row')}")
                with self._compared(since):
                    self._write(new, columns, folders, folder)
                self.wanted.tell("counting what is written")
                found = replace(found, sequence=sequence, objects=self._written(folder, found.rows))
            # An export of no rows is noted too: else the versions that are compared may be gone one day.
            self.log.commit(self._row(found, sequence, run, folder), writer)
        except LakeingestError:
            # The export that has this number by now may have deleted what was written.
            with suppress(StorageError):
                self.log.check_free(sequence, run)
            raise
        return replace(found, removed=self._clean())

    def _found(self, since: int | None, until: int, came: Additions, *, dry_run: bool) -> Exported:
        return Exported(
            pipeline=self.pipeline,
            place=self.wanted.place,
            format=self.wanted.format,
            from_version=since,
            to_version=until,
            rows=0,
            files=came.files,
            bytes=came.bytes,
            dry_run=dry_run,
        )

    # 1. What is asked, and of where ----------------------------------------------------------------------------------

    def _partitions(self, columns: StructType) -> list[str]:
        """The columns that become folders.

        Raises:
            UsageError: the table has no such column, or folders cannot be called by its values.
        """
        if self.wanted.partition_by is None:
            return self.table.partition_columns()
        named = list(dict.fromkeys(self.wanted.partition_by))
        for name in named:
            if name not in columns.names:
                raise UsageError(
                    f"--partition-by {name}: {self.table} has no such column",
                    cure=f"write some of {', '.join(columns.names)}",
                )
            kind = columns[name].dataType
            if not isinstance(kind, _FOLDED):
                raise UsageError(
                    f"--partition-by {name}: a folder cannot be called by a value of {kind.simpleString()}",
                    cure="write columns of texts, whole numbers, days or times",
                )
        if len(named) == len(columns):
            raise UsageError("--partition-by names all columns", cure="leave one out at least")
        return named

    def _last(self, history: TableHistory) -> dict[str, Any] | None:
        """The place's newest export.

        Raises:
            UsageError: the place is another's, or holds something else; or exported rows were taken back.
        """
        self._check_apart()
        last = self.log.newest()
        if last is None:
            self._check_empty()
            return None
        for name, here, cure in (
            ("pipeline", self.pipeline, "export each pipeline into a place of its own"),
            ("table_id", self._detail["id"], "the table was made anew: export it into a new place"),
            ("format", self.wanted.format, "export each format into a place of its own"),
        ):
            if last[name] != here:
                what = f"{self.place} holds exports of {name.replace('_', ' ')} {last[name]}, and this is {here}"
                raise UsageError(f"{what}: nothing was written", cure=cure)
        self._check_readable(int(last["to_version"]))
        self._check_not_restored(history, int(last["to_version"]))
        return dict(last)

    @cached_property
    def _detail(self) -> dict[str, Any]:
        """What Delta says of the table: its id, numFiles, sizeInBytes."""
        return self.table.measured()

    def _check_apart(self) -> None:
        for other in {self.table.location, *self.others}:
            if location.is_path(other) and location.one_place(self.place, other):
                raise UsageError(
                    f"--to {self.place} meets the table at {other}", cure="write a folder that lies in no table"
                )

    def _check_empty(self) -> None:
        """Raises: UsageError: the place lies within another one, or holds something else than what an export that was
        ended early leaves.
        """
        spark = self.table.spark
        if (above := apart.above(spark, self.place)) is not None:
            raise UsageError(
                f"--to {self.place} would lie within {above}",
                cure="write a folder that lies in no table, and in no exports",
            )
        strange = apart.below(spark, self.place, _OURS)
        if strange is None and Table(spark, self.place).schema() is not None:
            strange = "a Delta table"
        if strange is not None:
            raise UsageError(
                f"{self.place} holds something else than exports: {strange}; nothing was written",
                cure="write a folder that is empty, or that is not there yet",
            )

    def _check_readable(self, since: int) -> None:
        try:
            self.table.existing(since)
        except UsageError as gone:
            raise UsageError(
                f"version {since} of {self.table}, up to which was exported into {self.place}, is no longer in its log",
                cure="export into a new place, which begins with all rows, and from then on more often than the log is "
                "cleaned up (after 30 days)",
            ) from gone

    def _check_not_restored(self, history: TableHistory, since: int) -> None:
        back: int | None = None
        for entry in history.since(since):
            # What a RESTORE took back, an earlier RESTORE among it, is as if it had never been.
            if entry["operation"] != "RESTORE" or (back is not None and entry["version"] > back):
                continue
            back = history.restored_to(entry, since)
            if back < since:
                raise UsageError(
                    f"{self.table} was restored (version {entry['version']}) to what it was before version {since}, up "
                    f"to which it was exported into {self.place}: rows that come again would be exported twice",
                    cure="export into a new place, which begins with all rows; or undo it: "
                    f"RESTORE TABLE {self.table.sql} TO VERSION AS OF {since}",
                )

    def _came(self, since: int | None, until: int) -> Additions:
        if since is not None:
            return additions.added(self.table, since, until)
        return Additions(int(self._detail["numFiles"]), int(self._detail["sizeInBytes"]), None)

    def _counted(self, rows: DataFrame, folders: Sequence[str]) -> int:
        """How many rows are new.

        Raises:
            UsageError: a value makes a folder's name, or an object's key, too long.
        """
        sizes = [directory_bytes(name, _folder(name)) for name in folders]
        length = sum((size + 1 for size in sizes), F.lit(0))
        most = [F.max(size).alias(name) for size, name in zip(sizes, folders, strict=True)]
        seen = rows.agg(F.count("*"), F.max(length), *most).first()
        assert seen is not None
        count, longest, *each = seen
        place = location.place(self.place)
        room = location.MAX_KEY - len("/".join(place.steps).encode()) - _OF_A_FILE
        too_long = [
            f"{name}= of {size} bytes" for name, size in zip(folders, each, strict=True) if (size or 0) > MAX_NAME
        ]
        if not too_long and place.on_s3 and (longest or 0) > room:
            too_long = [f"folders of {longest} bytes, where {room} fit into a key of S3"]
        if too_long:
            raise UsageError(
                f"--partition-by: a value makes {', '.join(too_long)}; a folder's name has {MAX_NAME} at most",
                cure="partition by other columns: --partition-by may differ from one export into a place to the next",
            )
        return int(count)

    # 2. The objects ---------------------------------------------------------------------------------------------------

    def _write(self, rows: DataFrame, columns: StructType, folders: Sequence[str], folder: str) -> None:
        named = {name: f"{_FOLDER}{at}" for at, name in enumerate(folders)}
        rows = rows.withColumns({own: _folder(name) for name, own in named.items()})
        # Else each task would write an object into each folder.
        rows = rows.hint("rebalance", *map(F.col, named.values()))
        order = [*named.values(), *(ddl.quoted(name) for name in COORDINATES if name not in folders)]
        rows = rows.sortWithinPartitions(*order)
        options = {
            "maxRecordsPerFile": str(ROWS_OF_AN_OBJECT),
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        }
        into = {name: F.col(own).alias(name) for name, own in named.items()}
        kind: str = self.wanted.format
        match self.wanted.format:
            case "jsonl":
                kind = "text"
                line = text_values.json_line(columns, _as_read(columns.names)).alias(_LINE)
                rows = rows.select(line, *into.values())
                options["compression"] = self.wanted.compression
            case "csv":
                options |= {**_CSV, "compression": self.wanted.compression}
                rows = _each(rows, columns, into, text_values.csv_cell)
            case "avro":
                rows = _each(rows, columns, into, text_values.named_in_avro)
            case "parquet":
                options["compression"] = self.codec
                rows = _each(rows, columns, into, maps.last_of_each)
        writer = rows.write.format(kind).options(**options).mode("errorifexists")
        writer.partitionBy(*folders).save(f"{self.place}/{folder}")

    @contextmanager
    def _compared(self, since: int | None) -> Iterator[None]:
        """Say what a failure of Spark within the block means, which is about the table, or the place."""
        try:
            yield
        except spark_failures() as failed:
            error = translate(self.table.identifier, failed)
            if not isinstance(error, FilesLost):
                raise translate(self.place, failed) from failed
            if since is None:
                raise error from failed
            raise FilesLost(
                f"{error.what}; or a VACUUM deleted it, and version {since}, up to which was exported, has it",
                cure="after a VACUUM: export into a new place, and from then on more often than VACUUM runs (its "
                f"retention is seven days); else: {error.cure}",
            ) from failed

    # 3. What is written -------------------------------------------------------------------------------------------

    def _objects(self, folder: str) -> list[tuple[str, int]]:
        """The path of each object below a folder, within the place, and its bytes."""
        from pyspark.errors import AnalysisException

        try:
            found = listing.below(self.table.spark, folder).collect()
        except AnalysisException as none:
            if none.getCondition() == "PATH_NOT_FOUND":
                return []
            raise translate(folder, none) from none
        except spark_failures() as failed:
            raise translate(folder, failed) from failed
        return [(self._within(row.path), int(row.length)) for row in found]

    def _written(self, folder: str, count: int) -> tuple[ExportedObject, ...]:
        """The objects of an export with their rows, which are read once more.

        Raises:
            FilesLost: they have not as many rows as are new.
        """
        path = f"{self.place}/{folder}"
        kind, options = {"jsonl": ("text", {}), "csv": ("csv", {**_CSV, "multiLine": "true"})}.get(
            self.wanted.format, (self.wanted.format, {})
        )
        with storage_failures(path):
            read = self.table.spark.read.format(kind).options(recursiveFileLookup="true", **options).load(path)
            counted = read.groupBy(F.col("_metadata.file_path").alias("path")).count().collect()
        rows = {self._within(unquote(row["path"])): int(row["count"]) for row in counted}
        objects = tuple(ExportedObject(path, rows.get(path, 0), size) for path, size in sorted(self._objects(path)))
        if (written := sum(each.rows for each in objects)) != count:
            raise FilesLost(
                f"{path} has {written:,} rows, and {count:,} were to be written: the export does not count",
                cure="run again; if it is the same, export in another format, and report it",
            )
        return objects

    def _within(self, path: str) -> str:
        """A path within the place, of one that Spark gives."""
        return listing.without_scheme(path).removeprefix(f"{listing.without_scheme(self.place)}/")

    # 4. and 5. ------------------------------------------------------------------------------------------------------

    def _row(self, done: Exported, sequence: int, run: str, folder: str) -> dict[str, Any]:
        return {
            "sequence": sequence,
            "run": run,
            "pipeline": self.pipeline,
            "table": self.table.identifier,
            "table_id": self._detail["id"],
            "from_version": done.from_version,
            "to_version": done.to_version,
            "format": done.format,
            "exported_at": datetime.now(UTC),
            "writer": somebody(),
            "folder": folder,
            "rows": done.rows,
            "bytes": sum(each.bytes for each in done.objects),
            "objects": [asdict(each) for each in done.objects],
        }

    def _clean(self) -> int:
        """Delete the folders of exports that can count no more; how many, 0 also where the store does not let us.

        Only those of a number that was committed: another export of the next number may be writing.
        """
        newest = self.log.newest()
        if newest is None:
            return 0
        kept, removed = self.log.folders(), 0
        with suppress(Unreadable), reading(self.place):
            from pyarrow import fs

            files, root = store(self.place, self.storage)
            for info in files.get_file_info(fs.FileSelector(root)):
                ours = _OURS.fullmatch(info.base_name)
                if ours and int(ours[1]) <= newest["sequence"] and info.base_name not in kept:
                    files.delete_dir(info.path)
                    removed += 1
        return removed


def _each(rows: DataFrame, columns: StructType, into: Mapping[str, Column], change: Callable[..., Column]) -> DataFrame:
    """The rows with each column changed that does not become a folder.

    Args:
        into: the columns that do.
    """
    plain = {c.name: c.dataType for c in columns if c.name not in into}
    values = {name: change(F.col(ddl.quoted(name)), kind).alias(name) for name, kind in plain.items()}
    return rows.select(*(into[name] if name in into else values[name] for name in columns.names))


def _folder(name: str) -> Column:
    """The text that a value has in a folder's name: two values with one folder are one text.

    Else Spark begins the folder twice, with the same names of files. What Hive takes for null is null: ''.
    """
    text = F.make_valid_utf8(F.col(ddl.quoted(name)).cast("string"))
    return F.when(~text.isin("", NULL), text)


def _as_read(names: Sequence[str]) -> list[str]:
    """Columns in the order of `operations.read`: what is of the record itself comes first."""
    own = [name for name in (*COORDINATES, TIMESTAMP, KEY, HEADERS) if name in names]
    return [*own, *(name for name in names if name not in own)]


def _check_avro(columns: StructType) -> None:
    """Raises: UsageError: a name that Avro does not have."""
    for column in columns:
        for name in _names(column):
            if not _AVRO_NAME.fullmatch(name):
                raise UsageError(
                    f"Avro has no field of the name {name!r}: letters, digits and _ alone",
                    cure="write --format parquet, jsonl or csv; or rename the column (transform)",
                )


def _names(field: T.StructField) -> Iterator[str]:
    """The name of a field, and of those within it."""
    yield field.name
    inner = [field.dataType]
    while inner:
        match inner.pop():
            case T.StructType() as kind:
                for each in kind:
                    yield from _names(each)
            case T.ArrayType() as kind:
                inner.append(kind.elementType)
            case T.MapType() as kind:
                inner.append(kind.valueType)


def _normal(path: str) -> str:
    """A place as Spark names what lies in it: without // and . and a / at the end."""
    place = location.place(path)
    root = f"{place.scheme}://{place.bucket}" if place.on_s3 else ""
    return "/".join((root, *place.steps))
