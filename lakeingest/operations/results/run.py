"""What a run has done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakeingest.delta.receipt import Counts
from lakeingest.errors import LakeingestError, number_of
from lakeingest.operations.results.showable import Showable
from lakeingest.operations.results.words import became, duration


@dataclass(frozen=True, repr=False)
class RunSummary(Showable):
    """What a run has done.

    Attributes:
        lag: offsets that Kafka had besides, when it ended.
        catalog_behind: entries of a catalog that are not as the tables are: name → why.
        stopped: whether it was stopped before it had caught up.
        seconds: how long it took.
        start_seconds: how long of that it took before the first batch: Spark starts, and the tables are looked at.
    """

    pipeline: str
    commits: int
    counts: Counts
    lag: int
    catalog_behind: Mapping[str, LakeingestError]
    stopped: bool
    seconds: float
    start_seconds: float

    @property
    def headline(self) -> str:
        if not self.commits:
            return "stopped; nothing was committed" if self.stopped else "caught up; there was nothing new to commit"
        counts, commits = self.counts, number_of(self.commits, "commit")
        records = f"{number_of(counts.consumed, 'record')} in {commits}"
        end = "stopped" if self.stopped else "caught up"
        return f"{end}: {records}, {became(counts.accepted, counts.refused, counts.dropped)}"

    @property
    def text(self) -> Iterator[str]:
        yield self.headline
        if self.commits and not self.stopped:
            yield f"in {duration(self.seconds)}, of which {duration(self.start_seconds)} passed before the first batch"
        for failure in self.catalog_behind.values():
            yield from f"the catalog is behind the table: {failure}".split("\n")

    def to_json(self) -> dict[str, Any]:
        behind = {name: why.what for name, why in self.catalog_behind.items()}
        counts = {"commits": self.commits, **asdict(self.counts), "lag": self.lag}
        seconds = {"seconds": round(self.seconds, 3), "start_seconds": round(self.start_seconds, 3)}
        return {"pipeline": self.pipeline, **counts, "catalog_behind": behind, "stopped": self.stopped, **seconds}
