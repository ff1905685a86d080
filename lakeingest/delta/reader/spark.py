"""The contract of `reader.contract`, by Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from lakeingest.delta.history import TableHistory
from lakeingest.delta.reader.contract import Condition, View
from lakeingest.record import COORDINATES, OFFSET, PARTITION, TOPIC
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TOGETHER = 20
"""Bits of an offset: so many offsets follow each other in one run at most. Each such part is sorted by itself."""
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
        StorageUnreachable: from every method, when the table cannot be read.
    """

    shape: Callable[[DataFrame], DataFrame] = lambda rows: rows

    @property
    def _rows(self) -> DataFrame:
        return self.shape(self.table.read())

    def query(self, text: str, views: Mapping[str, View], **parameters: Any) -> list[dict[str, Any]]:
        """See `contract.TableReader.query`. Tables of Arrow's are small ones."""
        import pyarrow as pa

        spark = self.table.spark
        frames = {
            name: F.broadcast(spark.createDataFrame(view)) if isinstance(view, pa.Table) else view
            for name, view in views.items()
        }
        with storage_failures(self.identifier):
            found: list[dict[str, Any]] = spark.sql(text, args=parameters, **frames).toArrow().to_pylist()
            return found

    def scan(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        """See `contract.TableReader.scan`."""
        return self.query(text, {"rows": self._rows}, **parameters)

    def runs(self, where: Sequence[Condition]) -> DataFrame:
        """See `contract.TableReader.runs`."""
        rows = self._rows
        for name, operator, value in where:
            rows = rows.where(_OPERATORS[operator](F.col(name), value))
        return runs(rows)


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
