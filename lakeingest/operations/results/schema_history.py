"""How a table came to its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable

if TYPE_CHECKING:
    from lakeingest.config import Compatibility
    from lakeingest.decode.order import Place
    from lakeingest.schema.ledger import Entry, SchemaId, Side

_OF_STEPS = ("time", "side", "id", "subject", "version", "verdict", "action", "changes")


@dataclass(frozen=True)
class LedgerStep:
    """A line of the ledger: a schema at its first sight, or one that changed the table.

    Attributes:
        entry: as the ledger has it.
        meaning: what was done, in words.
        current: whether the table is in the form that this step gave it.
    """

    entry: Entry
    meaning: str
    current: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self.entry), "meaning": self.meaning, "current": self.current}

    @property
    def lines(self) -> Iterator[str]:
        entry = self.entry
        time = datetime.fromisoformat(entry.time).astimezone(UTC)
        yield ""
        yield f"{time:%Y-%m-%d %H:%M:%S} UTC, batch {entry.sequence}: {self._title}"
        yield f"  {entry.verdict} → {self.meaning}{' (current)' if self.current else ''}"
        yield from (f"    {change}" for change in entry.changes)
        if entry.first:
            yield f"  first record {_at(entry.first)}"

    @property
    def _title(self) -> str:
        entry = self.entry
        side = "key, " if entry.side == "key" else ""
        name = ", ".join(filter(None, (entry.name, entry.fingerprint[:8])))
        if entry.id is None:
            source = "fields that the file does not declare" if entry.first else "the pipeline file"
            return f"{side}{source}, version {entry.version} ({name})"
        version = "in no version" if entry.version is None else f"version {entry.version}"
        return f"{side}schema {entry.id}, {version} of {entry.subject or 'a subject without a name'} ({name})"


@dataclass(frozen=True)
class WriterSummary:
    """What a writer's schema has brought.

    Attributes:
        side, id, subject, version, name: the schema.
        rows: records in the table; None for a key's schema, which no column tells.
        refused: records in quarantine, for whatever reason.
        first: coordinates of the first record; None where the schema was taken before a record of it came.
        last: coordinates of the record with the latest timestamp; None where there is none.
    """

    side: Side
    id: SchemaId
    subject: str | None
    version: int | None
    name: str | None
    rows: int | None
    refused: int
    first: Place | None
    last: Place | None

    @property
    def cells(self) -> tuple[str, ...]:
        rows = "" if self.rows is None else f"{self.rows:,}"
        version = "" if self.version is None else str(self.version)
        places = _at(self.first) or "", _at(self.last) or ""
        return self.side, str(self.id), self.subject or "", version, rows, f"{self.refused:,}", *places


@dataclass(frozen=True, repr=False)
class SchemaHistory(Showable):
    """What `lakeingest schema history` shows. Its listings: steps, writers, columns.

    Attributes:
        compatibility: the pipeline's mode.
        steps: oldest first.
        writers: one for each schema of the registry, in the order of their first steps.
        columns: side → the fields of the schema that is current, as (name, type).
    """

    pipeline: str
    compatibility: Compatibility
    steps: tuple[LedgerStep, ...]
    writers: tuple[WriterSummary, ...]
    columns: dict[Side, tuple[tuple[str, str], ...]]

    @property
    def headline(self) -> str:
        columns = sum(map(len, self.columns.values()))
        return (
            f"{self.pipeline}: {self.compatibility}, {number_of(len(self.steps), 'schema')} seen, "
            f"{number_of(columns, 'column')} now"
        )

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {
            "steps": [
                {"batch": step.entry.sequence, **{name: getattr(step.entry, name) for name in _OF_STEPS}}
                | {"meaning": step.meaning, "current": step.current}
                for step in self.steps
            ],
            "writers": [
                {**asdict(writer), "first": _at(writer.first), "last": _at(writer.last)} for writer in self.writers
            ],
            "columns": [
                {"side": side, "name": name, "type": type_}
                for side, fields in self.columns.items()
                for name, type_ in fields
            ],
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "compatibility": self.compatibility,
            "steps": [step.to_json() for step in self.steps],
            "writers": [asdict(writer) for writer in self.writers],
            "columns": {side: [{"name": n, "type": t} for n, t in fields] for side, fields in self.columns.items()},
        }

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield f"{self.pipeline}: schema.compatibility {self.compatibility}"
        if not self.steps:
            yield "  no record has brought a schema, and the file declares none"
        for step in self.steps:
            yield from step.lines
        if self.writers:
            yield ""
            # The side is of interest where there are two.
            begin = 0 if len({writer.side for writer in self.writers}) > 1 else 1
            columns = ("side", "schema", "subject", "version", "rows", "refused", "first record", "last record")
            yield TextTable(
                "records of each schema",
                columns[begin:],
                [writer.cells[begin:] for writer in self.writers],
                spare=("last record", "version", "first record"),
            )


def _at(place: Place | None) -> str | None:
    return place and f"{place[0]}-{place[1]}:{place[2]}"
