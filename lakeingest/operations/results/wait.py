"""Whether a period of a table is complete, and what it waits for else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeingest.errors import LakeingestError, NotComplete
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable


@dataclass(frozen=True, kw_only=True, repr=False)
class Completion(Showable):
    """Whether a period is complete. Its listing: missing.

    Attributes:
        period, timezone: its name, in the time zone of the table's partition.
        begin, end: aware.
        waited_s: seconds.
        since: since when it is complete; None if it is not.
        waits_for: a sentence; empty if it is complete.
        missing: (topic, partition) → (the first offset not consumed, the one that is to be reached).
    """

    pipeline: str
    period: str
    timezone: str
    begin: datetime
    end: datetime
    waited_s: float
    since: datetime | None = None
    waits_for: str = ""
    missing: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        if self.since is None:
            return self.waits_for
        return f"{self.pipeline} {self.period}: complete since {self.since:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "missing": [
                {"topic": topic, "partition": partition, "frontier": frontier, "needed": end}
                for (topic, partition), (frontier, end) in sorted(self.missing.items())
            ]
        }

    @property
    def text(self) -> Iterator[str]:
        # The failure says what it waits for.
        if self.since is not None:
            yield self.headline

    @property
    def failure(self) -> LakeingestError | None:
        if self.since is not None:
            return None
        return NotComplete(
            self.waits_for, cure="let the pipeline run, and wait again; `lakeingest status` shows where it stands"
        )

    def to_json(self) -> dict[str, Any]:
        state = (
            {"complete": False, "waits_for": self.waits_for, **self.listings}
            if self.since is None
            else {"complete": True, "complete_since": self.since.isoformat()}
        )
        return {
            "pipeline": self.pipeline,
            "period": self.period,
            "timezone": self.timezone,
            "period_start": self.begin.isoformat(),
            "period_end": self.end.isoformat(),
            "waited_s": round(self.waited_s, 1),
            **state,
        }
