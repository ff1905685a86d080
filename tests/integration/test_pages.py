"""Pages of how-to guides: their commands run as they stand there, and print what the page shows."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import lakeingest

ROOT = Path(lakeingest.__file__).parent.parent
PAGES = ROOT / "docs" / "how-to"


def without_times(text: str) -> str:
    """Without what differs from run to run: also a size in MiB that lies between 0.0 and 0.1."""
    times = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\+\d\d:\d\d)?)?|\d+(\.\d+)?( ms| s\b|:)|:\d+"
    ids = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}"
    small_sizes = r"\b0\.[01]\b"
    return re.sub(rf"{times}|{ids}|{small_sizes}|[─━-]{{2,}}| +", " ", text)


@pytest.mark.faults
@pytest.mark.parametrize(("name", "commands"), [("upsert.md", 8), ("forget.md", 6), ("keep-in-shape.md", 5)])
def test_commands_of_a_page_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, commands: int) -> None:
    """In a folder and a stack of their own."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    outputs = importlib.import_module("outputs")
    runner = outputs.Runner(tmp_path / "page", tmp_path / "state")
    try:
        blocks = [*outputs.printed(PAGES / name, runner, offline=False)]
    finally:
        runner.run(outputs.Block(PAGES / name, 0, "console", None, "", "$ lakeingest stack down --wipe"))
        sys.modules.pop("outputs")
    assert sum(len(block.commands) for block, _ in blocks) == commands
    for block, printed in blocks:
        assert without_times(printed) == without_times(block.text), printed
