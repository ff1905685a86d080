"""What a look at all that a pipeline needs has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import ShowableList

State = Literal["good", "warning", "bad", "skipped"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes:
        about: what was looked at.
        state: good; warning: a run may go well all the same; bad: no run does; skipped: it could not be looked at.
        what: what was found.
        cure: what to do about it; empty where it is good.
    """

    about: str
    state: State
    what: str
    cure: str = ""

    @property
    def lines(self) -> Iterator[str]:
        yield f"{self.state:8} {self.about:20} {self.what}"
        if self.cure:
            yield f"{'':8} {'':20} cure: {self.cure}"


class Diagnosis(ShowableList[Finding]):
    """A list of findings, whose lines are printed as they come. Its listing: findings."""

    @property
    def headline(self) -> str:
        counts = Counter(finding.state for finding in self)
        return ", ".join(f"{counts[state]} {state}" for state in get_args(State) if counts[state])

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"findings": [asdict(finding) for finding in self]}

    @property
    def exit_code(self) -> int:
        return 4 if any(finding.state == "bad" for finding in self) else 0

    def to_json(self) -> dict[str, Any]:
        return {"good": not self.exit_code, **self.listings}
