"""What a sample of a topic's records says of their formats and columns. Pure, and without Spark.

A format is one that nearly all records have: the few that have another would be refused, and are told. A column's type
takes all of its values in the sample, as `decode` reads them: STRING takes any JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal

from lakeingest.errors import number_of, printable
from lakeingest.operations.init import values
from lakeingest.operations.init.values import DATE, NEARLY, STRING, TIMESTAMP, VOID, Values
from lakeingest.schema import ddl, json_values, model
from lakeingest.schema.ddl import Array, Column, Struct, Type
from lakeingest.schema.formats.wire import RECORD_HEADER, UNREAD
from lakeingest.schema.json_values import Object
from lakeingest.schema.ledger import Side
from lakeingest.schema.model import SchemaError

Format = Literal["json", "avro", "protobuf", "json_schema", "string", "bytes"]
Period = Literal["day", "month"]

_MOST_FIELDS, _MOST_WITHIN = 500, 100
"""Columns; and fields of an object within one, whose keys are rather data if there are more."""
_DEEPEST = 20
_MOST_PARTITIONS = 31
"""Days, or months, that the sample may touch."""
_HEADER = 5
_GLUE_HEADER = 18
_FORMATS: Mapping[str, Format] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}
"""By the types of a schema registry."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Sampled:
    """What a sample says.

    Attributes:
        records: how many there are.
        value_format, key_format: as `decode` in the pipeline file names them.
        columns_ddl: the columns of JSON values; empty for another format, or where no field fits a column.
        key_columns_ddl: of JSON keys.
        numbers_in_quotes, key_numbers_in_quotes: whether JSON values, and keys, have some numbers in quotes.
        time_field: a column that holds a time in each record, by which the table may be partitioned; None if none does.
        every: the period of such partitions: the sample touches 31 of them at most.
        reasons: why, in sentences, by the option that they are about: decode.value, decode.key, schema.columns,
            partition.
    """

    records: int
    value_format: Format
    key_format: Format
    columns_ddl: str = ""
    key_columns_ddl: str = ""
    numbers_in_quotes: bool = False
    key_numbers_in_quotes: bool = False
    time_field: str | None = None
    every: Period = "day"
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def inferred(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    registered: Callable[[int], str | None] = lambda id: None,
    headers: Sequence[Collection[str]] = (),
) -> Sampled:
    """What these records say.

    Args:
        values, keys: of the same records, in any order.
        registered: the type of a schema that a registry has under an id: AVRO, PROTOBUF or JSON; None where it has
            none, or no registry can be asked.
        headers: the names of each record's headers.
    """
    value, key = _side(values, "value", registered, headers), _side(keys, "key", registered, headers)
    if value.format == "json" and not value.columns:
        # A table needs a column of the records' own.
        value = replace(value, format="string", why=(*value.why, "No field of theirs fits a column: they stay text"))
    if key.format == "json" and not key.columns:
        key = replace(key, format="string", why=(*key.why, "No field of theirs fits a column: they stay text"))
    times = _times(value) if value.format == "json" else None
    return Sampled(
        len(values),
        value.format,
        key.format,
        _ddl(value.columns) if value.format == "json" else "",
        _ddl(key.columns) if key.format == "json" else "",
        value.quotes,
        key.quotes,
        times[0] if times else None,
        times[1] if times else "day",
        {
            "decode.value": value.why,
            "decode.key": (*key.why, *key.told),
            "schema.columns": (*_notes(value.columns), *value.told) if value.format == "json" else (),
            "partition": (times[2],) if times else (),
        },
    )


@dataclass(frozen=True)
class _Side:
    """What the values, or the keys, say."""

    format: Format
    why: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    told: tuple[str, ...] = ()
    quotes: bool = False
    objects: tuple[Object, ...] = ()


def _side(
    sample: Sequence[bytes | None],
    side: Side,
    registered: Callable[[int], str | None],
    headers: Sequence[Collection[str]],
) -> _Side:
    there = [each for each in sample if each is not None]
    empty = len(sample) - len(there)
    without = (f"{empty:,} of {len(sample):,} records have no {side}",) if empty else ()
    if not there:
        return _Side("bytes", without or ("There is no record",))
    # Where a header of the record names the schema, the first bytes are no id.
    named = [RECORD_HEADER[side] in each for each in headers] or [False] * len(sample)
    framed = [b"" if by_header else each for each, by_header in zip(sample, named, strict=True) if each is not None]
    found = _registry(framed, side, registered) or _glue(framed, side) or _json(there, side) or _text(there, side)
    header = f"{sum(named):,} of {len(sample):,} records name the schema in their header {RECORD_HEADER[side]}"
    cure = f"this framing is not read yet: {UNREAD.format(side=side)}"
    return replace(found, why=(*found.why, *without, *((f"{header}: {cure}",) if any(named) else ())))


def _share(count: int, all_: int, side: str, what: str) -> str:
    """A sentence such as "297 of 300 values are JSON objects; a run would refuse the others"."""
    others = "" if count == all_ else "; a run would refuse the others"
    return f"{count:,} of {all_:,} {side}s are {what}{others}"


def _registry(there: Sequence[bytes], side: str, registered: Callable[[int], str | None]) -> _Side | None:
    headed = [each for each in there if len(each) > _HEADER and each[0] == 0 and any(each[1:_HEADER])]
    if len(headed) < NEARLY * len(there):
        return None
    ids = Counter(int.from_bytes(each[1:_HEADER], "big") for each in headed)
    types = Counter(found for id, _ in ids.most_common(20) if (found := registered(id)) in _FORMATS)
    share = _share(len(headed), len(there), side, "framed by a schema registry's header")
    named = f"schema id{'' if len(ids) == 1 else 's'} {', '.join(str(id) for id in sorted(ids)[:5])}"
    if not types:
        # Bytes that begin so by chance are no reason for it.
        if _text(there, side).format == "string":
            return None
        cure = f"if it is one, write decode.{side}.format: avro, protobuf or json_schema, and registry.url"
        return _Side("bytes", (share.partition(";")[0], f"No registry that was asked knows {named}: {cure}"))
    ((kind, _),) = types.most_common(1)
    assert kind is not None
    mixed = (f"The registry has schemas of several formats for them: {', '.join(map(str, types))}",)
    return _Side(_FORMATS[kind], (share, f"The registry has {named} as {kind}", *(mixed if len(types) > 1 else ())))


def _glue(there: Sequence[bytes], side: str) -> _Side | None:
    headed = [each for each in there if len(each) >= _GLUE_HEADER and each[0] == 3 and each[1] in (0, 5)]
    if len(headed) < NEARLY * len(there):
        return None
    share = _share(len(headed), len(there), side, "framed as AWS Glue Schema Registry's serializers do")
    cure = f"to decode them write decode.{side}.format: avro or json_schema, and registry: {{glue: {{region: …}}}}"
    return _Side("bytes", (share.partition(";")[0], cure))


def _text(there: Sequence[bytes], side: str) -> _Side:
    texts = sum(_is_text(each) for each in there)
    if texts >= NEARLY * len(there):
        return _Side("string", (_share(texts, len(there), side, "text in UTF-8, and no JSON objects"),))
    return _Side("bytes", (f"The {side}s are neither text in UTF-8, nor framed by a schema registry's header",))


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(c < " " and c not in "\t\r\n" for c in text)


# JSON ---------------------------------------------------------------------------------------------------------------


def _json(there: Sequence[bytes], side: str) -> _Side | None:
    kinds, objects = list[Type](), list[Object]()
    for each in there:
        read = _read(each)
        if isinstance(read, Object):
            objects.append(read)
            kinds.append(_kind(read))
    if len(objects) < NEARLY * len(there):
        return None
    whole = reduce(_merged, kinds)
    assert isinstance(whole, Struct)
    told = _FieldNotes()
    columns = tuple(_fitting(whole.fields, "", told, of_record=side == "value"))
    if len(columns) > _MOST_FIELDS:
        told.sentences.append(f"Left out: all but the first {_MOST_FIELDS:,} of {number_of(len(columns), 'field')}")
    why = (_share(len(objects), len(there), side, "JSON objects"),)
    return _Side("json", why, columns[:_MOST_FIELDS], tuple(told.sentences), told.quotes, tuple(objects))


def _read(value: bytes) -> Any:
    """What a JSON text holds; None where it is none."""
    try:
        return json_values.read(value)
    except (ValueError, RecursionError):
        return None


def _kind(value: Any, depth: int = 0) -> Type:
    """The type of a JSON value."""
    if not isinstance(value, Object | list):
        return values.of(value)
    if depth == _DEEPEST:
        return STRING
    if isinstance(value, Object):
        fields: dict[str, Type] = {}
        for name, within in value.pairs:
            fields[name] = _merged(fields.get(name, VOID), _kind(within, depth + 1))
        return Struct(tuple(Column(name, kind) for name, kind in fields.items()))
    element: Type = VOID
    for within in value:
        element = _merged(element, _kind(within, depth + 1))
    return Array(element)


def _merged(one: Type, other: Type) -> Type:
    """The type that takes all that two take."""
    if other == VOID:
        return one
    if one == VOID:
        return other
    match one, other:
        case Values(), Values():
            return one + other
        case Struct(), Struct():
            fields = {column.name: column.type for column in one.fields}
            for column in other.fields:
                fields[column.name] = _merged(fields.get(column.name, VOID), column.type)
            return Struct(tuple(Column(name, kind) for name, kind in fields.items()))
        case Array(), Array():
            return Array(_merged(one.element, other.element))
    return STRING


@dataclass
class _FieldNotes:
    """What is told of fields while their types are decided.

    Attributes:
        sentences: why a type was chosen, or a field left out.
        quotes: whether a column of numbers has some in quotes.
    """

    sentences: list[str] = field(default_factory=list)
    quotes: bool = False


def _fitting(fields: Iterable[Column], place: str, told: _FieldNotes, *, of_record: bool) -> Iterator[Column]:
    """The fields that a table can have as columns, or as fields of one; of the others it is told why not.

    Args:
        place: of the column that they are within, with a dot; empty for the record itself.
        told: gets a sentence for each that is left out.
        of_record: whether they are to be columns beside lakeingest's own.
    """
    taken: dict[str, str] = {}
    for each in fields:
        shown, within = printable(f"{place}{each.name}"), _FieldNotes()
        kind = _storable(each.type, f"{place}{each.name}.", within)
        if kind is None:
            told.sentences += within.sentences
            told.sentences.append(f"Left out: {shown}, which is null, or empty, in each record of the sample")
        elif why := _unfit(each.name, kind, taken, own=of_record):
            told.sentences.append(f"Left out: {shown}: {printable(why)}")
        else:
            told.sentences += within.sentences
            told.quotes |= within.quotes
            taken[each.name.lower()] = each.name
            yield Column(each.name, kind)


def _unfit(name: str, kind: Type, taken: Mapping[str, str], *, own: bool) -> str | None:
    """Why a field can be no column."""
    if own and name.startswith("_"):
        return "names that begin with _ are lakeingest's own"
    if (other := taken.get(name.lower())) is not None:
        return f"it differs from {other} in upper and lower case alone, which a table cannot tell apart"
    if not name.isprintable():
        return "its name has a character that is not printable"
    try:
        (column,) = ddl.parse(_declared(Column(name, kind)))
        model.value_columns(model.from_columns([column]))
    except (ddl.DdlError, SchemaError) as error:
        return str(error)
    return None if column == Column(name, kind) else "its name cannot be written as a column's"


def _storable(kind: Type, place: str, told: _FieldNotes) -> Type | None:
    """The type as a table can have it; None where nothing is known of it."""
    match kind:
        case Values():
            if note := kind.note(printable(place[:-1])):
                told.sentences.append(note)
            told.quotes |= kind.in_quotes
            return kind.type
        case Struct(fields) if len(fields) > _MOST_WITHIN:
            told.sentences.append(
                f"The field {printable(place[:-1])} has {len(fields):,} different ones within: it is kept as JSON text"
            )
            return STRING
        case Struct(fields):
            within = tuple(_fitting(fields, place, told, of_record=False))
            return Struct(within) if within else None
        case Array(element):
            stored = _storable(element, place, told)
            return None if stored is None else Array(stored)
    return None if kind == VOID else kind


def _ddl(columns: Iterable[Column]) -> str:
    return ", ".join(map(_declared, columns))


def lines(columns_ddl: str) -> list[str]:
    """Columns as DDL, one a line."""
    columns = ddl.parse(columns_ddl)
    return [_declared(each) + ("" if each is columns[-1] else ",") for each in columns]


def _declared(column: Column, between: str = " ") -> str:
    name = column.name if _PLAIN.fullmatch(column.name) else ddl.quoted(column.name)
    return f"{name}{between}{_type(column.type)}"


def _type(kind: Type) -> str:
    match kind:
        case Struct(fields):
            return f"STRUCT<{', '.join(_declared(each, ': ') for each in fields)}>"
        case Array(element):
            return f"ARRAY<{_type(element)}>"
    return str(kind).upper()


def _notes(columns: Iterable[Column]) -> Iterator[str]:
    """What somebody should know of types that a sample cannot be sure of."""
    declared = _ddl(columns)
    if re.search(r"\bDOUBLE\b", declared):
        yield "A number with a fraction is a DOUBLE, which is not exact: write DECIMAL(p,s) for amounts of money"
    if re.search(r"\bTIMESTAMP\b", declared):
        yield "A TIMESTAMP without a zone is read as UTC: decode.value.timezone says otherwise"


def _times(value: _Side) -> tuple[str, Period, str] | None:
    """The column that the table may be partitioned by, the period, and why; None where no column will do."""
    candidates = [c for c in value.columns if c.type in (TIMESTAMP, DATE) and _PLAIN.fullmatch(c.name)]
    for column in sorted(candidates, key=lambda c: c.type == DATE):
        texts = [values.time_text(each.get(column.name)) for each in value.objects]
        if not all(texts):
            continue
        periods: tuple[tuple[Period, int], ...] = (("day", 10), ("month", 7))
        for every, length in periods:
            touched = len({text[:length] for text in texts})
            if touched <= _MOST_PARTITIONS:
                others = [c.name for c in candidates if c is not column]
                also = f"; so may be {', '.join(others[:5])}" if others else ""
                return (
                    column.name,
                    every,
                    f"The field {column.name} is a time in each of the {number_of(len(texts), 'record')}, which "
                    f"touch {touched} "
                    f"{every}{'' if touched == 1 else 's'}{also}; a record without it goes to quarantine",
                )
    return None
