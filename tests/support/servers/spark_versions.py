"""Spark in other versions than the pinned one: an environment for each, made once in lakeingest's cache, and its jars.

    PYTHONPATH=tests python -m support.servers.spark_versions NAME [EXTRA]

It makes the environment of tests/matrix/NAME.txt, if it is not there yet, and prints its Python.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.pandas import functions
from support.servers import python_environments

from lakeingest.local import artifacts

ROOT = Path(__file__).resolve().parents[3]
MATRIX = ROOT / "tests" / "matrix"
protobuf = pytest.mark.skipif(not hasattr(functions, "arrow_udf"), reason="Protobuf needs Spark 4.1")


def jars(listing: Path) -> tuple[Path, ...]:
    """The files of a list of one group, which is named like the version."""
    text = listing.read_text()
    (group,) = (line.strip("[]") for line in text.splitlines() if line.startswith("["))
    return artifacts.fetch(group, listing=text)


def python(name: str, extra: str = "") -> Path:
    """The Python of an environment: what lakeingest needs with the extra, pinned as in constraints.txt but for the
    lines of tests/matrix/NAME.txt. lakeingest itself is not in it: name the repository in PYTHONPATH.
    """
    own = _pins(MATRIX / f"{name}.txt")
    pins = sorted((_pins(ROOT / "constraints.txt") | own).values())
    wanted = sorted({*own.values(), *_requirements(""), *_requirements(extra)})
    digest = hashlib.sha256("\n".join((sys.version, *wanted, "", *pins)).encode()).hexdigest()[:12]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(pins))
        constraints.flush()
        return python_environments.python(f"matrix/{name}-{digest}", "-c", constraints.name, *wanted)


def _pins(file: Path) -> dict[str, str]:
    """Distribution → its line."""
    lines = (line for line in file.read_text().splitlines() if not line.startswith("#"))
    return {line.partition("==")[0]: line for line in lines}


def _requirements(extra: str) -> Iterator[str]:
    """What lakeingest asks for with an extra; an extra may ask for others of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["optional-dependencies"][extra] if extra else project["dependencies"]:
        own = re.fullmatch(r"lakeingest\[(.*)\]", line)
        for other in own[1].split(",") if own else ():
            yield from _requirements(other)
        if not own:
            yield line


if __name__ == "__main__":
    print(python(*sys.argv[1:]))
