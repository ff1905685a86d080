"""What the readers read is printed, and kept in build/readers.json: expected.json takes it over where it is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matrix
import pytest

ROOT = Path(__file__).parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    read = config.stash.get(matrix.READ, {})
    if not read:
        return
    sys.path.insert(0, str(ROOT / "docs"))
    import reference

    terminalreporter.section("what the readers read")
    for line in reference.reader_tables({**matrix.EXPECTED, **read}):
        terminalreporter.write_line(line)
    kept = ROOT / "build" / "readers.json"
    kept.parent.mkdir(exist_ok=True)
    text = json.dumps({"reads": {**matrix.EXPECTED, **read}}, indent=2, ensure_ascii=False)
    kept.write_text(text + "\n", encoding="utf-8")
