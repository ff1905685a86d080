"""What became of a connector's configuration."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from lakeingest.errors import number_of
from lakeingest.operations.connect import ConnectorOption, Imported
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable


@dataclass(frozen=True, repr=False)
class ConnectorImport(Showable):
    """Pipeline files from a connector's configuration. Its listings: options, missing.

    Attributes:
        files: path → text.
        dry_run: whether they were not written.
    """

    imported: Imported
    files: Mapping[Path, str]
    dry_run: bool

    @property
    def headline(self) -> str:
        return f"{number_of(len(self.files), 'pipeline file')} of {number_of(len(self.imported.options), 'option')}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "options": [asdict(option) for option in self.imported.options],
            "missing": [{"option": option, "why": why} for option, why in self.imported.missing.items()],
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [str(path) for path in self.files],
            **self.listings,
            "environment": list(self.imported.environment),
        }

    @property
    def exit_code(self) -> int:
        return int(not self.imported.whole)

    @property
    def text(self) -> Iterator[str]:
        for path, text in self.files.items():
            yield from f"# {path}\n{text}".split("\n") if self.dry_run else (f"{path} is written.",)
        for missing, why in self.imported.missing.items():
            yield from _paragraph(f"Fill in {missing}: {why}.")
        if self.imported.environment:
            yield from _paragraph(f"Export {', '.join(self.imported.environment)}.")
        for outcome, options in groupby(self.imported.options, key=lambda option: option.outcome):
            yield from _of_outcome(outcome, list(options))
        if not self.dry_run:
            yield ""
            yield f"Next: lakeingest check {next(iter(self.files))}"
            yield "If the sink's objects are in a Delta table already: lakeingest adopt --help"


def _of_outcome(outcome: str, options: list[ConnectorOption]) -> Iterator[str]:
    yield ""
    yield f"{outcome} ({number_of(len(options), 'option')})"
    if outcome == "ignored":
        for why in dict.fromkeys(option.why for option in options):
            names = ", ".join(option.name for option in options if option.why == why)
            yield from _paragraph(f"{names}: {why}")
        return
    for option in options:
        becomes = f" → {option.becomes}" if option.becomes else ""
        value = option.value if len(option.value) <= 40 else f"…{option.value[-39:]}"
        yield from _paragraph(f"{option.name} = {value}{becomes}")
        if option.why:
            yield from _paragraph(option.why, "    ")


def _paragraph(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, 80, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)
