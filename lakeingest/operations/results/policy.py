"""The rights in AWS that a role needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakeingest.operations.results.showable import Showable
from lakeingest.operations.results.words import as_json


@dataclass(frozen=True, repr=False)
class Policy(Showable):
    """A policy of IAM.

    Attributes:
        document: as IAM takes it.
        keys: what whose keys assume `storage.role` need themselves, as a policy of their own; None without a role.
        notes: what the document leaves to others, as sentences.
    """

    pipeline: str
    role: str
    document: dict[str, Any]
    keys: dict[str, Any] | None
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        return f"{self.pipeline}: the rights of its {self.role}"

    @property
    def text(self) -> Iterator[str]:
        yield from as_json(self.document).split("\n")

    def to_json(self) -> dict[str, Any]:
        policy = {"policy": self.document, "keys": self.keys, "notes": self.notes}
        return {"pipeline": self.pipeline, "role": self.role, **policy}
