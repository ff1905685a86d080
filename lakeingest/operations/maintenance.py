"""The maintenance of a pipeline's tables by a command, beside its run or without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from lakeingest import extend
from lakeingest.config import PipelineConfig
from lakeingest.delta import commit_log
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.ingest import maintenance
from lakeingest.ingest.events import Maintained
from lakeingest.ingest.maintenance import MaintenanceRequest, Task
from lakeingest.operations.readers import Owner
from lakeingest.operations.results.maintenance import MaintenanceResult

_LONGEST = timedelta(minutes=10)
"""How long a maintenance waits for the next batch of a run at most."""
_LOOK_S = 0.5


def request_of(
    config: PipelineConfig,
    only: Task | None,
    most_time: timedelta | None,
    most_bytes: int | None,
    *,
    dry_run: bool,
    i_know: bool,
) -> MaintenanceRequest:
    """What the file says, with other limits, if any are given.

    Raises:
        UsageError: see `MaintenanceRequest`.
    """
    limits = {"time": most_time, "bytes": most_bytes}
    changes = {name: value for name, value in limits.items() if value is not None}
    options = config.maintenance
    options = options.model_copy(update={"most": options.most.model_copy(update=changes)})
    return MaintenanceRequest(options, only, dry_run, i_know)


def maintain(
    owner: Owner, request: MaintenanceRequest, on_event: Callable[[Maintained], None], *, allow_code: bool
) -> MaintenanceResult:
    """See `Pipeline.maintain`.

    Args:
        allow_code: whether the listeners of the file hear of it.
    """
    config, tables = owner.config, owner.tables
    listening = extend.listeners(config.listeners if allow_code else ())

    def tell(event: Maintained) -> None:
        extend.tell(listening, config.name, event)
        on_event(event)

    if config.table.alters and not request.dry_run:
        request = replace(request, before_commit=_MergeTurns(tables).wait)
    results = maintenance.maintain(tables, owner.storage, request, tell)
    return MaintenanceResult(config.name, results, dry_run=request.dry_run)


class _MergeTurns:
    """Takes turns with a run that merges: a MERGE begins anew where a compaction has rewritten files that it read.

    A compaction of the main table begins behind a commit of the run, and the next one behind another. So no batch
    begins anew twice, and a run is never kept from committing.
    """

    def __init__(self, tables: PipelineTables) -> None:
        self._tables, self._version = tables, -1
        self._longest = min(2 * tables.config.trigger.every, _LONGEST)

    def wait(self, table: Table) -> None:
        """Wait for the run's next commit, where one goes on: it has committed not long ago."""
        if table is not self._tables.main:
            return
        began_s = time.monotonic()
        while (version := self._newest()) is not None:
            if self._version not in (-1, version):
                break
            self._version = version
            if time.monotonic() - began_s > self._longest.total_seconds():
                break
            time.sleep(_LOOK_S)
        self._version = version if version is not None else -1

    def _newest(self) -> int | None:
        """The version of the run's newest commit; None where no run goes on."""
        newest = commit_log.read(self._tables.main, self._tables.config.known_as).newest
        return None if newest is None or datetime.now() - newest.time > self._longest else newest.version
