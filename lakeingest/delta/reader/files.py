"""The contract of `reader.contract`, by Arrow and DuckDB, on the files of a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeingest.config import Storage
from lakeingest.delta.reader import duck, lineage, rows, runs
from lakeingest.delta.reader.contract import Condition, View
from lakeingest.delta.reader.lineage import RowGroup
from lakeingest.delta.reader.log import DataFile, NoTable, OfflineLog, Unreadable, reading
from lakeingest.record import COORDINATES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

    from lakeingest.delta.maintenance.inventory import TableFiles


_AT_ONCE = 32
"""Folders that are listed at once."""


class FileTable(OfflineLog):
    """See `reader.contract.TableReader`.

    Args:
        columns: names of the table's columns of today. A query that names one which the table lacks is for Spark.

    Raises:
        Unreadable: from every method.
    """

    def __init__(self, identifier: str, storage: Storage, columns: Sequence[str] = ()) -> None:
        super().__init__(identifier, storage)
        self._columns = columns

    def history(self, limit: int | None) -> list[dict[str, Any]]:
        """See `OfflineLog.history`; it is read once."""
        if limit not in self._entries:
            self._entries[limit] = super().history(limit)
        return self._entries[limit]

    @cached_property
    def _entries(self) -> dict[int | None, list[dict[str, Any]]]:
        return {}

    @property
    def exists(self) -> bool:
        """See `contract.TableReader`, as the other questions are."""
        try:
            _ = self.state
        except NoTable:
            return False
        return True

    @property
    def id(self) -> str:
        return str(self.state.metadata["id"])

    @property
    def properties(self) -> Mapping[str, str]:
        return self.state.properties

    @property
    def created(self) -> datetime | None:
        millis = self.state.metadata.get("createdTime")
        return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)

    @property
    def size(self) -> TableFiles:
        from lakeingest.delta.maintenance.inventory import TableFiles

        return TableFiles.of(self.files)

    @property
    def files(self) -> Sequence[DataFile]:
        return self.state.files

    def partition_counts(self, columns: Sequence[str]) -> Mapping[tuple[str | None, ...], int]:
        counts = Counter[tuple[str | None, ...]]()
        for file in self.files:
            counts[tuple(file.partition.get(name) for name in columns)] += int(file.statistics["numRecords"])
        return counts

    def replaced(self, files: Sequence[DataFile]) -> dict[str, int | None]:
        """A request for each thousand files of a folder."""
        from pyarrow import fs

        folders = {f"{self.folder}/{file.path}".rpartition("/")[0] for file in files}
        selectors = [fs.FileSelector(folder, allow_not_found=True) for folder in folders]
        with reading(self.identifier), ThreadPoolExecutor(_AT_ONCE) as pool:
            sizes = {i.path: i.size for infos in pool.map(self.filesystem.get_file_info, selectors) for i in infos}
        existing = ((file, sizes.get(f"{self.folder}/{file.path}")) for file in files)
        return {file.path: size for file, size in existing if size != file.size}

    def row_groups(self) -> Sequence[RowGroup]:
        return lineage.of(self, self.history(None)[-1]["version"])

    @property
    def view(self) -> View:
        return rows.dataset(self)

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        return duck.query(text, views, **parameters)

    def scan(self, text: str, *, files: Sequence[DataFile] | None = None, **parameters: Any) -> list[dict[str, Any]]:
        table = rows.dataset(self, files)
        rows.need(table, *(name for name in self._columns if re.search(rf"\b{name}\b", text)))
        return self.query(text, {"rows": table}, **parameters)

    def count(self, where: Sequence[Condition]) -> int:
        """As the files' statistics say, or else their rows."""
        counts = [_count(file, where, self.state.columns) for file in self.files]
        sure = sum(count or 0 for count in counts)
        unclear = [file for file, count in zip(self.files, counts, strict=True) if count is None]
        if not unclear:
            return sure
        table = rows.dataset(self, unclear)
        condition = expression(table, where)
        with reading(self.identifier):
            return sure + int(table.count_rows(filter=condition))

    def rows(self, where: Sequence[Condition]) -> pa.Table:
        table = rows.dataset(self)
        with reading(self.identifier):
            return table.to_table(filter=expression(table, where))

    def runs(self, where: Sequence[Condition], *, files: Sequence[DataFile] | None = None) -> pa.Table:
        table = rows.dataset(self, files)
        rows.need(table, *COORDINATES)
        return runs.of(self, table, expression(table, where))


def _count(file: DataFile, where: Sequence[Condition], columns: Sequence[str]) -> int | None:
    """How many rows of a file are those, where its statistics say that all are; else None."""
    try:
        sure = all(_holds(file, each, columns) for each in where)
        return int(file.statistics["numRecords"]) if sure else None
    except Unreadable:
        return None


def _holds(file: DataFile, condition: Condition, columns: Sequence[str]) -> bool:
    """Whether a condition holds of all rows of a file, as its statistics say."""
    name, operator, value = condition
    if operator == "null":
        return name not in columns or file.lacks(name)
    return operator == "=" and file.only(name) == value


def expression(table: Dataset, where: Sequence[Condition]) -> Any:
    """Conditions as Arrow has them.

    Raises:
        Unreadable: the table lacks a column. One that has to be null may be missing: an older version made the table.
    """
    from pyarrow import dataset as ds

    condition = ds.scalar(True)
    for name, operator, value in where:
        column, *fields = name.split(".")
        if operator == "null" and column not in table.schema.names:
            continue
        rows.need(table, column)
        condition = condition & _OPERATORS[operator](ds.field(column, *fields), value)
    return condition


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": lambda field, value: field == value,
    "in": lambda field, values: field.isin(values),
    "null": lambda field, _: field.is_null(),
    ">": lambda field, value: field > value,
}
