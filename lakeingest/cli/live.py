"""Progress of a run, and how Ctrl-C and SIGTERM end it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from lakeingest.cli import interrupt
from lakeingest.cli.output import Output
from lakeingest.cli.watching import Watch
from lakeingest.errors import LakeingestError, number_of, printable
from lakeingest.operations.results.words import duration

if TYPE_CHECKING:
    from lakeingest.ingest.events import CatalogUpdate, Committed, Event, GroupUpdate, Looked, Retrying

GRACE_S = 25.0
"""Seconds that SIGTERM leaves to the batch in hand: Kubernetes kills after 30 s."""


class Shown(Protocol):
    """The line on the terminal."""

    def says(self, text: str) -> None:
        """Show the current step."""

    def end(self) -> None:
        """Leave the terminal as it is."""


class Live:
    """The one live line of a run on a terminal; elsewhere a line for each commit.

    Args:
        tell: what shows the line instead, where it is one of several.
        redrawn: whether that takes the place of what was shown before, as on a terminal.
        watch: whoever else is told; a log takes the place of the lines.
        lag: the word for what is not committed yet.

    Attributes:
        behind: the entries of a catalog that are not as the tables are: name → why.
        start_seconds: how long it took until the first batch began; 0 before its commit.
    """

    def __init__(
        self,
        out: Output,
        name: str,
        tell: Callable[[str], None] | None = None,
        *,
        redrawn: bool = False,
        watch: Watch | None = None,
        lag: str = "lag",
    ) -> None:
        self.commits, self.lag, self.start_seconds = 0, 0, 0.0
        self._of_lag = lag
        self.behind = dict[str, LakeingestError]()
        self._out, self._name, self._refused, self._records = out, name, 0, 0
        self._start = time.monotonic()
        self._idle_since = ""
        self._status = None
        self._watch = watch or Watch()
        self.tell = tell or self._tell
        if tell is None and self._watch.shows_live(out):
            from rich.console import Console

            self._status = Console(stderr=True).status(name)
            self._status.start()
        self._redrawn = redrawn or self._status is not None

    @property
    def seconds(self) -> float:
        """Since this was made."""
        return time.monotonic() - self._start

    def says(self, text: str) -> None:
        """Show the step before and between commits."""
        self._watch.says(text)
        self._shows(text)

    def _shows(self, text: str) -> None:
        if self._status:
            from rich.text import Text

            self._status.update(Text(printable(f"{self._name}: {text}")))

    def heard(self, event: Event) -> None:
        """Pass an event on to the watchers, and show it."""
        from lakeingest.ingest.events import CatalogUpdate, Committed, GroupUpdate, Looked, Retrying

        self._watch.heard(self._name, event)
        match event:
            case Committed():
                self.commit(event)
            case Looked():
                self.look(event)
            case Retrying():
                self.retry(event)
            case CatalogUpdate():
                self.catalog(event)
            case GroupUpdate():
                self.group(event)

    def commit(self, committed: Committed) -> None:
        """A batch was committed."""
        self.start_seconds = self.start_seconds or self.seconds - committed.seconds
        self.commits += 1
        self._idle_since = ""
        self.lag = committed.lag
        self._records += committed.counts.consumed
        self._refused += committed.counts.refused
        rate = committed.counts.consumed / committed.seconds if committed.seconds else 0.0
        text = (
            f"{number_of(self._records, 'record')} · {rate:,.0f}/s · {self._of_lag} {committed.lag:,} · refused "
            f"{self._refused:,} · "
            f"commit {committed.sequence} at {_now()}"
        )
        if self._redrawn and committed.lag and rate:
            text += f" · about {duration(committed.lag / rate)} left"
        self.tell(text)

    def look(self, look: Looked) -> None:
        """There is something to commit, or nothing. A log hears of nothing once, and only before the first commit."""
        self.lag = look.lag
        waited, self._idle_since = self._idle_since, "" if look.lag else self._idle_since or _now()
        if look.lag:
            # Else the last commit stands there, with what is left behind it.
            if self._redrawn and (waited or not self.commits):
                self.tell(f"{number_of(look.lag, 'new record')} · {self._of_this_run(look)}")
        elif self._redrawn or not (self.commits or waited):
            partitions = number_of(look.partitions, "partition")
            self.tell(f"no new records since {self._idle_since} · lag 0 in {partitions} · {self._of_this_run(look)}")

    def _of_this_run(self, look: Looked) -> str:
        if self.commits:
            return f"{number_of(self._records, 'record')}, {self._refused:,} refused, commit {look.sequence}"
        return f"last commit {look.sequence}" if look.sequence else "nothing committed yet"

    def retry(self, retry: Retrying) -> None:
        """A server failed, and is tried again."""
        self._idle_since = ""
        self.tell(f"{retry.failure.what}; trying again in {retry.pause_s:.0f} s, for {retry.left_s:.0f} s more")

    def catalog(self, update: CatalogUpdate) -> None:
        """The table's entry in a catalog has changed, or could not."""
        self.behind.pop(update.name, None)
        if update.failure:
            self.behind[update.name] = update.failure
            self.tell(f"the catalog is behind: {update.failure.what}; the next batch tries again")
        else:
            self.tell(f"the catalog has {update.name} as it is now")

    def group(self, update: GroupUpdate) -> None:
        """The consumer group that follows the table could not be committed to, or could again."""
        if update.failure:
            self.tell(f"{update.failure.what}; the next batch tries again · cure: {update.failure.cure}")
        else:
            self.tell(f"the consumer group {update.group} stands where the table does again")

    def _tell(self, text: str) -> None:
        if self._status:
            self._shows(text)
        elif not self._watch.logs:
            self._out.line(f"{self._name}: {text}")

    def end(self) -> None:
        if self._status:
            self._status.stop()


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


@contextmanager
def live(out: Output, name: str, watch: Watch, lag: str = "lag") -> Iterator[Live]:
    """Show a run within the block; see `Live`."""
    display = Live(out, name, watch=watch, lag=lag)
    try:
        yield display
    finally:
        display.end()


@contextmanager
def finishing(stop: threading.Event, display: Shown) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set `stop`; a second Ctrl-C ends at once, which loses nothing either."""

    def give_up() -> None:
        display.end()
        sys.stdout.write(f"stopped: the batch in hand took longer than {GRACE_S:.0f} s more, and was given up\n")
        sys.stdout.flush()
        # No clean-up: Spark would wait for the batch. Its JVM ends with this process.
        os._exit(0)

    giving_up = threading.Timer(GRACE_S, give_up)
    giving_up.daemon = True

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            interrupt.end(number, frame)
        if not stop.is_set():
            giving_up.start()
        stop.set()
        display.says("finishing the batch in hand …")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        giving_up.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
