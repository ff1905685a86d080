"""The pipeline file as commented YAML."""

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
    "trigger",
    "storage",
)


def text(values: Mapping[str, Any], notes: Mapping[tuple[str, ...], str], head: Sequence[str]) -> str:
    """The values in the order of a pipeline file, `notes` above those that they belong to, and `head` above all."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    def commented(part: Mapping[str, Any], path: tuple[str, ...]) -> CommentedMap:
        made = CommentedMap()
        for name, value in part.items():
            made[name] = commented(value, (*path, name)) if isinstance(value, Mapping) else value
            if note := notes.get((*path, name)):
                made.yaml_set_comment_before_after_key(name, _wrapped(note, len(path)), indent=2 * len(path))
        return made

    yaml, out = YAML(), io.StringIO()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    yaml.dump(commented({name: values[name] for name in _ORDER if name in values}, ()), out)
    lines = [line for each in head for line in textwrap.wrap(each, 110)]
    return "".join(f"# {printable(line)}\n" for line in lines) + "\n" + out.getvalue()


def _wrapped(note: str, depth: int) -> str:
    return "\n".join(textwrap.wrap(printable(note), 108 - 2 * depth))
