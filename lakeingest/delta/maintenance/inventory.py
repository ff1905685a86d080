"""The files of a table as they stand now, by its log; or by Spark, where the log cannot be read without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakeingest.config import Storage
from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable
from lakeingest.schema import ddl
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from lakeingest.delta.table import Table


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one moment: how many there are, and their bytes."""

    count: int
    bytes: int

    @classmethod
    def of(cls, files: Sequence[DataFile]) -> TableFiles:
        """How many these are, and their bytes."""
        return cls(len(files), sum(file.size for file in files))


def table_files(table: Table) -> TableFiles:
    """The table's files as Delta adds them up, for seconds.

    Raises:
        UsageError: there is no such table.
        StorageUnreachable: the object store.
    """
    detail = table.measured()
    return TableFiles(int(detail["numFiles"]), int(detail["sizeInBytes"]))


@dataclass(frozen=True)
class Inventory:
    """What a table's log says of its files.

    Attributes:
        is_clustered: whether the table has liquid clustering.
        properties: the table's.
    """

    files: Sequence[DataFile]
    is_clustered: bool
    properties: Mapping[str, str]

    @cached_property
    def size(self) -> TableFiles:
        """How many files there are, and their bytes."""
        return TableFiles.of(self.files)

    @classmethod
    def of(cls, table: Table, storage: Storage) -> Inventory:
        """What a table's log says.

        Raises:
            UsageError: there is no such table.
            StorageUnreachable, TableMismatch: it cannot be read.
        """
        with suppress(Unreadable):
            log = OfflineLog(table.location, storage)
            # Where columns are mapped, the log names those of partitions otherwise than a statement does.
            if "columnMapping" not in log.state.features:
                return cls.of_log(log)
        return cls._by_spark(table)

    @classmethod
    def of_log(cls, log: OfflineLog) -> Inventory:
        """The same without Spark.

        Raises:
            Unreadable: the log cannot be read so.
        """
        features = {*(log.state.protocol.get("writerFeatures") or ())}
        return cls(log.state.files, "clustering" in features, log.state.properties)

    @classmethod
    def _by_spark(cls, table: Table) -> Inventory:
        """By the metadata of the files' rows: each file's foot is read."""
        rows = table.existing()
        names = table.partition_columns()
        values = [f"CAST({ddl.quoted(name)} AS STRING) AS p{at}" for at, name in enumerate(names)]
        with storage_failures(table.identifier):
            chosen = rows.selectExpr(
                "_metadata.file_path AS path",
                "_metadata.file_size AS size",
                "unix_millis(_metadata.file_modification_time) AS modified",
                *values,
            )
            listed = chosen.distinct().collect()
        files = [
            DataFile(row["path"], row["size"], dict(zip(names, row[3:], strict=True)), None, modified=row["modified"])
            for row in listed
        ]
        return cls(files, bool(table.measured().get("clusteringColumns")), table.properties())
