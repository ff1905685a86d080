"""The output of commands: text for people, or one JSON document for programs. Nothing else prints.

What is said may come from records: only printable characters are shown, see `errors.printable`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lakeingest.errors import LakeingestError, PipelineFileError, UsageError, printable
from lakeingest.operations.results.words import as_json, cut, error_as_data

if TYPE_CHECKING:
    from rich.text import Text

    from lakeingest.operations.results.showable import Showable

FORMATS = ("text", "json")
_FOLDED = 20
"""A text of this width stays in one line of a table's cell."""
_GAP = 3
"""Between columns."""
_OWED: ContextVar[bool] = ContextVar("_OWED", default=False)
"""Whether a program still waits for the JSON document of the command."""


@dataclass(frozen=True)
class Output:
    """The output of a command. As JSON, `line` and `table` are silent, and `result` alone is printed."""

    is_json: bool = False

    @classmethod
    def of(cls, format: str) -> Output:
        """The output of a name.

        Raises:
            UsageError: not one of "text", "json".
        """
        if format not in FORMATS:
            raise UsageError(f'--output "{format}" is not a format', cure=f"write one of {', '.join(FORMATS)}")
        _OWED.set(format == "json")
        return cls(is_json=format == "json")

    def line(self, text: str = "") -> None:
        if not self.is_json:
            # Whoever follows a run through a pipe wants each commit when it was made.
            sys.stdout.write(printable(text) + "\n")
            sys.stdout.flush()

    def lines(self, text: str) -> None:
        """A text of several lines."""
        for each in text.split("\n"):
            self.line(each)

    def markdown(self, text: str) -> None:
        """For a terminal with its colours and width; elsewhere as plain text."""
        if self.is_json or not sys.stdout.isatty():
            self.lines(text.removeprefix("## ").replace("**", "").replace("``", "`"))
            return
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown("\n".join(map(printable, text.split("\n")))))

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        spare: Sequence[str] = (),
        longest: int | None = None,
    ) -> None:
        """A table; a cell of several lines is a list of them. What is left out or cut is said below it.

        Args:
            spare: columns that are left out where the width is too small, in this order.
            longest: characters of a cell's line that are shown; all of them by default.
        """
        if self.is_json:
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        heads = [_cell(name) for name in columns]
        cells = [[_cell(value, longest) for value in row] for row in rows]
        widths = [max(_width(head), *(_width(row[at]) for row in cells), 0) for at, head in enumerate(heads)]
        positions = list(range(len(columns)))
        for name in spare:
            if sum(min(widths[at], _FOLDED) + _GAP for at in positions) <= self.width:
                break
            positions.remove(columns.index(name))
        table = Table(
            title=Text(printable(title)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for at in positions:
            # A number or a time is no easier to read in two lines.
            whole = widths[at] <= _FOLDED
            table.add_column(heads[at], overflow="ellipsis" if whole else "fold", no_wrap=whole)
        for row in cells:
            table.add_row(*(row[at] for at in positions))
        Console(width=self.width).print(table)
        if left_out := [name for name in spare if columns.index(name) not in positions]:
            self.line(f"left out at this width, and in --output json: {', '.join(left_out)}")
        if any(_is_cut(cell, longest) for row in cells for cell in row):
            self.line("what ends with … is longer: --output json has it whole")

    @property
    def width(self) -> int:
        """Characters in a line of a table."""
        from rich.console import Console

        # Without a terminal, and without COLUMNS, rich assumes 80 characters: too few for whoever reads a log.
        width_matters = sys.stdout.isatty() or os.environ.get("COLUMNS")
        return Console().width if width_matters else 140

    @contextmanager
    def progress(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal (stderr) that something takes its time. Gives what shows each step, from any thread."""
        if self.is_json or not sys.stderr.isatty():
            yield lambda step: None
            return
        from rich.console import Console

        with Console(stderr=True).status(_cell(text)) as status:
            yield lambda step: status.update(_cell(f"{text} {step}"))

    def show(self, result: Showable) -> None:
        """A result as text or as JSON, and what is wrong behind it.

        Raises:
            LakeingestError: the result's failure.
            Exit: it has none, and an exit code that is not 0.
        """
        self.text(result)
        self.end(result)

    def end(self, result: Showable) -> None:
        """The JSON of a result, and what is wrong; see `show`."""
        self.result(result.to_json())
        result.check()
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    def text(self, result: Showable) -> None:
        """The text of a result alone."""
        if not self.is_json:
            for part in result.text:
                self.line(part) if isinstance(part, str) else self.table(**vars(part))

    def result(self, data: Mapping[str, Any]) -> None:
        if self.is_json:
            _OWED.set(False)
            sys.stdout.write(as_json(data) + "\n")

    def record(self, data: Mapping[str, Any]) -> None:
        """One of many JSON documents, in a line of its own."""
        sys.stdout.write(as_json(data, indent=None) + "\n")

    def aside(self, text: str) -> None:
        """A line on stderr, for whoever pipes the records on."""
        sys.stdout.flush()
        sys.stderr.write(printable(text) + "\n")


def failed(error: LakeingestError) -> None:
    """Tell a program that waits for JSON why there is no result; a command that has one gives it all the same."""
    if _OWED.get():
        Output(is_json=True).result(error_as_data(error))


def message(error: LakeingestError) -> str:
    """An error as it is shown: what, every problem, the cure, and where the runbook says more."""
    first, *more = f"error ({error.stage}): {error.what}".split("\n")
    # What a value has brought stands behind our own words, whatever it looks like.
    lines = [first, *(f"  {line.removeprefix('  ')}" for line in more)]
    if isinstance(error, PipelineFileError):
        lines += [f"  {problem}" for problem in error.problems]
    lines += [f"  cure: {error.cure}", f"  more: lakeingest explain {type(error).__name__}"]
    return "\n".join(map(printable, lines)) + "\n"


def _cell(value: object, longest: int | None = None) -> Text:
    from rich.text import Text

    lines = (printable(str(line)) for line in (value if isinstance(value, list) else [value]))
    return Text("\n".join(cut(line, longest) if longest else line for line in lines))


def _is_cut(cell: Text, longest: int | None) -> bool:
    return any(len(line) == longest and line.endswith("…") for line in cell.plain.split("\n"))


def _width(cell: Text) -> int:
    """Of its longest line, as a terminal shows it."""
    from rich.cells import cell_len

    return max(map(cell_len, cell.plain.split("\n")))
