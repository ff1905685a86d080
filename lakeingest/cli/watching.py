"""Watchers of a run: a log, and an endpoint for Prometheus, Kubernetes and a browser."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from lakeingest import extend
from lakeingest.cli.output import Output, failed
from lakeingest.errors import LakeingestError, UsageError

if TYPE_CHECKING:
    from lakeingest.ingest.events import Event
    from lakeingest.ingest.listeners.endpoint import Endpoint
    from lakeingest.ingest.listeners.log import Log

LOG_FORMATS = ("text", "json", "none")
LINGERS_S = 75.0
"""Seconds that the endpoint of a failed run answers: Prometheus asks each minute by default."""


class Watch:
    """Those who watch.

    Args:
        log: None where the terminal, or stdout, is told instead.
        as_json: whether the log is for programs alone.
        endpoint: None without --listen.
    """

    def __init__(self, log: Log | None = None, endpoint: Endpoint | None = None, *, as_json: bool = False) -> None:
        self._log, self._endpoint, self._as_json = log, endpoint, as_json
        self._failed = False
        self._ended = False

    @property
    def logs(self) -> bool:
        return self._log is not None

    @property
    def tells_programs(self) -> bool:
        """Whether the log is for programs alone."""
        return self._as_json

    def shows_live(self, out: Output) -> bool:
        """Whether a terminal shows the run as it goes."""
        return sys.stderr.isatty() and not out.is_json and not self.logs

    def says(self, text: str) -> None:
        """Show the step before and between events."""
        if self._log:
            self._log.says(text)

    def heard(self, pipeline: str, event: Event) -> None:
        from lakeingest.ingest.events import Ended

        if isinstance(event, Ended):
            self._ended = True
            self._failed = self._failed or event.failure is not None
        extend.tell([each for each in (self._log, self._endpoint) if each], pipeline, event)

    @contextmanager
    def failing(self, pipeline: str, stop: threading.Event | None = None) -> Iterator[None]:
        """Tell of a failure, also where the run did not begin; an error stands in the log, and nowhere else if that is
        for programs.

        Raises:
            Exit: for an error that was logged as JSON.
        """
        from lakeingest.ingest.events import Ended

        try:
            with self.lingering(stop):
                try:
                    yield
                except Exception as failure:
                    if not self._ended:
                        self.heard(pipeline, Ended(failure))
                    raise
        except LakeingestError as failure:
            if not self._as_json:
                raise
            failed(failure)
            raise typer.Exit(failure.exit_code) from failure

    @contextmanager
    def lingering(self, stop: threading.Event | None) -> Iterator[None]:
        """Let the endpoint answer for a while behind a failure, unless a person waits for the terminal."""
        try:
            yield
        finally:
            if self._endpoint and self._failed and stop is not None and not sys.stderr.isatty():
                self.says(f"{self._endpoint.url} answers for {LINGERS_S:.0f} s more")
                stop.wait(LINGERS_S)


@contextmanager
def watched(
    log_format: str | None,
    listen: str | None,
    pipelines: Sequence[str],
    report: Callable[[], str] | None = None,
    names: Sequence[str] = (),
) -> Iterator[Watch]:
    """Watch what runs within the block.

    Args:
        log_format: one of `LOG_FORMATS`; by default text where stderr is no terminal.
        listen: HOST:PORT; None for no endpoint.
        pipelines: those that will run.
        report, names: of the endpoint; see `Endpoint`.

    Raises:
        UsageError: no such format, or no such address.
        SetupError: the endpoint cannot be opened.
    """
    if log_format is not None and log_format not in LOG_FORMATS:
        raise UsageError(f'--log-format "{log_format}" is not a format', cure=f"write one of {', '.join(LOG_FORMATS)}")
    format = log_format or ("none" if sys.stderr.isatty() else "text")
    endpoint, log = None, None
    try:
        if listen is not None:
            from lakeingest.ingest.listeners.endpoint import Endpoint

            endpoint = Endpoint(listen, pipelines, report, names)
        if format != "none":
            from lakeingest.ingest.listeners.log import Log

            log = Log(format, _to_stderr)
        watch = Watch(log, endpoint, as_json=format == "json")
        if endpoint:
            message = f"listening on {endpoint.url}"
            watch.says(message) if log else _to_stderr(f"{message}\n")
        yield watch
    finally:
        if log:
            log.close()
        if endpoint:
            endpoint.close()


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
