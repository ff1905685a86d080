"""The page "Keep a table in shape": its commands run as they stand there, and print what it shows."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import lakeingest

ROOT = Path(lakeingest.__file__).parent.parent
PAGE = ROOT / "docs" / "how-to" / "keep-in-shape.md"


def without_times(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:+]+", "", text)
    return re.sub(r"\d+(\.\d+)?( ms| s\b|:)|:\d+|[0-9a-f]{8,}|[─━-]{2,}| +", " ", text)


@pytest.mark.slow
def test_the_commands_of_a_maintenance_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder and a stack of their own."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    outputs = importlib.import_module("outputs")
    runner = outputs.Runner(tmp_path / "page", tmp_path / "state")
    try:
        blocks = [*outputs.printed(PAGE, runner, offline=False)]
    finally:
        runner.run(outputs.Block(PAGE, 0, "console", None, "", "$ lakeingest stack down --wipe"))
        sys.modules.pop("outputs")
    assert sum(len(block.commands) for block, _ in blocks) == 5
    for block, printed in blocks:
        assert without_times(printed) == without_times(block.text), printed
