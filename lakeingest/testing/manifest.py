"""What was produced, written down by the producer, and held against the two tables: an oracle that owes nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeingest.config import PipelineConfig, location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, int, int]
"""Topic, partition, offset."""
Manifest = Mapping[Place, str | None]
"""Coordinates → the SHA-256 of the record's value in hexadecimal digits; None for a tombstone."""


def sha256(value: bytes | None) -> str | None:
    """As a manifest and quarantine's own check name a value."""
    return None if value is None else hashlib.sha256(value).hexdigest()


@dataclass(frozen=True)
class Balance:
    """What became of the records of a manifest.

    Attributes:
        produced: records of the manifest.
        table, quarantine: rows that are there, of whatever record, but those that a replay moved out of quarantine.
        dropped: tombstones that are nowhere, where the pipeline may drop them.
        missing: other records that are nowhere.
        double: records that are there more than once, in one table or in both.
        foreign: rows at places where nothing was produced.
        changed: records in quarantine with other bytes than they were produced with.
    """

    produced: int
    table: int
    quarantine: int
    dropped: int
    missing: tuple[Place, ...] = ()
    double: tuple[Place, ...] = ()
    foreign: tuple[Place, ...] = ()
    changed: tuple[Place, ...] = ()

    @property
    def exact(self) -> bool:
        """Every record once, byte for byte where bytes are kept, and nothing else."""
        return not (self.missing or self.double or self.foreign or self.changed)


def balance(spark: SparkSession, config: PipelineConfig, manifest: Manifest, *quarantines: str) -> Balance:
    """Hold both tables against a manifest. Reads with plain Spark, and brings every coordinate to the driver.

    Args:
        quarantines: those of other pipelines that write to the same table, if their records are in the manifest.
    """
    table = [tuple(row) for row in _coordinates(spark, config.table.identifier).collect()]
    places = (config.quarantine.identifier, *quarantines)
    rows = [row for place in places for row in _refused(spark, place).collect()]
    refused = {tuple(row)[:3]: row[3] for row in rows}
    count_by_place = Counter(table) + Counter(tuple(row)[:3] for row in rows)
    nowhere = manifest.keys() - count_by_place.keys()
    dropped = {place for place in nowhere if manifest[place] is None and config.on_null == "ignore"}
    return Balance(
        produced=len(manifest),
        table=len(table),
        quarantine=len(rows),
        dropped=len(dropped),
        missing=tuple(sorted(nowhere - dropped)),
        double=tuple(sorted(place for place, count in count_by_place.items() if count > 1)),
        foreign=tuple(sorted(count_by_place.keys() - manifest.keys())),
        changed=tuple(sorted(p for p, found_hash in refused.items() if p in manifest and manifest[p] != found_hash)),
    )


def _refused(spark: SparkSession, table: str) -> DataFrame:
    rows = _rows(spark, table)
    rows = rows.where("moved IS NULL") if "moved" in rows.columns else rows
    return rows.selectExpr("_topic", "_partition", "_offset", "sha2(value, 256)")


def _coordinates(spark: SparkSession, table: str) -> DataFrame:
    return _rows(spark, table).select("_topic", "_partition", "_offset")


def _rows(spark: SparkSession, table: str) -> DataFrame:
    """Of a table that is known by its path, or by its name."""
    return spark.read.format("delta").load(table) if location.is_path(table) else spark.read.table(table)
