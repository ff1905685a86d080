"""What the gate found, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from lakeingest.config import PipelineConfig
from lakeingest.operations.results.showable import Rows, TextTable
from lakeingest.operations.results.words import words

_COLUMNS = ("expectation", "on failure", "met", "broken", "of", "found")
_SPARE = ("of", "on failure")
_LONGEST = 80


class GateResults(Rows):
    """What expectations found in batches, the newest first; see `gate.results` for the columns."""

    json_name = "results"
    html_columns = (
        "sequence",
        "time",
        "outcome",
        "expectation",
        "action",
        "success",
        "unexpected",
        "evaluated",
        "observed",
    )

    def __init__(self, config: PipelineConfig, rows: Iterable[dict[str, Any]]) -> None:
        super().__init__(config.name, f"results of the gate in {config.results}", rows)
        self._config = config

    def failed(self) -> GateResults:
        """Those of expectations that were not met."""
        return GateResults(self._config, (row for row in self if not row["success"]))

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield f"{self.pipeline}: results in {self._config.results}"
        for sequence, time, outcome in dict.fromkeys(map(itemgetter("sequence", "time", "outcome"), self)):
            yield f"  batch {sequence} at {time:%Y-%m-%d %H:%M:%S}: {outcome}"
        rows = [[row["sequence"], *_cells(row)] for row in self]
        yield TextTable("", ("batch", *_COLUMNS), rows, spare=_SPARE, longest=_LONGEST)


def table(title: str, results: Iterable[Mapping[str, Any]]) -> TextTable:
    """What expectations found, each by its name: its type and columns."""
    return TextTable(title, _COLUMNS, map(_cells, results), spare=_SPARE, longest=_LONGEST)


def _cells(result: Mapping[str, Any]) -> list[str]:
    numbers = (words(result[name]) for name in ("success", "unexpected", "evaluated"))
    sample = ", ".join(result["sample"] or ())
    return [result["expectation"], result["action"], *numbers, result["observed"] or sample]
