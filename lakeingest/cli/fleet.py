"""The command that runs several pipelines side by side, and what it shows meanwhile."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakeingest.cli.live import Live, finishing
from lakeingest.cli.output import Output, message
from lakeingest.cli.watching import Watch
from lakeingest.errors import LakeingestError, number_of, printable

if TYPE_CHECKING:
    from rich.table import Table

    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.ingest.events import Ended, Event
    from lakeingest.operations.results.fleet import Outcomes


def run(
    files: Sequence[PipelineConfig | PerTopic],
    out: Output,
    watch: Watch,
    *,
    until_caught_up: bool,
    at_once: int | None,
    allow_code: bool = False,
) -> None:
    """Run pipelines until each has ended, and say what became of them.

    Raises:
        UsageError: two have one name or one table; nothing was started.
        Exit: one at least has failed.
    """
    import lakeingest

    fleet = lakeingest.Fleet(files, at_once, allow_code=allow_code)
    stop = threading.Event()
    board = Board(out, watch)
    try:
        board.says("starting Spark …")
        with finishing(stop, board), watch.lingering(stop):
            outcomes = fleet.run(until_caught_up=until_caught_up, on_event=board.take, stop=stop)
    finally:
        board.end()
    _tell(out, outcomes, logged=watch.tells_programs)


class Board:
    """A line for each pipeline on a terminal; elsewhere a line for each event."""

    def __init__(self, out: Output, watch: Watch | None = None) -> None:
        self._table = None
        self._out, self._watch = out, watch or Watch()
        self._doing = ""
        self._last = dict[str, str]()
        self._lives = dict[str, Live]()
        if self._watch.shows_live(out):
            from rich.console import Console
            from rich.live import Live as Redrawn

            self._table = Redrawn(get_renderable=self._drawn, console=Console(stderr=True), refresh_per_second=4)
            self._table.start()

    def _drawn(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        if self._doing:
            table.add_row(Text(self._doing, style="dim"), "")
        for name, text in self._last.items():
            table.add_row(Text(printable(name), style="bold"), Text(printable(text)))
        return table

    def _show(self, name: str, text: str) -> None:
        self._last[name] = text
        if not (self._table or self._watch.logs):
            self._out.line(f"{name}: {text}")

    def says(self, text: str) -> None:
        """Show the step of all pipelines, on a terminal and in a log."""
        self._watch.says(text)
        self._doing = text

    def take(self, name: str, event: Event) -> None:
        """Count and show an event of one pipeline."""
        from lakeingest.ingest.events import Ended

        self._watch.heard(name, event)
        if name not in self._lives:
            self._lives[name] = Live(self._out, name, partial(self._show, name), redrawn=self._table is not None)
        live = self._lives[name]
        live.heard(event)
        if isinstance(event, Ended):
            live.tell(_ending(event))
            if event.failure is not None and not isinstance(event.failure, LakeingestError) and not self._watch.logs:
                sys.stderr.writelines(traceback.format_exception(event.failure))

    def end(self) -> None:
        if self._table:
            self._table.stop()
            self._table = None


def _ending(ended: Ended) -> str:
    if ended.failure is None:
        return f"{ended.outcome}: {number_of(ended.counts.consumed, 'record')} in {number_of(ended.commits, 'commit')}"
    message = ended.failure.what if isinstance(ended.failure, LakeingestError) else repr(ended.failure)
    return f"{ended.outcome}: {message}"


def _tell(out: Output, outcomes: Outcomes, *, logged: bool = False) -> None:
    """The outcome of each pipeline, and the exit code.

    Args:
        logged: whether errors stand already in a log that is for programs alone.
    """
    out.text(outcomes)
    for each in outcomes:
        if isinstance(each.failure, LakeingestError) and not logged:
            sys.stderr.write(f"{printable(each.pipeline)}: {message(each.failure)}")
    out.end(outcomes)
