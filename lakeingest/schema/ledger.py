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

from lakeingest.schema.compatibility.naming import columns_of, documented
from lakeingest.schema.model import Schema
from lakeingest.schema.paths import step

Side = Literal["key", "value"]
SchemaId = int | str
"""The id of a record's schema: a number of a registry with Confluent's API, or the UUID of a version in AWS Glue."""


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
        rules: what the pipeline file said of schemas then, as a digest; None in ledgers of old.
        why: why its records are refused; empty where they are not.
        rescued: the fields that no column takes, as paths; decided with the first record, and so for all of them.
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
    rules: str | None = None
    why: str = ""
    rescued: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, (), "")}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Entry:
        fields: dict[str, Any] = {name: tree.get(name) for name in cls.__dataclass_fields__}
        first, lists = tree.get("first"), {name: tuple(tree.get(name, ())) for name in ("changes", "rescued")}
        return cls(**{**fields, **lists, "first": tuple(first) if first else None, "why": tree.get("why", "")})


@dataclass(frozen=True)
class SchemaLedger:
    """The schemas of one table.

    Attributes:
        entries: oldest first.
        current: the schema that is current for key and value; none before the first record.
        tables: all columns of key and value, with the names by which records know them (see `naming`), where they are
            others than those of the schema that is current.
    """

    entries: tuple[Entry, ...] = ()
    current: Mapping[Side, Schema] = field(default_factory=dict)
    tables: Mapping[Side, Schema] = field(default_factory=dict)

    def table(self, side: Side) -> Schema | None:
        """All columns of key or value, with the names by which records know them; None before the first record."""
        current = self.current.get(side)
        return self.tables.get(side) or (columns_of(current) if current else None)

    def documented(self, side: Side) -> Schema | None:
        """The same with the documentation of the schema that is current."""
        table, current = self.table(side), self.current.get(side)
        return documented(table, current) if table and current else None

    def decided(self, side: Side, fingerprint: str, name: str | None) -> Entry | None:
        """The newest entry of a schema; see `seen`."""
        key = (side, fingerprint, name)
        return next((e for e in reversed(self.entries) if (e.side, e.fingerprint, e.name) == key), None)

    def first_entry(self, side: Side, fingerprint: str, name: str | None) -> Entry | None:
        """The first entry of a schema's text, and of the record or message of that name within it."""
        key = (side, fingerprint, name)
        return next((e for e in self.entries if (e.side, e.fingerprint, e.name) == key), None)

    def demanded(self, name: str) -> bool:
        """Whether a version of the value's schema made this column, and made it NOT NULL."""
        added = (text for entry in self.entries if entry.side == "value" for text in entry.changes)
        return any(text.startswith(f"+ {step('', name)} ") and text.endswith(" NOT NULL") for text in added)

    def after(self, entry: Entry, current: Schema | None, table: Schema | None = None) -> SchemaLedger:
        """With one more entry; `current` and `table` are those in force behind it, None for the ones before."""
        currents = self.current if current is None else {**self.current, entry.side: current}
        tables = {side: each for side, each in self.tables.items() if side != entry.side or table is None}
        if table is not None and (entry.side not in currents or table != columns_of(currents[entry.side])):
            tables[entry.side] = table
        return replace(self, entries=(*self.entries, entry), current=currents, tables=tables)

    @property
    def digest(self) -> str:
        """The beginning of the ledger's SHA-256; empty for an empty ledger."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if self.entries else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": [entry.to_json() for entry in self.entries],
            "current": {side: schema.to_json() for side, schema in self.current.items()},
            **({"tables": {side: schema.to_json() for side, schema in self.tables.items()}} if self.tables else {}),
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> SchemaLedger:
        return cls(
            tuple(Entry.from_json(entry) for entry in tree.get("seen", ())),
            *(
                {side: Schema.from_json(schema) for side, schema in tree.get(name, {}).items()}
                for name in ("current", "tables")
            ),
        )
