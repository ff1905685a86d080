"""Variables in the values of a file: `${NAME}` and `${NAME:-default}`, filled in from the
environment (`$${` is a plain `${`), and `{topic}` where the file is for many topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any

from lakeingest.config.base import Mistake

Path = tuple[str | int, ...]

TOPIC = "{topic}"
_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{|\{topic\}")
_NAMES = (
    ("table", "name"),
    ("quarantine", "name"),
    ("gate", "results"),
    ("contract", "completeness", "table"),
)
"""Options that hold a catalog's name of a table, in which a topic's . and - become _."""


def names_in(value: object) -> tuple[str, ...]:
    """The variables that a text names."""
    return tuple(match[1] for match in _VARIABLE.finditer(value) if match[1]) if isinstance(value, str) else ()


@dataclass
class Variables:
    """Fills in values, and remembers where.

    Attributes:
        environment: name → value.
        topic: what `{topic}` stands for; None where it stands for itself.
        filled: path → the text as the file has it: what an error shows in place of what the environment holds.
        missing: the variables that are not set and have no default.
    """

    environment: Mapping[str, str]
    topic: str | None = None
    filled: dict[Path, str] = field(default_factory=dict)
    missing: list[Mistake] = field(default_factory=list)

    def fill(self, value: Any, path: Path = ()) -> Any:
        """Plain values with variables filled in, never in keys. An option without a value is as good as left out; but a
        mask may be null, which hides a field.
        """
        if isinstance(value, Mapping):
            nulls_stay = path[:1] == ("transform",) and path[2:] == ("mask",)
            return {str(k): self.fill(v, (*path, str(k))) for k, v in value.items() if nulls_stay or v is not None}
        if isinstance(value, list | tuple):
            return [self.fill(v, (*path, i)) for i, v in enumerate(value)]
        if not isinstance(value, str) or not ("${" in value or (TOPIC in value and self.topic is not None)):
            return value
        self.filled[path] = value
        return _VARIABLE.sub(lambda match: self._one(match, path), value)

    def as_written(self, mistake: Mistake, values: Any) -> Mistake:
        """The same mistake, with the text of the file in place of what was filled into `values`."""
        text = mistake.text
        for path, written in self.filled.items():
            # A file that was read stands where its path was.
            value = str(reduce(getitem, path, values))
            if len(value) > 3:
                text = text.replace(value, written)
        return Mistake(mistake.path, text)

    def _one(self, match: re.Match[str], path: Path) -> str:
        name, default = match[1], match[2]
        if match[0] == "$${":
            return "${"
        if match[0] == TOPIC:
            return self._topic(path)
        if name is None:
            cure = "write ${NAME} or ${NAME:-default}, or $${ for a plain ${"
            self.missing.append(Mistake(path, f"${{ begins no variable; {cure}"))
        elif default is None and name not in self.environment:
            cure = f"export {name}, or write ${{{name}:-default}}"
            self.missing.append(Mistake(path, f"${{{name}}} is not set; {cure}"))
        else:
            return self.environment.get(name) or default or ""
        return match[0]

    def _topic(self, path: Path) -> str:
        if self.topic is None:
            return TOPIC
        of_catalog = path in _NAMES and "/" not in self.filled[path]
        return re.sub(r"[.-]", "_", self.topic) if of_catalog else self.topic
