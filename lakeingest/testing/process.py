"""A command of lakeingest, `run` as a rule, as a process of its own that can be ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_COMMAND = (sys.executable, "-c", "from lakeingest.cli import main; main()")


class Process:
    """A command upon a pipeline file: Python and its JVM, in a process group that does not outlive the `with` block."""

    def __init__(
        self,
        file: Path,
        *options: str,
        command: Sequence[str] = ("run",),
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """Start it.

        Args:
            file: the pipeline file.
            options: of the command.
            command: what follows `lakeingest`, as in ("quarantine", "replay").
            env: environment variables beside this process's own.
            within: a command that runs the command which follows it, as `nice` does.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="lakeingest-run-")
        self._out, self._err = (Path(self._folder.name) / name for name in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*within, *_COMMAND, *command, str(file), *options],
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal's number; None while it runs."""
        return self._process.poll()

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8", errors="replace")

    def wait(self, timeout_s: float) -> int:
        """The exit code, when it has ended by itself.

        Raises:
            TimeoutError: it still runs.
        """
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still running after {timeout_s:g} s; it said:\n{self.out}{self.err}") from None

    def commits(self, count: int, timeout_s: float = 120.0) -> None:
        """Wait until it has told of so many commits.

        Raises:
            TimeoutError: it ended or did not come so far.
        """
        deadline = time.monotonic() + timeout_s
        while (self.out + self.err).count(" · commit ") < count:
            if self.code is not None or time.monotonic() > deadline:
                raise TimeoutError(f"no {count} commits (exit code {self.code}); it said:\n{self.out}{self.err}")
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes (SIGSTOP and SIGCONT), or to the first alone (SIGTERM, SIGINT)."""
        if number in (signal.SIGTERM, signal.SIGINT):
            self._process.send_signal(number)
        elif self.code is None:
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to all its processes, and wait until they are gone."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait(20)
