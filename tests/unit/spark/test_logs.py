"""Which logs stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeingest.spark import launch


def test_the_newest_logs_of_each_command_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a run that failed was overwritten by the status that somebody asked for next."""
    monkeypatch.setenv("LAKEINGEST_STATE", str(tmp_path))
    made = []
    for command in ["run"] * 2 + ["status"] * 12:
        token = launch.COMMAND.set(command)
        made.append(launch.log_for("flights"))
        made[-1].touch()
        launch.COMMAND.reset(token)
    kept = sorted((tmp_path / "logs" / "flights").iterdir())
    assert kept == sorted(made[:2] + made[-10:])
