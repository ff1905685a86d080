"""What commands say of a file that is wrong or missing, or that names no broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.command_line import Command


def written(folder: Path, values: dict[str, Any]) -> Path:
    """The pipeline file; JSON is YAML too."""
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("command", ["run", "status", "audit"])
def test_without_stack_and_address(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lakeingest: Command
) -> None:
    """A file without brokers needs the embedded stack: exit code 4 and the cure."""
    monkeypatch.setenv("LAKEINGEST_STATE", str(tmp_path / "empty"))
    values = {"name": "lost", "source": {"topics": ["t"]}, "schema": {"columns": "n INT"}}
    file = written(tmp_path, {**values, "table": {"path": "s3a://lake/lost"}})
    said = lakeingest(command, file)
    assert (said.code, said.out) == (4, "")
    assert "lakeingest stack up" in said.err


def test_a_wrong_file(tmp_path: Path, lakeingest: Command) -> None:
    """Exit code 2, and every mistake with its place."""
    said = lakeingest("run", written(tmp_path, {"name": "wrong", "source": {"topics": []}}))
    assert said.code == 2
    assert "source.topics" in said.err
    assert "table" in said.err


def test_a_missing_file(tmp_path: Path, lakeingest: Command) -> None:
    """Exit code 2 too."""
    assert lakeingest("status", tmp_path / "nowhere.yaml").code == 2
