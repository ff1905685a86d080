"""What a rebuild of a table has done, or would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import LakeingestError, number_of
from lakeingest.operations.results.audit import Report
from lakeingest.operations.results.plan import Plan
from lakeingest.operations.results.run import RunSummary
from lakeingest.operations.results.showable import Showable, TextTable
from lakeingest.record import OffsetRanges


@dataclass(frozen=True)
class Compared:
    """How many records the old tables and the new ones have, within the offsets that both have consumed."""

    offsets: OffsetRanges
    table: tuple[int, int]
    quarantine: tuple[int, int]

    @property
    def _pairs(self) -> dict[str, tuple[int, int]]:
        return {"table": self.table, "quarantine": self.quarantine}

    def to_json(self) -> dict[str, Any]:
        rows = {name: {"before": before, "rebuilt": rebuilt} for name, (before, rebuilt) in self._pairs.items()}
        return {"offsets": self.offsets.to_json(), **rows}

    @property
    def text_table(self) -> TextTable:
        rows = [[name, f"{old:,}", f"{new:,}", f"{new - old:+,}"] for name, (old, new) in self._pairs.items()]
        return TextTable("of the offsets that both have consumed", ("", "old", "new", "more"), rows)


@dataclass(frozen=True, repr=False)
class RebuildPlan(Showable):
    """What a rebuild would do.

    Attributes:
        source, target: the bronze table, and the new one.
        offsets: of bronze that the new table has not yet.
        plan: what it would do with the first records.
    """

    source: str | None
    target: str
    offsets: int
    plan: Plan

    @property
    def headline(self) -> str:
        return f"{self.target} has not {number_of(self.offsets, 'offset')} of {self.source} yet"

    @property
    def text(self) -> Iterator[str]:
        yield self.headline
        yield self.plan.headline
        yield "nothing was written"

    def to_json(self) -> dict[str, Any]:
        return {"from": self.source, "to": self.target, "offsets": self.offsets, "plan": self.plan.to_json()}


@dataclass(frozen=True, repr=False)
class Rebuild(Showable):
    """What a rebuild has done.

    Attributes:
        file: the pipeline file, as the command names it.
        source, target: the bronze table, and the new one.
        run: what was committed; its text is not told again.
        audit: the new table's; None where the run was stopped.
        compared: None where there is no old table.
        steps: what the file has to say so that the pipeline goes on in the new table: option → value, or None for one
            that is to be left out.
    """

    file: str
    source: str | None
    target: str
    run: RunSummary
    audit: Report | None = None
    compared: Compared | None = None
    steps: Mapping[str, str | None] | None = None

    @property
    def headline(self) -> str:
        return self.audit.headline if self.audit else self.run.headline

    @property
    def text(self) -> Iterator[str | TextTable]:
        if self.audit is None:
            yield "the same command goes on from there"
            return
        yield self.headline
        if self.compared is not None:
            yield self.compared.text_table
        if self.audit.conserved:
            yield f"to go on in the new table, stop the pipeline, and change {self.file}:"
            for option, value in (self.steps or {}).items():
                yield f"  {option}: {value}" if value is not None else f"  leave out {option}"
            yield f"then: lakeingest run {self.file}"

    def to_json(self) -> dict[str, Any]:
        data = {"from": self.source, "to": self.target, **self.run.to_json()}
        if self.audit is None:
            return data
        compared = self.compared and self.compared.to_json()
        return {**data, "audit": self.audit.to_json(), "compared": compared, "next": self.steps}

    @property
    def failure(self) -> LakeingestError | None:
        return self.audit.failure if self.audit else None
