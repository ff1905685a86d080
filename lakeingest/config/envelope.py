"""The envelope of change events: what stands around the row in a record of a database's changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from lakeingest.config.base import Mistake, Part
from lakeingest.config.formats import JsonValue, brings_schema
from lakeingest.config.values import FieldPath
from lakeingest.schema import ddl, debezium, event_form, model
from lakeingest.schema.debezium import CHANGE, CHANGED_AT, CHANGES, POSITION, Connector
from lakeingest.schema.event_form import EventForm

if TYPE_CHECKING:
    from lakeingest.config import parts
    from lakeingest.config.row_mode import RowMode
    from lakeingest.config.transform import Transform

_KEYED = ("upsert", "changelog", "history")
_STEPS = frozenset({"drop", "keep", "mask", "where"})
"""Steps that leave the other columns as they are."""
_OF_JSON = ("decimals", "connector", "flattened")
"""Options of Debezium's envelope that say what a schema would."""
_Ops = Annotated[tuple[str, ...], Field(min_length=1)]


class EventSources(Part):
    """Where events come from, whatever their form."""

    several_databases: bool = Field(
        False,
        description="Whether several databases, as the shards of one, write events into the same topic. Their logs "
        "have no common order: a log that begins anew is not noticed then, and no position is named.",
    )


class DebeziumEnvelope(EventSources):
    """A record is an event of Debezium: before, after, op and source."""

    format: Literal["debezium"] = Field(
        description="Debezium's change events. A record becomes the row that it is about, with the columns _change, "
        "_position, _changed_at and _unavailable. Under format json, whose records bring no schema, the types are "
        "those of schema.columns; decode.value.epoch says what a number in a TIMESTAMP or TIMESTAMP_NTZ counts, and "
        "one in a DATE counts days."
    )
    unavailable: str = Field(
        "__debezium_unavailable_value",
        min_length=1,
        description="What stands for a value that the database did not log, as the connector's "
        "unavailable.value.placeholder has it. The column keeps what its row has.",
    )
    decimals: Literal["base64", "numeric"] = Field(
        "base64",
        description="How a DECIMAL is written under format json: base64, the bytes of the number without its point, as "
        "by decimal.handling.mode=precise, so that the column must have the scale of the database; or numeric, a "
        "number, in quotes or not, as by the modes double and string, or the converter's decimal.format=NUMERIC.",
    )
    flattened: bool = Field(
        False,
        description="Whether the connector's ExtractNewRecordState has flattened the records, under format json: a "
        "record is the row, with __op or __deleted, and other fields whose names begin with two underscores, beside "
        "it. Records with a schema tell it themselves.",
    )
    connector: Connector | None = Field(
        None,
        description="Whose log the places of events are of, under format json: postgresql, mysql (and MariaDB), "
        "sqlserver, oracle or mongodb. Left out: each event tells; those of SQL Server and MongoDB have to be named. "
        "Of mongodb the row is a document in Extended JSON, whose numbers, dates, ids and bytes are read as plain "
        "ones, and decimals are numeric.",
        examples=["sqlserver", "mongodb"],
    )

    @property
    def has_documents(self) -> bool:
        """Whether rows come as MongoDB's documents; flattened ones are no documents any more."""
        return self.connector == "mongodb" and not self.flattened

    @property
    def form(self) -> EventForm:
        """Where an event has its parts."""
        return event_form.DEBEZIUM


class ChangeValues(Part):
    """What stands at `op` for each kind of change."""

    insert: _Ops = Field(description="Of rows that were inserted.", examples=[["insert"]])
    update: _Ops = Field(description="Of rows that were updated.", examples=[["update"]])
    delete: _Ops = Field(description="Of rows that were deleted.", examples=[["delete"]])
    truncate: _Ops | None = Field(None, description="Of a table that was emptied. Default: nothing.")
    snapshot: _Ops | None = Field(
        None, description="Of rows that were there before. Default: nothing.", examples=[["bootstrap-insert"]]
    )


class FieldsEnvelope(EventSources):
    """A record is an event of another tool, as Maxwell or Canal: the file names the fields of its parts."""

    format: Literal["fields"] = Field(
        description="Events of any other form, under decode.value.format json: the file says where the row is, and "
        "what was done to it. A record becomes the row, with the columns _change, _position, _changed_at and "
        "_unavailable."
    )
    after: FieldPath = Field(
        description="The field that has the row, dotted within objects. An array of one row is that row; one of "
        "several sends the record to quarantine.",
        examples=["data"],
    )
    before: FieldPath | None = Field(
        None, description="The field that has the row which a delete took away. Default: that of after."
    )
    op: FieldPath = Field(description="The field that says what was done.", examples=["type"])
    values: ChangeValues = Field(description="What stands there for each kind of change.")
    position: Annotated[tuple[FieldPath, ...], Field(max_length=3)] = Field(
        (),
        description="Fields of whole numbers, the first one the most significant, by which events are in order: of two "
        "events of a row the one with the greater numbers is the later. Default: the order of the records.",
        examples=[["xid", "xoffset"]],
    )
    changed_at: FieldPath | None = Field(
        None,
        description="The field that has the time of the change: ISO 8601, or a number as decode.value.epoch says. "
        "Default: _changed_at is null.",
        examples=["ts"],
    )

    @property
    def form(self) -> EventForm:
        """Where an event has its parts."""
        changes = {op: change for change, ops in self.values for op in ops or ()}
        return EventForm(self.after, self.before or self.after, self.op, changes)

    @property
    def paths(self) -> tuple[str, ...]:
        """All that is read of a record."""
        paths = (self.after, self.before, self.op, *self.position, self.changed_at)
        return tuple(dict.fromkeys(path for path in paths if path is not None))


Envelope: TypeAlias = DebeziumEnvelope | FieldsEnvelope


def with_row_mode(file: Any) -> Any:
    """A pipeline file, as it was read, with what its envelope says of keys, order and deletes where the file is silent.

    A delete is an event of its own, and the tombstone behind it says nothing more.
    """
    if not (isinstance(file, Mapping) and isinstance(file.get("decode"), Mapping) and file["decode"].get("envelope")):
        return file
    table = file.get("table")
    if not isinstance(table, Mapping):
        return file
    if table.get("mode") not in _KEYED:
        return {**file, "decode": {"on_null": "ignore", **file["decode"]}}
    marker = {"field": CHANGE, "values": [CHANGES["d"]]}
    keyed = {"order_by": [POSITION], "on_tombstone": "ignore", "on_delete_marker": marker}
    dated = {"valid_from": CHANGED_AT} if table["mode"] == "history" else {}
    return {**file, "table": {**keyed, **dated, **table}}


def mistakes(
    decode: parts.Decode, schema: parts.Schema | None, table: RowMode | None, steps: Sequence[Transform]
) -> Iterator[Mistake]:
    """What contradicts the envelope."""
    if decode.envelope is None:
        return
    if schema and schema.columns and isinstance(decode.value, JsonValue):
        yield from _of_declared(schema, schema.columns)
    if table and table.upserts:
        if table.order_by not in ((), (POSITION,)):
            yield Mistake(
                ("table", "order_by"),
                f"is {POSITION} where decode.envelope is given: the database's own order tells which event is the "
                "latest; drop order_by",
            )
        for at, step in enumerate(each.step for each in steps):
            if step.kind not in _STEPS:
                yield Mistake(
                    ("transform", at, step.kind),
                    "of a value that the database did not log it would make another column, which the row's own value "
                    f"never reaches; with decode.envelope, mode upsert takes {', '.join(sorted(_STEPS))}: give columns "
                    "other names by schema.names, and compute others in a view",
                )
    if not (brings_schema(decode.value) or isinstance(decode.value, JsonValue)):
        yield Mistake(
            ("decode", "envelope"),
            "needs records that bring their schema, or JSON whose columns the file declares, and decode.value.format "
            f"is {decode.value.format}; let the connector write schemas (value.converter.schemas.enable=true) and "
            "write format: connect_json, use a registry, or write format: json and schema.columns",
        )
    elif isinstance(decode.envelope, FieldsEnvelope):
        yield from _of_fields(decode.envelope, decode)
    else:
        yield from _of_debezium(decode.envelope, decode)


def _of_debezium(envelope: DebeziumEnvelope, decode: parts.Decode) -> Iterator[Mistake]:
    if brings_schema(decode.value):
        for name in sorted({*_OF_JSON} & envelope.model_fields_set):
            yield Mistake(
                ("decode", "envelope", name),
                f"is of decode.value.format json; under {decode.value.format} the records' schema says it: drop it",
            )
    elif isinstance(decode.value, JsonValue) and envelope.has_documents and decode.value.epoch != "millis":
        yield Mistake(
            ("decode", "value", "epoch"),
            f"is millis with decode.envelope.connector mongodb, whose dates count them, not {decode.value.epoch}; "
            "drop it",
        )


def _of_fields(envelope: FieldsEnvelope, decode: parts.Decode) -> Iterator[Mistake]:
    if not isinstance(decode.value, JsonValue):
        yield Mistake(
            ("decode", "envelope", "format"),
            f"fields is of decode.value.format json, not of {decode.value.format}; write format: json, and declare the "
            "row's columns in schema.columns",
        )
    for outer, inner in event_form.conflicts(envelope.paths):
        yield Mistake(
            ("decode", "envelope"), f"{inner} leads into {outer}, which is read as a whole; name fields beside it"
        )
    ops = [op for _, ops in envelope.values for op in ops or ()]
    if twice := sorted({op for op in ops if ops.count(op) > 1}):
        yield Mistake(("decode", "envelope", "values"), f"{', '.join(twice)} stands twice; name each once")


def _of_declared(schema: parts.Schema, columns: str) -> Iterator[Mistake]:
    if schema.compatibility not in (None, "FORWARD"):
        yield Mistake(
            ("schema", "compatibility"),
            "is FORWARD for JSON with decode.envelope: fields of the row that are not declared go to _rescued; drop it",
        )
    if required := ", ".join(column.name for column in ddl.parse(columns) if not column.nullable):
        yield Mistake(
            ("schema", "columns"),
            f"NOT NULL is declared for {required}, but events of deletes, and values that the database did not log, "
            "leave columns null; drop NOT NULL",
        )


def declared(envelope: Envelope | None, columns: str | None) -> str:
    """The columns that the file declares, with those that stand beside a change event's row, as DDL; empty for none."""
    if envelope is None or not columns:
        return columns or ""
    connector = envelope.connector if isinstance(envelope, DebeziumEnvelope) else None
    beside = model.value_columns(model.Schema("struct", fields=debezium.beside(connector)))
    return ", ".join((columns, *(f"{column.name} {column.type}" for column in beside)))
