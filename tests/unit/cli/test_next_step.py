"""`lakeingest` alone and `lakeingest --version`: what is here, and how to go on; without Spark, and at once."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer

import lakeingest
from lakeingest import cli
from lakeingest.cli import next_step
from lakeingest.cli.output import Output
from lakeingest.config import folder as pipeline_files
from lakeingest.local import Addresses

STACK = Addresses("127.0.0.1:1", "http://127.0.0.1:1", "key", "secret", "http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No stack of this machine's is looked at."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("LAKEINGEST_STATE", str(folder))
    return folder


def written(path: Path, **changes: Any) -> Path:
    values = {
        "name": "orders",
        "source": {"topics": ["orders"], "bootstrap_servers": "localhost:1"},
        "table": {"path": "s3a://lake/orders"},
        "schema": {"columns": "n INT"},
        **changes,
    }
    path.parent.mkdir(exist_ok=True)
    # Each value in JSON, which is YAML too.
    path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items()))
    return path


def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    next_step.tell(folder, Output())
    said = capsys.readouterr().out
    assert said.endswith("\nAll commands: lakeingest --help\n")
    return said


def test_without_a_stack_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stack comes first, and then a file."""
    said = told(tmp_path, capsys)
    assert said.index("lakeingest stack up") < said.index("pipeline files: none here") < said.index("lakeingest init")


def test_other_yaml_is_no_pipeline_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody wants to hear of mistakes in the files of other tools."""
    (tmp_path / "compose.yaml").write_text("services:\n  source: x\n  name: y\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "binary.yaml").write_bytes(b"\xff\x00source:\nname:")
    assert "pipeline files: none here" in told(tmp_path, capsys)


def test_a_file_with_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it is no YAML any more; its name can be copied into a shell."""
    written(tmp_path / "pipelines" / "two words.yaml", nmae="x", trigger={"every": "never"})
    written(tmp_path / "broken.yml").open("a").write("a: [\n")
    said = told(tmp_path, capsys)
    assert f"{tmp_path / 'broken.yml'}: 1 mistake\n" in said
    file = tmp_path / "pipelines" / "two words.yaml"
    assert f"{file}: 2 mistakes\n" in said
    assert f"lakeingest check {shlex.quote(str(file))}" in said
    assert "stack up" not in said


def test_a_suite_that_is_missing_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `lakeingest check` has it."""
    written(tmp_path / "p.yaml", gate={"suite": "none.json"})
    assert "p.yaml: 1 mistake" in told(tmp_path, capsys)


def test_a_file_that_needs_the_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is to be started once, however many files wait for it."""
    for name in ("a", "b"):
        written(tmp_path / f"{name}.yaml", source={"topics": ["orders"]})
    said = told(tmp_path, capsys)
    assert said.count("lakeingest stack up") == 1
    assert "lakeingest plan" not in said


@pytest.mark.parametrize(
    ("ran", "state", "first"), [(False, "good; it has never run", "plan"), (True, "good; its table is there", "status")]
)
def test_a_table_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ran: bool, state: str, first: str
) -> None:
    """Whether it ran is known by the table's log."""
    table = tmp_path / "table"
    file = written(tmp_path / "p.yaml", table={"path": f"file:{table}"})
    if ran:
        (table / "_delta_log").mkdir(parents=True)
    lines = told(tmp_path, capsys).splitlines()
    at = lines.index(f"{file}: {state}")
    assert lines[at + 1].strip().startswith(f"lakeingest {first} {file}")


def test_nothing_is_claimed_of_a_distant_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor of a catalog's table, nor of a file for many topics; and nobody is asked."""
    file = written(tmp_path / "p.yaml")
    written(tmp_path / "q.yaml", table={"name": "lake.orders"})
    many = {"name": "{topic}", "source": {"topics": {"pattern": "a.*"}, "bootstrap_servers": "localhost:1"}}
    written(tmp_path / "r.yaml", **many, table={"path": "s3a://lake/{topic}"})
    said = told(tmp_path, capsys)
    assert f"{file}: good\n" in said
    assert "never" not in said
    assert "table is there" not in said
    assert said.count("lakeingest status ") == 2


def test_the_stacks_own_store_is_asked_only_where_the_file_means_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with brokers or storage of its own has its table elsewhere."""
    from lakeingest.config import file as pipeline_file
    from lakeingest.local import s3

    asked = list[tuple[str, str]]()
    monkeypatch.setattr(s3, "holds", lambda stack, bucket, prefix: asked.append((bucket, prefix)))
    for changes in ({}, {"source": {"topics": ["o"]}}, {"source": {"topics": ["o"]}, "storage": {"region": "eu"}}):
        found = pipeline_file.read_any(written(tmp_path / "p.yaml", **changes), {})
        assert next_step._ran(found, STACK) is None
    assert asked == [("lake", "orders/_delta_log/")]


def test_a_stack_that_cannot_be_read(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told with its cure, and the rest all the same."""
    (state / "stack").mkdir()
    (state / "stack" / "stack.json").write_text("{")
    said = told(tmp_path, capsys)
    assert "is not readable as the record of an embedded stack" in said
    assert "cure: end the servers" in said
    assert "lakeingest init" in said


def test_many_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A screen is not filled, and what is left out is counted."""
    for number in range(11):
        written(tmp_path / f"{number:02}.yaml")
    said = told(tmp_path, capsys)
    assert "… and 3 pipeline files more" in said
    assert "07.yaml: good" in said
    assert "08.yaml" not in said


def test_a_folder_that_is_gone() -> None:
    """The shell may stand in one."""
    assert list(pipeline_files.files(Path("/nowhere/at/all"))) == []


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from lakeingest import cli; sys.argv[0] = 'lakeingest'\ntry: cli.main()\nfinally: "
    slow = "print([m for m in ('pyspark', 'confluent_kafka', 'boto3', 'rich.table') if m in sys.modules])"
    words = [sys.executable, "-c", code + slow, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_alone_it_ends_with_0_and_imports_nothing_slow(tmp_path: Path) -> None:
    """Help was printed, with exit code 2."""
    written(tmp_path / "p.yaml")
    done = run(folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "embedded stack: not running"
    assert done.stdout.splitlines()[-1] == "[]"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_version(tmp_path: Path) -> None:
    """That of the installed package."""
    version = metadata.version("lakeingest")
    assert run("--version", folder=tmp_path).stdout.splitlines() == [f"lakeingest {version}", "[]"]
    assert lakeingest.__version__ == version


def test_the_version_of_files_that_nobody_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an executor that was sent them: no reason for an error."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert lakeingest.__version__ == "unknown"


def test_help_is_a_list_of_commands() -> None:
    """Every command of old, and the new option."""
    command: Any = typer.main.get_command(cli.app)
    assert {"run", "plan", "init", "stack"} <= set(command.commands)
    assert command.help == "Kafka records into Delta Lake tables on S3, exactly once."
