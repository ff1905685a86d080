"""The files that no version of a table names any more are deleted, by Delta's VACUUM, as long as nobody needs them.

A VACUUM of n hours keeps what any version of these hours had. `delta.deletedFileRetentionDuration`, 7 days by default,
is how long the log remembers which files these are, and how far back Delta lets anybody read. So where more is to be
kept, the property is set to it first. Less is taken from RETAIN, which Delta 4.4 leaves aside unless it is told not to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakeingest.config.durations import wait
from lakeingest.config.maintenance import SAFE
from lakeingest.delta.history import TableHistory
from lakeingest.errors import StorageRefused
from lakeingest.spark.failures import storage_failures
from lakeingest.spark.session import statement_session

if TYPE_CHECKING:
    from lakeingest.delta.table import Table

RETENTION = "delta.deletedFileRetentionDuration"
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
"""Where this is not set, Delta logs no VACUUM on S3, and nobody could tell when one was made."""
_HEEDED = {"spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false"}
"""What lets Delta 4.4 heed RETAIN: by default it goes by the table's property, but for 0 hours."""
_TASKS = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.sql.shuffle.partitions": "16",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "true",
    "spark.databricks.delta.vacuum.parallelDelete.parallelism": "16",
}
"""Those that list folders, compare paths, and delete. Of Spark's 10,000 a VACUUM of six files took 73 seconds on two
cores; and Delta's driver would delete one file after the other.
"""
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
    def planned(cls, now: datetime, after: timedelta, properties: Mapping[str, str], needs: Iterable[Need]) -> Vacuumed:
        """A VACUUM that hurts nobody.

        Args:
            after: how old a file is at least, as the pipeline file says.
            properties: the table's.
        """
        remembered = remembrance(properties)
        every = [*needs]
        if remembered > SAFE:
            every.append(Need(now - remembered, f"the table's property {RETENTION} = {properties[RETENTION]}"))
        oldest = min(every, key=lambda need: need.since, default=None)
        longest = max(remembered, SAFE)
        if oldest is None or oldest.since >= now - after or longest <= after:
            return cls(now - after)
        return cls(max(oldest.since, now - longest), oldest.who)


def remembrance(properties: Mapping[str, str]) -> timedelta:
    """How long a table's log remembers which files were left behind, by the table's properties; 7 days where these say
    nothing, or no duration that is known here: then Delta refuses a VACUUM that is too early.
    """
    with suppress(ValueError):
        remembered: timedelta = (
            wait(properties[RETENTION].removeprefix("interval ")) if RETENTION in properties else SAFE
        )
        return remembered
    return SAFE


def vacuum(table: Table, plan: Vacuumed, properties: Mapping[str, str], *, checked: bool) -> Vacuumed:
    """Delete the files.

    Args:
        properties: the table's.
        checked: whether Delta refuses to delete files that are younger than the table's property, or 7 days.

    Raises:
        StorageUnreachable, StorageRefused: the object store fails, or does not let us delete.
    """
    # A minute has passed at most since it was planned.
    hours = math.ceil((datetime.now(UTC) - plan.before - timedelta(minutes=1)) / timedelta(hours=1))
    if timedelta(hours=hours) > remembrance(properties):
        table.set_properties({RETENTION: f"interval {hours} hours"})
    options = {_LOGGED: "true", **_HEEDED, **_TASKS, **({} if checked else {_CHECK: "false"})}
    with storage_failures(table.identifier), statement_session(table.spark, options) as spark:
        spark.sql(f"VACUUM {table.sql} RETAIN {hours} HOURS").collect()
    names = ("numFilesToDelete", "numDeletedFiles", "sizeOfDataToDelete")
    metrics = _metrics(table)
    planned, deleted, size = (int(metrics[name]) if name in metrics else None for name in names)
    if planned is not None and deleted is not None and deleted < planned:
        # Delta goes on where the store refuses.
        raise StorageRefused(
            f"of {planned:,} files of {table} that no version needs {deleted:,} were deleted: the store refuses the "
            "others, or another VACUUM was faster",
            cure="allow s3:DeleteObject to whose keys these are (`lakeingest iam FILE --role operator` prints it), "
            "or look for a lock on the bucket's objects; then run again. Neither rows nor readers are concerned",
        )
    return replace(plan, files=deleted, bytes=size)


def _metrics(table: Table) -> dict[str, str]:
    """What the newest VACUUM says of itself."""
    metrics: dict[str, str] = {}
    for entry in TableHistory(table).history(_ENTRIES):
        if entry["operation"] in ("VACUUM START", "VACUUM END"):
            metrics = {**(entry["operationMetrics"] or {}), **metrics}
        if entry["operation"] == "VACUUM START":
            break
    return metrics
