"""Runs the commands that the pages show, and writes what they print into the pages.

    python docs/outputs.py [--offline] [README.md docs/tutorial.md …]

It runs these pages, or all, with an embedded stack of its own; --offline runs only what needs no server.

A console block is run where a mark stands above it; each of its lines that begins with "$ " is a command:

    <!-- output -->                      it needs the embedded stack
    <!-- output: offline -->             it needs no server: tests/unit/test_docs.py holds it against what is printed
    <!-- output: from "4." to "5." -->   of what it prints, only the lines from the one that begins so to the other

Commands run in a folder of the page's own, one after the other. A block with a title (```yaml title="orders.yaml") is
written there as a file when its place in the page comes. Nothing of this machine is shown: its paths and its name are
replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"```(\w*)(?: title=\"([^\"]+)\")?\s*$")
_MARK = re.compile(r"<!-- output(?:: (.+?))? -->\s*$")
_EXCERPT = re.compile(r'from "(.+)" to "(.+)"')
_LINKED = ("pipelines", "expectations", "Makefile", "pyproject.toml", "constraints.txt")
_COLUMNS = "140"


@dataclass(frozen=True)
class Block:
    """A block of code in a page.

    Attributes:
        page, line: where it begins; the first line is 1.
        language, title, text: as the page has them.
        mark: what stands in its mark; "" where the mark says nothing more, None where there is no mark.
    """

    page: Path
    line: int
    language: str
    title: str | None
    mark: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]


def pages() -> list[Path]:
    """The README and the pages of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of code in a page."""
    opened: tuple[int, str, str | None, str | None] | None = None
    mark: str | None = None
    held: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened is not None:
            if line.rstrip() == "```":
                yield Block(page, *opened, "\n".join(held))
                opened, held = None, []
            else:
                held.append(line)
        elif found := _FENCE.match(line):
            opened, mark = (number, found[1], found[2], mark), None
        elif marked := _MARK.match(line):
            mark = marked[1] or ""
        elif line.strip():
            mark = None
    if opened is not None:
        raise ValueError(f"{page}: the block in line {opened[0]} has no end")


class Runner:
    """Runs commands of one page in a folder of its own."""

    def __init__(self, folder: Path, state: Path) -> None:
        """`state`: the state folder of the embedded stack."""
        self.folder, self._state = folder, state
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name in _LINKED:
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv" / ".installed").touch()
        python = programs / "python"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        # As pip writes it, but of this very source.
        script = programs / "lakeingest"
        script.write_text(
            # The folder of this very Python may have blanks in its name.
            f"#!/usr/bin/env python\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from lakeingest.cli import main\n\nmain()\n"
        )
        script.chmod(0o755)
        self._environment = {
            # A make that this runs is not a part of the one that runs this.
            **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "LAKEINGEST_STATE": str(state),
            "COLUMNS": _COLUMNS,
        }

    def run(self, block: Block) -> str:
        """The block as it has to be: its commands, each with what it prints."""
        lines: list[str] = []
        for command in block.commands:
            print(f"{block}: {command}", file=sys.stderr)
            done = subprocess.run(
                self._program(command),
                cwd=self.folder,
                env=self._environment,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if block.mark != "offline" and (done.returncode > 1 or "Traceback" in done.stdout):
                raise RuntimeError(f"{block}: {command} ends with {done.returncode}: {done.stdout}")
            lines += [f"$ {command}", *self._shown(done.stdout, block.mark or "")]
        return "\n".join(lines)

    def _program(self, command: str) -> list[str]:
        """A command of lakeingest alone is run without a shell."""
        if command.startswith("lakeingest ") and not set(command) & set("|&;<>$`"):
            return [sys.executable, str(self.folder / ".venv" / "bin" / "lakeingest"), *shlex.split(command)[1:]]
        return ["bash", "-c", command]

    def _shown(self, printed: str, mark: str) -> list[str]:
        for private, public in (
            (str(self._state), "~/.local/state/lakeingest"),
            (f"{self.folder}/", ""),
            (socket.gethostname(), "host-1"),
        ):
            printed = printed.replace(private, public)
        lines = "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n").splitlines()
        if excerpt := _EXCERPT.fullmatch(mark):
            begin, end = (
                next(i for i, line in enumerate(lines) if line.startswith(start)) for start in excerpt.groups()
            )
            lines = "\n".join(lines[begin:end]).rstrip("\n").split("\n")
        return lines


def printed(page: Path, runner: Runner, *, offline: bool) -> Iterator[tuple[Block, str]]:
    """The marked blocks of a page, and what each has to be; only those that need no server, if asked so."""
    for block in blocks(page):
        if block.title:
            (runner.folder / block.title).write_text(block.text + "\n", encoding="utf-8")
        if block.mark == "offline" or (block.mark is not None and not offline):
            yield block, runner.run(block)


def brought_up_to_date(page: Path, runner: Runner, *, offline: bool) -> str:
    """The page with what its marked blocks print today."""
    text = page.read_text(encoding="utf-8").splitlines()
    # From the end, so that the lines before stay where they are.
    for block, now in reversed([*printed(page, runner, offline=offline)]):
        text[block.line : block.line + len(block.text.split("\n"))] = now.split("\n")
    return "\n".join(text) + "\n"


def main(wanted: list[Path], *, offline: bool) -> None:
    """Bring pages up to date."""
    # Short, because tables show paths within it.
    folder = Path(tempfile.mkdtemp(prefix="docs-"))
    state = folder / "state"
    servers = Runner(folder / "servers", state)
    try:
        for page in wanted or pages():
            runner = Runner(folder / page.stem, state)
            page.write_text(brought_up_to_date(page, runner, offline=offline), encoding="utf-8")
    finally:
        if not offline:
            servers.run(Block(ROOT, 0, "console", None, "", "$ lakeingest stack down --wipe"))
        shutil.rmtree(folder)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main([Path(name).resolve() for name in arguments if name != "--offline"], offline="--offline" in arguments)
