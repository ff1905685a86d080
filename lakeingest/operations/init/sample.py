"""What a sample of a topic's records says of their formats and columns. Pure, and without Spark.

A format is one that nearly all records have: the few that have another would be refused, and are told. A column's type
takes all of its values in the sample, as `decode` reads them: STRING takes any JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal
from uuid import UUID

from lakeingest.errors import number_of
from lakeingest.operations.init import fields, values
from lakeingest.operations.init.values import DATE, NEARLY, STRING, TIMESTAMP, Sample, Values
from lakeingest.schema import json_values
from lakeingest.schema.ddl import Column
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.json_values import Object
from lakeingest.schema.ledger import SchemaId, Side
from lakeingest.schema.observed_types import VOID, merged

Format = Literal["json", "avro", "protobuf", "json_schema", "string", "bytes"]
Period = Literal["day", "month"]

_MOST_FIELDS = 500
"""Columns; the keys of an object with more are rather data."""
_DEEPEST = 20
_MOST_PARTITIONS = 31
"""Days, or months, that the sample may touch."""
_HEADER = 5
_GUID_HEADER = 17
_GLUE_HEADER = 18
_FORMATS: Mapping[str, Format] = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}
"""By the types of a schema registry."""


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
    registered: Callable[[SchemaId], str | None] = lambda id: None,
    headers: Sequence[Mapping[str, bytes | None]] = (),
) -> Sampled:
    """What these records say.

    Args:
        values, keys: of the same records, in any order.
        registered: the type of a schema that a registry has under an id or a GUID: AVRO, PROTOBUF or JSON; None where
            it has none, or no registry can be asked.
        headers: of each record.
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
        fields.ddl_of(value.columns) if value.format == "json" else "",
        fields.ddl_of(key.columns) if key.format == "json" else "",
        value.quotes,
        key.quotes,
        times[0] if times else None,
        times[1] if times else "day",
        {
            "decode.value": value.why,
            "decode.key": (*key.why, *key.notes),
            "schema.columns": (*_notes(value.columns), *value.notes) if value.format == "json" else (),
            "partition": (times[2],) if times else (),
        },
    )


@dataclass(frozen=True)
class _Side:
    """What the values, or the keys, say."""

    format: Format
    why: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    quotes: bool = False
    objects: tuple[Object, ...] = ()


def _side(
    sample: Sequence[bytes | None],
    side: Side,
    registered: Callable[[SchemaId], str | None],
    headers: Sequence[Mapping[str, bytes | None]],
) -> _Side:
    values_present = [each for each in sample if each is not None]
    empty = len(sample) - len(values_present)
    without = (f"{empty:,} of {len(sample):,} records have no {side}",) if empty else ()
    if not values_present:
        return _Side("bytes", without or ("There is no record",))
    # Where a header of the record names the schema, the first bytes are no id.
    by_header = [each.get(RECORD_HEADER[side]) for each in headers] or [None] * len(sample)
    records = [(each, header) for each, header in zip(sample, by_header, strict=True) if each is not None]
    result = (
        _registry(records, side, registered)
        or _glue([b"" if header else each for each, header in records], side)
        or _json(values_present, side)
        or _text(values_present, side)
    )
    share = f"{sum(map(bool, by_header)):,} of {len(sample):,} records name the schema in their header "
    return replace(result, why=(*result.why, *without, *((share + RECORD_HEADER[side],) if any(by_header) else ())))


def _share(count: int, all_: int, side: str, text: str) -> str:
    """A sentence such as "297 of 300 values are JSON objects; a run would refuse the others"."""
    refusal = "" if count == all_ else "; a run would refuse the others"
    return f"{count:,} of {all_:,} {side}s are {text}{refusal}"


def _id(value: bytes, header: bytes | None) -> SchemaId | None:
    """The id or GUID of its schema that a record names."""
    if header and header[0] == 1 and len(header) >= _GUID_HEADER:
        return str(UUID(bytes=header[1:_GUID_HEADER]))
    begin = header or value[: len(value) - 1]
    return int.from_bytes(begin[1:_HEADER], "big") or None if begin[:1] == b"\0" and len(begin) >= _HEADER else None


def _registry(
    records: Sequence[tuple[bytes, bytes | None]], side: str, registered: Callable[[SchemaId], str | None]
) -> _Side | None:
    ids = Counter(id for record in records if (id := _id(*record)) is not None)
    if ids.total() < NEARLY * len(records):
        return None
    types = Counter(kind for id, _ in ids.most_common(20) if (kind := registered(id)) in _FORMATS)
    share = _share(ids.total(), len(records), side, "framed by a schema registry's header")
    texts = sorted(map(str, ids), key=lambda text: (len(text), text))
    ids_text = f"schema id{'' if len(ids) == 1 else 's'} {', '.join(texts[:5])}"
    if not types:
        # Bytes that begin so by chance are no reason for it.
        if _text([value for value, _ in records], side).format == "string":
            return None
        cure = f"if it is one, write decode.{side}.format: avro, protobuf or json_schema, and registry.url"
        return _Side("bytes", (share.partition(";")[0], f"No registry that was asked knows {ids_text}: {cure}"))
    ((kind, _),) = types.most_common(1)
    assert kind is not None
    mixed = (f"The registry has schemas of several formats for them: {', '.join(map(str, types))}",)
    return _Side(_FORMATS[kind], (share, f"The registry has {ids_text} as {kind}", *(mixed if len(types) > 1 else ())))


def _glue(values_present: Sequence[bytes], side: str) -> _Side | None:
    headed = [each for each in values_present if len(each) >= _GLUE_HEADER and each[0] == 3 and each[1] in (0, 5)]
    if len(headed) < NEARLY * len(values_present):
        return None
    share = _share(len(headed), len(values_present), side, "framed as AWS Glue Schema Registry's serializers do")
    cure = f"to decode them write decode.{side}.format: avro, protobuf or json_schema, and registry: {{glue: {{}}}}"
    return _Side("bytes", (share.partition(";")[0], cure))


def _text(values_present: Sequence[bytes], side: str) -> _Side:
    texts = sum(_is_text(each) for each in values_present)
    if texts >= NEARLY * len(values_present):
        return _Side("string", (_share(texts, len(values_present), side, "text in UTF-8, and no JSON objects"),))
    return _Side("bytes", (f"The {side}s are neither text in UTF-8, nor framed by a schema registry's header",))


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(c < " " and c not in "\t\r\n" for c in text)


# JSON ---------------------------------------------------------------------------------------------------------------


def _json(values_present: Sequence[bytes], side: str) -> _Side | None:
    kinds, objects = list[Sample](), list[Object]()
    for each in values_present:
        read = _read(each)
        if isinstance(read, Object):
            objects.append(read)
            kinds.append(_kind(read))
    if len(objects) < NEARLY * len(values_present):
        return None
    whole = reduce(_merged, kinds)
    assert isinstance(whole, dict)
    notes = fields.FieldNotes()
    columns = tuple(fields.fitting(whole, "", notes, of_record=side == "value"))
    if len(columns) > _MOST_FIELDS:
        notes.sentences.append(f"Left out: all but the first {_MOST_FIELDS:,} of {number_of(len(columns), 'field')}")
    why = (_share(len(objects), len(values_present), side, "JSON objects"),)
    return _Side("json", why, columns[:_MOST_FIELDS], tuple(notes.sentences), notes.quotes, tuple(objects))


def _read(value: bytes) -> Any:
    """What a JSON text holds; None where it is none."""
    try:
        return json_values.read(value)
    except (ValueError, RecursionError):
        return None


def _kind(value: Any, depth: int = 0) -> Sample:
    """The type of a JSON value."""
    if not isinstance(value, Object | list):
        return values.of(value)
    if depth == _DEEPEST:
        return STRING
    if isinstance(value, Object):
        fields: dict[str, Sample] = {}
        for name, within in value.pairs:
            fields[name] = _merged(fields.get(name, VOID), _kind(within, depth + 1))
        return fields
    return [reduce(_merged, (_kind(within, depth + 1) for within in value), VOID)]


def _merged(one: Any, other: Any) -> Any:
    """The type that takes all that two take."""
    return merged(one, other, lambda a, b: a + b if isinstance(a, Values) and isinstance(b, Values) else STRING)


def _notes(columns: Iterable[Column]) -> Iterator[str]:
    """What somebody should know of types that a sample cannot be sure of."""
    declared = fields.ddl_of(columns)
    if re.search(r"\bDOUBLE\b", declared):
        yield "A number with a fraction is a DOUBLE, which is not exact: write DECIMAL(p,s) for amounts of money"
    if re.search(r"\bTIMESTAMP\b", declared):
        yield "A TIMESTAMP without a zone is read as UTC: decode.value.timezone says otherwise"


def _times(value: _Side) -> tuple[str, Period, str] | None:
    """The column that the table may be partitioned by, the period, and why; None where no column will do."""
    candidates = [c for c in value.columns if c.type in (TIMESTAMP, DATE) and fields.PLAIN_NAME.fullmatch(c.name)]
    for column in sorted(candidates, key=lambda c: c.type == DATE):
        texts = [values.time_text(each.get(column.name)) for each in value.objects]
        if not all(texts):
            continue
        periods: tuple[tuple[Period, int], ...] = (("day", 10), ("month", 7))
        for every, length in periods:
            touched = len({text[:length] for text in texts})
            if touched <= _MOST_PARTITIONS:
                more_columns = [c.name for c in candidates if c is not column]
                also = f"; so may be {', '.join(more_columns[:5])}" if more_columns else ""
                return (
                    column.name,
                    every,
                    f"The field {column.name} is a time in each of the {number_of(len(texts), 'record')}, which "
                    f"touch {touched} "
                    f"{every}{'' if touched == 1 else 's'}{also}; a record without it goes to quarantine",
                )
    return None
