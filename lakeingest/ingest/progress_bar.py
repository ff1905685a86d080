"""A bar that shows how far a run has come: in a terminal, and in a notebook without any widget."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakeingest.errors import number_of, printable
from lakeingest.ingest.events import CatalogUpdate, Committed, Event, GroupUpdate, Retrying

if TYPE_CHECKING:
    from rich.console import Console


class ProgressBar:
    """A listener (see `extend.Listener`) that draws a bar within a `with` block. What it says at last stays there.

    A run that ends when it is caught up has a share and the time left, from the first commit on; any other one says how
    many records it has taken.

    Args:
        until_caught_up: whether the run ends when it is caught up.
        console: where to; stderr by default, a notebook's output within one.
    """

    def __init__(self, *, until_caught_up: bool, console: Console | None = None) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        console_of_bar = console or Console(stderr=True)
        share = (progress.TaskProgressColumn(),) if until_caught_up else ()
        text = progress.TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold"))
        self._bar = progress.Progress(progress.BarColumn(bar_width=20), *share, text, console=console_of_bar)
        self._task = self._bar.add_task("starting …", total=None)
        self._until_caught_up, self._in_notebook = until_caught_up, console_of_bar.is_jupyter
        self._handle: Any = None
        self._commits = self._records = self._refused = self._total = 0
        self._seconds = 0.0

    def __enter__(self) -> Self:
        if self._in_notebook:
            # Rich's own way draws into a widget, which needs a package more and an extension of the notebook's server.
            from IPython.display import display

            self._handle = display(self._bar, display_id=True)
        else:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._commits:
            self._bar.update(self._task, total=1, completed=1)
            self._say("there was nothing new to commit")
        if not self._in_notebook:
            self._bar.stop()

    def heard(self, pipeline: str, event: Event) -> None:
        """Draw what a run tells."""
        match event:
            case Committed():
                self._committed(pipeline, event)
            case Retrying():
                self._say(f"{pipeline}: {event.failure.what}; trying again in {event.pause_s:.0f} s")
            case CatalogUpdate(failure=None):
                self._say(f"{pipeline}: the catalog has {event.name} as it is now")
            case CatalogUpdate():
                self._say(f"{pipeline}: the catalog is behind the table; the next batch tries again")
            case GroupUpdate():
                message = (
                    event.failure.what if event.failure else f"the group {event.group} stands where the table does"
                )
                self._say(f"{pipeline}: {message}")

    def _committed(self, pipeline: str, batch: Committed) -> None:
        self._commits += 1
        self._records += batch.counts.consumed
        self._refused += batch.counts.refused
        self._seconds += batch.seconds
        time_left = ""
        if self._until_caught_up:
            # Offsets that hold no record are in the lag alone.
            self._total = self._total or max(self._records + batch.lag, 1)
            self._bar.update(self._task, total=self._total, completed=self._total - batch.lag)
            # Rich would tell it from the second commit on; of a run with few commits that is late.
            seconds = round(batch.lag * self._seconds / max(self._records, 1))
            time_left = f", {timedelta(seconds=seconds)} left" if batch.lag else ""
        text = f"{number_of(self._records, 'record')}, {self._refused:,} refused, lag {batch.lag:,}{time_left}"
        self._say(f"{pipeline}: {text}")

    def _say(self, text: str) -> None:
        self._bar.update(self._task, description=printable(text))
        if self._handle is not None:
            self._handle.update(self._bar)
