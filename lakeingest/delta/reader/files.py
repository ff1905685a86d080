"""The contract of `reader.contract`, by Arrow and DuckDB, on the files of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeingest.delta.reader import duck, rows, runs
from lakeingest.delta.reader.contract import Condition, View
from lakeingest.delta.reader.log import DataFile, OfflineLog
from lakeingest.record import COORDINATES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset


class FileTable(OfflineLog):
    """See `reader.contract.TableReader`.

    Raises:
        Unreadable: from every method.
    """

    def history(self, limit: int | None) -> list[dict[str, Any]]:
        """See `OfflineLog.history`; it is read once."""
        if limit not in self._entries:
            self._entries[limit] = super().history(limit)
        return self._entries[limit]

    @cached_property
    def _entries(self) -> dict[int | None, list[dict[str, Any]]]:
        return {}

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """See `contract.TableReader.query`."""
        return duck.query(text, views, **parameters)

    def scan(self, text: str, *, files: Sequence[DataFile] | None = None, **parameters: Any) -> list[dict[str, Any]]:
        """See `contract.TableReader.scan`.

        Args:
            files: some of the table's; all by default.
        """
        return self.query(text, {"rows": rows.dataset(self, files)}, **parameters)

    def runs(self, where: Sequence[Condition], *, files: Sequence[DataFile] | None = None) -> pa.Table:
        """See `contract.TableReader.runs`."""
        table = rows.dataset(self, files)
        rows.need(table, *COORDINATES)
        return runs.of(self, table, expression(table, where))


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
