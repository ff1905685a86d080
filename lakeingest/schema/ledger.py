"""The schema ledger of a table: which writer schemas were seen, which one is current, and how that came about.

It rides in the receipt of the commit that changes it, so a schema and the rows that it shaped are committed together or
not at all; every later commit bears its digest, and a table property keeps the whole. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from lakeingest.schema.model import Schema, step

Side = Literal["key", "value"]
SchemaId = int | str
"""What records name their schema by: a number of a registry with Confluent's API, the UUID of a version in AWS Glue."""


@dataclass(frozen=True)
class Entry:
    """A writer schema at its first sight, and what was decided about it.

    Attributes:
        side: key or value.
        id: the registry's id; None where there is no registry.
        subject, version: where the registry has it; None where it does not, or there is none.
        name: of the record or message.
        fingerprint: SHA-256 of the schema's text, in hexadecimal.
        verdict, action: of the compatibility rules, against what was current then.
        changes: the fields that differ from what was current then, as text: `+ gust DOUBLE`.
        sequence: the batch that saw it first.
        first: coordinates of the first record of it in that batch, by its timestamp: topic, partition, offset.
        time: when it was decided, ISO-8601 in UTC.
    """

    side: Side
    id: SchemaId | None
    subject: str | None
    version: int | None
    name: str | None
    fingerprint: str
    verdict: str
    action: str
    changes: tuple[str, ...]
    sequence: int
    first: tuple[str, int, int] | None
    time: str

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Entry:
        known: dict[str, Any] = {name: tree.get(name) for name in cls.__dataclass_fields__}
        first = tree.get("first")
        return cls(**{**known, "changes": tuple(tree.get("changes", ())), "first": tuple(first) if first else None})


@dataclass(frozen=True)
class SchemaLedger:
    """The entries, oldest first, and the schema that is current for key and value (none before the first record)."""

    entries: tuple[Entry, ...] = ()
    current: Mapping[Side, Schema] = field(default_factory=dict)

    def seen(self, side: Side, fingerprint: str, name: str | None) -> Entry | None:
        """The first entry of a schema's text, and of the record or message of that name within it."""
        wanted = (side, fingerprint, name)
        return next((e for e in self.entries if (e.side, e.fingerprint, e.name) == wanted), None)

    def demanded(self, name: str) -> bool:
        """Whether a version of the value's schema made this column, and made it NOT NULL."""
        added = (text for entry in self.entries if entry.side == "value" for text in entry.changes)
        return any(text.startswith(f"+ {step('', name)} ") and text.endswith(" NOT NULL") for text in added)

    def after(self, entry: Entry, current: Schema | None) -> SchemaLedger:
        """With one more entry; `current` is the schema in force behind it, if there is one."""
        changed = {} if current is None else {entry.side: current}
        return replace(self, entries=(*self.entries, entry), current={**self.current, **changed})

    @property
    def digest(self) -> str:
        """What tells one ledger from another: the beginning of its SHA-256; empty for an empty one."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if self.entries else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": [entry.to_json() for entry in self.entries],
            "current": {side: schema.to_json() for side, schema in self.current.items()},
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> SchemaLedger:
        return cls(
            tuple(Entry.from_json(entry) for entry in tree.get("seen", ())),
            {side: Schema.from_json(schema) for side, schema in tree.get("current", {}).items()},
        )
