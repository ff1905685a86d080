"""The command that runs a pipeline, and what it shows meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import interrupt
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output, number_of
from lakeingest.errors import LakeingestError, printable

if TYPE_CHECKING:
    from lakeingest.delta.receipt import Counts
    from lakeingest.ingest.events import CatalogUpdate, Progress
    from lakeingest.ingest.retry import Retry

GRACE_S = 25.0
"""How long SIGTERM lets the batch in hand go on: Kubernetes kills after 30 s."""


def run(
    file: File,
    *,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Commit everything that is there now, then end.")
    ] = False,
    accept_dropped_topics: Annotated[
        bool,
        typer.Option(
            "--accept-dropped-topics", help="Go on although the file no longer names a topic that fed the table."
        ),
    ] = False,
    accept_gap: Annotated[
        bool,
        typer.Option("--accept-gap", help="Go on although Kafka has deleted offsets that were never read; name them."),
    ] = False,
    accept_held: Annotated[
        str | None,
        typer.Option(
            "--accept-held", metavar="REASON", help="Let the first batch through that the gate would hold, and say why."
        ),
    ] = None,
    output: Format = "text",
) -> None:
    """Run a pipeline: by its trigger until stopped, or until caught up.

    Ctrl-C and SIGTERM finish the batch in hand, commit it, and end with exit code 0. A batch that takes longer than 25
    seconds then is given up: the next run takes it again, from its beginning.

    A server that fails on the way is tried again, as long as `retry.wait` in the pipeline file says.

    Examples:

        lakeingest run pipelines/flights.yaml --until-caught-up

        lakeingest run pipelines/flights.yaml

        lakeingest run pipelines/flights.yaml --accept-held "holiday: few flights is right"
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file)
    stop = threading.Event()
    with _live(out, pipeline.config.name) as shown:
        shown.says("starting Spark …")
        _ = pipeline.spark
        with _finishing(stop, shown):
            shown.says("reading the tables' frontiers …")
            total = pipeline.run(
                until_caught_up=until_caught_up,
                on_progress=shown.commit,
                on_retry=shown.retry,
                on_catalog=shown.catalog,
                stop=stop,
                accept_dropped_topics=accept_dropped_topics,
                accept_gap=accept_gap,
                accept_held=accept_held,
            )
    out.line(_sum(total, shown, stopped=stop.is_set()))
    if shown.behind:
        out.lines(f"the catalog is behind the table: {shown.behind}")
    behind = shown.behind and shown.behind.what
    told = {"commits": shown.commits, **asdict(total), "lag": shown.lag, "catalog_behind": behind}
    out.result({"pipeline": pipeline.config.name, **told})


def _sum(total: Counts, shown: Live, *, stopped: bool) -> str:
    if not shown.commits:
        return "stopped; nothing was committed" if stopped else "caught up; there was nothing new to commit"
    return (
        f"{'stopped' if stopped else 'caught up'}: {number_of(total.consumed, 'record')} in "
        f"{number_of(shown.commits, 'commit')}, "
        f"{total.accepted:,} to the table, {total.refused:,} to quarantine, {total.dropped:,} dropped"
    )


class Live:
    """The one live line of a run on a terminal; elsewhere a line for each commit."""

    def __init__(self, out: Output, name: str) -> None:
        self.commits, self.lag = 0, 0
        self.behind: LakeingestError | None = None
        self._out, self._name, self._refused, self._records = out, name, 0, 0
        self._begun = time.monotonic()
        self._status = None
        if sys.stderr.isatty() and not out.is_json:
            from rich.console import Console

            self._status = Console(stderr=True).status(name)
            self._status.start()

    def says(self, text: str) -> None:
        """What is going on before and between commits."""
        if self._status:
            from rich.text import Text

            self._status.update(Text(printable(f"{self._name}: {text}")))

    def commit(self, progress: Progress) -> None:
        """A batch was committed."""
        self.commits += 1
        self.lag = progress.lag
        self._records += progress.counts.consumed
        self._refused += progress.counts.refused
        rate = progress.counts.consumed / progress.seconds if progress.seconds else 0.0
        text = (
            f"{self._records:,} records · {rate:,.0f}/s · lag {progress.lag:,} · refused {self._refused:,} · "
            f"commit {progress.sequence} at {time.strftime('%H:%M:%S')}"
        )
        self._tell(text)

    def retry(self, retry: Retry) -> None:
        """A server failed, and is tried again."""
        self._tell(f"{retry.failure.what}; trying again in {retry.pause_s:.0f} s, for {retry.left_s:.0f} s more")

    def catalog(self, update: CatalogUpdate) -> None:
        """The table's entry in a catalog has changed, or could not."""
        self.behind = update.failure
        if update.failure:
            self._tell(f"the catalog is behind: {update.failure.what}; the next batch tries again")
        else:
            self._tell(f"the catalog has {update.name} as it is now")

    def _tell(self, text: str) -> None:
        if self._status:
            self.says(text)
        else:
            self._out.line(f"{self._name}: {text}")

    def end(self) -> None:
        if self._status:
            self._status.stop()


@contextmanager
def _live(out: Output, name: str) -> Iterator[Live]:
    shown = Live(out, name)
    try:
        yield shown
    finally:
        shown.end()


@contextmanager
def _finishing(stop: threading.Event, shown: Live) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set `stop`; a second Ctrl-C ends at once, which loses nothing either."""

    def give_up() -> None:
        shown.end()
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
        shown.says("finishing the batch in hand …")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        giving_up.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
