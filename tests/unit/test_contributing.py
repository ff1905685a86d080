"""What CONTRIBUTING.md names is there, and CI does nothing that cannot be done elsewhere."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
CODE = ["".join(found) for found in re.findall(r"`([^`\n]+)`|^ {4,}(\S.*)$", PAGE, re.MULTILINE)]
"""What stands in backticks, or in a block of its own."""


def named(pattern: str) -> list[str]:
    """What the page names in code, by the pattern's one group."""
    found = sorted({name for code in CODE for name in re.findall(pattern, code)})
    assert found, f"the page names nothing like {pattern}"
    return found


@pytest.mark.parametrize("target", named(r"\bmake ([a-z][a-z-]*)"))
def test_a_target_exists(target: str) -> None:
    """Each command of the page can be called."""
    assert re.search(rf"^{target}:.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", named(r"(?<![\w./-])((?:lakeingest|tests|infra|benchmarks|expectations)/[\w./-]*\w)"))
def test_a_path_exists(path: str) -> None:
    """Each file and folder of the page can be opened."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize("module", named(r" -m (lakeingest[\w.]*)"))
def test_a_module_exists(module: str) -> None:
    """Each module of the page can be run."""
    assert find_spec(module)


@pytest.mark.parametrize(
    ("file", "text"),
    [("tests/unit/config/test_config.py", "def test_durations("), ("lakeingest/config/durations.py", "_MILLIS = {")],
)
def test_the_first_change_can_be_made(file: str, text: str) -> None:
    """What is to be changed stands where the page says."""
    assert file in PAGE
    assert text in (ROOT / file).read_text()


def test_ci_calls_one_script() -> None:
    """Whatever CI finds, anybody can find with the same script."""
    jobs = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
