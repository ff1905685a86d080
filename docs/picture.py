"""Runs the demo on a terminal of its own, and draws what it showed into docs/demo.svg, which the README shows.

python docs/picture.py
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent / "demo.svg"
COLUMNS = 116


def recorded(command: list[str]) -> str:
    """What a command shows on a terminal, colours included, but for the line that tells what is going on.

    Raises:
        CalledProcessError: the command failed.
    """
    terminal, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=end, stderr=subprocess.DEVNULL, env=environment)
    os.close(end)
    held = b""
    # Linux tells the end of a terminal by an error.
    with suppress(OSError):
        while got := os.read(terminal, 4096):
            held += got
    os.close(terminal)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return held.decode().replace("\r\n", "\n")


def drawn(text: str, title: str) -> str:
    """The text as a picture, in whatever font for code the reader has."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text.from_ansi(text.strip("\n")), soft_wrap=True)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas"
    )


if __name__ == "__main__":
    lakeingest = shutil.which("lakeingest")
    if lakeingest is None:
        sys.exit("lakeingest is not installed: run make venv, and this with .venv/bin in the PATH")
    shown, _, _ = recorded([lakeingest, "demo"]).partition("Go on with:")
    PICTURE.write_text(drawn(shown, "make demo"), encoding="utf-8")
    print(f"{PICTURE} is written")
