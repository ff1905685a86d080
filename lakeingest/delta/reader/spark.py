"""The contract of `reader.contract`, by Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.inventory import TableFiles, table_files
from lakeingest.delta.reader.contract import Condition, View
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC
from lakeingest.schema import ddl
from lakeingest.spark import frames
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakeingest.delta.reader.log import DataFile

_TOGETHER = 20
"""Bits of an offset: so many offsets follow each other in one run at most. Each such part is sorted by itself."""
_VALUE = re.compile(r"\bvalue_of\((\w+), (:?\w+)\)")
_LAST_VALUE = r"try_element_at(filter(\1, pair -> pair.key = \2), -1).value"
_PARAMETER = re.compile(r":([a-z]+)")
_OPERATORS: Mapping[str, Callable[[Column, Any], Column]] = {
    "=": lambda column, value: column == value,
    "in": lambda column, values: column.isin(values),
    "null": lambda column, _: column.isNull(),
    ">": lambda column, value: column > value,
}


@dataclass(frozen=True)
class SparkTable(TableHistory):
    """See `reader.contract.TableReader`.

    Attributes:
        shape: what makes today's columns of the table's.

    Raises:
        StorageUnreachable, UsageError: from every method: the table cannot be read, or there is none yet.
    """

    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows
    files = None
    created = None
    id = ""

    @cached_property
    def view(self) -> DataFrame:
        return self.shape(self.table.existing())

    def recent(self, limit: int) -> None:
        """See `contract.TableReader`, as the other questions are."""

    @property
    def exists(self) -> bool:
        return self.table.schema() is not None

    @property
    def properties(self) -> Mapping[str, str]:
        return self.table.properties()

    @property
    def size(self) -> TableFiles:
        return table_files(self.table)

    def replaced(self, files: Sequence[DataFile]) -> dict[str, int | None]:
        """None: Spark says so itself, when it reads them."""
        return {}

    def row_groups(self) -> None:
        """See `contract.TableReader`."""

    def partition_counts(self, columns: Sequence[str]) -> Mapping[tuple[str | None, ...], int]:
        values = [F.col(ddl.quoted(name)).cast("string") for name in columns]
        with storage_failures(self.identifier):
            return {row[:-1]: row[-1] for row in map(tuple, self.view.groupBy(*values).count().collect())}

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        with storage_failures(self.identifier):
            return query(self.table.spark, text, views, **parameters)

    def scan(self, text: str, *, files: Sequence[DataFile] | None = None, **parameters: Any) -> list[dict[str, Any]]:
        return self.query(text, {"rows": self.view}, **parameters)

    def count(self, where: Sequence[Condition]) -> int:
        with storage_failures(self.identifier):
            return self.rows(where).count()

    def runs(self, where: Sequence[Condition], *, files: Sequence[DataFile] | None = None) -> DataFrame:
        return runs(self.rows(where))

    def rows(self, where: Sequence[Condition]) -> DataFrame:
        rows = self.view
        for name, operator, value in where:
            rows = rows.where(_OPERATORS[operator](F.col(name), value))
        return rows


def query(spark: SparkSession, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
    """See `contract.Query`. Tables of Arrow's are small ones."""
    import pyarrow as pa

    by_name = {
        name: F.broadcast(spark.createDataFrame(view)) if isinstance(view, pa.Table) else view
        for name, view in views.items()
    }
    # Spark 4.1 binds no parameter within WITH.
    statement = _PARAMETER.sub(lambda name: _literal(parameters[name[1]]), _VALUE.sub(_LAST_VALUE, text))
    rows: list[dict[str, Any]] = frames.computed(spark, statement, by_name, lambda result: result.toArrow().to_pylist())
    return rows


def _literal(value: str | int) -> str:
    text = ddl.text(value) if isinstance(value, str) else str(value)
    # The text is a format, in which views are named.
    return text.replace("{", "{{").replace("}", "}}")


def runs(rows: DataFrame) -> DataFrame:
    """The coordinates of rows as runs of offsets, in one shuffle.

    Returns:
        _topic STRING, _partition INT, low BIGINT, high BIGINT
    """
    together = [TOPIC, PARTITION, "part"]
    places = rows.select(*COORDINATES, F.shiftright(OFFSET, _TOGETHER).alias("part")).dropna(subset=[*COORDINATES])
    # A record that is there twice is in two runs.
    single = places.repartition(*together).groupBy(*together, OFFSET).agg(F.count("*").alias("times"))
    before = F.row_number().over(Window.partitionBy(*together, "times").orderBy(OFFSET))
    adjacent = single.withColumn("start", F.col(OFFSET) - before).groupBy(*together, "times", "start")
    ends = adjacent.agg(F.min(OFFSET).alias("low"), (F.max(OFFSET) + 1).alias("high"))
    copies = ends.withColumn("copy", F.explode(F.sequence(F.lit(1), F.col("times").cast("int"))))
    return copies.select(TOPIC, PARTITION, "low", "high")
