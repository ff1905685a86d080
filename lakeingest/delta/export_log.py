"""What was exported into a place: a Delta table within it, with a row for each export.

The place itself says how far it has come, and of two exports at once Delta lets one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeingest.config import location
from lakeingest.delta import commit
from lakeingest.delta.receipt import JobFields, Receipt, Run
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced, StorageError
from lakeingest.record import NO_RANGES
from lakeingest.spark.failures import storage_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "export"
"""What the receipts of exports are known by: a place has those of one pipeline."""
_COMPRESSION = "snappy"
_SCHEMA = (
    "sequence BIGINT, run STRING, pipeline STRING, table STRING, table_id STRING, from_version BIGINT, "
    "to_version BIGINT, format STRING, exported_at TIMESTAMP, writer STRING, folder STRING, rows BIGINT, bytes BIGINT, "
    "objects ARRAY<STRUCT<path: STRING, rows: BIGINT, bytes: BIGINT>>"
)


@dataclass(frozen=True)
class ExportLog:
    """The exports of one place.

    Attributes:
        place: where the objects lie; their paths are within it.

    Raises:
        StorageUnreachable, UnsafeStore: from every method, where the object store fails or refuses.
    """

    spark: SparkSession
    place: str

    @cached_property
    def table(self) -> Table:
        """Its columns: sequence BIGINT, 1, 2, 3, …; run STRING; pipeline, table, table_id STRING; from_version BIGINT,
        null in the first export; to_version BIGINT; format STRING; exported_at TIMESTAMP; writer, folder STRING; rows,
        bytes BIGINT; objects ARRAY<STRUCT<path STRING, rows BIGINT, bytes BIGINT>>.
        """
        return Table(self.spark, f"{self.place}/{location.EXPORTS}")

    def newest(self) -> Mapping[str, Any] | None:
        """The newest export, without its objects; None before the first."""
        return self._newest("sequence > 0")

    def _newest(self, where: str) -> Mapping[str, Any] | None:
        if self.table.schema() is None:
            return None
        with storage_failures(self.place):
            exports = self.table.read().where(where).drop("objects")
            rows = exports.orderBy("sequence", ascending=False).limit(1).collect()
        return rows[0].asDict() if rows else None

    def folders(self) -> set[str]:
        """The folders that hold what was exported."""
        with storage_failures(self.place):
            return {row["folder"] for row in self.table.read().select("folder").collect()}

    def commit(self, export: Mapping[str, Any], run: Run) -> None:
        """Make an export count: only now its objects are there for whoever reads by this table.

        Its number is the commit's, as a batch's is (see `commit.write`).

        Args:
            run: who exports.

        Raises:
            Fenced: another export into the place has that number; nothing of this one counts.
        """
        receipt = Receipt(NAME, export["sequence"], run, "", {}, NO_RANGES, "", JobFields("export"))
        row = self.spark.createDataFrame([dict(export)], _SCHEMA).coalesce(1)
        try:
            commit.write(self.table, row, receipt, _COMPRESSION)
        except (Fenced, StorageError):
            self.check_free(export["sequence"], export["run"])
            raise

    def check_free(self, sequence: int, run: str) -> None:
        """Notice that another run has committed this number.

        Args:
            run: the `run` of our own row.

        Raises:
            Fenced: it has.
        """
        row = self._newest(f"sequence = {sequence}")
        if row is not None and row["run"] != run:
            raise Fenced(
                f"export {sequence} into {self.place} was made meanwhile by {row['writer']}: nothing of this one "
                "counts, and its objects are deleted by the next",
                cure="nothing is lost or double: run again for what came since",
            )
