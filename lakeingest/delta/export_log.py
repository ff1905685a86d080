"""What was exported into a place: a Delta table within it, with a row for each export.

The place itself says how far it has come, and of two exports at once Delta lets one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeingest.config import location
from lakeingest.delta.table import Table
from lakeingest.errors import Fenced
from lakeingest.spark.failures import spark_failures, storage_failures, translate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_APPLICATION = "lakeingest:export"
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

    def commit(self, export: Mapping[str, Any]) -> None:
        """Make an export count: only now its objects are there for whoever reads by this table.

        1. Delta commits the row with its number as txnVersion: where another export has committed that number, it
           refuses, or skips ours.
        2. The row is read back: it must be of this run.

        Raises:
            Fenced: another export into the place has that number; nothing of this one counts.
        """
        options = {"txnAppId": _APPLICATION, "txnVersion": str(export["sequence"])}
        failed: Exception | None = None
        try:
            self.table.append(self.spark.createDataFrame([dict(export)], _SCHEMA).coalesce(1), options)
        except spark_failures() as refused:
            failed = refused
        if self.check_free(export["sequence"], export["run"]):
            return
        if failed is not None:
            raise translate(self.place, failed) from failed
        raise Fenced(
            f"export {export['sequence']} is not in {self.table}: somebody restored that table, or replaced it",
            cure="export into a new place, or let the table be what it was before",
        )

    def check_free(self, sequence: int, run: str) -> bool:
        """Whether this run has committed this number.

        Raises:
            Fenced: another one has.
        """
        made = self._newest(f"sequence = {sequence}")
        if made is not None and made["run"] != run:
            raise Fenced(
                f"export {sequence} into {self.place} was made meanwhile by {made['writer']}: nothing of this one "
                "counts, and its objects are deleted by the next",
                cure="nothing is lost or double: run again for what came since",
            )
        return made is not None
