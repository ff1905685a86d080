"""Runs the demo on a terminal of its own, and draws what it showed into docs/demo.svg, which the README shows.

python docs/picture.py
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent / "demo.svg"
COLUMNS = 110
_PASSING = re.compile(r"\x1b\[\?\d+[hl]|\x1b\]8;[^\x1b\x07]*(?:\x07|\x1b\\)")


def recorded(command: list[str]) -> str:
    """What a command shows on a terminal, colours included; of a line that was written anew, its last state.

    Raises:
        RuntimeError: the command failed.
    """
    os.environ |= {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    held = bytearray()

    def read(terminal: int) -> bytes:
        got = os.read(terminal, 4096)
        held.extend(got)
        return got

    status = pty.spawn(command, read)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    lines = held.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(re.split(r"\r|\x1b\[[012]?K", _PASSING.sub("", line))[-1] for line in lines)


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
    PICTURE.write_text(drawn(recorded([lakeingest, "demo"]), "make demo"), encoding="utf-8")
    print(f"{PICTURE} is written")
