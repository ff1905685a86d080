"""What became of pipelines that ran side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakeingest.errors import LakeingestError
from lakeingest.ingest.events import Ended
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import ShowableList, TextTable
from lakeingest.operations.results.words import error_as_data, words, worst


@dataclass(frozen=True)
class Outcome(Ended):
    """What became of a pipeline's run.

    Attributes:
        pipeline: its name; with `{topic}` where the topics of a pattern could not be told.
    """

    pipeline: str = ""

    @property
    def exit_code(self) -> int:
        return getattr(self.failure, "exit_code", 1) if self.failure else 0

    def to_json(self) -> dict[str, Any]:
        failure = self.failure
        error = error_as_data(failure) if isinstance(failure, LakeingestError) else _fault(failure)
        counts = {"commits": self.commits, **asdict(self.counts), "lag": self.lag}
        return {"pipeline": self.pipeline, "outcome": self.outcome, "error": error, **counts}


def _fault(failure: Exception | None) -> dict[str, Any] | None:
    """A fault of lakeingest's own."""
    return {"error": repr(failure), "exit_code": 1} if failure else None


class Outcomes(ShowableList[Outcome]):
    """A list of what became of each pipeline. Its listing: pipelines."""

    @property
    def headline(self) -> str:
        return ", ".join(f"{each.pipeline}: {each.outcome}" for each in self)

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"pipelines": [each.to_json() for each in self]}

    @property
    def text(self) -> Iterator[TextTable]:
        columns = ("pipeline", "outcome", "commits", "records", "refused", "lag")
        yield TextTable("", columns, [[*map(words, _cells(each))] for each in self], spare=("commits",))

    def to_json(self) -> dict[str, Any]:
        return {**self.listings}

    @property
    def exit_code(self) -> int:
        """That of the worst failure."""
        return worst(each.exit_code for each in self)


def _cells(each: Outcome) -> tuple[object, ...]:
    return each.pipeline, each.outcome, each.commits, each.counts.consumed, each.counts.refused, each.lag
