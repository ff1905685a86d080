"""What becomes of a record on a Delta table, given what `verdict` says of its schema. Pure.

The verdicts are Confluent's. The actions are lakeingest's: Confluent's sink forgets the current schema at every commit,
a Delta table has one for ever. So a verdict that makes the sink begin a new file makes the table evolve, if the rows
that are there can live with it, and else the record goes to quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lakeingest.schema import ddl
from lakeingest.schema.compatibility.changes import Change, changes
from lakeingest.schema.compatibility.verdict import Finding, Mode, Verdict, explain, structural
from lakeingest.schema.compatibility.widening import NotAdditive, merge, misfit
from lakeingest.schema.model import Schema, SchemaError, value_columns

Action: TypeAlias = Literal["write", "project", "evolve", "quarantine"]


@dataclass(frozen=True)
class Decision:
    """What is done with the records of one schema.

    Attributes:
        verdict: Confluent's, or of the check on the rows that are there if that is what refuses the record.
        action: write (as it is), project (to `current`, with defaults), evolve (the table, then write), quarantine.
        changes: what evolving does to the table; for the other actions how the record differs from the table.
        current: the schema in force afterwards.
        why: where and why, a sentence for people; empty where there is nothing to say.
    """

    verdict: Verdict
    action: Action
    changes: tuple[Change, ...] = ()
    current: Schema | None = None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Without the schema."""
        return {
            "verdict": str(self.verdict),
            "action": self.action,
            "changes": [change.to_json() for change in self.changes],
            "why": self.why,
        }


def decide(
    record: Schema | None, current: Schema | None, mode: Mode, columns: Sequence[ddl.Column] | None = None
) -> Decision:
    """What is done with records of the schema `record` while `current` is the table's.

    A table without a schema takes on the first that comes (version unknown or not). Equal schemas are written.

    Args:
        record: the record's schema; None for one without.
        current: the table's schema; None if it has none yet.
        mode: the pipeline's.
        columns: the table's value columns where they are known; else those of `current`. A field that was removed
            leaves its column behind, which is in the way of a new field of that name and another type.
    """
    finding = explain(record, current, mode)
    if record is None:
        return Decision(
            finding.verdict, "write" if current is None else "quarantine", current=current, why=finding.text()
        )
    try:
        case = _Case(record, current, finding, _columns(current) if columns is None else columns)
        if current is None:
            return case.evolve(record, Finding(Verdict.OK))
        if record == current:
            return Decision(Verdict.OK, "write", current=current)
        if finding.verdict == Verdict.VERSION_REQUIRED:
            return case.quarantine(finding.verdict, finding.text())
        return _MODES[mode](case, record, current)
    except SchemaError as error:
        return Decision(Verdict.DIFFERENT_TYPE, "quarantine", current=current, why=str(error))


def _columns(schema: Schema | None) -> Sequence[ddl.Column]:
    return () if schema is None else value_columns(schema)


@dataclass(frozen=True)
class _Case:
    """A record's schema against a table's, and what can be done about it."""

    record: Schema
    current: Schema | None
    finding: Finding
    held: Sequence[ddl.Column]

    def evolve(self, target: Schema, finding: Finding) -> Decision:
        """The table goes over to the target, if Delta can."""
        if why := misfit(self.held, value_columns(target)):
            return self.quarantine(Verdict.DIFFERENT_TYPE, why)
        return Decision(finding.verdict, "evolve", changes(self.current, target), target, finding.text())

    def project(self, current: Schema) -> Decision:
        """The table stays; the record is brought to its form, which may be the one that it has."""
        as_is = value_columns(self.record) == value_columns(current) and not _filled(self.record, current)
        differing = changes(current, self.record)
        return Decision(self.finding.verdict, "write" if as_is else "project", differing, current, self.finding.text())

    def quarantine(self, verdict: Verdict, why: str) -> Decision:
        differing = changes(self.current, self.record)
        return Decision(verdict, "quarantine", differing, self.current, why)

    def unreadable(self, source: Schema, target: Schema) -> Decision | None:
        """Quarantine, if what was written with the source cannot be read as the target."""
        names = {id(self.record): "the record", id(self.current): "the table"}
        failure = structural(source, target)
        if failure is None:
            return None
        return self.quarantine(failure.verdict, failure.text(names[id(source)], names[id(target)]))


def _filled(record: Schema, current: Schema) -> bool:
    """Whether a null of the record becomes a default of the table, so that columns alike are projected all the same."""
    if record.optional and not current.optional:
        return True
    has = {field.name: field.schema for field in current.fields}
    parts = [(field.schema, has.get(field.name)) for field in record.fields]
    # A map's key is never null.
    parts += [(record.value, current.value)] if record.value else []
    return any(_filled(one, other) for one, other in parts if other)


def _none(case: _Case, record: Schema, current: Schema) -> Decision:
    """Every record with its own schema: the table is the union. A narrower record needs no change of the table."""
    try:
        union = merge(current, record)
    except NotAdditive as error:
        return case.quarantine(Verdict.DIFFERENT_TYPE, str(error))
    if value_columns(union) == value_columns(current):
        return Decision(case.finding.verdict, "write", changes(current, record), current, case.finding.text())
    return case.evolve(union, case.finding)


def _backward(case: _Case, record: Schema, current: Schema) -> Decision:
    """The table follows the latest version, if the rows in it can be read under it. Older records go up to it."""
    if not _newer(record, current):
        return case.unreadable(record, current) or case.project(current)
    return case.unreadable(current, record) or case.evolve(record, case.finding)


def _forward(case: _Case, record: Schema, current: Schema) -> Decision:
    """The table stays at the oldest version; newer ones are projected down. An older one yet becomes the table's."""
    if not _newer(current, record):
        return case.unreadable(record, current) or case.project(current)
    return case.unreadable(current, record) or case.evolve(record, case.finding)


def _full(case: _Case, record: Schema, current: Schema) -> Decision:
    """As BACKWARD, where each must be readable as the other (Confluent's code checks the one direction alone)."""
    return case.unreadable(record, current) or case.unreadable(current, record) or _backward(case, record, current)


_MODES: Mapping[Mode, Callable[[_Case, Schema, Schema], Decision]] = {
    "NONE": _none,
    "BACKWARD": _backward,
    "FORWARD": _forward,
    "FULL": _full,
}


def _newer(one: Schema, other: Schema) -> bool:
    assert one.version is not None
    assert other.version is not None
    return one.version > other.version
