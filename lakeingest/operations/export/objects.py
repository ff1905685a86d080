"""The objects of an export: what is written into a folder, and what is in them then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.config import location
from lakeingest.delta.partitioning import MAX_NAME, NULL, directory_bytes
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.errors import FilesLost, UsageError
from lakeingest.operations.export import text_values
from lakeingest.operations.export.request import ExportRequest
from lakeingest.operations.results.export import ExportedObject
from lakeingest.record import COORDINATES, HEADERS, KEY, TIMESTAMP
from lakeingest.schema import ddl
from lakeingest.spark import listing, maps
from lakeingest.spark.failures import spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

ROWS_OF_AN_OBJECT = 1_000_000
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


class ObjectWriter:
    """Writes rows of a table as the objects of a request.

    Args:
        columns: the table's.

    Raises:
        UsageError: the table has no column that the request names, or folders, or Avro, cannot have its names.
    """

    def __init__(self, tables: PipelineTables, request: ExportRequest, columns: StructType) -> None:
        self.table, self.request, self.root = tables.main, request, request.root
        self._codec, self._columns = tables.config.table.compression, columns
        self._folders = self._partitions()
        if request.format == "avro":
            _check_avro(columns)

    def _partitions(self) -> list[str]:
        """The columns that become folders.

        Raises:
            UsageError: the table has no such column, or folders cannot be called by its values.
        """
        if self.request.partition_by is None:
            return self.table.partition_columns()
        names = list(dict.fromkeys(self.request.partition_by))
        for name in names:
            if name not in self._columns.names:
                raise UsageError(
                    f"--partition-by {name}: {self.table} has no such column",
                    cure=f"write some of {', '.join(self._columns.names)}",
                )
            kind = self._columns[name].dataType
            if not isinstance(kind, _FOLDED):
                raise UsageError(
                    f"--partition-by {name}: a folder cannot be called by a value of {kind.simpleString()}",
                    cure="write columns of texts, whole numbers, days or times",
                )
        if len(names) == len(self._columns):
            raise UsageError("--partition-by names all columns", cure="leave one out at least")
        return names

    def count(self, rows: DataFrame) -> int:
        """How many rows are new.

        Raises:
            UsageError: a value makes a folder's name, or an object's key, too long.
        """
        sizes = [directory_bytes(name, _folder(name)) for name in self._folders]
        length = sum((size + 1 for size in sizes), F.lit(0))
        most = [F.max(size).alias(name) for size, name in zip(sizes, self._folders, strict=True)]
        sizes_row = rows.agg(F.count("*"), F.max(length), *most).first()
        assert sizes_row is not None
        count, longest, *each = sizes_row
        place = location.place(self.root)
        room = location.MAX_KEY - len("/".join(place.steps).encode()) - _OF_A_FILE
        too_long = [
            f"{name}= of {size} bytes" for name, size in zip(self._folders, each, strict=True) if (size or 0) > MAX_NAME
        ]
        if not too_long and place.on_s3 and (longest or 0) > room:
            too_long = [f"folders of {longest} bytes, where {room} fit into a key of S3"]
        if too_long:
            raise UsageError(
                f"--partition-by: a value makes {', '.join(too_long)}; a folder's name has {MAX_NAME} at most",
                cure="partition by other columns: --partition-by may differ from one export into a place to the next",
            )
        return int(count)

    def write(self, rows: DataFrame, folder: str) -> None:
        """Write rows into a folder of the place."""
        columns, folders = self._columns, self._folders
        folder_columns = {name: f"{_FOLDER}{at}" for at, name in enumerate(folders)}
        rows = rows.select("*", *(_folder(name).alias(column) for name, column in folder_columns.items()))
        # Else each task would write an object into each folder.
        rows = rows.hint("rebalance", *map(F.col, folder_columns.values()))
        order = [*folder_columns.values(), *(ddl.quoted(name) for name in COORDINATES if name not in folders)]
        rows = rows.sortWithinPartitions(*order)
        options = {
            "maxRecordsPerFile": str(ROWS_OF_AN_OBJECT),
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        }
        into = {name: F.col(column).alias(name) for name, column in folder_columns.items()}
        kind: str = self.request.format
        match self.request.format:
            case "jsonl":
                kind = "text"
                line = text_values.json_line(columns, _as_read(columns.names)).alias(_LINE)
                rows = rows.select(line, *into.values())
                options["compression"] = self.request.compression
            case "csv":
                options |= {**_CSV, "compression": self.request.compression}
                rows = _each(rows, columns, into, text_values.csv_cell)
            case "avro":
                rows = _each(rows, columns, into, text_values.named_in_avro)
            case "parquet":
                options["compression"] = self._codec
                rows = _each(rows, columns, into, maps.last_of_each)
        writer = rows.write.format(kind).options(**options).mode("error")
        writer.partitionBy(*folders).save(f"{self.root}/{folder}")

    @contextmanager
    def compared(self, since: int | None) -> Iterator[None]:
        """Say what a failure of Spark within the block means, which is about the table, or the place."""
        try:
            yield
        except spark_failures() as failed:
            error = translate(self.table.identifier, failed)
            if not isinstance(error, FilesLost):
                raise translate(self.root, failed) from failed
            if since is None:
                raise error from failed
            raise FilesLost(
                f"{error.what}; or a VACUUM deleted it, and version {since}, up to which was exported, has it",
                cure="after a VACUUM: export into a new place, and from then on more often than VACUUM runs (its "
                f"retention is seven days); else: {error.cure}",
            ) from failed

    def written(self, folder: str, count: int) -> tuple[ExportedObject, ...]:
        """The objects of an export with their rows, which are read once more.

        Raises:
            FilesLost: they have not as many rows as are new.
        """
        path = f"{self.root}/{folder}"
        kind, options = {"jsonl": ("text", {}), "csv": ("csv", {**_CSV, "multiLine": "true"})}.get(
            self.request.format, (self.request.format, {})
        )
        with storage_failures(path):
            read = self.table.spark.read.format(kind).options(recursiveFileLookup="true", **options).load(path)
            counted = read.groupBy(F.col("_metadata.file_path").alias("path")).count().collect()
        rows = {self._within(unquote(row["path"])): int(row["count"]) for row in counted}
        objects = tuple(ExportedObject(path, rows.get(path, 0), size) for path, size in sorted(self._sizes(path)))
        if (written := sum(each.rows for each in objects)) != count:
            raise FilesLost(
                f"{path} has {written:,} rows, and {count:,} were to be written: the export does not count",
                cure="run again; if it is the same, export in another format, and report it",
            )
        return objects

    def _sizes(self, folder: str) -> list[tuple[str, int]]:
        """The path of each object below a folder, within the place, and its bytes."""
        from pyspark.errors import AnalysisException

        try:
            files = listing.below(self.table.spark, folder).collect()
        except AnalysisException as none:
            if none.getCondition() == "PATH_NOT_FOUND":
                return []
            raise translate(folder, none) from none
        except spark_failures() as failed:
            raise translate(folder, failed) from failed
        return [(self._within(row.path), int(row.length)) for row in files]

    def _within(self, path: str) -> str:
        """A path within the place, of one that Spark gives."""
        return listing.without_scheme(path).removeprefix(f"{listing.without_scheme(self.root)}/")


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
    first = [name for name in (*COORDINATES, TIMESTAMP, KEY, HEADERS) if name in names]
    return [*first, *(name for name in names if name not in first)]


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
