"""What a backfill has done, or would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakeingest.delta.receipt import Counts
from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable
from lakeingest.operations.results.words import became, duration

_NOTHING = "nothing to take: all that was asked for was read, or Kafka does not have it"


@dataclass(frozen=True, repr=False)
class Backfilled(Showable):
    """What a backfill has done, or would do. Its listing: ranges.

    Attributes:
        ranges: what it was to take, or is: topic, partition, start, end (offsets, the end not included), offsets.
        held: offsets of these that a table has already, from commits whose receipts are gone; they are left out.
        counts: what became of the records that it took.
        commits: how many batches it committed.
        remaining: offsets that it has not taken.
        dry_run: whether it only looked.
        rate: most offsets in a second, on average; None for no limit.
    """

    pipeline: str
    ranges: tuple[dict[str, Any], ...]
    held: int
    counts: Counts
    commits: int
    remaining: int
    dry_run: bool = False
    rate: float | None = None

    @property
    def offsets(self) -> int:
        """How many it was to take, or is."""
        return sum(each["offsets"] for each in self.ranges)

    @property
    def _became(self) -> str:
        return became(self.counts.accepted, self.counts.refused, self.counts.dropped)

    @property
    def headline(self) -> str:
        return (
            f"{self.pipeline}: {number_of(self.offsets, 'offset')} to take, {self.remaining:,} left; "
            f"{number_of(self.counts.consumed, 'record')}, {self._became}"
        )

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"ranges": self.ranges}

    @property
    def text(self) -> Iterator[str | TextTable]:
        return self._plan() if self.dry_run else self._end()

    def _plan(self) -> Iterator[str | TextTable]:
        if self.ranges:
            yield TextTable(
                f"{self.pipeline}: {number_of(self.offsets, 'offset')} to take",
                ("topic", "partition", "from", "to", "offsets"),
                [[r["topic"], r["partition"], r["start"], r["end"] - 1, f"{r['offsets']:,}"] for r in self.ranges],
            )
        else:
            yield f"{self.pipeline}: {_NOTHING}"
        if self.held:
            yield f"{number_of(self.held, 'record')} of these are in the tables already, and will be left out"
        if self.ranges and self.rate:
            yield f"at {self.rate:,g} a second that takes {duration(self.offsets / self.rate)}"

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "rate"}

    def _end(self) -> Iterator[str]:
        if self.ranges:
            end = "stopped" if self.remaining else "done"
            commits = number_of(self.commits, "commit")
            rest = f"; {number_of(self.remaining, 'offset')} left" if self.remaining else ""
            yield f"{end}: {number_of(self.counts.consumed, 'record')} in {commits}, {self._became}{rest}"
        else:
            yield _NOTHING
