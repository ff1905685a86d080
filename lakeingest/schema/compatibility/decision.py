"""The decision about a record on a Delta table, by the verdict about its schema. Pure.

The verdicts are Confluent's. The actions are lakeingest's: Confluent's sink forgets the current schema at every commit,
a Delta table has one for ever. So a verdict that makes the sink begin a new file makes the table evolve, if the rows
that are there can live with it, and else the record goes to quarantine.

A record that is written fills every column that it has a field for, and no other: no default of another schema is
written into a row. So what a row holds does not depend on the version that is current when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from lakeingest.schema import ddl
from lakeingest.schema.compatibility import naming
from lakeingest.schema.compatibility.changes import Change, changes
from lakeingest.schema.compatibility.naming import NameClash
from lakeingest.schema.compatibility.verdict import Mode, PlacedVerdict, Verdict, explain, structural
from lakeingest.schema.compatibility.widening import NotAdditive, merge, misfit, text_clash
from lakeingest.schema.model import Schema, SchemaError, value_columns

Action: TypeAlias = Literal["write", "project", "evolve", "quarantine"]


@dataclass(frozen=True)
class Decision:
    """The decision about the records of one schema.

    Attributes:
        verdict: Confluent's, or of the check on the rows that are there if that is what refuses the record.
        action: write (as it is), project (to the table's columns), evolve (the table, then write), quarantine.
        changes: what evolving does to the table; for the other actions how the record differs from the table.
        current: the schema in force afterwards, under the names of the table's columns.
        why: where and why, a sentence for people; empty where there is nothing to say.
        table: the table's columns afterwards, with the names by which records know them; see `naming`.
        rescued: the fields of the record that no column takes, as paths.
    """

    verdict: Verdict
    action: Action
    changes: tuple[Change, ...] = ()
    current: Schema | None = None
    why: str = ""
    table: Schema | None = None
    rescued: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Without the schemas."""
        return {
            "verdict": str(self.verdict),
            "action": self.action,
            "changes": [change.to_json() for change in self.changes],
            "why": self.why,
        }


def decide(
    record: Schema | None,
    current: Schema | None,
    mode: Mode,
    columns: Sequence[ddl.Column] | None = None,
    table: Schema | None = None,
    *,
    grows: bool = True,
) -> Decision:
    """The decision about records of the schema `record` while `current` is the table's.

    A table without a schema takes on the first that comes (version unknown or not). Equal schemas are written.

    Args:
        record: the record's schema; None for one without.
        current: the table's schema; None if it has none yet.
        mode: the pipeline's.
        columns: the table's value columns, as they were before the batch, where they are known. A field that was
            removed leaves its column behind, which is in the way of a new field of that name and another type.
        table: all columns that the table has, and their other names; else those of `current`.
        grows: whether an older version brings the columns that the table lacks; else these fields are rescued.
    """
    if table is None and current is not None:
        table = naming.columns_of(current)
    if record is None:
        finding = explain(record, current, mode)
        action: Action = "write" if current is None else "quarantine"
        return Decision(finding.verdict, action, current=current, why=finding.text(), table=table)
    try:
        names = naming.with_column_names(record, table)
        current = current and naming.with_column_names(current, None)
        case = _SchemaCase(record, names, current, explain(names, current, mode), table, columns, grows)
        return case.decided(mode)
    except NameClash as error:
        return Decision(Verdict.DIFFERENT_NAME, "quarantine", current=current, why=str(error), table=table)
    except SchemaError as error:
        return Decision(Verdict.DIFFERENT_TYPE, "quarantine", current=current, why=str(error), table=table)


_ONE_TYPE = (
    "; the table takes one type of record: where a topic has several, schema.compatibility NONE gives one table the "
    "columns of all, and a table for each cannot be had yet"
)


@dataclass(frozen=True)
class _SchemaCase:
    """A record's schema against a table's, and what can be done about it.

    Attributes:
        names: the record's schema under the names of the columns.
    """

    record: Schema
    names: Schema
    current: Schema | None
    finding: PlacedVerdict
    table: Schema | None
    columns: Sequence[ddl.Column] | None
    grows: bool

    def decided(self, mode: Mode) -> Decision:
        if self.current is None:
            return self.evolve(self.names, PlacedVerdict(Verdict.OK))
        if self.names == self.current:
            return Decision(Verdict.OK, "write", self._differing, self.current, table=self._remembered())
        if self.table and (why := text_clash(self.table, self.names)):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        if self.finding.verdict == Verdict.VERSION_REQUIRED:
            return self.quarantine(self.finding.verdict, self.finding.text())
        try:
            return _MODES[mode](self, self.names, self.current)
        except NotAdditive as error:
            return self.quarantine(Verdict.DIFFERENT_TYPE, str(error))

    def evolve(self, target: Schema, finding: PlacedVerdict, *, promotes: bool = True) -> Decision:
        """The table goes over to the target, if Delta can.

        Args:
            promotes: see `merge`.
        """
        # Of a part without fields it raises, also where nothing is promoted: before the table changes.
        columns = value_columns(self.names)
        if promotes and (why := misfit(self._columns_by_now, columns)):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        table = self._union(promotes=promotes)
        if why := misfit(self._columns_by_now, value_columns(table)):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        all_changes = (*changes(self.current, target), *self._renamed())
        return Decision(finding.verdict, "evolve", all_changes, target, finding.text(), self._remembered(table))

    def add(self, current: Schema) -> Decision:
        """The record is written under the table's schema; columns that it alone has are added, or widened."""
        if why := misfit(self._columns_by_now, value_columns(self.names), wider=self.grows):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        table = self._union(promotes=True)
        assert self.table is not None
        if not self.grows or value_columns(table) == value_columns(self.table):
            return self.project(current)
        all_changes = (*changes(self.table, table), *self._renamed())
        return Decision(
            self.finding.verdict, "evolve", all_changes, current, self.finding.text(), self._remembered(table)
        )

    def project(self, current: Schema) -> Decision:
        """The table stays; the record is brought to its form, which may be the one that it has."""
        if why := misfit(self._columns_by_now, value_columns(self.names), wider=False):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        assert self.table is not None
        as_is = value_columns(self.record) == value_columns(current)
        rescued = tuple(naming.without_column(self.record, self.names, self.table))
        action: Action = "write" if as_is else "project"
        why, table = self.finding.text(), self._remembered()
        return Decision(self.finding.verdict, action, self._differing, current, why, table, rescued)

    def quarantine(self, verdict: Verdict, why: str) -> Decision:
        return Decision(verdict, "quarantine", self._differing, self.current, why, self.table)

    def unreadable(self, source: Schema, target: Schema) -> Decision | None:
        """Quarantine, if what was written with the source cannot be read as the target."""
        names = {id(self.names): "the record", id(self.current): "the table"}
        failure = structural(source, target)
        if failure is None:
            return None
        why = failure.text(names[id(source)], names[id(target)])
        if failure.verdict == Verdict.DIFFERENT_NAME and not failure.path:
            why += _ONE_TYPE
        return self.quarantine(failure.verdict, why)

    @property
    def _columns_by_now(self) -> Sequence[ddl.Column]:
        """The table's columns as they are by now: other schemas of the batch may have widened some."""
        table_columns = value_columns(self.table) if self.table else ()
        names = {column.name.lower() for column in table_columns}
        return (*table_columns, *(column for column in self.columns or () if column.name.lower() not in names))

    @property
    def _differing(self) -> tuple[Change, ...]:
        return (*changes(self.current, self.names), *self._renamed())

    def _renamed(self) -> Iterator[Change]:
        older = bool(self.current and self.current.version and (self.record.version or 0) < self.current.version)
        for path, name in naming.renamed(self.record, self.names):
            yield Change(path, "renamed", f"~ {path} {'was' if older else 'is now'} called {name}")

    def _union(self, *, promotes: bool) -> Schema:
        """
        Raises:
            NotAdditive: a column and a field have no type that Delta can widen both to.
        """
        columns = naming.columns_of(self.names)
        return merge(self.table, columns, promotes=promotes) if self.table else columns

    def _remembered(self, table: Schema | None = None) -> Schema | None:
        table = table or self.table
        return table and naming.remembering(table, self.record, self.names)


def _none(case: _SchemaCase, record: Schema, current: Schema) -> Decision:
    """Every record with its own schema: the table is the union. A narrower record needs no change of the table."""
    union = merge(current, record)
    if value_columns(union) == value_columns(current):
        return replace(case.project(current), action="write")
    return case.evolve(union, case.finding, promotes=False)


def _backward(case: _SchemaCase, record: Schema, current: Schema) -> Decision:
    """The table follows the latest version, if the rows in it can be read under it."""
    if not _newer(record, current):
        return case.unreadable(record, current) or case.add(current)
    return case.unreadable(current, record) or case.evolve(record, case.finding)


def _forward(case: _SchemaCase, record: Schema, current: Schema) -> Decision:
    """The table stays at the oldest version; newer ones fill what it has. An older one yet becomes the table's."""
    if not _newer(current, record):
        return case.unreadable(record, current) or case.project(current)
    return case.unreadable(current, record) or case.evolve(record, case.finding)


def _full(case: _SchemaCase, record: Schema, current: Schema) -> Decision:
    """As BACKWARD, where each must be readable as the other (Confluent's code checks the one direction alone)."""
    return case.unreadable(record, current) or case.unreadable(current, record) or _backward(case, record, current)


_MODES: Mapping[Mode, Callable[[_SchemaCase, Schema, Schema], Decision]] = {
    "NONE": _none,
    "BACKWARD": _backward,
    "FORWARD": _forward,
    "FULL": _full,
}


def _newer(one: Schema, other: Schema) -> bool:
    assert one.version is not None
    assert other.version is not None
    return one.version > other.version
