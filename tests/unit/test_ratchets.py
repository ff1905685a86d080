"""Numbers that may only fall: empty names, classes of one name, long modules and functions, circles, patched code.

Where a test here says that there are fewer than its number, lower the number in the same commit.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import lakeingest

ROOT = Path(lakeingest.__file__).parent
TESTS = Path(__file__).parents[1]

EMPTY_WORDS = {
    "asked",
    "begun",
    "both",
    "came",
    "done",
    "found",
    "given",
    "gone",
    "had",
    "held",
    "here",
    "it",
    "kept",
    "known",
    "left",
    "made",
    "meant",
    "met",
    "mine",
    "named",
    "others",
    "ours",
    "own",
    "put",
    "said",
    "seen",
    "sent",
    "shown",
    "taken",
    "that",
    "theirs",
    "them",
    "there",
    "these",
    "this",
    "those",
    "told",
    "wanted",
    "what",
    "whose",
    "yours",
}
"""Participles, pronouns and adverbs that say nothing of what they name."""
EMPTY_NAMES = {
    "config": 1,
    "errors": 6,
    "operations": 10,
    "testing": 2,
}
"""Package → arguments, locals, attributes and functions of the package with such a name.

Those of config, errors and testing are public: `transform.own`, `what` and `found` of errors, `S3Proxy.seen`.
"""
DOUBLE_CLASSES = 3
"""Classes whose name another class of the package has."""
MODULE_LINES = 250
LONG_MODULES = {
    "delta/reader/log.py": 259,
    "delta/table.py": 257,
    "ingest/bronze.py": 329,
    "operations/connect/smt.py": 261,  # One function for each of Connect's transforms.
    "pipeline.py": 273,  # What users call.
    "schema/ddl.py": 257,  # One grammar.
    "schema/expression.py": 389,  # One grammar.
    "spark/known_failures.py": 340,  # A table.
}
"""Module → its lines of code, and the reason where it stays one module."""
FUNCTION_LINES = 40
LONG_FUNCTIONS = 3
ARGUMENTS = 7
MANY_ARGUMENTS = 2
PATCHES = 53
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@cache
def trees() -> dict[str, ast.Module]:
    """Path within the package → its syntax."""
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in sorted(ROOT.rglob("*.py"))}


def names_of(tree: ast.Module) -> Iterator[str]:
    """Arguments, locals, attributes and functions, as often as they are bound."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def test_names_say_something() -> None:
    count = Counter(
        path.partition("/")[0].removesuffix(".py")
        for path, tree in trees().items()
        for name in names_of(tree)
        if name.strip("_") in EMPTY_WORDS
    )
    assert dict(count) == EMPTY_NAMES


def test_a_class_has_a_name_of_its_own() -> None:
    count = Counter(
        node.name.strip("_") for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    double = {name for name, times in count.items() if times > 1}
    assert len(double) == DOUBLE_CLASSES, sorted(double)


@cache
def code_of(path: str) -> frozenset[int]:
    """The numbers of a module's lines with code: without blank ones, comments and docstrings."""
    strings = {
        line
        for each in ast.walk(trees()[path])
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
        for line in range(each.lineno, (each.end_lineno or 0) + 1)
    }
    with (ROOT / path).open() as source:
        tokens = [token for token in tokenize.generate_tokens(source.readline) if token.type not in NO_CODE]
    return frozenset(line for each in tokens for line in range(each.start[0], each.end[0] + 1)) - strings


def length(path: str, function: ast.FunctionDef) -> int:
    """The lines of code of a function's body."""
    return sum(function.body[0].lineno <= line <= (function.end_lineno or 0) for line in code_of(path))


def test_modules_are_short() -> None:
    long = {path: lines for path in trees() if (lines := len(code_of(path))) > MODULE_LINES}
    assert long == LONG_MODULES


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path, tree in trees().items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_functions_are_short() -> None:
    long = [f"{path}: {node.name} {n}" for path, node in functions() if (n := length(path, node)) > FUNCTION_LINES]
    assert len(long) == LONG_FUNCTIONS, long


def test_functions_take_few_arguments() -> None:
    """Commands are not counted: theirs are options of the command line."""
    many = []
    for path, node in functions():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        own = [each for each in arguments if each.arg not in ("self", "cls")]
        if not path.startswith("cli/") and len(own) > ARGUMENTS:
            many.append(f"{path}: {node.name} {len(own)}")
    assert len(many) == MANY_ARGUMENTS, many


def imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """Modules of the package that a module imports when it is imported itself."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lakeingest":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module


def test_modules_import_in_no_circle() -> None:
    def name(path: str) -> str:
        return "lakeingest." + path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    modules = {name(path): tree for path, tree in trees().items()}
    arrows = {each: {*imported(tree, set(modules))} - {each} for each, tree in modules.items()}
    while ends := {each for each, to in arrows.items() if not to & arrows.keys()}:
        arrows = {each: to for each, to in arrows.items() if each not in ends}
    assert sorted(arrows) == []


def is_patch(node: ast.AST, own: set[str]) -> bool:
    """Whether a call replaces a name of lakeingest's: `setattr` or `patch` of a module or class of it."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    if node.func.attr not in ("setattr", "patch", "object"):
        return False
    target = node.args[0]
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("lakeingest")
    while isinstance(target, ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and target.id in own


def test_tests_do_not_patch_the_package() -> None:
    """`lakeingest.testing` has what ends a process or a server at a step."""
    places = []
    for file in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(file.read_text())
        own = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakeingest")
            for alias in node.names
        }
        places += [f"{file.name}:{node.lineno}" for node in ast.walk(tree) if is_patch(node, own)]
    assert len(places) == PATCHES, places
