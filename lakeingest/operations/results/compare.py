"""What Connect's S3 sink wrote, held against a pipeline's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable

_MOST = 20
"""Windows in a terminal's table."""


@dataclass(frozen=True)
class Window:
    """Offsets of a partition that whole objects hold, and what there is of them on either side.

    Attributes:
        objects: how many objects.
        first: the path of the first one.
        there, here: records in the objects; and in the table, or in quarantine.
    """

    topic: str
    partition: int
    start: int
    end: int
    objects: int
    first: str
    there: int
    here: int

    @property
    def alike(self) -> bool:
        """Whether both sides have as many."""
        return self.there == self.here


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Showable):
    """What both sides hold of the offsets that they share. Its listing: different.

    Attributes:
        objects: how many objects were counted.
        strange: objects under the prefix that are none of the sink's, or of other topics.
        windows: the shared offsets, each window as short as the objects tell.
        outside: windows that the table has not consumed: before its first offset, but for what a backfill took, or
            behind its frontier.
    """

    pipeline: str
    prefix: str
    objects: int
    strange: int
    windows: tuple[Window, ...]
    outside: tuple[Window, ...]

    @property
    def different(self) -> list[Window]:
        """The shared windows of which the two sides do not have as many records."""
        return [window for window in self.windows if not window.alike]

    @property
    def exit_code(self) -> int:
        return int(bool(self.different))

    @property
    def _records(self) -> tuple[int, int]:
        """Those of the shared offsets, in the objects and in the tables."""
        return sum(window.there for window in self.windows), sum(window.here for window in self.windows)

    @property
    def headline(self) -> str:
        aside = f", and {number_of(self.strange, 'other')} left aside" if self.strange else ""
        return f"{self.pipeline}: {number_of(self.objects, 'object')} of the sink at {self.prefix}{aside}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        names = ("topic", "partition", "start", "end", "objects", "first", "there", "here")
        return {"different": [{name: getattr(window, name) for name in names} for window in self.different]}

    def to_json(self) -> dict[str, Any]:
        in_objects, in_tables = self._records
        return {
            "pipeline": self.pipeline,
            "alike": not self.different,
            "objects": self.objects,
            "strange": self.strange,
            "there": in_objects,
            "here": in_tables,
            "outside": len(self.outside),
            **self.listings,
        }

    @property
    def text(self) -> Iterator[str | TextTable]:
        in_objects, in_tables = self._records
        yield self.headline
        records = f"{number_of(in_objects, 'record')} in the objects, {in_tables:,} in the tables"
        yield f"  of the offsets that both have: {records}"
        if self.outside:
            ranges = number_of(len(self.outside), "range")
            yield f"  {ranges} of offsets in the objects that the table has not consumed, or not all of it"
        if not self.different:
            yield "  alike: each range has as many records on both sides"
            return
        yield TextTable(
            "different",
            ("topic", "partition", "offsets", "in the objects", "in the tables", "first object"),
            [
                (w.topic, w.partition, f"{w.start:,} to {w.end - 1:,}", f"{w.there:,}", f"{w.here:,}", w.first)
                for w in self.different[:_MOST]
            ],
        )
        if len(self.different) > _MOST:
            yield f"  and {len(self.different) - _MOST:,} more: --output json has all"
