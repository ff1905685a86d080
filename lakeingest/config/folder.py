"""Finds pipeline files in folders by what they look like, without checking them: cheap, for help and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lakeingest.errors import UsageError

SUFFIXES = (".yaml", ".yml")
_LOOKED_AT = 1 << 16
_SOURCE = re.compile(rb"^[\"']?source[\"']?[ \t]*:", re.MULTILINE)
_OTHERS = re.compile(rb"^[\"']?(?:name|table)[\"']?[ \t]*:", re.MULTILINE)


def looks_like_one(path: Path) -> bool:
    """Whether a YAML file has a source, and a name or a table, at its uppermost level. It need not be right, or YAML.

    False where it cannot be read. Looks at the first 64 KiB.
    """
    if path.suffix not in SUFFIXES:
        return False
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            text = file.read(_LOOKED_AT)
    except OSError:
        return False
    return bool(_SOURCE.search(text) and _OTHERS.search(text))


def files(folder: Path) -> Iterator[Path]:
    """Files directly within a folder that look like pipeline files, by name; none where it cannot be listed."""
    try:
        within = sorted(folder.iterdir())
    except OSError:
        return
    yield from filter(looks_like_one, within)


def expanded(files: Iterable[Path]) -> list[Path]:
    """The files, and those of the folders, each once.

    Raises:
        UsageError: a folder has none.
    """
    paths: list[Path] = []
    for each in files:
        within = sorted(f for f in each.iterdir() if f.suffix in SUFFIXES) if each.is_dir() else [each]
        if not within:
            raise UsageError(
                f"{each} holds no pipeline file", cure="name a folder with files that end in .yaml or .yml"
            )
        paths += within
    return list({file.resolve(): file for file in paths}.values())
