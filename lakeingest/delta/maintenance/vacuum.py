"""The files that no version of a table names any more are deleted, by Delta's VACUUM, as long as nobody needs them.

A VACUUM of n hours keeps what any version of these hours had. So whoever reads a version that was the newest one at a
moment is hurt by none that reaches back to that moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config.durations import duration
from lakeingest.delta.history import TableHistory
from lakeingest.spark.failures import storage_failures
from lakeingest.spark.session import setting

if TYPE_CHECKING:
    from lakeingest.delta.table import Table

_RETENTION = "delta.deletedFileRetentionDuration"
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
"""Where this is not set, Delta logs no VACUUM on S3, and nobody could tell when one was made."""
_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "64", "spark.sql.shuffle.partitions": "64"}
"""Tasks that list folders and compare paths. Of Spark's 10,000 a VACUUM of six files took 73 seconds on two cores."""
_ENTRIES = 20
"""Commits that are looked at for what a VACUUM says of itself: others may commit meanwhile."""


@dataclass(frozen=True)
class Need:
    """Somebody reads a version of a table that may be no longer the newest one.

    Attributes:
        since: when that version was made, in UTC.
        who: who needs it.
    """

    since: datetime
    who: str


@dataclass(frozen=True)
class Vacuumed:
    """What a VACUUM did, or is to do.

    Attributes:
        before: files go that no version names since this moment (UTC).
        held_by: who needs older files than the pipeline file says; empty where nobody does.
        files, bytes: how many were deleted; None where none was made, or Delta does not say.
    """

    before: datetime
    held_by: str = ""
    files: int | None = None
    bytes: int | None = None

    @classmethod
    def planned(cls, now: datetime, after: timedelta, needs: Iterable[Need]) -> Vacuumed:
        """A VACUUM that hurts nobody.

        Args:
            after: how old a file is at least, as the pipeline file says.
        """
        oldest = min(needs, key=lambda need: need.since, default=None)
        if oldest is None or oldest.since >= now - after:
            return cls(now - after)
        return cls(oldest.since, oldest.who)


def retention(properties: Mapping[str, str], now: datetime) -> Iterable[Need]:
    """What the table's own property asks for.

    Raises:
        ValueError: it is no duration that is known here.
    """
    if text := properties.get(_RETENTION):
        yield Need(now - duration(text.removeprefix("interval ")), f"the table's property {_RETENTION} = {text}")


def vacuum(table: Table, plan: Vacuumed, *, checked: bool) -> Vacuumed:
    """Delete the files.

    Args:
        checked: whether Delta refuses to delete files that are younger than the table's property, or 7 days.

    Raises:
        StorageUnreachable, StorageRefused: the object store fails, or does not let us delete.
    """
    hours = math.ceil((datetime.now(UTC) - plan.before) / timedelta(hours=1))
    options = {_LOGGED: "true", **_LISTING, **({} if checked else {_CHECK: "false"})}
    with storage_failures(table.identifier), setting(table.spark, options):
        table.spark.sql(f"VACUUM {table.sql} RETAIN {hours} HOURS").collect()
    metrics = _metrics(table)
    files, size = metrics.get("numDeletedFiles"), metrics.get("sizeOfDataToDelete")
    deleted = None if files is None else int(files)
    return Vacuumed(plan.before, plan.held_by, deleted, None if size is None else int(size))


def _metrics(table: Table) -> dict[str, str]:
    """What the newest VACUUM says of itself."""
    metrics: dict[str, str] = {}
    for entry in TableHistory(table).history(_ENTRIES):
        if entry["operation"] in ("VACUUM START", "VACUUM END"):
            metrics = {**(entry["operationMetrics"] or {}), **metrics}
        if entry["operation"] == "VACUUM START":
            break
    return metrics
