"""Refused records by stage and reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakeingest.config import PipelineConfig
from lakeingest.gate.suite import brief
from lakeingest.operations.results.showable import Rows, TextTable

_COLUMNS = ("stage", "reason", "records", "for example")
LONGEST = 160
"""Characters of a message in a table."""


class Reasons(Rows):
    """Quarantine's records, a row for each stage and reason: stage, reason, count, samples."""

    json_name = "reasons"

    def __init__(self, config: PipelineConfig, rows: Iterable[dict[str, Any]]) -> None:
        super().__init__(config.name, f"refused records in {config.quarantine.identifier}", rows)

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield table(self.headline, self)
        if self:
            yield "what a reason means: lakeingest explain REASON (EXPECTATION for the stage gate)"


def table(title: str, reasons: Iterable[Mapping[str, Any]], most: int | None = None) -> TextTable:
    """Reasons, with coordinates and messages of samples.

    Args:
        most: samples of each reason; all of them by default.
    """
    rows = []
    for each in reasons:
        samples = each["samples"][:most]
        lines = [f"{sample['coordinates']}: {message(sample, each['reason'])}" for sample in samples]
        rows.append([each["stage"], each["reason"], f"{each['count']:,}", lines])
    return TextTable(title, _COLUMNS, rows, longest=LONGEST)


def forecast(title: str, reasons: Iterable[Mapping[str, Any]]) -> TextTable:
    """Reasons of records that are not in quarantine yet, each with the message of a sample."""
    rows = [[r["stage"], r["reason"], f"{r['count']:,}", message(r["samples"][0], r["reason"])] for r in reasons]
    return TextTable(title, _COLUMNS, rows, longest=LONGEST)


def message(sample: Mapping[str, Any], reason: str) -> str:
    """The message of a sample beside its reason: of the expectations in it the names, and not the reason itself."""
    return brief(sample["message"]).removesuffix(f": {reason}")
