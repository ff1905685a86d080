"""The base class of the parts of a pipeline file, and a mistake in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of the file: frozen, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, hide_input_in_errors=True)


@dataclass(frozen=True)
class Mistake:
    """One disagreement: where (option names and positions), and what it is, cure included."""

    path: tuple[str | int, ...]
    text: str


def no_column(where: tuple[str | int, ...], path: str, names: Sequence[str]) -> Mistake:
    """A path that leads to none of the declared columns, which have these names."""
    hint = "".join(f"did you mean {each}? " for each in get_close_matches(path, names, n=1))
    return Mistake(where, f'"{path}" is not among the columns; {hint}declared: {", ".join(names)}')
