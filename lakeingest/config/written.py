"""Values as YAML: a pipeline file, with comments, and other documents as they are."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from lakeingest.errors import printable

_ORDER = (
    "name",
    "source",
    "decode",
    "registry",
    "schema",
    "transform",
    "partition",
    "table",
    "quarantine",
    "gate",
    "readers",
    "contract",
    "trigger",
    "storage",
)


def text(values: Mapping[str, Any], notes: Mapping[tuple[str, ...], str], head: Sequence[str]) -> str:
    """The values in the order of a pipeline file, `notes` above those that they belong to, and `head` above all."""
    from ruamel.yaml.comments import CommentedMap

    def commented(part: Mapping[str, Any], path: tuple[str, ...]) -> CommentedMap:
        mapping = CommentedMap()
        for name, value in part.items():
            mapping[name] = commented(value, (*path, name)) if isinstance(value, Mapping) else value
            if note := notes.get((*path, name)):
                mapping.yaml_set_comment_before_after_key(name, _wrapped(note, len(path)), indent=2 * len(path))
        return mapping

    lines = [line for each in head for line in textwrap.wrap(each, 110)]
    body = document(commented({name: values[name] for name in _ORDER if name in values}, ()))
    return "".join(f"# {printable(line)}\n" for line in lines) + "\n" + body


def document(values: Mapping[str, Any]) -> str:
    """The values in their own order."""
    from ruamel.yaml import YAML

    yaml, out = YAML(), io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    yaml.dump(values, out)
    return out.getvalue()


def _wrapped(note: str, depth: int) -> str:
    return "\n".join(textwrap.wrap(printable(note), 108 - 2 * depth))
