"""pydantic's errors in the words of a pipeline file: where, the value, what is allowed, and the name that was meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lakeingest.config import options
from lakeingest.config.base import Mistake
from lakeingest.config.options import Option, Path
from lakeingest.schema.ddl import DdlError

_NOT_TOLD = "default_factory_not_called"
"""A follow-up of another error, which is told."""


def of(error: ValidationError, values: Any, filled: Mapping[Path, str]) -> Iterator[Mistake]:
    """Every mistake that pydantic found.

    Args:
        error: what checking `values` raised.
        values: what was checked.
        filled: path → the text as the file has it, where the environment filled in something that must not be shown.
    """
    for detail in error.errors(include_url=False):
        if detail["type"] == "disagree":
            yield from detail["ctx"]["mistakes"]
        elif detail["type"] != _NOT_TOLD:
            yield from _one(detail, values, filled)


def did_you_mean(word: str, words: list[str]) -> str:
    """`did you mean …? ` when a known word is close, else nothing."""
    close = get_close_matches(word.lower(), words, n=1)
    return f"did you mean {close[0]}? " if close else ""


def _one(detail: ErrorDetails, values: Any, filled: Mapping[Path, str]) -> Iterator[Mistake]:
    # A key of a map is told by the place of its value, and is no secret.
    of_key = detail["loc"][-1:] == ("[key]",)
    option, path = options.follow(detail["loc"][:-1] if of_key else detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    value_text = "" if kind in ("missing", "extra_forbidden") else _value_text(path, option, values, filled)
    value_text = json.dumps(path[-1], ensure_ascii=False) if of_key else value_text
    if kind == "extra_forbidden":
        yield Mistake(path, _unknown(detail))
    elif kind == "missing":
        yield Mistake(path, f"required, and missing{_as_in(option)}")
    elif kind == "union_tag_not_found" and option:
        yield Mistake((*path, str(option.chooser)), f"required, and missing; write one of {_kinds(option)}")
    elif kind == "union_tag_invalid" and option:
        chosen = (*path, str(option.chooser))
        tag = filled.get(chosen, str(context["tag"]))
        hint = "" if chosen in filled else did_you_mean(tag, [o.name for o in option.options])
        yield Mistake(chosen, f'"{tag}" is not one of {_kinds(option)}' + (f"; {hint.strip()}" if hint else ""))
    elif kind == "value_error" and isinstance(context["error"], DdlError):
        yield from (Mistake(path, problem) for problem in context["error"].problems)
    elif kind == "value_error":
        text = str(context["error"])
        yield Mistake(path, f"{value_text} is {text}" if text.startswith("not ") else f"{value_text}: {text}")
    else:
        yield Mistake(path, _wrong(kind, context, value_text, option, path in filled))


def _wrong(kind: str, context: Mapping[str, Any], value_text: str, option: Option | None, hidden: bool) -> str:
    if option and option.options and not kind.startswith("tuple"):
        names = ", ".join(o.name for o in option.options) if not option.chooser else str(option.chooser)
        return (
            f"{value_text}, where options are expected; write them beneath, indented, as name: value (known: {names})"
        )
    if kind.startswith("tuple"):
        return f"{value_text} is not a list; write each item behind a dash, or all as [one, other]"
    if kind == "literal_error" and option:
        hint = "" if hidden else did_you_mean(value_text.strip('"'), option.type.removeprefix("one of ").split(", "))
        return f"{value_text} is not {option.type}" + (f"; {hint.strip()}" if hint else "")
    if kind == "string_type":
        return f"{value_text} is not text; write text, in quotes if it looks like a number or a date"
    allowed = f"is not {_article(option.type)}; write one{_as_in(option)}" if option else "is not allowed"
    if kind == "greater_than":
        allowed = f"is too small; write a number above {context['gt']}"
    if kind == "less_than_equal":
        allowed = f"is too large; write a number up to {context['le']}"
    if kind in ("too_short", "string_too_short"):
        return f"empty; write at least one{_as_in(option)}"
    return f"{value_text} {allowed}"


def _unknown(detail: ErrorDetails) -> str:
    *outer, name = detail["loc"]
    around, _ = options.follow(outer)
    names = [o.name for o in around.options] if around else []
    return f"unknown option; {did_you_mean(str(name), names)}allowed: {', '.join(names)}"


def _kinds(option: Option) -> str:
    return ", ".join(o.name for o in option.options)


def _as_in(option: Option | None) -> str:
    if option and option.options:
        required = [o.name for o in option.options if o.required]
        return f"; write it with its options: {', '.join(required)}" if required else ""
    example = option and (option.example or option.default)
    return f"; as in {option.name}: {example}" if option and example else ""


def _article(words: str) -> str:
    return words if words.startswith(("one of", "true or", "options")) else f"a {words}"


def _value_text(path: Path, option: Option | None, values: Any, filled: Mapping[Path, str]) -> str:
    """The value as an error may show it: never a secret, nor what came from the environment, nor a whole part."""
    if option is None or option.secret:
        return "the value (not shown)"
    if path in filled:
        return f'"{filled[path]}", as {"the environment" if "${" in filled[path] else "a topic"} fills it,'
    value = values
    for step in path:
        value = value[step]
    if isinstance(value, dict | list) or option.options:
        return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a single value"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number of thousands of digits"
    if "URL" in option.type or "host:port" in option.type or "://" in text:
        # A password may have been written into it.
        text = re.sub(r"[^\"]*@", "…@", text)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"
