"""What is asked of a Delta table: of its files, by Arrow and DuckDB; or of Spark, where files cannot tell for certain.

Whatever is told of tables is written once, over these questions. Files lead: they start no JVM. Where they do not tell
something for certain, every question raises `Unreadable`, and the same is asked of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from lakeingest.delta.history import History

Condition: TypeAlias = tuple[str, Literal["=", "in", "null", ">"], Any]
"""A column (`moved.replay` is a field of one), what must hold, and the value: of "in" a list, of "null" nothing."""
View: TypeAlias = Any
"""Rows that a query can name: a table or data set of Arrow's, or a frame of Spark's."""


class Query(Protocol):
    """What answers queries in the SQL that DuckDB and Spark have in common."""

    def __call__(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """The rows that a query gives.

        Args:
            text: it names a view as {name}, a parameter as :name, and makes rows of numbers by explode(sequence(…)).
        """


class TableReader(History, Protocol):
    """One table. `history` is its first question, see `TableHistory.history`."""

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """See `Query`: whoever reads the table reads these views, too."""

    def scan(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        """What a query gives that names the table {rows}."""

    def runs(self, where: Sequence[Condition]) -> View:
        """The coordinates of the rows for which all conditions hold, as runs of offsets: see `reader.runs`. Rows
        without coordinates are left out.
        """
