"""Ctrl-C ends a command at once, with one line and exit code 130, wherever it is."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

CODE = 130


def heed() -> None:
    """Take Ctrl-C from now on, unless whoever started this process lets it ignore that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def end(number: int, frame: FrameType | None) -> None:
    """Say so, and end.

    Where Spark is, without any clean-up: that would ask its JVM, which answers when the job in hand is done. The JVM
    ends with this process, and nothing is lost that way: see the runbook's SIGTERM.
    """
    if sys.stderr.isatty():
        from rich.console import Console

        # A spinner hides it.
        Console(stderr=True).show_cursor()
    os.write(2, b"interrupted\n")
    if "pyspark" in sys.modules:
        os._exit(CODE)
    raise KeyboardInterrupt
