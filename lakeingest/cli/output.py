"""Where commands speak to: text for people, or one JSON document for programs. Nothing else prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import UsageError

FORMATS = ("text", "json")


@dataclass(frozen=True)
class Output:
    """What a command says. As JSON, `line` and `table` are silent, and `result` is all that is printed."""

    is_json: bool = False

    @classmethod
    def of(cls, format: str) -> Output:
        """The output of a name.

        Raises:
            UsageError: not one of "text", "json".
        """
        if format not in FORMATS:
            raise UsageError(f'--output "{format}" is not a format', cure=f"write one of {', '.join(FORMATS)}")
        return cls(is_json=format == "json")

    def line(self, text: str = "") -> None:
        if not self.is_json:
            # Whoever follows a run through a pipe wants each commit when it was made.
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        if self.is_json:
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in row))
        # Without a terminal rich assumes 80 characters, which is too few for whoever reads a log.
        Console(width=None if sys.stdout.isatty() else 140).print(table)

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Show on a terminal (stderr) that something takes its time."""
        if self.is_json or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(text):
            yield

    def result(self, data: Mapping[str, Any]) -> None:
        if self.is_json:
            sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
