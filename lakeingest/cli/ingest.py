"""Commands that run a pipeline and ask about it: run, status, audit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli import interrupt
from lakeingest.cli.output import Output
from lakeingest.errors import NotConserved, printable

if TYPE_CHECKING:
    from lakeingest.commit import Counts
    from lakeingest.corridor import Progress
    from lakeingest.patience import Retry

GRACE_S = 25.0
"""How long SIGTERM lets the batch in hand go on: Kubernetes kills after 30 s."""

File = Annotated[Path, typer.Argument(help="The pipeline file (YAML).", show_default=False)]
Format = Annotated[str, typer.Option("--output", help="text, or json for programs.")]


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
    ingestion = lakeingest.load(file)
    stop = threading.Event()
    with _live(out, ingestion.config.name) as shown:
        shown.says("starting Spark …")
        _ = ingestion.spark
        with _finishing(stop, shown):
            shown.says("reading the tables' frontiers …")
            total = ingestion.run(
                until_caught_up=until_caught_up,
                on_progress=shown.commit,
                on_retry=shown.retry,
                stop=stop,
                accept_dropped_topics=accept_dropped_topics,
                accept_gap=accept_gap,
                accept_held=accept_held,
            )
    out.line(_sum(total, shown, stopped=stop.is_set()))
    out.result({"pipeline": ingestion.config.name, "commits": shown.commits, **asdict(total), "lag": shown.lag})


def _sum(total: Counts, shown: Live, *, stopped: bool) -> str:
    if not shown.commits:
        return "stopped; nothing was committed" if stopped else "caught up; there was nothing new to commit"
    return (
        f"{'stopped' if stopped else 'caught up'}: {total.consumed:,} records in {shown.commits} commits, "
        f"{total.accepted:,} to the table, {total.refused:,} to quarantine, {total.dropped:,} dropped"
    )


class Live:
    """The one live line of a run on a terminal; elsewhere a line for each commit."""

    def __init__(self, out: Output, name: str) -> None:
        self.commits, self.lag = 0, 0
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


def status(file: File, output: Format = "text") -> None:
    """Show where a pipeline stands: frontier and lag per partition, last commits, rows, files and their average size.

    Example:

        lakeingest status pipelines/flights.yaml --output json
    """
    import lakeingest

    out = Output.of(output)
    found = lakeingest.load(file).status()
    out.table(
        f"{found.pipeline}: lag {found.lag:,}",
        ("topic", "partition", "frontier", "end", "lag"),
        [[p["topic"], p["partition"], _or_dash(p["frontier"]), p["end"], p["lag"]] for p in found.partitions],
    )
    out.table(
        "last commits",
        ("sequence", "version", "time", "rows", "offsets", "refused", "dropped", "writer"),
        [list(commit.values()) for commit in found.commits],
    )
    out.table(
        "tables",
        ("", "path", "rows", "files", "MB", "average MB"),
        [
            [name, t["path"], f"{t['rows']:,}", t["files"], _mb(t["bytes"]), _mb(t["average_file_bytes"])]
            for name, t in found.tables.items()
        ],
    )
    out.result(found.to_json())


def _or_dash(value: object) -> object:
    return "—" if value is None else value


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"


def audit(file: File, output: Format = "text") -> None:
    """Prove that every consumed record is in the table, in quarantine, or a declared drop, exactly once.

    Ends with exit code 1 if anything is missing or double, and names the coordinates.

    Example:

        lakeingest audit pipelines/flights.yaml --output json
    """
    import lakeingest

    out = Output.of(output)
    report = lakeingest.load(file).audit()
    balance = f"{report.table:,} in the table + {report.quarantine:,} in quarantine + {report.dropped:,} dropped"
    out.line(f"{report.pipeline}: {report.consumed:,} records consumed in {report.commits} commits")
    out.line(f"  {balance}; {report.missing:,} missing, {report.duplicated:,} duplicated")
    for place in report.named.get("lost", []):
        out.line(f"  lost with consent, because Kafka had deleted them unread: {place}")
    if report.gaps:
        out.line(f"  {report.gaps:,} offsets hold no record (compaction, transaction markers)")
    if report.unproved:
        out.line(f"  {report.unproved:,} offsets, in neither table, cannot be proved: quarantine's log was cleaned up")
    if report.earlier:
        out.line(f"  {report.earlier:,} rows, older than the log's receipts, cannot be proved any more")
    if report.conserved:
        out.line("  conserved: every record is there, exactly once")
    for name, batch in report.others.items():
        out.line(f"  pipeline {name!r} has written records of these topics to the table too, up to its batch {batch}")
    out.result(report.to_json())
    if report.others and not report.commits:
        names = ", ".join(map(repr, report.others))
        raise NotConserved(
            f"{report.pipeline} has committed nothing to the table, and pipeline {names} has, from the same topics",
            cure=f"if {names} was this pipeline's name before, write it as renamed_from beneath name in the file; else "
            "give this one a table of its own",
        )
    if report.earlier and not report.commits:
        raise NotConserved(
            f"{report.pipeline}: the table's log has no receipt left, so that nothing is proved of its rows",
            cure="let the pipeline run: what it commits from now on is proved; and let the log be kept for longer: "
            "ALTER TABLE … SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 365 days')",
        )
    if not report.conserved:
        wrong = [*report.breaks, *(f"{kind}: {place}" for kind, places in report.named.items() for place in places)]
        whose = (
            f"; pipeline {', '.join(map(repr, report.others))} has written to the table too" if report.others else ""
        )
        raise NotConserved(
            f"{report.pipeline}: {report.missing} missing, {report.duplicated} duplicated, "
            f"{report.unexpected} unexpected{whose}" + "".join(f"\n  {line}" for line in wrong),
            cure="if a run is under way or was killed, let it finish (`lakeingest run FILE --until-caught-up`) and "
            "audit again; else somebody changed the tables: see their history",
        )
