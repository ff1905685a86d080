"""Whether a period of a table is complete, or it holds a database's log up to a place; what it waits for else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeingest.errors import LakeingestError, NotComplete
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.operations.results.showable import Showable


@dataclass(frozen=True, kw_only=True, repr=False)
class Completion(Showable):
    """Whether a period is complete.

    Attributes:
        period, timezone: its name, in the time zone of the table's partition.
        period_start, period_end: as ISO 8601 has them.
        waited_s: seconds.
        complete_since: None if it is not.
        waits_for: a sentence; empty if it is complete.
        missing: one a partition of a topic: topic, partition, frontier (the first offset not consumed), needed (the
            one that is to be reached).
    """

    pipeline: str
    period: str
    timezone: str
    period_start: str
    period_end: str
    waited_s: float
    complete_since: datetime | None = None
    waits_for: str = ""
    missing: tuple[dict[str, Any], ...] = ()

    @property
    def headline(self) -> str:
        if self.complete_since is None:
            return self.waits_for
        return f"{self.pipeline} {self.period}: complete since {self.complete_since:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def text(self) -> Iterator[str]:
        # What it waits for, the failure says.
        if self.complete_since is not None:
            yield self.headline

    @property
    def failure(self) -> LakeingestError | None:
        if self.complete_since is not None:
            return None
        return NotComplete(
            self.waits_for, cure="let the pipeline run, and wait again; `lakeingest status` shows where it stands"
        )

    def to_json(self) -> dict[str, Any]:
        data = dict(vars(self))
        since, waits_for, missing = (data.pop(name) for name in ("complete_since", "waits_for", "missing"))
        if since is None:
            return {**data, "complete": False, "waits_for": waits_for, "missing": missing}
        return {**data, "complete": True, "complete_since": since.isoformat()}


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionWait(Showable):
    """Whether a table holds everything up to a place in a database's log.

    Attributes:
        target: the place, as it was asked for.
        waited_s: seconds.
        position: up to which place the table holds everything; None while that is before the target.
        waits_for: a sentence; empty if it waits no more.
    """

    pipeline: str
    target: str
    waited_s: float
    position: LogPosition | None = None
    waits_for: str = ""

    @property
    def headline(self) -> str:
        return self.waits_for if self.position is None else f"{self.pipeline} {self.target}: {self.position.text}"

    @property
    def text(self) -> Iterator[str]:
        # What it waits for, the failure says.
        if self.position is not None:
            yield self.headline

    @property
    def failure(self) -> LakeingestError | None:
        if self.position is not None:
            return None
        return NotComplete(
            self.waits_for,
            cure="let the pipeline run, and wait again; while nobody changes this table in the database, no event from "
            "behind that place comes: change a row",
        )

    def to_json(self) -> dict[str, Any]:
        data = {"pipeline": self.pipeline, "target": self.target, "waited_s": self.waited_s}
        if self.position is None:
            return {**data, "complete": False, "waits_for": self.waits_for}
        return {**data, "complete": True, "position": self.position.to_json()}
