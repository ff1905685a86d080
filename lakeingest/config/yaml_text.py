"""A YAML text as plain values, and the line of each: what an error needs in order to point somewhere."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

Path = tuple[str | int, ...]

LARGEST = 1 << 17
"""Characters of a text; ruamel.yaml takes seconds for more."""
_DEEPEST = 50
_MOST = 10_000
"""Values of a text, those of an alias counted wherever it stands: nine lines of them can stand for a billion."""
_TOO_DEEP = f"nested deeper than {_DEEPEST} levels; no option lies so deep, look for brackets or dashes too many"


class BadYaml(ValueError):
    """The text is not YAML. `line` counts from 1; the message quotes nothing of the text, which may hold secrets."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Document:
    """A parsed text.

    Attributes:
        data: plain dicts, lists and scalars.
        root: the node graph that ruamel.yaml composed; None for an empty text.
    """

    data: Any
    root: Node | None

    def line(self, path: Path) -> int:
        """The line, from 1, of the value at a path, or of the nearest part around it that the text has."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def twice(self) -> Iterator[tuple[Path, int, int]]:
        """Every key that a mapping has twice: its path, and the lines of the second and the first."""
        first_lines: dict[Path, int] = {}
        reported: set[Path] = set()
        for path, line in self._places:
            if path in first_lines and not any(path[:i] in reported for i in range(len(path))):
                reported.add(path)
                yield path, line, first_lines[path]
            first_lines.setdefault(path, line)

    @cached_property
    def _lines(self) -> dict[Path, int]:
        return dict(reversed(self._places))

    @cached_property
    def _places(self) -> list[tuple[Path, int]]:
        return list(_places(self.root, ())) if self.root else []


def parse(text: str) -> Document:
    """Read YAML 1.2. A key that stands twice is no error here: see `Document.twice`.

    Raises:
        BadYaml: it is not YAML, a part of it contains itself, or it is far too large for a pipeline file.
    """
    if len(text) > LARGEST:
        raise BadYaml(f"larger than {LARGEST:,} characters; a pipeline file takes a few thousand", 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            root = _yaml().compose(text)
            _refuse_bombs(root, (), [0])
            return Document(_yaml().load(text), root)
    except RecursionError:
        raise BadYaml(_TOO_DEEP, 1) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadYaml(_problem_text(error), mark.line + 1 if mark else 1) from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, BadYaml):
            raise
        raise BadYaml("not YAML: a character or a value cannot be read; save the file as plain UTF-8 text", 1) from None


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True
    return yaml


def _problem_text(error: MarkedYAMLError) -> str:
    problem = str(error.problem or "")
    if isinstance(error, ComposerError) and "alias" in problem:
        return "not YAML: an alias (*name) that nothing defines; put a value that begins with * in quotes"
    if isinstance(error, ComposerError) and "another document" in problem:
        return "a second document begins (---); write each pipeline into a file of its own"
    if "could not determine a constructor" in problem:
        return "not YAML that is understood here: a tag (!name); put a value that begins with ! in quotes"
    if "\\t" in problem:
        return "not YAML: a tab; indent with blanks"
    safe_beginnings = (
        "expected",
        "could not find",
        "mapping values are not allowed",
        "block sequence entries",
        "did not find",
    )
    first_part = problem.split(", but ", maxsplit=1)[0]
    safe = first_part if first_part.startswith(safe_beginnings) else "it cannot be read from here on"
    return f"not YAML: {safe}; look for a missing quote, bracket or colon, or a wrong indent, here or just above"


def _refuse_bombs(node: Node | None, around: tuple[int, ...], count: list[int]) -> None:
    if node is None:
        return
    count[0] += 1
    line = node.start_mark.line + 1
    if id(node) in around:
        raise BadYaml("not understood here: an alias (*name) within the part that it stands for", line)
    if len(around) > _DEEPEST:
        raise BadYaml(_TOO_DEEP, line)
    if count[0] > _MOST:
        raise BadYaml(f"more than {_MOST:,} values, an alias's (*name) counted wherever it stands; write fewer", line)
    if isinstance(node, SequenceNode | MappingNode):
        for child in node.value:
            for inner in child if isinstance(child, tuple) else (child,):
                _refuse_bombs(inner, (*around, id(node)), count)


def _places(node: Node, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield (*path, str(key.value)), key.start_mark.line + 1
            yield from _places(value, (*path, str(key.value)))
    elif isinstance(node, SequenceNode):
        for i, item in enumerate(node.value):
            yield (*path, i), item.start_mark.line + 1
            yield from _places(item, (*path, i))
