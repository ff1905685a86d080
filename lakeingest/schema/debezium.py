"""What Debezium's change events mean: the columns of the row that one is about, and its place in the database's log.

An event is {before, after, source, op, …}: `after` is the row as it is now, `before` the row as it was (of a delete the
only one). A row's fields have semantic types, by the names of their schemas: `io.debezium.time.MicroTimestamp` is a
BIGINT of microseconds. Source: the documentation of Debezium 3.6, "Change events" and "Data type mappings" of each
connector. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from lakeingest.schema import model
from lakeingest.schema.model import Field, Schema, SchemaError

BEFORE, AFTER, SOURCE, OP = "before", "after", "source", "op"
FLAT = "__"
"""What the names of all fields begin with that stand beside the row in a flattened record."""
FLAT_OP, FLAT_DELETED = "__op", "__deleted"
SOURCE_FIELDS = frozenset(
    {
        *("lsn", "sequence", "file", "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "scn", "commit_scn"),
        *("ord", "ts_us", "ts_ms"),
    }
)
"""What of `source` tells an event's place in the log, and its time."""
_TIMES = frozenset({"ts_us", "ts_ms"})
SOURCE_NUMBERS = frozenset({"lsn", "pos", "row", "event_serial_no", "ord", "ts_us", "ts_ms"})
"""Those that are whole numbers; the others are texts."""
CHANGE, POSITION, CHANGED_AT, UNAVAILABLE = "_change", "_position", "_changed_at", "_unavailable"
"""Columns beside the row's:

_change STRING                  what was done: one of `CHANGES`
_position STRUCT<commit: BIGINT, event: BIGINT, row: BIGINT>
                                the event's place in the database's log, as numbers; of SQL Server DECIMAL(25,0)
_changed_at TIMESTAMP           when the database committed it, by its own clock
_unavailable MAP<STRING, STRUCT<commit, event, row, topic: STRING, partition: INT, offset: BIGINT>>
                                the columns whose values the event does not have, since the database did not log them
                                → the event that the column's value is of; null where the column has none
"""
CHANGES: Mapping[str, str] = {
    "r": "snapshot",
    "c": "insert",
    "u": "update",
    "d": "delete",
    "t": "truncate",
}
"""`op` → the value of _change."""
DELETES, ROWS = ("delete",), ("snapshot", "insert", "update")
"""Values of _change: of events whose row stands in `before`, and in `after`."""
HEARTBEAT = "heartbeat"
ROWLESS: Mapping[str, frozenset[str]] = {
    "logical message": frozenset({"op", "source", "message"}),
    "transaction marker": frozenset({"status", "id", "event_count", "data_collections"}),
    "schema change": frozenset({"databaseName", "ddl", "tableChanges"}),
    HEARTBEAT: frozenset({"ts_ms"}),
}
"""What a connector sends beside the events of rows → the fields by which it is known. A heartbeat has no others."""
COMMIT, EVENT, ROW = "commit", "event", "row"
DOCUMENT = "document"
"""The one column of a row that comes as a text: MongoDB's documents, which have no schema."""

Connector: TypeAlias = Literal["postgresql", "mysql", "sqlserver", "oracle", "mongodb"]
KNOWN_BY: Mapping[Connector, frozenset[str]] = {
    "sqlserver": frozenset({"commit_lsn", "change_lsn"}),
    "postgresql": frozenset({"lsn"}),
    "mysql": frozenset({"file", "pos"}),
    "oracle": frozenset({"scn"}),
    "mongodb": frozenset({"ts_ms", "ord"}),
}
"""A connector → the fields of `source` by which it is known."""

_LSN = Schema("bytes", model.DECIMAL, parameters=((model.PRECISION, "25"), (model.SCALE, "0")))
"""A log sequence number of SQL Server has ten bytes."""
_LOCAL = Schema("int64", model.LOCAL_TIMESTAMP_MICROS)
_TEXT = Schema("string")
SEMANTIC: Mapping[str, Schema] = {
    "io.debezium.time.Date": Schema("int32", model.DATE),
    "io.debezium.time.Timestamp": _LOCAL,
    "io.debezium.time.MicroTimestamp": _LOCAL,
    "io.debezium.time.NanoTimestamp": _LOCAL,
    "io.debezium.time.ZonedTimestamp": Schema("int64", model.TIMESTAMP_MICROS),
    "io.debezium.time.IsoDate": Schema("int32", model.DATE),
    "io.debezium.time.IsoTimestamp": _LOCAL,
    "io.debezium.time.IsoTime": _TEXT,
    "io.debezium.time.Time": _TEXT,
    "io.debezium.time.MicroTime": _TEXT,
    "io.debezium.time.NanoTime": _TEXT,
    "io.debezium.data.VariableScaleDecimal": _TEXT,
    "io.debezium.data.Bits": _TEXT,
    model.DATE: Schema("int32", model.DATE),
    model.TIME: _TEXT,
    model.TIMESTAMP: _LOCAL,
}
"""The name of a field's schema → what its column holds. Others are as they come: texts (uuid, json, xml, enum,
interval, zoned times), numbers (years, durations in microseconds), structs (geometry: its well-known bytes and SRID).
"""


class RowlessEvent(SchemaError):
    """Records of a schema are about no row.

    Attributes:
        kind: what they are, one of `ROWLESS`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"its records are about no row: each is a {kind} of Debezium")
        self.kind = kind


def connector(source: Collection[str]) -> Connector | None:
    """Whose events have these fields in `source`; None for a connector whose log has no order that is known here."""
    return next((name for name, fields in KNOWN_BY.items() if fields <= set(source)), None)


def is_flat(event: Schema) -> bool:
    """Whether the envelope was taken off by Debezium's ExtractNewRecordState: the record is the row, with some fields
    of the event under names that begin with two underscores.
    """
    return event.field(AFTER) is None and any(event.field(name) for name in (FLAT_OP, FLAT_DELETED))


def has_document(event: Schema) -> bool:
    """Whether the row comes as a text, as MongoDB's connector sends it."""
    row = event.field(AFTER)
    return row is not None and row.type == "string"


def flat_names(name: str) -> tuple[str, ...]:
    """What a flattened record may call a field of `source`, as `add.fields` has it: source.lsn or lsn.

    Of a time only the first: `__ts_ms` is the event's own, when the connector made it.
    """
    of_source = f"{FLAT}{SOURCE}_{name}"
    return (of_source,) if name in _TIMES else (of_source, f"{FLAT}{name}")


def row_fields(event: Schema) -> tuple[Field, ...]:
    """The fields of the rows that such events are about.

    Raises:
        RowlessEvent: it is about none.
        SchemaError: it is no change event.
    """
    if is_flat(event):
        return tuple(f for f in event.fields if not f.name.startswith(FLAT))
    row, fields = event.field(AFTER), {f.name for f in event.fields}
    for kind, known_by in ROWLESS.items():
        if row is None and known_by <= fields and (kind != HEARTBEAT or known_by == fields):
            raise RowlessEvent(kind)
    if row is None or row.type not in ("struct", "string") or not event.field(SOURCE) or not event.field(OP):
        names = ", ".join(field.name for field in event.fields) or event.type
        raise SchemaError(
            f"{event.name or 'its schema'} is no change event of Debezium: that has after, source and op, or, where "
            f"ExtractNewRecordState has flattened it, {FLAT_OP} or {FLAT_DELETED} (add.fields=op,lsn); it has {names}"
        )
    return (Field(DOCUMENT, row),) if row.type == "string" else row.fields


def source_fields(event: Schema) -> Mapping[str, str]:
    """The fields of `source` that there are → what the record calls them, or its `source` does."""
    if is_flat(event):
        fields = {name: [each for each in flat_names(name) if event.field(each)] for name in sorted(SOURCE_FIELDS)}
        return {name: names[0] for name, names in fields.items() if names}
    source = event.field(SOURCE)
    return {f.name: f.name for f in source.fields if f.name in SOURCE_FIELDS} if source else {}


def row_schema(event: Schema) -> Schema:
    """The schema of the row that an event is about, with the columns beside it. All of its fields may be null.

    Raises:
        SchemaError: it is no change event, or has a column of a name that is needed here.
    """
    row = event if is_flat(event) or has_document(event) else event.field(AFTER) or event
    fields = tuple(Field(f.name, converted(f.schema)) for f in row_fields(event))
    columns = (CHANGE, POSITION, CHANGED_AT, UNAVAILABLE)
    if reserved := next((f.name for f in fields if f.name.lower() in columns), None):
        raise SchemaError(f"{reserved}: decode.envelope makes a column of that name; name it in schema.names")
    beside_fields = beside(connector(source_fields(event)))
    return Schema("struct", row.name, fields=(*fields, *beside_fields), version=event.version, doc=row.doc)


def beside(connector: str | None) -> tuple[Field, ...]:
    """The fields beside a row's."""
    number = _LSN if connector == "sqlserver" else Schema("int64")
    position = model.struct({COMMIT: number, EVENT: number, ROW: Schema("int64")}, optional=True)
    schemas = {
        CHANGE: Schema("string", optional=True),
        POSITION: position,
        CHANGED_AT: Schema("int64", model.TIMESTAMP_MICROS, optional=True),
        UNAVAILABLE: Schema("map", optional=True, key=_TEXT, value=_place(position)),
    }
    return tuple(Field(name, schema) for name, schema in schemas.items())


def _place(position: Schema) -> Schema:
    """Of an event: its position and its coordinates, in the order by which events are compared."""
    coordinates = (("topic", _TEXT), ("partition", Schema("int32")), ("offset", Schema("int64")))
    return replace(position, fields=(*position.fields, *(Field(name, part) for name, part in coordinates)))


def converted(schema: Schema) -> Schema:
    """What a column holds of such a field."""
    if (semantic := SEMANTIC.get(schema.name or "")) is not None:
        return replace(semantic, optional=True, doc=schema.doc)
    value = converted(schema.value) if schema.value is not None else None
    fields = tuple(replace(f, schema=converted(f.schema)) for f in schema.fields)
    return replace(schema, optional=True, default=None, value=value, fields=fields)


def needed(event: Schema) -> Schema:
    """The part of an event's schema that a row is made of: no more of a record has to be read."""
    source = event.field(SOURCE)
    if source is None or event.field(AFTER) is None:
        return event
    part = replace(source, fields=tuple(f for f in source.fields if f.name in SOURCE_FIELDS))
    fields = (f for f in event.fields if f.name in (BEFORE, AFTER, SOURCE, OP))
    return replace(event, fields=tuple(replace(f, schema=part) if f.name == SOURCE else f for f in fields))
