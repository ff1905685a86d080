"""What a maintenance did to one table of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from lakeingest.delta.maintenance.inventory import TableFiles
from lakeingest.delta.maintenance.vacuum import Vacuumed
from lakeingest.errors import LakeingestError


@dataclass(frozen=True)
class Expiry:
    """The rows that were taken out of a table, being older than the pipeline file allows; of a dry run, are to be.

    Attributes:
        before: older ones are expired, UTC.
        rows: how many.
        partitions: how many whole partitions' periods these are; 0 where rows are told by themselves.
        remaining: how many periods more are left for the next time, as maintenance.most.time was over.
        failure: why it is not known any more which records a DELETE took whose process was killed.
    """

    before: datetime
    rows: int = 0
    partitions: int = 0
    remaining: int = 0
    failure: LakeingestError | None = None

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        numbers = {"rows": self.rows, "partitions": self.partitions, "remaining": self.remaining}
        return {"before": self.before.isoformat(timespec="seconds"), **numbers}


@dataclass(frozen=True)
class TableMaintenance:
    """What a maintenance did to one table; of a dry run, what is due.

    Attributes:
        table: its path or name.
        before, after: its files; the same where nothing was to be done, and of a dry run.
        due: how many partitions were due to be compacted when it began; a table without partitions is one.
        due_files, due_bytes: the files that are to be rewritten in them, and their bytes.
        partitions: how many were compacted.
        removed, added: how many files were read and left behind, and how many written in their place.
        rewritten_bytes: of the files that were read.
        remaining: why partitions are left for the next time → how many.
        vacuum: what a VACUUM did; None where none was to be made, or it failed.
        log: how long the log keeps its commits, and so the receipts.
        expiry: the rows that were taken out first; None where rows stay for ever, or nobody asked.
        failure: why the table is not done.
    """

    table: str
    before: TableFiles
    after: TableFiles
    due: int = 0
    due_files: int = 0
    due_bytes: int = 0
    partitions: int = 0
    removed: int = 0
    added: int = 0
    rewritten_bytes: int = 0
    remaining: Mapping[str, int] = field(default_factory=dict)
    vacuum: Vacuumed | None = None
    log: str = ""
    expiry: Expiry | None = None
    failure: LakeingestError | None = None

    def to_json(self) -> dict[str, Any]:
        """The same for programs: times as text, a failure as what is wrong and its cure."""
        failure, vacuum = self.failure, self.vacuum
        data = {
            **vars(self),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "expiry": self.expiry and self.expiry.to_json(),
            "remaining": dict(self.remaining),
        }
        data["vacuum"] = vacuum and {**asdict(vacuum), "before": vacuum.before.isoformat(timespec="seconds")}
        data["failure"] = failure and {"error": type(failure).__name__, "what": failure.what, "cure": failure.cure}
        return data
