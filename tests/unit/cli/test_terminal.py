"""On a real terminal: NO_COLOR takes every colour away, and what is wide is as wide as the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

COMMANDS = {
    "help": ["--help"],
    "help of a command": ["plan", "--help"],
    "explain": ["explain"],
    "markdown": ["explain", "Fenced"],
    "describe": ["describe", "trigger"],
    "an error": ["check", "nowhere.yaml"],
    "a mistake in the words": ["plan", "--no-such-option"],
    "alone": [],
    "stack status": ["stack", "status"],
}
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m")
OTHER = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def shown(arguments: list[str], folder: Path, width: int = 80, **environment: str) -> str:
    """What a command writes to a terminal, on both of its streams."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI")}
    code = "import sys; sys.argv[0] = 'lakeingest'; from lakeingest.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        stdin=end,
        stdout=end,
        stderr=end,
        env={**inherited, "TERM": "xterm-256color", "LAKEINGEST_STATE": str(folder), **environment},
    )
    os.close(end)
    said = b""
    try:
        while chunk := os.read(terminal, 65536):
            said += chunk
    except OSError:
        # The other end is closed.
        pass
    process.wait(60)
    os.close(terminal)
    return said.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_color_is_respected(tmp_path: Path, command: str) -> None:
    """Whatever writes it: tables, help, Markdown, errors."""
    said = shown(COMMANDS[command], tmp_path, NO_COLOR="1")
    assert said.strip()
    assert not COLOUR.search(said)


def test_colours_are_there_else(tmp_path: Path) -> None:
    """So that the test above can fail."""
    assert COLOUR.search(shown(["--help"], tmp_path))
    assert COLOUR.search(shown(["explain", "Fenced"], tmp_path)) or OTHER.search(shown(["explain"], tmp_path))


@pytest.mark.parametrize("command", ["explain", "describe", "stack status", "help"])
@pytest.mark.parametrize("width", [80, 60])
def test_nothing_is_wider_than_the_terminal(tmp_path: Path, command: str, width: int) -> None:
    """Also where it is narrow."""
    lines = OTHER.sub("", shown(COMMANDS[command], tmp_path, width)).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_a_terminal_that_can_do_nothing(tmp_path: Path) -> None:
    """As of an editor: no escapes at all."""
    assert "\x1b" not in shown(["explain"], tmp_path, TERM="dumb")


@pytest.mark.parametrize(("answer", "code"), [(b"\n", 0), (b"\x04", 0), (signal.SIGINT, 130)])
def test_the_question_of_init(tmp_path: Path, answer: bytes | signal.Signals, code: int) -> None:
    """No answer means a file to fill in; Ctrl-C is what it is everywhere."""
    terminal, end = pty.openpty()
    program = (
        "import sys; sys.argv[:] = ['lakeingest', 'init']; from lakeingest.cli import from_topic, main;"
        "from_topic.topics = lambda: ['orders']; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdin=end, stdout=end, stderr=end)
    os.close(end)
    said = b""
    while b"fill in)" not in said:
        said += os.read(terminal, 4096)
    assert b"topics of the embedded stack: orders" in said
    if isinstance(answer, bytes):
        os.write(terminal, answer)
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        # One that comes just before the terminal is read is heeded at the next; one while Python ends is its end.
        if isinstance(answer, signal.Signals):
            process.send_signal(answer)
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)
    assert process.wait(1) == code
    os.close(terminal)
    assert (tmp_path / "pipeline.yaml").exists() is (code == 0)
