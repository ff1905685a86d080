"""Which fields of sampled JSON become columns, and of which types; written as DDL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakeingest.errors import printable
from lakeingest.operations.init.values import STRING, Sample, Values
from lakeingest.schema import ddl, model
from lakeingest.schema.ddl import Array, Atomic, Column, Struct, Type
from lakeingest.schema.model import SchemaError

PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A name that DDL takes without quotes."""
_MOST_WITHIN = 100
"""Fields of an object, whose keys are rather data if there are more."""


@dataclass
class FieldNotes:
    """What is told of fields while their types are decided.

    Attributes:
        sentences: why a type was chosen, or a field left out.
        quotes: whether a column of numbers has some in quotes.
    """

    sentences: list[str] = field(default_factory=list)
    quotes: bool = False


def fitting(fields: Mapping[str, Sample], place: str, notes: FieldNotes, *, of_record: bool) -> Iterator[Column]:
    """The fields that a table can have as columns, or as fields of one; of the others it is told why not.

    Args:
        place: of the column that they are within, with a dot; empty for the record itself.
        notes: gets a sentence for each that is left out.
        of_record: whether they are to be columns beside lakeingest's own.
    """
    columns_by_lower: dict[str, str] = {}
    for name, sample in fields.items():
        name_text, within = printable(f"{place}{name}"), FieldNotes()
        kind = _storable(sample, f"{place}{name}.", within)
        if kind is None:
            notes.sentences += within.sentences
            notes.sentences.append(f"Left out: {name_text}, which is null, or empty, in each record of the sample")
        elif why := _unfit(name, kind, columns_by_lower, of_record=of_record):
            notes.sentences.append(f"Left out: {name_text}: {printable(why)}")
        else:
            notes.sentences += within.sentences
            notes.quotes |= within.quotes
            columns_by_lower[name.lower()] = name
            yield Column(name, kind)


def _unfit(name: str, kind: Type, columns_by_lower: Mapping[str, str], *, of_record: bool) -> str | None:
    """Why a field can be no column."""
    if of_record and name.startswith("_"):
        return "names that begin with _ are lakeingest's own"
    if (other := columns_by_lower.get(name.lower())) is not None:
        return f"it differs from {other} in upper and lower case alone, which a table cannot tell apart"
    if not name.isprintable():
        return "its name has a character that is not printable"
    try:
        (column,) = ddl.parse(_declared(Column(name, kind)))
        model.value_columns(model.from_columns([column]))
    except (ddl.DdlError, SchemaError) as error:
        return str(error)
    return None if column == Column(name, kind) else "its name cannot be written as a column's"


def _storable(kind: Sample, place: str, notes: FieldNotes) -> Type | None:
    """The type as a table can have it; None where nothing is known of it."""
    match kind:
        case Values():
            if note := kind.note(printable(place[:-1])):
                notes.sentences.append(note)
            notes.quotes |= kind.in_quotes
            return kind.type
        case dict() if len(kind) > _MOST_WITHIN:
            notes.sentences.append(
                f"The field {printable(place[:-1])} has {len(kind):,} different ones within: it is kept as JSON text"
            )
            return STRING
        case dict():
            within = tuple(fitting(kind, place, notes, of_record=False))
            return Struct(within) if within else None
        case [element]:
            stored = _storable(element, place, notes)
            return None if stored is None else Array(stored)
    return kind if isinstance(kind, Atomic) else None


def ddl_of(columns: Iterable[Column]) -> str:
    """Columns as DDL, in one line."""
    return ", ".join(map(_declared, columns))


def lines(columns_ddl: str) -> list[str]:
    """Columns as DDL, one a line."""
    columns = ddl.parse(columns_ddl)
    return [_declared(each) + ("" if each is columns[-1] else ",") for each in columns]


def _declared(column: Column, between: str = " ") -> str:
    name = column.name if PLAIN_NAME.fullmatch(column.name) else ddl.quoted(column.name)
    return f"{name}{between}{_type(column.type)}"


def _type(kind: Type) -> str:
    match kind:
        case Struct(fields):
            return f"STRUCT<{', '.join(_declared(each, ': ') for each in fields)}>"
        case Array(element):
            return f"ARRAY<{_type(element)}>"
    return str(kind).upper()
