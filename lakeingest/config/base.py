"""The base class of the parts of a pipeline file, and a mistake in one."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of the file: frozen, and an unknown key in it is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, hide_input_in_errors=True)


@dataclass(frozen=True)
class Mistake:
    """One disagreement: where (option names and positions), and what it is, cure included."""

    path: tuple[str | int, ...]
    text: str
