"""Keeps the tables of a pipeline in shape: rows that are too old go (see `ingest.expiry`), then a compaction of what is
finished, then a VACUUM of what nobody needs.

1. What is due, the log of each table tells. Tables with less to do come first, so that a large one does not keep the
   others waiting for ever.
2. Each partition is a commit of its own. So a maintenance that is ended early has done what it has committed, the rest
   is due the next time, and nothing else is remembered.
3. Where somebody else's commit comes in between, it stays, and the partition is tried again, or left for the next.
4. A VACUUM comes last. It reaches back as far as anybody reads older versions (`delta.maintenance.needs`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from lakeingest.config import Storage
from lakeingest.config.durations import duration, duration_text
from lakeingest.config.maintenance import SAFE, Maintenance
from lakeingest.delta.maintenance import needs, optimize, vacuum
from lakeingest.delta.maintenance.due import CompactionRule, DuePartition, due
from lakeingest.delta.maintenance.inventory import Inventory
from lakeingest.delta.maintenance.outcome import TableMaintenance
from lakeingest.delta.maintenance.vacuum import Need, Vacuumed
from lakeingest.delta.pipeline_tables import PipelineTables
from lakeingest.delta.table import Table
from lakeingest.errors import StorageError, TableChanged, UsageError
from lakeingest.ingest.events import Maintained
from lakeingest.ingest.expiry import TableExpiry

Task = Literal["expire", "compact", "vacuum"]
TRIES = 3
"""How often a partition is compacted where others commit meanwhile."""
CONFLICT = "others committed meanwhile"
"""Why a partition is left."""
_PAUSE_S = 1.0


@dataclass(frozen=True)
class MaintenanceRequest:
    """What a maintenance is to do.

    Attributes:
        options: those of the pipeline file.
        only: one of the tasks; None for all.
        dry_run: look only.
        i_know: whether a VACUUM may delete files that are younger than 7 days.
        before_commit: called with a table before partitions of it are compacted, or rows of the main one expire.
    """

    options: Maintenance
    only: Task | None = None
    dry_run: bool = False
    i_know: bool = False
    before_commit: Callable[[Table], None] = field(default=lambda _: None, compare=False)

    def __post_init__(self) -> None:
        after = self.options.vacuum.after
        if after < SAFE and self.does("vacuum") and not self.i_know:
            raise UsageError(
                f"maintenance.vacuum.after is {duration_text(after)}: a VACUUM would delete files younger than 7 days, "
                "which somebody may be reading, or writing",
                cure="write 7 days or longer; or, if no query, export or batch takes longer than that, add --i-know",
            )

    def does(self, task: Task) -> bool:
        """Whether a task is among what is asked for."""
        return self.only in (None, task)


class _Budget:
    """What is left of the time and the bytes of one maintenance."""

    def __init__(self, options: Maintenance) -> None:
        self.most = options.most
        self._until_s, self._bytes = time.monotonic() + self.most.time.total_seconds(), self.most.bytes

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until_s

    def refusal(self, partition: DuePartition) -> str:
        """Why a partition is left; empty where it is not, and is paid for."""
        if self.is_over:
            return f"more than {duration_text(self.most.time)} (maintenance.most.time)"
        if partition.bytes > self._bytes:
            return "more bytes than maintenance.most.bytes"
        self._bytes -= partition.bytes
        return ""


def maintain(
    tables: PipelineTables, storage: Storage, request: MaintenanceRequest, tell: Callable[[Maintained], None]
) -> list[TableMaintenance]:
    """Do what is due, table by table; see the steps above.

    Args:
        tell: is told of each table that is done; in a dry run of none.

    Returns:
        One for each table: table, quarantine, and those of results, completeness, deleted keys, and of what was taken
        out, that are there.

    Raises:
        UsageError: there is no table yet, or maintenance.compact.order_by names no columns that rows can be sorted by.
        StorageError: a log cannot be read. What fails later is the table's `failure`.
    """
    # 1.
    work = [_TableWork(tables, storage, table, request) for table in _existing(tables)]
    budget, results = _Budget(request.options), dict[str, TableMaintenance]()
    for each in sorted(work, key=lambda each: each.plan.due_bytes):
        began_s = time.monotonic()
        results[each.table.identifier] = result = each.run(budget)
        if not request.dry_run:
            tell(Maintained(result, time.monotonic() - began_s))
    return [results[each.table.identifier] for each in work]


def _existing(tables: PipelineTables) -> Iterator[Table]:
    yield tables.main
    beside = [tables.quarantine, tables.results, tables.removals.table]
    beside += [each.table for each in (tables.completeness, tables.deleted_keys) if each is not None]
    yield from (table for table in beside if table.schema() is not None)


class _TableWork:
    """What is to be done to one table.

    Attributes:
        plan: what is due.
    """

    def __init__(self, tables: PipelineTables, storage: Storage, table: Table, request: MaintenanceRequest) -> None:
        self._tables, self._storage, self.table, self._request = tables, storage, table, request
        self._is_main = table is tables.main
        self.plan = self._planned()

    def _planned(self) -> TableMaintenance:
        inventory, request = Inventory.of(self.table, self._storage), self._request
        compact = self._tables.config.maintenance.compact
        self._order_by = compact.order_by if self._is_main and not inventory.is_clustered else ()
        rule = CompactionRule(compact.target)
        if self._is_main:
            rule = CompactionRule.of_main(self._tables.config, inventory, datetime.now(UTC))
        self._partitions = due(inventory.files, rule) if request.does("compact") else []
        self._properties = inventory.properties
        return TableMaintenance(
            self.table.identifier,
            inventory.size,
            inventory.size,
            due=len(self._partitions),
            due_files=sum(each.removed for each in self._partitions),
            due_bytes=sum(each.bytes for each in self._partitions),
            log=log_retention(inventory.properties),
        )

    def run(self, budget: _Budget) -> TableMaintenance:
        """Do it; in a dry run, say what is due."""
        result = self.plan
        try:
            if self._request.does("expire"):
                result = self._expire(result, budget)
            if not self._request.dry_run:
                result = self._compact(result, budget)
            if self._request.does("vacuum"):
                # 4.
                result = self._vacuum(result, budget)
        except StorageError as failure:
            result = replace(result, failure=failure)
        return result

    def _expire(self, result: TableMaintenance, budget: _Budget) -> TableMaintenance:
        expired = TableExpiry.of(self._tables, self.table, self._request.before_commit, lambda: budget.is_over)
        if expired is None:
            return result
        expiry = expired.run(dry_run=self._request.dry_run)
        if expiry.rows and not self._request.dry_run:
            result = replace(self._planned(), before=result.before)
        return replace(result, expiry=expiry, failure=expiry.failure)

    def _compact(self, result: TableMaintenance, budget: _Budget) -> TableMaintenance:
        remaining = Counter[str]()
        try:
            for partition in self._partitions:
                reason = budget.refusal(partition) or self._compact_one(partition)
                if isinstance(reason, str):
                    remaining[reason] += 1
                    continue
                result = replace(
                    result,
                    partitions=result.partitions + 1,
                    removed=result.removed + reason[0],
                    added=result.added + reason[1],
                    rewritten_bytes=result.rewritten_bytes + partition.bytes,
                )
        except StorageError as failure:
            result = replace(result, failure=failure)
        if self._partitions:
            result = replace(result, after=Inventory.of(self.table, self._storage).size)
        return replace(result, remaining=dict(remaining))

    def _compact_one(self, partition: DuePartition) -> tuple[int, int] | str:
        """Files removed and added; or why it is left."""
        # 3.
        for tries in range(TRIES):
            self._request.before_commit(self.table)
            with suppress(TableChanged):
                return optimize.compact(
                    self.table,
                    self._tables.config.maintenance.compact.target,
                    self._tables.config.table.compression,
                    where=partition.where,
                    order_by=self._order_by,
                )
            time.sleep(_PAUSE_S * 2**tries)
        return CONFLICT

    def _vacuum(self, result: TableMaintenance, budget: _Budget) -> TableMaintenance:
        after = self._request.options.vacuum.after
        plan = Vacuumed.planned(datetime.now(UTC), after, self._properties, self._needs())
        if self._request.dry_run:
            return replace(result, vacuum=plan)
        if result.failure is not None or budget.is_over:
            return result
        vacuumed = vacuum.vacuum(self.table, plan, self._properties, checked=not self._request.i_know)
        return replace(result, vacuum=vacuumed)

    def _needs(self) -> Iterator[Need]:
        if self._is_main:
            yield from needs.of_main(self._tables, self._storage, self._request.options.vacuum.exports)


def log_retention(properties: Mapping[str, str]) -> str:
    """How long the log keeps its commits, and with them the receipts: Delta deletes older ones at its checkpoints."""
    if properties.get("delta.enableExpiredLogCleanup", "true").lower() == "false":
        return (
            "for ever: delta.enableExpiredLogCleanup is false, and the log grows with each commit; let Delta clean up: "
            "ALTER TABLE … SET TBLPROPERTIES ('delta.enableExpiredLogCleanup' = 'true')"
        )
    text = properties.get("delta.logRetentionDuration", "30 days").removeprefix("interval ")
    with suppress(ValueError):
        return duration_text(duration(text))
    return text
