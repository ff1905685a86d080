"""The starter file that `lakeingest init` writes: every option with its meaning, generated from the model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from lakeingest.config import options
from lakeingest.config.options import Option

_FILLED = ("source.topics", "schema.columns", "table.path")
"""Not required by their part, but by the defaults of others."""

_OF_UPSERT = ("table.keys", "table.order_by", "table.on_tombstone", "table.valid_from")
_INSTEAD = ("source.table", "storage.access_points", *_OF_UPSERT)
"""Options that stand instead of others, or beside another value of them."""

HEAD = """\
# yaml-language-server: $schema=pipeline.schema.json
# For editors that complete and check: `lakeingest describe --json-schema > pipeline.schema.json` beside this file.
#
"""
_MARKS = """\
# Text stands behind "# "; an option that is left at its default stands behind "#" alone: remove that to set it.
# `lakeingest check` finds every mistake in this file; `lakeingest describe` says more of each option.
# ${NAME} and ${NAME:-default} are filled in from the environment.
"""


def text() -> str:
    """The starter file, the same on every machine: it goes into a repository."""
    root = options.tree()
    lines = [*HEAD.splitlines(), *(f"# {line}" for line in textwrap.wrap(root.meaning)), *_MARKS.splitlines()]
    for option in root.options:
        lines += ["", *_block(option)]
    return "\n".join(lines) + "\n"


def _block(option: Option) -> Iterator[str]:
    """An option of the file's own level, commented out as a whole if nothing in it has to be set."""
    yield from _note(option, "")
    if _active(option):
        yield from _written(option, "")
    else:
        yield from (f"#{_uncommented(line)}" for line in _written(option, ""))


def _uncommented(line: str) -> str:
    """One mark is enough: within a part that is commented out, no option is once more."""
    bare = line.lstrip(" ")
    return line if bare.startswith("# ") or not bare.startswith("#") else line.replace("#", "", 1)


def _active(option: Option) -> bool:
    return option.path in _FILLED or any(o.path in _FILLED for o in option.options) or option.required


def _note(option: Option, indent: str) -> Iterator[str]:
    words = option.meaning if option.options and not option.chooser else f"{option.meaning} ({option.type})"
    for line in textwrap.wrap(words, 112 - len(indent), break_on_hyphens=False):
        yield f"{indent}# {line}"


def _written(option: Option, indent: str) -> Iterator[str]:
    if not option.options:
        yield f"{indent}{option.name}: {_value(option)}"
        return
    yield f"{indent}{option.name}:"
    if option.many and option.chooser:
        for kind in option.options:
            yield from _item(kind, indent + "  ")
    elif option.many:
        first, *rest = option.options
        yield from _note(first, indent + "  ")
        yield f"{indent}  - {first.name}: {_value(first)}"
        for each in rest:
            yield from _note(replace(each, meaning=f"Or {each.name}: {_value(each)}. {each.meaning}"), indent + "  ")
    else:
        within = _default_kind(option) if option.chooser else option
        yield from _within(within, indent + "  ")


def _default_kind(option: Option) -> Option:
    """The kind that a part has if it is left out, as in {format: json}."""
    name = (option.default or "").strip("{}").split(": ")[-1]
    return option.get(name) or option.options[0]


def _within(part: Option, indent: str) -> Iterator[str]:
    for option in part.options:
        if (option.options and option.default is None) or option.path in _INSTEAD:
            # Beside the others it would be one too many.
            meaning = f"Or {option.name}: {_value(option)}. {option.meaning} See `lakeingest describe {option.path}`."
            yield from _note(replace(option, meaning=meaning), indent)
            continue
        yield from _note(option, indent)
        mark = "" if _active(option) or option.options else "#"
        for line in _written(option, ""):
            yield f"{indent}{mark}{line}"


def _item(kind: Option, indent: str) -> Iterator[str]:
    yield f"{indent}# {kind.meaning}"
    first, *rest = kind.options
    yield f"{indent}- {first.name}: {_value(first)}"
    for option in rest:
        yield from _note(option, indent + "  ")
        yield f"{indent}  {'' if option.required else '#'}{option.name}: {_value(option)}"


def _value(option: Option) -> str:
    value = option.default or option.example or option.type.removeprefix("the word ")
    if value.startswith(("{", "[", '"')):
        return value
    return f'"{value}"' if any(c in value for c in "{}'#,") or ": " in value else value
