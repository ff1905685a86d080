"""Boundaries as laws: who may import whom, which package is used where, what is public."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import lakeingest
from lakeingest import errors

ROOT = Path(lakeingest.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
DOCS = Path(__file__).parents[2] / "docs"
LAYERS = (
    {"cli", "testing"},
    {"lakeingest"},
    {"fleet"},
    {"pipeline"},
    {"operations"},
    {"ingest"},
    {"kafka", "decode", "transform", "gate", "delta"},
    {"spark"},
    {"config"},
    {"schema", "local", "record"},
    {"extend"},
    {"errors", "version"},
)
"""A package imports those below it, and none of its own layer. `lakeingest` is `__init__`, the public API."""


def module_of(file: Path) -> str:
    """The noun that a file belongs to: a module of the package, or one of its folders."""
    inside = file.relative_to(ROOT).parts
    return "lakeingest" if inside == ("__init__.py",) else inside[0].removesuffix(".py")


@cache
def imports(file: Path) -> tuple[tuple[str, str], ...]:
    """(package, name within it) of all that a file imports, within functions too."""
    names: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: an import that does not say from where"
            names += [(node.module or "", alias.name) for alias in node.names]
    return tuple(names)


def ours(file: Path) -> set[str]:
    """The nouns of lakeingest that a file imports, but for its own."""
    found = set()
    for package, name in imports(file):
        parts = package.split(".")
        if parts[0] == "lakeingest":
            door = len(parts) == 1 and not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file())
            found.add("lakeingest" if door or (not name and len(parts) == 1) else [*parts, name][1])
    return found - {module_of(file)}


def test_imports_point_downwards() -> None:
    """Nothing imports what lies above it, and the packages of one layer know nothing of each other."""
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    upwards = []
    for file in FILES:
        own_layer = layer[module_of(file)]
        imported = ours(file) - ({"lakeingest"} if own_layer == 1 else set())
        upwards += [f"{file.relative_to(ROOT)} → {name}" for name in imported if layer[name] <= own_layer]
    assert upwards == []


def test_the_law_is_told_once() -> None:
    """Where people read it."""
    names = [sorted(layer - {"testing"}) for layer in LAYERS]
    law = " → ".join(layer[0] if len(layer) == 1 else f"{{{', '.join(layer)}}}" for layer in names)
    texts = {file: file.read_text() for file in [*DOCS.rglob("*.md"), *ROOT.rglob("*.py"), *DOCS.parent.glob("*.md")]}
    assert [file.name for file, text in texts.items() if law in text] == ["architecture.md"]
    assert [file.name for file, text in texts.items() if "operations → ingest" in text] == ["architecture.md"]


def test_every_package_has_a_layer() -> None:
    """A new package is given its place."""
    assert {module_of(file) for file in FILES} == set().union(*LAYERS)


@pytest.mark.parametrize(
    ("package", "where"),
    [
        ("boto3", r"local/.*|delta/catalog/glue\.py|kafka/glue_registry\.py|operations/doctor/store\.py"),
        ("confluent_kafka", r"kafka/.*|local/kafka\.py|local/demo/.*"),
        ("httpx2", r"kafka/registry\.py"),
        ("aiohttp", r"testing/.*"),
        ("cryptography", r"kafka/pem\.py|operations/signing\.py"),
        ("aws_msk_iam_sasl_signer", r"kafka/msk\.py"),
        ("great_expectations", r"gate/.*"),
        ("sqlglot", r"schema/.*|gate/query\.py"),
        ("fastavro", r"schema/formats/.*|local/demo/weather\.py"),
        ("ruamel", r"config/.*"),
        ("typer", r"cli/.*"),
        ("rich", r"cli/.*|local/artifacts\.py|ingest/progress_bar\.py"),
        ("IPython", r"ingest/progress_bar\.py"),
        ("prometheus_client", r"ingest/listeners/(endpoint|metrics)\.py"),
        ("openlineage", r"ingest/listeners/lineage\.py"),
        ("pandas", r"operations/results/showable\.py"),
        ("delta", r"delta/.*"),
        ("altair", r"operations/report/charts\.py"),
        ("jinja2", r"operations/report/.*"),
        ("vl_convert", r"operations/report/charts\.py"),
        ("duckdb", r"delta/reader/duck\.py|operations/sql\.py"),
        ("numpy", r"delta/range_sums\.py"),
        ("py4j", r"spark/failures\.py"),
        ("grpc_tools", r"schema/formats/protobuf\.py"),
        ("google", r"schema/formats/protobuf(_values|_fault|_wide)?\.py"),
    ],
)
def test_a_package_is_used_in_one_place(package: str, where: str) -> None:
    """Whoever wants to know what we ask of a package reads there."""
    users = {
        str(file.relative_to(ROOT)) for file in FILES for name, _ in imports(file) if name.split(".")[0] == package
    }
    assert [user for user in users if not re.fullmatch(where, user)] == []


def test_nothing_reaches_into_the_jvm() -> None:
    """Spark Connect and Databricks have no _jvm, _jdf or _jsc: but for platforms, nothing may use one."""
    private = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_jc"}
    uses = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for file in FILES
        if file.parent != ROOT / "spark" / "platforms"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private
    ]
    assert uses == []


def test_functions_of_python_are_sent_in_one_way() -> None:
    """With Arrow, which Spark 4.2 uses by default, they would need pandas, and have other rules of types."""
    uses = {str(file.relative_to(ROOT)) for file in FILES if "F.udf(" in file.read_text()}
    assert uses == {"spark/python.py"}


def test_what_is_public_is_there() -> None:
    """`__all__` is sorted, importable, and all that the package shows."""
    assert all(getattr(lakeingest, name).__module__.startswith("lakeingest") for name in lakeingest.__all__)
    shown = {
        name for name, value in vars(lakeingest).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    defined = {name for name in shown if getattr(vars(lakeingest)[name], "__module__", "").startswith("lakeingest")}
    assert sorted(lakeingest.__all__) == lakeingest.__all__
    assert defined <= set(lakeingest.__all__)


def drawn() -> dict[str, tuple[int, str]]:
    """The tree in the docstring of errors.py: class → (depth, sentence)."""
    lines = re.findall(r"^    ([│├└─ ]*)([A-Z]\w+) {2,}(.*?)(?: {2,}\(a retry helps\))?$", errors.__doc__ or "", re.M)
    return {name: (len(branch) // 4, sentence.strip()) for branch, name, sentence in lines}


CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.LakeingestError)]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_the_tree_of_errors_is_the_one_that_is_drawn(error: type[errors.LakeingestError]) -> None:
    """Each class stands in the drawing, as deep as it is, with its own sentence."""
    depth, sentence = drawn()[error.__name__]
    assert depth == len(error.__mro__) - len(errors.LakeingestError.__mro__)
    if error is not errors.LakeingestError:
        first = (error.__doc__ or "").splitlines()[0].rstrip(".").partition(";")[0]
        sentence = sentence.partition(" (")[0]
        assert first[0].lower() + first[1:] == sentence[0].lower() + sentence[1:]


def test_a_retry_helps_where_the_drawing_says_so() -> None:
    """What the tree promises about retries is what the classes say."""
    promised = set(re.findall(r"(\w+) .*\(a retry helps\)", errors.__doc__ or ""))
    assert promised == {error.__name__ for error in CLASSES if error.retry_helps}


@pytest.mark.parametrize("modules", ["lakeingest.cli", "lakeingest.config.file", "lakeingest.gate", "lakeingest"])
def test_what_needs_no_spark_imports_none(modules: str) -> None:
    """Help and the check of a file answer at once, and where pyspark is not installed."""
    code = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in ('pyspark', 'great_expectations')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["check", "nowhere.yaml"]])
def test_help_and_check_start_no_spark(arguments: list[str]) -> None:
    """The commands themselves, not their import alone."""
    code = (
        "import sys, lakeingest.cli\n"
        f"sys.argv = ['lakeingest', *{arguments!r}]\n"
        "try:\n    lakeingest.cli.main()\nexcept SystemExit:\n    pass\n"
        "sys.exit(77 if 'pyspark' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_no_test_changes_the_time_of_other_threads() -> None:
    """py4j has one that sleeps, looks and sleeps: where sleeping takes no time, it fills the memory with its calls."""
    tests = Path(__file__).parents[1].rglob("test_*.py")
    assert [file.name for file in tests if re.search(r"""(?:setattr|patch)\(["']?time\b""", file.read_text())] == []


def test_no_two_tests_share_a_topic() -> None:
    """Topics and tables are named after the test, and files that run in one process share the servers."""
    files = (ROOT.parent / "tests" / "integration").glob("test_*.py")
    names = Counter(name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


def test_modules_can_be_imported_alone() -> None:
    """No module needs another one to be imported first."""
    for file in FILES:
        name = ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        importlib.import_module(name)
