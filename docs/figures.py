"""The figures of docs/architecture.md: what the package was in some revisions, side by side.

    python docs/figures.py 0d1dcf2 HEAD

They are counted as tests/unit/test_ratchets.py counts them, which holds those of today.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parent.parent
sys.path.insert(0, str(TOP / "tests" / "unit"))

import test_ratchets as ratchets  # noqa: E402


def package_of(path: str) -> str:
    """The package, or module, at the top of lakeingest that a file belongs to."""
    return path.partition("/")[0].removesuffix(".py")


def arrows() -> int:
    """Pairs of a package, or a module at the top, and another one that it imports."""
    pairs = set()
    for path, tree in ratchets.trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakeingest"):
                names = [node.module] if "." in (node.module or "") else [f"lakeingest.{a.name}" for a in node.names]
                pairs |= {(package_of(path), str(name).split(".")[1]) for name in names}
    return sum(a != b for a, b in pairs)


def figures(root: Path) -> dict[str, str]:
    """Name → figure of the package at `root`."""
    ratchets.ROOT = root
    ratchets.trees.cache_clear()
    ratchets.code_of.cache_clear()
    trees = ratchets.trees()
    lines = Counter({path: (root / path).read_text(encoding="utf-8").count("\n") for path in trees})
    packages = Counter[str]()
    for path, count in lines.items():
        packages[package_of(path)] += count
    names = [name for tree in trees.values() for name in ratchets.names_of(tree)]
    code = {path: len(ratchets.code_of(path)) for path in trees}
    bodies = [ratchets.length(path, function) for path, function in ratchets.functions()]
    classes = Counter(
        node.name.strip("_") for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    long_modules = sum(count > ratchets.MODULE_LINES for count in code.values())
    return {
        "modules / lines": f"{len(trees)} / {lines.total():,}",
        f"modules over {ratchets.MODULE_LINES} lines of code; the longest": f"{long_modules}; {max(code.values())}",
        f"functions over {ratchets.FUNCTION_LINES} lines of code; the longest": (
            f"{sum(count > ratchets.FUNCTION_LINES for count in bodies)}; {max(bodies)}"
        ),
        "names that say nothing, of all": (
            f"{sum(name.strip('_') in ratchets.EMPTY_WORDS for name in names):,} of {len(names):,}"
        ),
        "class names of two classes or more": str(sum(count > 1 for count in classes.values())),
        "pairs of packages of which one imports the other": str(arrows()),
        **{f"lines of {name}": f"{count:,}" for name, count in sorted(packages.items()) if count > 500},
    }


def main(revisions: list[str]) -> None:
    """Print a table in Markdown, a column for each revision."""
    columns = []
    for revision in revisions:
        archive = subprocess.run(["git", "archive", revision, "lakeingest"], cwd=TOP, check=True, capture_output=True)
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
                files.extractall(folder, filter="data")
            columns.append(figures(Path(folder, "lakeingest")))
    rows = dict.fromkeys(name for column in columns for name in column)
    print("|", " | ".join(["", *revisions]), "|")
    print("|---" * (1 + len(revisions)) + "|")
    for name in rows:
        print("|", " | ".join([name, *(column.get(name, "–") for column in columns)]), "|")


if __name__ == "__main__":
    main(sys.argv[1:] or ["HEAD"])
