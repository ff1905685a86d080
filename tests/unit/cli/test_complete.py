"""What a shell offers: asked as typer's own scripts ask it, and quickly."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeingest.cli import complete

PIPELINE = "name: a\nsource: {topics: [a]}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pipeline files, and others."""
    for name in ("orders.yaml", "pipelines/flights.yml", "pipelines/deep/er/one.yaml", "a/b/c/d/e/too_deep.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(PIPELINE)
    for name in ("other.yaml", "pipelines/notes.txt", ".venv/hidden.yaml", "node_modules/m.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x: 1\n" if name == "other.yaml" else PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEINGEST_STATE", str(tmp_path / "state"))
    return tmp_path


def offered(*words: str, cwd: Path) -> list[str]:
    """What bash is told at the end of these words."""
    environment = {
        **os.environ,
        "_LAKEINGEST_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("lakeingest", *words)),
        "COMP_CWORD": str(len(words)),
    }
    code = "import sys; sys.argv[:] = ['lakeingest']; from lakeingest.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stderr == ""
    return [line for line in ran.stdout.split("\n") if line]


@pytest.mark.parametrize("command", [("plan",), ("run",), ("check",), ("quarantine", "list"), ("gate", "history")])
def test_files_that_look_like_pipelines(folder: Path, command: tuple[str, ...]) -> None:
    """In the folder and below; behind each command that takes one."""
    assert offered(*command, "o", cwd=folder) == ["orders.yaml"]
    assert offered(*command, "pipelines/", cwd=folder) == ["pipelines/flights.yml", "pipelines/deep/er/one.yaml"]


@pytest.mark.parametrize(
    ("incomplete", "found"),
    [
        ("", ["orders.yaml", "pipelines/flights.yml", "pipelines/deep/er/one.yaml"]),
        ("./o", ["./orders.yaml"]),
        ("pipelines/deep/../f", ["pipelines/deep/../flights.yml"]),
        ("none/", []),
        ("pipelines/n", []),
        (".venv/", [".venv/hidden.yaml"]),
        ("orders.yaml:", []),
        ("none.yaml:a", []),
    ],
)
def test_a_file_stands_as_it_was_begun(folder: Path, incomplete: str, found: list[str]) -> None:
    """A shell puts what is offered in the place of what was written."""
    assert complete.files(incomplete) == found


def test_a_large_folder_is_not_walked_for_ever(folder: Path) -> None:
    """Tab is pressed in home folders too."""
    for n in range(30):
        (folder / f"many{n}").mkdir()
        for m in range(200):
            (folder / f"many{n}" / f"{m}.yaml").touch()
    begun = time.monotonic()
    assert "orders.yaml" in complete.files("")
    assert time.monotonic() - begun < 5


def test_names_parts_formats_and_topics(folder: Path) -> None:
    """Reasons of refusals among them; no topic where no stack runs."""
    assert offered("explain", "BROKEN_", cwd=folder) == ["BROKEN_JSON", "BROKEN_COMPRESSION"]
    assert offered("describe", "partition.", cwd=folder) == [
        "partition.time",
        "partition.field",
        "partition.kafka_partition",
    ]
    assert offered("status", "orders.yaml", "--output", "j", cwd=folder) == ["json"]
    assert offered("init", "--from-topic", "", cwd=folder) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(shell: str) -> None:
    """By typer's own option."""
    code = "import sys; sys.argv[0] = 'lakeingest'; from lakeingest.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "--show-completion", shell],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "_LAKEINGEST_COMPLETE=complete_" in ran.stdout
