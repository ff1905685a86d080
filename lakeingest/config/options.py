"""The options of the pipeline file as a tree that can be shown: generated from the model, the one source.

`describe`, the starter file, the JSON schema and the checker's messages all speak from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lakeingest.config import PipelineConfig
from lakeingest.config.durations import duration_text
from lakeingest.config.values import Kind

Path: TypeAlias = tuple[str | int, ...]

_WORDS: dict[Any, str] = {str: "text", int: "whole number", bool: "true or false", float: "number"}


@dataclass(frozen=True)
class Option:
    """An option, or a part with options of its own.

    Attributes:
        path: as one asks for it: "source", "partition.time.every".
        type: in words: "text", "one of earliest, latest", "duration".
        default: as one would write it in the file; None if there is none.
        secret: whether its value may never be shown.
        many: whether it is a list of such parts.
        chooser: for a part of several kinds, the option that tells which (format, by); `options` are the kinds then.
        options: what is within.
    """

    name: str
    path: str
    type: str
    meaning: str
    required: bool = False
    default: str | None = None
    example: str | None = None
    secret: bool = False
    many: bool = False
    chooser: str | None = None
    options: tuple[Option, ...] = ()

    def get(self, name: str | int) -> Option | None:
        return next((o for o in self.options if o.name == name), None)


@cache
def tree() -> Option:
    """Every option of a pipeline file; the root is the file itself."""
    return Option("", "", "part", _doc(PipelineConfig), True, options=_of(PipelineConfig, ""))


def find(path: str) -> Option | None:
    """The option at a dotted path such as `partition.time`; None if there is none."""
    option: Option | None = tree()
    for name in path.split(".") if path else ():
        option = option.get(name) if option else None
    return option


def parts(option: Option | None = None) -> list[str]:
    """The paths of every part, in the order of the file: what `describe` can be asked for."""
    paths = []
    for child in (option or tree()).options:
        if child.options:
            paths += [child.path, *parts(child)]
    return paths


def follow(loc: Sequence[str | int]) -> tuple[Option | None, Path]:
    """The option that pydantic's location means, and the path within the file: without the names of the kinds."""
    option: Option | None = tree()
    path: list[str | int] = []
    choosing = False
    for step in loc:
        if isinstance(step, int):
            path.append(step)
            continue
        kind = choosing and option is not None and option.get(step) is not None
        if not kind:
            path.append(step)
        if option is not None and not option.secret and not option.type.startswith("map of"):
            option = option.get(step)
        choosing = option is not None and option.chooser is not None
    return option, tuple(path)


def _doc(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").split("\n\n", maxsplit=1)[0]


def _of(model: type[BaseModel], prefix: str) -> tuple[Option, ...]:
    hints = get_type_hints(model, include_extras=True)
    return tuple(_option(f.alias or name, prefix, f, hints[name]) for name, f in model.model_fields.items())


def _option(name: str, prefix: str, field: FieldInfo, hint: Any) -> Option:
    path = f"{prefix}.{name}" if prefix else name
    words, base, chooser = _read(hint)
    many = get_origin(base) is tuple
    if many:
        inner, base, chooser = _read(get_args(base)[0])
        words = words or f"list of {inner or 'parts'}"
    models = [m for m in (get_args(base) if chooser else (base,)) if isinstance(m, type) and issubclass(m, BaseModel)]
    if chooser:
        options = tuple(_kind(m, chooser, path) for m in models)
        words = f"{'list of parts' if many else 'part'}, {chooser} one of {', '.join(o.name for o in options)}"
    else:
        options = tuple(o for m in models for o in _of(m, path))
    return Option(
        name=name,
        path=path,
        type=words or ("part" if models else "text"),
        meaning=field.description or "",
        required=field.is_required(),
        default=_written(field.default),
        example=_example(field.examples),
        secret="secret" in (words or ""),
        many=many and bool(models),
        chooser=chooser,
        options=options,
    )


def _kind(model: type[BaseModel], chooser: str, prefix: str) -> Option:
    (name,) = get_args(get_type_hints(model)[chooser])
    return Option(name, f"{prefix}.{name}", "part", _doc(model), options=_of(model, f"{prefix}.{name}"))


def _read(hint: Any) -> tuple[str | None, Any, str | None]:
    """The words for a type hint, the type within it, and the option that chooses between its kinds."""
    words = chooser = None
    while get_origin(hint) in (Annotated, Union, UnionType):
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            words = words or next((e.words for e in extras if isinstance(e, Kind)), None)
            chooser = chooser or next((e.discriminator for e in extras if isinstance(e, FieldInfo)), None)
            continue
        hints = [a for a in get_args(hint) if a is not NoneType]
        if len(hints) > 1:
            break
        hint = hints[0]
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        words = words or (f"one of {', '.join(map(str, choices))}" if len(choices) > 1 else f"the word {choices[0]}")
    return words or _WORDS.get(hint), hint, str(chooser) if chooser else None


def _written(value: Any) -> str | None:
    if value is PydanticUndefined or value is None or value == ():
        return None
    if isinstance(value, BaseModel):
        return "{" + ", ".join(f"{k}: {_written(v)}" for k, v in value if k in value.model_fields_set) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def _example(examples: list[Any] | None) -> str | None:
    if not examples:
        return None
    first = examples[0]
    if isinstance(first, dict):
        return "{" + ", ".join(f"{k}: {v}" for k, v in first.items()) + "}"
    return f"[{', '.join(first)}]" if isinstance(first, list) else str(first)
