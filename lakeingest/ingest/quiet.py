"""A run keeps its tables in shape by itself, where `maintenance.every` says so: at quiet moments, between two batches.

A moment is quiet when all is committed that the source held at the last look. First rows expire, if the file lets any
(see `ingest.expiry`). What is begun then is a compaction of one partition after the other, as long as the next batch is
not due; the rest is for the next quiet moment. At last comes the VACUUM. So a batch waits for an expiry, or for one
partition, at most. No failure ends a run.

When it was last done, the table's log tells: by the newest VACUUM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from lakeingest.config.maintenance import MaintenanceLimits, RetentionOptions
from lakeingest.delta.history import TableHistory
from lakeingest.delta.maintenance.inventory import TableFiles
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.errors import LakeingestError
from lakeingest.ingest import endpoints, maintenance
from lakeingest.ingest.attempt import Attempt
from lakeingest.ingest.context import RunContext
from lakeingest.ingest.events import Maintained
from lakeingest.ingest.maintenance import MaintenanceRequest, Task
from lakeingest.kafka import offsets

_LOOK_BACK = 1000
"""Commits that are looked at for the newest VACUUM. Behind them it is taken for due."""
_NOTHING = timedelta(0)


class QuietMaintenance:
    """Follows a run with the maintenance of its tables.

    Args:
        bounded: whether the run ends when it is caught up: then no batch waits.
    """

    def __init__(self, context: RunContext, tell: Callable[[Maintained], None], *, bounded: bool) -> None:
        self._context, self._tell = context, tell
        self._options = context.config.maintenance
        self._at_once = timedelta.max if bounded else context.config.trigger.every
        self._due_s: float | None = None
        self._rest = self._options.most

    def begin(self, attempt: Attempt) -> None:
        """Nothing: an attempt begins with records to take, as a rule."""

    def follow(self, attempt: Attempt) -> None:
        """Do what is due, if the moment is quiet."""
        if self._options.every is None or attempt.columns is None:
            return
        if offsets.lag(attempt.frontier, attempt.topics.last):
            return
        try:
            if self._due_s is None:
                self._due_s = time.monotonic() + self._waiting(self._options.every).total_seconds()
            if time.monotonic() >= self._due_s and self._compacted():
                self._maintain("vacuum", self._options.most)
                self._end(self._options.every)
        except LakeingestError as failure:
            none, main = TableFiles(0, 0), self._context.tables.main
            self._tell(Maintained(TableMaintenance(main.identifier, none, none, failure=failure), 0.0))
            self._end(self._options.every)

    def _waiting(self, every: timedelta) -> timedelta:
        """How long it is until it is due, as the log tells."""
        for entry in TableHistory(self._context.tables.main).history(_LOOK_BACK):
            if entry["operation"] == "VACUUM END":
                ended: datetime = entry["timestamp"]
                return max(_NOTHING, ended + every - datetime.now())
        return _NOTHING

    def _compacted(self) -> bool:
        """Let rows expire, and compact as long as the next batch is not due; whether nothing is left to be done now."""
        began_s, most = time.monotonic(), self._rest
        limits = most.model_copy(update={"time": min(most.time, self._at_once)})
        if most is self._options.most and self._context.config.retention != RetentionOptions():
            self._maintain("expire", limits)
        results = self._maintain("compact", limits)
        spent = timedelta(seconds=time.monotonic() - began_s)
        rest = most.time - spent, most.bytes - sum(each.rewritten_bytes for each in results)
        self._rest = MaintenanceLimits.model_construct(time=rest[0], bytes=rest[1])
        goes_on = any(each.remaining for each in results) and any(each.partitions for each in results)
        return not goes_on or rest[0] <= _NOTHING or rest[1] <= 0

    def _maintain(self, task: Task, most: MaintenanceLimits) -> Sequence[TableMaintenance]:
        options = self._options.model_copy(update={"most": most})
        storage = endpoints.storage(self._context.config)
        return maintenance.maintain(self._context.tables, storage, MaintenanceRequest(options, task), self._report)

    def _report(self, event: Maintained) -> None:
        """Tell of a table that something was done to."""
        files = event.files
        if files.partitions or files.vacuum or files.failure or (files.expiry and files.expiry.rows):
            self._tell(event)

    def _end(self, every: timedelta) -> None:
        self._due_s, self._rest = time.monotonic() + every.total_seconds(), self._options.most
