"""The documentation: its examples are run, its commands exist, its links lead somewhere, its reference is whole."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

import lakeingest
from lakeingest import cli, errors, record
from lakeingest.cli import explain, pipeline_file
from lakeingest.config import options

ROOT = Path(lakeingest.__file__).parent.parent


def script(name: str) -> ModuleType:
    """A script of docs/."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


outputs, reference = script("outputs"), script("reference")
PAGES = outputs.pages()
BLOCKS = [block for page in PAGES for block in outputs.blocks(page)]
FLIGHTS = YAML(typ="safe").load(ROOT / "pipelines" / "flights.yaml")
BASE = {name: FLIGHTS[name] for name in ("name", "source", "table")}
FEW = {"schema": {"columns": "carrier STRING, origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL"}}
"""What a part of a pipeline file is completed with."""


def of(*languages: str) -> Any:
    """The blocks in these languages, as cases."""
    return pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in languages], ids=str)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages, those of the reference too."""
    folder = tmp_path_factory.mktemp("pages") / "docs"
    reference.write(folder)
    return folder


def test_the_readme_is_read_in_two_minutes() -> None:
    """It has 200 lines at most."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_readme_links_to_what_is_there() -> None:
    """Each link leads to a file of the repository."""
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_page_is_in_the_navigation(written: Path) -> None:
    """And each entry of the navigation is a page."""
    assert reference.misplaced(written) == []
    (written / "left.md").touch()
    (written / "index.md").rename(written / "start.md")
    try:
        assert reference.misplaced(written) == ["index.md", "left.md", "start.md"]
    finally:
        (written / "left.md").unlink()
        (written / "start.md").rename(written / "index.md")


def test_every_link_of_a_page_leads_somewhere(written: Path) -> None:
    """The pages are built in strict mode, and ask nobody for fonts or scripts."""
    config = (
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("build/docs", "docs").replace("build/site", "site")
    )
    (written.parent / "mkdocs.yml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=written.parent, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    site = written.parent / "site"
    assert len([*site.rglob("index.html")]) == len([*written.rglob("*.md")])
    asked = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', (site / "index.html").read_text())
    assert asked == []


@of("yaml")
def test_a_pipeline_file_is_good(block: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lakeingest check` says so, but of a file that is called wrong; a part of a file is completed first."""
    part, wrong = YAML(typ="safe").load(block.text), (block.title or "").startswith("wrong")
    for name in re.findall(r"\$\{(\w+)", block.text):
        monkeypatch.setenv(name, "https://store.example:9000" if "URL" in name else "broker.example:9092")
    if "name" not in part:
        brings = {"decode", "schema"} & part.keys()
        part = {**BASE, **({} if brings else {"schema": FLIGHTS["schema"]} if "gate" in part else FEW), **part}
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (tmp_path / "expectations").symlink_to(ROOT / "expectations")
    for other in (b for b in BLOCKS if b.page == block.page and b.title):
        (folder / other.title).write_text(other.text, encoding="utf-8")
    with (folder / "checked.yaml").open("w") as file:
        YAML().dump(part, file)
    told = ""
    try:
        pipeline_file.check([folder / "checked.yaml"])
    except errors.PipelineFileError as mistakes:
        told = str(mistakes)
    assert bool(told) == wrong, f"{block}: {told or 'there is no mistake in it'}"


def commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of shell, those within $(…) too."""
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in [*lexer, ";"]:
        if inner := re.fullmatch(r"\$\((.*)\)", word):
            yield from commands(inner[1])
        elif set(word) <= set(";|&><()"):
            yield words
            words = []
        else:
            words.append(word)


def shown() -> Iterator[tuple[str, list[str], bool]]:
    """Where a command is shown, its words, and whether it is whole: in the text a command need not be."""
    for block in BLOCKS:
        lines = {"console": block.commands, "sh": block.text.splitlines()}.get(block.language, [])
        yield from ((f"{block}", words, True) for line in lines for words in commands(line))
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for found in re.findall(r"`((?:lakeingest|make) [^`]+)`", line):
                yield f"{page.relative_to(ROOT)}:{number}", shlex.split(found), False


SHOWN = [(where, words, whole) for where, words, whole in shown() if words and words[0] in ("lakeingest", "make")]


@pytest.mark.parametrize(("where", "words", "whole"), SHOWN, ids=[f"{where} {' '.join(w)}" for where, w, _ in SHOWN])
def test_a_command_exists_with_its_options(where: str, words: list[str], whole: bool) -> None:
    """Whoever copies it from a page is not told that there is no such thing."""
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE), where
        return
    command: Any = typer.main.get_command(cli.app)
    rest = words[1:]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"{where}: there is no lakeingest {' '.join(words[1:])}"
        command = command.commands[rest.pop(0)]
    known = {name: p for p in command.params for name in p.opts} | {"--help": None}
    given = [word for word in rest if word.startswith("--")]
    assert [word for word in given if word not in known] == [], where
    required = {name for name, p in known.items() if p is not None and p.required and name.startswith("-")}
    assert not whole or "--help" in given or required <= set(given), where


def test_what_is_asked_to_be_explained_is_known() -> None:
    """`describe` has the part that a page names, and `explain` the error or reason."""
    asked = [
        (where, words[1], words[2])
        for where, words, _ in SHOWN
        if words[1:2] in (["describe"], ["explain"]) and words[2:]
    ]
    explained = {**explain.entries(), **explain.reasons(), **explain.groups()}
    for where, command, name in asked:
        placeholder = name in ("PART", "NAME", "REASON") or name.startswith("-")
        assert placeholder or (options.find(name) if command == "describe" else name in explained), f"{where}: {name}"
    assert asked


@of("console")
def test_output_is_made_by_a_script(block: Any) -> None:
    """What a page says that a command prints was printed: `make docs-outputs` writes it."""
    assert block.mark is not None, f"{block}: no mark says how this output is made (see docs/outputs.py)"
    assert block.text.startswith("$ "), f"{block}: no command makes this output"
    assert len(block.text.splitlines()) > len(block.commands), f"{block}: run `make docs-outputs`"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.mark == "offline" for b in outputs.blocks(p))], ids=lambda p: p.name
)
def test_output_that_needs_no_server_is_up_to_date(page: Path, tmp_path: Path) -> None:
    """It is printed again; what needs servers is made by `make docs-outputs` alone."""
    runner = outputs.Runner(tmp_path / "page", tmp_path / "state")
    for block, now in outputs.printed(page, runner, offline=True):
        assert block.text == now, f"{block} is out of date: run `make docs-outputs`"


def test_an_excerpt_is_what_lies_between_two_lines(tmp_path: Path) -> None:
    """So a page can show the part of a long output that it speaks of."""
    mark, text = 'from " Usage" to " Kafka records"', "$ lakeingest --help"
    made = outputs.Runner(tmp_path / "page", tmp_path).run(outputs.Block(PAGES[0], 1, "console", None, mark, text))
    assert made == f"{text}\n Usage: lakeingest [OPTIONS] COMMAND [ARGS]..."


def test_a_block_without_an_end_is_named(tmp_path: Path) -> None:
    """Else the rest of the page would be code, and no example behind it would be run."""
    (tmp_path / "page.md").write_text("```sh\nls\n```\n\n```yaml\nname: a\n")
    with pytest.raises(ValueError, match=r"page\.md: the block in line 5 has no end"):
        list(outputs.blocks(tmp_path / "page.md"))


@of("python")
def test_python_is_python_and_its_names_are_public(block: Any) -> None:
    """Each name that is taken from lakeingest is there, and none is private."""
    held: dict[str, Any] = {"lakeingest": lakeingest, "pipeline": reference.PIPELINE}
    for node in ast.walk(ast.parse(block.text, filename=str(block))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in held:
            assert hasattr(held[node.value.id], node.attr), f"{block}: {node.value.id} has no {node.attr}"
        if isinstance(node, ast.Import):
            taken = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            taken = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for package, name in taken:
            if package.split(".")[0] != "lakeingest":
                continue
            assert "._" not in f"{package}.{name}", f"{block}: {name} is private"
            module = importlib.import_module(package)
            found = not name or hasattr(module, name) or importlib.util.find_spec(f"{package}.{name}")
            assert found, f"{block}: there is no {package}.{name}"


def test_a_module_that_a_page_names_is_there() -> None:
    """The architecture names modules as package/module."""
    packages = "|".join(sorted(path.parent.name for path in Path(lakeingest.__file__).parent.glob("*/__init__.py")))
    named = {
        (f"{page.relative_to(ROOT)}:{number}", found)
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for found in re.findall(rf"(?<![\w./-])((?:{packages})/[a-z_0-9]+)(?![\w./-])", line)
    }
    package = Path(lakeingest.__file__).parent
    assert len(named) > 10
    assert [n for n in sorted(named) if not ((package / n[1]).is_dir() or (package / f"{n[1]}.py").is_file())] == []


def test_the_reference_is_whole(written: Path) -> None:
    """Every option, command, error, reason and column has its place."""
    page = {file.stem: file.read_text(encoding="utf-8") for file in (written / "reference").glob("*.md")}
    assert set(reference.MEANINGS) == record.RESERVED

    def every(option: options.Option) -> Iterator[options.Option]:
        for child in option.options:
            yield child
            yield from every(child)

    parts = {part.path for part in every(options.tree()) if part.options}
    assert parts == set(re.findall(r"^## `(.*)`$", page["options"], flags=re.MULTILINE))
    assert all(f"| `{option.name}` |" in page["options"] for option in every(options.tree()))
    assert set(explain.entries()) <= set(re.findall(r"^## (\w+)$", page["errors"], flags=re.MULTILINE))
    assert all(f"\n| {reason} |" in page["errors"] for reason in explain.reasons())
    commands_of = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    named = {f"lakeingest {n}" for n, c in commands_of.items() if not hasattr(c, "commands")}
    assert named <= set(re.findall(r"^## (.*)$", page["commands"], flags=re.MULTILINE))
    assert "| `_schema_id` | `INT` |" in page["tables"]
    assert "| `moved` | `STRUCT<at: TIMESTAMP" in page["tables"]
    assert '"offsets": {' in page["receipt"]
    assert "killed twice" in page["faults"]
    assert "until_caught_up" in page["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(reference.EXTRAS) | {"dev"} == set(project["optional-dependencies"])
