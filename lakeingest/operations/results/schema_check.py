"""Whether records of a schema would be written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeingest.operations.results.showable import Showable
from lakeingest.schema.compatibility import Decision

_ACTIONS = {
    "write": "written as they are",
    "project": "written, brought to the table's schema",
    "evolve": "written, after the table's schema has changed",
    "quarantine": "refused",
}
_DIFFERENCE = "  from the table's schema to the record's:"


@dataclass(frozen=True, repr=False)
class SchemaCheck(Showable):
    """What would be done with the records of a schema.

    Attributes:
        file: the record's schema.
    """

    file: Path
    decision: Decision

    @property
    def headline(self) -> str:
        action, verdict = self.decision.action, self.decision.verdict
        return f"{self.file}: its records would be {_ACTIONS[action]} ({action}, {verdict})"

    @property
    def text(self) -> Iterator[str]:
        decision = self.decision
        yield self.headline
        if decision.why:
            yield f"  {decision.why}"
        if decision.verdict == "VERSION_REQUIRED":
            yield "  give --current-version and --record-version"
        if decision.changes:
            yield "  the table's schema changes:" if decision.action == "evolve" else _DIFFERENCE
        yield from (f"    {change.text}" for change in decision.changes)

    def to_json(self) -> dict[str, Any]:
        return self.decision.to_json()

    @property
    def exit_code(self) -> int:
        return int(self.decision.action == "quarantine")
