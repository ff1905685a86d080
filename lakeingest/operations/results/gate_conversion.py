"""A suite in the form of Great Expectations 1.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable
from lakeingest.operations.results.words import as_json

if TYPE_CHECKING:
    from lakeingest.gate.convert import Converted


@dataclass(frozen=True, repr=False)
class GateConversion(Showable):
    """A suite that was converted. Its listings: changes, refused.

    Attributes:
        suite: the path of the suite.
        out: where the new one is to be written; None if nowhere. It is written where nothing is refused.
    """

    suite: Path
    converted: Converted
    out: Path | None = None

    @property
    def headline(self) -> str:
        count = number_of(len(self.converted.document["expectations"]), "expectation")
        refused = f", {len(self.converted.refused):,} refused" if self.converted.refused else ""
        return f"{self.suite}: {count} as Great Expectations 1.x has them{refused}"

    @property
    def exit_code(self) -> int:
        return int(bool(self.converted.refused))

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "changes": [{"change": text} for text in self.converted.changes],
            "refused": [{"refused": text} for text in self.converted.refused],
        }

    @property
    def document(self) -> str:
        """The new suite as a file has it."""
        return as_json(self.converted.document) + "\n"

    def to_json(self) -> dict[str, Any]:
        written = str(self.out) if self.out and not self.converted.refused else None
        return {
            "suite": self.converted.document,
            "changes": self.converted.changes,
            "refused": self.converted.refused,
            "file": written,
        }

    @property
    def text(self) -> Iterator[str]:
        if self.converted.refused:
            yield f"{self.suite}: nothing is written, as {number_of(len(self.converted.refused), 'part')} would change:"
            yield from (f"  {text}" for text in self.converted.refused)
            yield "Change or remove them in the suite, and convert it again."
            return
        if self.out is None:
            yield from self.document.rstrip("\n").split("\n")
            return
        yield f"{self.headline}."
        yield from (f"  {text}" for text in self.converted.changes)
        yield f"{self.out} is written. Name it as gate.suite."
