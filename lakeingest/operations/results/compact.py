"""What a compaction did to the tables of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from lakeingest.delta.maintenance.optimize import Compacted
from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import ShowableList, TextTable


class Compaction(ShowableList[Compacted]):
    """A list of what was done to each table; in a dry run their files stayed. Its listing: tables."""

    def __init__(self, pipeline: str, tables: Iterable[Compacted], *, dry_run: bool) -> None:
        super().__init__(tables)
        self.pipeline, self.dry_run = pipeline, dry_run

    @property
    def headline(self) -> str:
        before, after = sum(each.before.count for each in self), sum(each.after.count for each in self)
        return f"{self.pipeline}: {number_of(before, 'file')} before, {after:,} now"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"tables": [asdict(each) for each in self]}

    def to_json(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "dry_run": self.dry_run, **self.listings}

    @property
    def text(self) -> Iterator[TextTable]:
        rows = []
        for each in self:
            mib = each.after.bytes / 2**20
            average = f"{mib / max(each.after.count, 1):,.2f}"
            rows.append([each.table, f"{each.before.count:,}", f"{each.after.count:,}", f"{mib:,.1f}", average])
        title = f"{self.pipeline}: files" + (" (dry run: nothing was done)" if self.dry_run else "")
        yield TextTable(title, ("table", "before", "now", "MiB", "MiB a file"), rows)
