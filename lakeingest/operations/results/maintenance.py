"""What a maintenance did to the tables of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakeingest.delta.maintenance.outcome import Expiry, TableMaintenance
from lakeingest.delta.maintenance.vacuum import Vacuumed
from lakeingest.errors import LakeingestError, number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import ShowableList, TextTable

_COLUMNS = ("table", "files before", "now", "MiB", "MiB a file", "due", "done", "left", "deleted")


class MaintenanceResult(ShowableList[TableMaintenance]):
    """A list of what was done to each table; in a dry run, what is due. Its listing: tables."""

    def __init__(self, pipeline: str, tables: Iterable[TableMaintenance], *, dry_run: bool) -> None:
        super().__init__(tables)
        self.pipeline, self.dry_run = pipeline, dry_run

    @property
    def headline(self) -> str:
        before = number_of(sum(each.before.count for each in self), "file")
        expired = sum(each.expiry.rows for each in self if each.expiry)
        rows = f", {number_of(expired, 'row')} expired" if expired else ""
        if self.dry_run:
            due = number_of(sum(each.due for each in self), "partition")
            return f"{self.pipeline}: {before}, {due} due{rows}"
        after, remaining = sum(each.after.count for each in self), sum(sum(each.remaining.values()) for each in self)
        rest = f", {number_of(remaining, 'partition')} left for the next time" if remaining else ""
        return f"{self.pipeline}: {before} before, {after:,} now{rows}{rest}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"tables": [each.to_json() for each in self]}

    def to_json(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "dry_run": self.dry_run, **self.listings}

    @property
    def failure(self) -> LakeingestError | None:
        return next((each.failure for each in self if each.failure is not None), None)

    @property
    def text(self) -> Iterator[str | TextTable]:
        title = f"{self.pipeline}: files" + (" (dry run: nothing was done)" if self.dry_run else "")
        yield TextTable(title, _COLUMNS, map(_row, self), spare=("MiB a file", "MiB"))
        for each in self:
            yield from _sentences(each, dry_run=self.dry_run)


def _row(each: TableMaintenance) -> list[str]:
    mib, deleted = each.after.bytes / 2**20, each.vacuum.files if each.vacuum else None
    return [
        each.table,
        f"{each.before.count:,}",
        f"{each.after.count:,}",
        f"{mib:,.1f}",
        f"{mib / max(each.after.count, 1):,.2f}",
        f"{each.due:,}",
        f"{each.partitions:,}",
        f"{sum(each.remaining.values()):,}",
        "—" if deleted is None else f"{deleted:,}",
    ]


def _sentences(each: TableMaintenance, *, dry_run: bool) -> Iterator[str]:
    if each.expiry is not None:
        yield f"{each.table}: {_expired(each.expiry, dry_run=dry_run)}"
    if dry_run and each.due:
        files, mib = number_of(each.due_files, "small file"), each.due_bytes / 2**20
        yield f"{each.table}: {files} in {number_of(each.due, 'partition')}, {mib:,.1f} MiB, are to be written anew"
    for reason, count in each.remaining.items():
        yield f"{each.table}: {number_of(count, 'partition')} left for the next time: {reason}"
    if each.vacuum is not None:
        yield f"{each.table}: {_vacuum(each.vacuum, dry_run=dry_run)}"
    yield f"{each.table}: the log keeps its commits, and the receipts in them, {each.log}"
    if each.failure is not None:
        compacted = f"{number_of(each.partitions, 'partition')} compacted; then " if each.partitions else ""
        yield f"{each.table}: {compacted}it failed: {each.failure.what}"


def _vacuum(plan: Vacuumed, *, dry_run: bool) -> str:
    before = plan.before.isoformat(sep=" ", timespec="minutes")
    why = f"; the younger ones are kept for {plan.held_by}" if plan.held_by else ""
    return f"files that no version names since {before} {'go' if dry_run else 'went'}{why}"


def _expired(expiry: Expiry, *, dry_run: bool) -> str:
    rows, verb = number_of(expiry.rows, "row"), "to be taken out" if dry_run else "taken out"
    whole = f", {number_of(expiry.partitions, 'whole partition')}" if expiry.partitions else ""
    rest = f"; {number_of(expiry.remaining, 'partition')} left for the next time" if expiry.remaining else ""
    return f"{rows} from before {expiry.before.isoformat(sep=' ', timespec='minutes')} {verb}{whole}{rest}"
