"""The command line in the process of the tests: what a command says and ends with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Said:
    """What a command wrote, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Said]
