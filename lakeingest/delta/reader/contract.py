"""What is asked of a Delta table: of its files, by Arrow and DuckDB; or of Spark, where files cannot tell for certain.

Whatever is told of tables is written once, over these questions. Files lead: they start no JVM. Where they do not tell
something for certain, every question raises `Unreadable`, and the same is asked of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from lakeingest.delta.history import History

if TYPE_CHECKING:
    from lakeingest.delta.maintenance.inventory import TableFiles
    from lakeingest.delta.reader.lineage import RowGroup
    from lakeingest.delta.reader.log import DataFile

Condition: TypeAlias = tuple[str, Literal["=", "in", "null", ">"], Any]
"""A column (`moved.replay` is a field of one), what must hold, and the value: of "in" a list, of "null" nothing."""
View: TypeAlias = Any
"""Rows that a query can name: a table or data set of Arrow's, or a frame of Spark's."""


class Query(Protocol):
    """What answers queries in the SQL that DuckDB and Spark have in common."""

    def __call__(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """The rows that a query gives; times have their zone.

        Args:
            text: it names a view as {name}, and a parameter as :name. Spark's explode, sequence, array_repeat(value, 1)
                and struct(a, b, c, d) are known to DuckDB, too; value_of(column, key) is the value of the last
                struct of an array that has that key.
        """


class TableReader(History, Protocol):
    """One table, as it stands when it is first looked at."""

    # History --------------------------------------------------------------------------------------------------------

    def recent(self, limit: int) -> Sequence[Mapping[str, Any]] | None:
        """See `OfflineLog.recent`: the newest commits, each with the files that it added; None by Spark."""

    def since(self, version: int) -> Sequence[Mapping[str, Any]]:
        """The history behind a version, the newest first; of files each commit with `added`, the files of rows that it
        added, and `removes`, how many it took away.
        """

    # State ----------------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is a table."""

    @property
    def id(self) -> str:
        """What its metadata is known by; empty by Spark, which tells it dearly."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""

    @property
    def created(self) -> datetime | None:
        """When it was made, in UTC; None where that is not known."""

    @property
    def size(self) -> TableFiles:
        """How many files it has, and their bytes."""

    @property
    def files(self) -> Sequence[DataFile] | None:
        """Its files with their statistics; None by Spark."""

    def replaced(self, files: Sequence[DataFile]) -> Mapping[str, int | None]:
        """Those of these files that the store has no more, or with another size: path → that size, None of one that is
        gone.
        """

    def row_groups(self) -> Sequence[RowGroup] | None:
        """Which commits the rows of its files come from (see `lineage`); None by Spark."""

    def partition_counts(self, columns: Sequence[str]) -> Mapping[tuple[str | None, ...], int]:
        """How many rows it has of each partition: the values of these partition columns as texts → rows."""

    # Scan -----------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """All its rows."""

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """See `Query`: whoever reads the table reads these views, too."""

    def scan(self, text: str, *, files: Sequence[DataFile] | None = None, **parameters: Any) -> list[dict[str, Any]]:
        """What a query gives that names the table {rows}.

        Args:
            files: some of `files`; all by default.
        """

    def count(self, where: Sequence[Condition]) -> int:
        """How many rows there are for which all conditions hold."""

    # Runs -----------------------------------------------------------------------------------------------------------

    def rows(self, where: Sequence[Condition]) -> View:
        """The rows for which all conditions hold."""

    def runs(self, where: Sequence[Condition], *, files: Sequence[DataFile] | None = None) -> View:
        """The coordinates of the rows for which all conditions hold, as runs of offsets: see `reader.runs`. Rows
        without coordinates are left out.

        Args:
            files: some of `files`; all by default.
        """
