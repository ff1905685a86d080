"""What Tab and `?` show of the Python API: each public method explains itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeingest
from lakeingest.cli import backfill, export, gate, maintain, plan, quarantine, run
from lakeingest.errors import PipelineFileError, UsageError

METHODS = [lakeingest.load, *(m for n, m in vars(lakeingest.Pipeline).items() if inspect.isfunction(m) and n[0] != "_")]


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """Section → its text; the first is called "" and has no name."""
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


@pytest.mark.parametrize("function", METHODS, ids=lambda f: f.__name__)
def test_a_docstring_names_every_argument_and_what_is_raised(function: Callable[..., Any]) -> None:
    """It begins with one sentence of at most 120 characters; arguments and results have types."""
    told, signature = sections(function), inspect.signature(function)
    assert len(told[""].splitlines()[0]) <= 120
    arguments = signature.parameters.keys() - {"self"}
    named = re.findall(r"^    (\w[\w, ]*): ", told.get("Args", ""), flags=re.MULTILINE)
    assert {name for names in named for name in names.split(", ")} == arguments
    assert all(signature.parameters[name].annotation is not inspect.Parameter.empty for name in arguments)
    assert signature.return_annotation is not inspect.Signature.empty
    assert "Raises" in told


COMMANDS = {
    "plan": plan.plan,
    "maintain": maintain.maintain,
    "quarantined": quarantine.list_,
    "results": gate.history,
    "export": export.export,
    "replay": quarantine.replay_,
    "backfill": backfill.backfill,
    "run": run.run,
}


@pytest.mark.parametrize("method", COMMANDS)
def test_a_default_is_the_commands(method: str) -> None:
    """results() had ten batches to its command's five."""
    defaults = {name: each.default for name, each in inspect.signature(COMMANDS[method]).parameters.items()}
    own = inspect.signature(getattr(lakeingest.Pipeline, method)).parameters
    shared = {name: each.default for name, each in own.items() if name in {*defaults} - {"where"}}
    assert shared
    assert shared == {name: defaults[name] for name in shared}


def test_tab_shows_what_is_public() -> None:
    """dir() left out what is imported when it is first asked for, and showed what the module itself imports."""
    assert dir(lakeingest) == lakeingest.__all__


@pytest.mark.parametrize("given", [{"name": "a"}, None, ["a.yaml"], b"a.yaml", 1])
def test_load_says_what_it_takes(given: Any) -> None:
    """A mapping ended in a TypeError of pathlib's."""
    with pytest.raises(UsageError, match=f"path of a pipeline file, as str or Path, .* a {type(given).__name__}"):
        lakeingest.load(given)


def test_a_fleet_takes_folders_and_files(tmp_path: Path) -> None:
    """And names the mistakes of all of them; it took what a function of config gives alone."""
    source = 'source: {topics: [a], bootstrap_servers: "b:1"}, schema: {columns: "n INT"}'
    values = f'{{name: %s, {source}, table: {{path: "/x/%s"}}}}'
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(values % (name, "x" if name == "a" else "y"), encoding="utf-8")
    (tmp_path / "c.yaml").write_text("{nonsense: 1}", encoding="utf-8")
    with pytest.raises(PipelineFileError, match=r"c\.yaml"):
        lakeingest.Fleet(tmp_path)
    (tmp_path / "c.yaml").write_text(values % ("c", "x"), encoding="utf-8")
    with pytest.raises(UsageError, match="pipelines 'a' and 'c' both write to /x/x"):
        lakeingest.Fleet(str(tmp_path))
    with pytest.raises(UsageError, match="pipelines 'c' and 'a' both write to /x/x"):
        lakeingest.Fleet([tmp_path / "c.yaml", str(tmp_path / "a.yaml")])


@pytest.mark.parametrize("function", METHODS, ids=lambda f: f.__name__)
def test_an_example_is_python_that_calls_it(function: Callable[..., Any]) -> None:
    """With arguments that it takes."""
    example = sections(function).get("Example", "")
    if not example:
        return
    compile(inspect.cleandoc("\n" + example), function.__name__, "exec")
    assert f".{function.__name__}(" in example
