"""A Delta table, known by the path where it lies, or by the name that a catalog has for it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lakeingest.config import location
from lakeingest.delta import apart, coordinates
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.schema import ddl
from lakeingest.spark import frames, types
from lakeingest.spark.failures import check_managed, spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql import types as T
    from pyspark.sql.types import StructType

    from lakeingest.delta.partitioning import PartitionColumn
    from lakeingest.record import OffsetRanges

_TRIES = 10
"""How often a change is tried where others write to the same table at once."""
_GENERATED = "delta.generationExpression"
"""Delta's name, in a column's metadata, for the expression by which it generates the column."""
_MEANWHILE = re.compile("CONCURRENT|DELTA_(METADATA|PROTOCOL)_CHANGED")
PROPERTIES = {
    # A log checkpoint costs two to four commits, and each commit reads the log's files since the last one.
    "delta.checkpointInterval": "20",
}


@dataclass(frozen=True)
class Table:
    """A Delta table, which need not be there yet.

    Attributes:
        identifier: a path, as in s3a://lake/flights, or the name of a table in a catalog, as in lake.flights. What has
            a slash is a path.

    Raises:
        StorageUnreachable, UnsafeStore: from every method, where the object store fails or refuses.
    """

    spark: SparkSession
    identifier: str

    def __str__(self) -> str:
        return self.identifier

    @property
    def by_path(self) -> bool:
        return location.is_path(self.identifier)

    @property
    def sql(self) -> str:
        """The table as a statement names it."""
        if self.by_path:
            return f"delta.`{self.identifier}`"
        return ".".join(ddl.quoted(part) for part in self.identifier.split("."))

    @cached_property
    def location(self) -> str:
        """The path where it lies; of a catalog's table, which must be there, the catalog knows it."""
        return self.identifier if self.by_path else self.details()["Location"]

    def _check_kind(self) -> None:
        described = self.details()
        kind = described.get("Provider", "").lower()
        if kind != "delta":
            other = f"a table in the format {kind or 'of its catalog'}"
            reason = "a view" if "VIEW" in described.get("Type", "") else other
            raise TableMismatch(
                f"{self} is {reason}, and no Delta table", cure="give table.name, or its schema, another name"
            )

    # What it holds -----------------------------------------------------------------------------------------------

    def read(self, version: int | None = None) -> DataFrame:
        """The rows as they stand now, or stood in a version of the table."""
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return reader.format("delta").load(self.identifier) if self.by_path else reader.table(self.sql)

    def existing(self, version: int | None = None) -> DataFrame:
        """The same, of a table that need not be there.

        Raises:
            UsageError: there is none yet, or it has no such version any more.
        """
        from pyspark.errors import AnalysisException

        if self.schema() is None:
            raise UsageError(
                f"there is no Delta table at {self} yet", cure="run the pipeline first: it makes the table"
            )
        if version is None:
            return self.read()
        try:
            rows = self.read(version)
            # Over Spark Connect nothing was asked yet.
            _ = rows.schema
        except AnalysisException as none:
            raise UsageError(f"{self} has no version {version}", cure="name one that its history has") from none
        return rows

    def schema(self) -> StructType | None:
        """The columns; None if there is no table.

        Delta calls a mere log folder a table, which is how making one begins; it has no columns, and is none here.

        Raises:
            TableMismatch: the name stands for something else than a Delta table; or a catalog keeps its newest commits.
        """
        from pyspark.errors import AnalysisException

        try:
            columns = self.read().schema or None
        except AnalysisException:
            return None
        except spark_failures() as failed:
            raise translate(self.identifier, failed) from failed
        if columns is not None and not self.by_path:
            self._check_kind()
        return columns

    def properties(self) -> dict[str, str]:
        """The table's properties."""
        with storage_failures(self.identifier):
            rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.sql}").collect()
        return {row["key"]: row["value"] for row in rows}

    def partition_columns(self) -> list[str]:
        """From DESCRIBE TABLE, which needs metadata alone; DESCRIBE DETAIL adds up the files, for seconds."""
        with storage_failures(self.identifier):
            names = [row["col_name"] for row in self.spark.sql(f"DESCRIBE TABLE {self.sql}").collect()]
        header = "# Partition Information"
        return names[names.index(header) + 2 :] if header in names else []

    def details(self) -> dict[str, str]:
        """What DESCRIBE TABLE says behind the columns: Type, Provider, Location, Comment and more; from metadata alone.

        A view has no Location; a table without a comment no Comment.

        Raises:
            TableMismatch: a catalog keeps its newest commits: whoever reads the log at its Location does not see them.
        """
        with storage_failures(self.identifier):
            rows = [tuple(row)[:2] for row in self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.sql}").collect()]
        names, header = [name for name, _ in rows], "# Detailed Table Information"
        # Of a global temporary view nothing is said.
        described = dict(rows[names.index(header) + 1 :]) if header in names else {}
        # Of a path Delta itself refuses it.
        check_managed(self.identifier, described.get("Table Properties", ""))
        return described

    def measured(self) -> dict[str, Any]:
        """What DESCRIBE DETAIL says: id STRING, numFiles, sizeInBytes BIGINT and more. It adds up the files, for
        seconds.
        """
        with storage_failures(self.identifier):
            return dict(self.spark.sql(f"DESCRIBE DETAIL {self.sql}").collect()[0].asDict())

    def coordinates(self, ranges: OffsetRanges) -> DataFrame:
        """The coordinates of the rows within `ranges`: _topic STRING, _partition INT, _offset BIGINT."""
        return coordinates.of(self.read(), ranges)

    # How it is changed -------------------------------------------------------------------------------------------

    def update(self, rows: DataFrame, same: Sequence[str], still: str, column: str) -> None:
        """Take over a column from the rows that are the same, in one commit.

        Args:
            rows: no two of them the same.
            same: the columns by which a row of the table (q) and one of `rows` (r) are the same.
            still: what must hold of a row of the table when it is updated, in SQL.
            column: the column; it has its new value in `rows`.
        """
        self.merge(rows, same, f"WHEN MATCHED AND {still} THEN UPDATE SET {column} = r.{column}")

    def insert(self, rows: DataFrame, same: Sequence[str]) -> None:
        """Add the rows that are not there yet, in one commit.

        Args:
            rows: no two of them the same.
            same: the columns by which a row of the table and one of `rows` are the same.
        """
        names = [ddl.quoted(name).replace("{", "{{").replace("}", "}}") for name in rows.columns]
        values = ", ".join(f"r.{name}" for name in names)
        self.merge(rows, same, f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})")

    def delete(self, where: str) -> None:
        """Delete the rows for which a condition holds, in SQL."""
        # Delta's DELETE binds no parameters.
        self._though_others_write(lambda: self.spark.sql(f"DELETE FROM {self.sql} WHERE {where}").collect())

    def merge(self, rows: DataFrame, same: Sequence[str], then: str) -> None:
        """Change rows by others, in one commit, though others write to the table meanwhile.

        Args:
            rows: no two of them the same.
            same: the columns by which a row of the table (q) and one of `rows` (r) are the same.
            then: what becomes of a row, in SQL: WHEN MATCHED THEN …
        """
        matched = " AND ".join(f"q.{name} = r.{name}" for name in same)
        # In braces is the name of a frame.
        table = self.sql.replace("{", "{{").replace("}", "}}")
        merge = f"MERGE INTO {table} AS q USING {{rows}} AS r ON {matched} {then}"
        self._though_others_write(lambda: frames.computed(self.spark, merge, {"rows": rows}, lambda run: run.collect()))

    def _though_others_write(self, change: Callable[[], object]) -> None:
        """Try a change again as long as another pipeline, another run, or a compaction commits meanwhile."""
        for tries in reversed(range(_TRIES)):
            try:
                change()
                return
            except spark_failures() as failed:
                if not tries or not _MEANWHILE.search(str(failed)):
                    raise

    def append(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        """Commit rows; a table that is known by its name is not made for them."""
        if self.by_path:
            rows.write.format("delta").mode("append").options(**options).save(self.identifier)
        else:
            rows.writeTo(self.sql).options(**options).append()

    def check_place(self) -> None:
        """Notice that the name stands for another table than it did when `location` was asked for.

        Raises:
            TableMismatch: it does, or for none; nothing was written.
        """
        if self.by_path:
            return
        try:
            place = self.details().get("Location")
        except UsageError:
            place = None
        if place != self.location:
            raise self.replaced(f"the one at {place}" if place else "gone")

    def replaced(self, now: str) -> TableMismatch:
        """The error that the name stands for something else `now`."""
        return TableMismatch(
            f"{self} was another table at {self.location} when this run began, and is {now} now: somebody renamed, "
            "dropped or replaced it",
            cure="let the name stand for that table again, then run again; nothing was written meanwhile",
        )

    def save(self, writer: DataFrameWriter) -> None:
        """Commit what a writer was given."""
        if self.by_path:
            writer.save(self.identifier)
        else:
            writer.saveAsTable(self.sql)

    def create(
        self,
        columns: StructType,
        partitions: Sequence[PartitionColumn] = (),
        properties: Mapping[str, str] | None = None,
    ) -> StructType:
        """Make a table that was not there a moment ago; its columns.

        Args:
            columns: all but those partition columns that are computed from others.
            properties: besides `PROPERTIES`, which every table of lakeingest's has.

        Raises:
            TableMismatch: it would lie within another table, or around one, or over other files.
        """
        whole = with_partitions(columns, partitions)
        described = [f"{types.sql_column(column)}{_computed(column)}" for column in whole]
        partition_names = ", ".join(ddl.quoted(partition.name) for partition in partitions)
        partitioned = f" PARTITIONED BY ({partition_names})" if partitions else ""
        target_properties = {**PROPERTIES, **(properties or {})}
        with storage_failures(self.identifier):
            if not self.by_path:
                self.ensure_schema()
        self._check_apart()
        with storage_failures(self.identifier):
            # Another run of the pipeline may have made it meanwhile.
            with suppress(*spark_failures()):
                self.spark.sql(
                    f"CREATE TABLE IF NOT EXISTS {self.sql} ({', '.join(described)}) USING DELTA{partitioned} "
                    f"TBLPROPERTIES ({_options(target_properties)})"
                )
            schema = self.schema()
            if schema is None:
                self._create_by_writing(whole, partitions, target_properties)
            return schema or self.read().schema

    def _check_apart(self) -> None:
        """Notice that a new table would lie within another one, or around one, or over other files.

        Raises:
            TableMismatch: it would; nothing was made.
        """
        place = self.identifier if self.by_path else self._future_location()
        if place is not None and (above := apart.above(self.spark, place)) is not None:
            raise TableMismatch(
                f"{self} would lie within {above}", cure="name a place beside that one, and not within it"
            )
        # Of a name Delta asks it itself. What is there may be the table, which another run has made meanwhile.
        below = apart.below(self.spark, self.identifier) if self.by_path else None
        if below is not None and self.schema() is None and not apart.unfinished(self.spark, self.identifier):
            raise TableMismatch(
                f"a new table is to be made at {self}, and something lies there: {below}",
                cure="name a place in which nothing lies; or, if it is what is left of a table, bring its log "
                "(_delta_log) back, or move the files elsewhere",
            )

    def _future_location(self) -> str | None:
        """Where the catalog will put the table; None where it does not say."""
        schema, _, name = self.sql.rpartition(".")
        rows = self.spark.sql(f"DESCRIBE SCHEMA {schema}").collect() if schema else []
        folder = next((row[1] for row in rows if row[0] == "Location"), None)
        return f"{folder.rstrip('/')}/{name.strip('`')}" if folder else None

    def ensure_schema(self) -> None:
        """Make the schema of its name if it is missing: where it is there, the right to make one need not be."""
        schema = self.sql.rpartition(".")[0]
        if schema and not self.spark.catalog.databaseExists(schema):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def _create_by_writing(
        self, columns: StructType, partitions: Sequence[PartitionColumn], properties: Mapping[str, str]
    ) -> None:
        """Make a table where a log folder without a version is, as a run leaves it that is killed while it makes one.

        There Delta creates no table (DELTA_TABLE_NOT_FOUND), but lets an empty frame be written as one. NOT NULL gets
        lost on that way; decoding refuses such nulls in any case.
        """
        empty = self.spark.createDataFrame([], columns)
        writer = empty.write.format("delta").mode("append").partitionBy(*(p.name for p in partitions))
        self._though_others_write(lambda: self.save(writer))
        for name, value in properties.items():
            changed = f"ALTER TABLE {self.sql} SET TBLPROPERTIES ({_options({name: value})})"
            self._though_others_write(partial(self.spark.sql, changed))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set these, in a commit of metadata alone."""
        with storage_failures(self.identifier):
            self.spark.sql(f"ALTER TABLE {self.sql} SET TBLPROPERTIES ({_options(properties)})")

    def unset_properties(self, names: Sequence[str]) -> None:
        """Take these away, in a commit of metadata alone."""
        names_text = ", ".join(map(ddl.text, names))
        with storage_failures(self.identifier):
            self.spark.sql(f"ALTER TABLE {self.sql} UNSET TBLPROPERTIES IF EXISTS ({names_text})")

    def add_columns(self, columns: StructType, target: StructType) -> None:
        """Add the columns that the table lacks.

        Args:
            columns: those that the table has.
        """
        names = {name.lower() for name in columns.names}
        with storage_failures(self.identifier):
            for column in target:
                if column.name.lower() not in names:
                    declaration = f"{ddl.quoted(column.name)} {types.sql_type(column.dataType)}"
                    self.spark.sql(f"ALTER TABLE {self.sql} ADD COLUMNS ({declaration})")

    def widen(self, columns: StructType, target: StructType) -> bool:
        """Widen columns to the types that are wanted, if any; metadata alone, no file is written anew.

        Delta's type widening is a feature of the table that its readers must know, so it is enabled only when a column
        needs it. (Delta's own automatic widening, in a write that merges schemas, leaves out INT → DOUBLE.)

        Args:
            columns: those that the table has.
        """
        wider = list(types.widenings(columns, target))
        if not wider:
            return False
        self.set_properties({"delta.enableTypeWidening": "true"})
        with storage_failures(self.identifier):
            for name, kind in wider:
                self.spark.sql(f"ALTER TABLE {self.sql} ALTER COLUMN {name} TYPE {kind}")
        return True

    def drop_not_null(self, columns: Sequence[str]) -> bool:
        """Let these columns, paths as SQL has them, be null; whether there are any. Metadata alone."""
        with storage_failures(self.identifier):
            for name in columns:
                self.spark.sql(f"ALTER TABLE {self.sql} ALTER COLUMN {name} DROP NOT NULL")
        return bool(columns)

    def comment_columns(self, comments: Mapping[str, str]) -> None:
        """Give fields, paths as SQL has them, these comments. Metadata alone, a commit for each level of nesting."""
        levels: dict[int, list[str]] = {}
        for name, text in comments.items():
            # One statement may not name a field and another one within it.
            levels.setdefault(_depth(name), []).append(f"{name} COMMENT {ddl.text(text)}")
        with storage_failures(self.identifier):
            for changes in levels.values():
                self.spark.sql(f"ALTER TABLE {self.sql} ALTER COLUMN {', '.join(changes)}")

    def comment(self, text: str) -> None:
        """Let the table have this comment, in a commit of metadata alone if it has another."""
        if self.details().get("Comment", "") != text:
            with storage_failures(self.identifier):
                self.spark.sql(f"COMMENT ON TABLE {self.sql} IS {ddl.text(text)}")


def with_partitions(columns: StructType, partitions: Sequence[PartitionColumn]) -> StructType:
    """The columns of a table that `Table.create` makes: with those partition columns that are computed from others."""
    from pyspark.sql import types as T

    names = columns.fieldNames()
    computed = [
        T.StructField(p.name, p.type, metadata={_GENERATED: p.generated} if p.generated else None)
        for p in partitions
        if p.name not in names
    ]
    return T.StructType([*columns, *computed])


def _computed(column: T.StructField) -> str:
    """What makes a column of CREATE TABLE a generated one, if it is one."""
    expression = column.metadata.get(_GENERATED)
    return f" GENERATED ALWAYS AS ({expression})" if expression else ""


def _depth(path: str) -> int:
    """How many parts a path has whose names are quoted."""
    return len(re.findall(r"(?:`[^`]*`)+|[^.`]+", path))


def _options(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{ddl.text(name)} = {ddl.text(value)}" for name, value in properties.items())
