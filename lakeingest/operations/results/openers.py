"""How other tools open a pipeline's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable
from lakeingest.operations.sql import quoted


@dataclass(frozen=True)
class Opener:
    """How one tool opens the table.

    Attributes:
        reads: whether it can read the table; None where that is not known.
        why: what is in its way, or why it is not known; else "".
        code: what to write; "" where it cannot read the table.
    """

    tool: str
    language: str
    reads: bool | None
    why: str
    code: str

    @property
    def lines(self) -> Iterator[str]:
        yield f"{self.tool}{self._verdict}"
        yield from (f"    {line}" for line in self.code.splitlines())

    @property
    def _verdict(self) -> str:
        if self.reads is None:
            return f" (whether it can read the table is not known: {self.why})"
        return "" if self.reads else f" cannot read this table: {self.why}"


@dataclass(frozen=True, repr=False)
class Openers(Showable):
    """How a table is opened by each tool. Its listing: open.

    Attributes:
        file: the pipeline file.
        views: those of `lakeingest sql`: name → table.
        credentials: variables of the environment → where their values come from.
    """

    pipeline: str
    table: str
    file: Path
    views: Mapping[str, str]
    credentials: Mapping[str, str]
    tools: tuple[Opener, ...]

    @property
    def headline(self) -> str:
        return f"{self.pipeline}: {self.table}"

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {"open": [asdict(tool) for tool in self.tools]}

    @property
    def text(self) -> Iterator[str]:
        yield self.headline
        yield f'views of `lakeingest sql {self.file} "SELECT …"`: {", ".join(map(quoted, self.views))}'
        for name, source in self.credentials.items():
            yield f"export {name}, from {source}"
        for tool in self.tools:
            yield ""
            yield from tool.lines

    def to_json(self) -> dict[str, Any]:
        data = {"pipeline": self.pipeline, "table": self.table, "views": self.views, "credentials": self.credentials}
        return {**data, **self.listings}
