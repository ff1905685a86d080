"""What became of refused records that were looked at again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import number_of
from lakeingest.operations.results import refusals
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable


@dataclass(frozen=True, repr=False)
class Replayed(Showable):
    """What became of the refused records that were asked for. Its listing: refused.

    Attributes:
        dry_run: whether nothing was moved.
        looked: records that were decoded and checked again.
        moved: those that passed, and are in the table now; in a dry run, those that would be.
        refused: why the others stay: stage, reason, count and samples.
    """

    pipeline: str
    dry_run: bool
    looked: int
    moved: int
    refused: tuple[dict[str, Any], ...] = ()

    @property
    def headline(self) -> str:
        return f"{self.looked:,} refused records looked at, {self.moved:,} pass, {self.looked - self.moved:,} stay"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"refused": self.refused}

    @property
    def text(self) -> Iterator[str | TextTable]:
        moved = f"{self.moved:,} {'would be moved' if self.dry_run else 'moved'} to the table"
        stay = f"{self.looked - self.moved:,} stay"
        yield f"{self.pipeline}: {number_of(self.looked, 'record')} checked again, {moved}, {stay}"
        if self.refused:
            yield refusals.table("still refused", self.refused, most=1)
