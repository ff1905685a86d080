"""A table of a database, held against the table of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.showable import Showable, TextTable

_MOST = 20
"""Keys in a terminal's table."""


@dataclass(frozen=True)
class DifferentKey:
    """A key whose rows are not the same.

    Attributes:
        key: as text, `id = 7`.
        kind: missing, where the lake has no row of it; extra, where the database has none; different.
        columns: the columns whose values differ.
    """

    key: str
    kind: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class DatabaseComparison(Showable):
    """What both sides hold, key by key. Its listing: different.

    Attributes:
        database_table: the table's name there.
        at: the place in the database's log that it was made at; None for the end of the log.
        position: where the log ended when the database's rows had been read; None where it does not say.
        keys: how many keys the database has.
        same: how many keys have the same row on both sides.
        changed_since: how many keys were not compared: they have changed behind `at`, or since the reading began.
        counts: missing, extra and different → how many keys.
        different: the first of them.
        unsure: why what differs may be a change that is on its way; empty where it is none.
        columns: those whose values were compared.
        left_out: columns that were not, each with the reason.
    """

    pipeline: str
    database_table: str
    at: str | None = None
    position: str | None = None
    keys: int
    same: int
    changed_since: int
    counts: Mapping[str, int]
    different: tuple[DifferentKey, ...]
    unsure: str = ""
    columns: Sequence[str]
    left_out: Mapping[str, str]

    @property
    def equal(self) -> bool:
        """Whether both sides have the same rows, of the keys that were compared."""
        return not any(self.counts.values())

    @property
    def compared(self) -> int:
        """How many keys were."""
        return self.same + sum(self.counts.values())

    @property
    def exit_code(self) -> int:
        return int(not self.equal)

    @property
    def headline(self) -> str:
        at = f" at {place}" if (place := self.at or self.position) else ""
        return f"{self.pipeline}: {number_of(self.compared, 'key')} of {self.database_table}{at} compared"

    @property
    def listings(self) -> Mapping[str, Listing]:
        rows = ({"key": e.key, "kind": e.kind, "columns": ", ".join(e.columns)} for e in self.different)
        return {"different": list(rows)}

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "database_table": self.database_table,
            "at": self.at,
            "position": self.position,
            "equal": self.equal,
            "keys": self.keys,
            "compared": self.compared,
            "same": self.same,
            "changed_since": self.changed_since,
            "counts": dict(self.counts),
            "unsure": self.unsure,
            "columns": list(self.columns),
            "left_out": dict(self.left_out),
            **self.listings,
        }

    @property
    def text(self) -> Iterator[str | TextTable]:
        yield self.headline
        yield f"  {number_of(len(self.columns), 'column')}: {', '.join(self.columns)}"
        for name, reason in self.left_out.items():
            yield f"  not compared: {name}, {reason}"
        if self.changed_since:
            yield f"  not compared: {number_of(self.changed_since, 'key')} that changed since"
        if self.equal:
            yield "  equal: each key has the same row on both sides"
            return
        counts = (f"{count:,} {kind}" for kind, count in self.counts.items() if count)
        equal = "not known to be equal" if self.unsure else "not equal"
        yield f"  {equal}: {', '.join(counts)}; {self.same:,} the same"
        if self.unsure:
            end = f" up to {self.position}" if self.position else ""
            yield f"  what differs may be on its way: the table is not known to hold the log{end}: {self.unsure}"
        rows = [(each.key, each.kind, ", ".join(each.columns)) for each in self.different[:_MOST]]
        yield TextTable("different", ("key", "", "columns that differ"), rows)
        if sum(self.counts.values()) > _MOST:
            yield f"  and {sum(self.counts.values()) - _MOST:,} more"
