"""Change events of JSON without schemas: the file says which columns a row has, and where an event has its row.

An event is parsed twice: its parts first, the row as text; then the one row that it is about, as any other JSON is read
against declared columns. What becomes of the parts is the same as with schemas: see `debezium.ChangeReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest import config
from lakeingest.config import DebeziumEnvelope, FieldsEnvelope, JsonValue, PipelineConfig
from lakeingest.decode import debezium as events
from lakeingest.decode import extended_json, json, json_columns, json_names, log_place, rowless
from lakeingest.decode.debezium import ChangeReader
from lakeingest.decode.writers import SchemaBranch, SchemaBranches
from lakeingest.schema import ddl, debezium, model
from lakeingest.schema.json_values import AS_IT_IS, Texts
from lakeingest.schema.model import Schema
from lakeingest.spark import types

_TOLD_BY_EVENT: tuple[debezium.Connector, ...] = ("oracle", "mysql", "postgresql")
"""Connectors whose places are BIGINTs; of two that could be meant the last one is."""
_NAMED_BY_FILE: Mapping[debezium.Connector, tuple[str, str]] = {
    "sqlserver": ("commit_lsn", "SQL Server"),
    "mongodb": ("ord", "MongoDB"),
}
"""Connectors that the file has to name, each with a field of `source` that it alone has, and its database."""
_FLAT_MARKS = (debezium.FLAT_OP, debezium.FLAT_DELETED)
_FLAT = f"it has {' or '.join(_FLAT_MARKS)}, as ExtractNewRecordState writes: set decode.envelope.flattened to true"
_NOT_FLAT = (
    f"it has neither {' nor '.join(_FLAT_MARKS)}: let ExtractNewRecordState write them (add.fields=op, "
    "delete.tombstone.handling.mode=rewrite), or drop decode.envelope.flattened"
)


def branches(pipeline: PipelineConfig) -> SchemaBranches:
    """How the events of a pipeline are read whose columns its file declares."""
    envelope, value = pipeline.decode.envelope, pipeline.decode.value
    assert envelope is not None
    assert isinstance(value, JsonValue)
    declared, texts = ddl.parse(pipeline.schema_.columns or ""), json.texts_of(value)
    if isinstance(envelope, DebeziumEnvelope):
        texts = replace(texts, debezium=True, base64=envelope.decimals == "base64" and not envelope.has_documents)
    row = model.from_columns(declared)
    connector = envelope.connector if isinstance(envelope, DebeziumEnvelope) else None
    schema = replace(row, fields=(*row.fields, *debezium.beside(connector)))
    reader = JsonEventReader(
        fields=row.fields,
        row=schema,
        placeholder=envelope.unavailable if isinstance(envelope, DebeziumEnvelope) else "",
        form=envelope.form,
        envelope=envelope,
        columns=declared,
        texts=texts,
    )
    branch = SchemaBranch(b"", None, "schema.columns", schema, reader, schema)
    return SchemaBranches((branch,), framing=None, format="json")


@dataclass(frozen=True, kw_only=True)
class JsonEventReader(ChangeReader):
    """Reads events whose rows have declared columns.

    Attributes:
        columns: the declared ones.
        texts: how what is written becomes a value.
    """

    envelope: config.Envelope
    columns: tuple[ddl.Column, ...]
    texts: Texts

    def parse(self, payload: Column) -> Column:
        parsed = json.parse(payload, self._event_type, AS_IT_IS)
        return F.when(payload.isNotNull(), F.struct(parsed.alias("json"), payload.alias("text")))

    def rowless(self, parsed: Mapping[str, Column]) -> dict[str, Column]:
        return {kind: parsed["kind"] == kind for kind in self._kinds}

    @property
    def _kinds(self) -> Mapping[str, frozenset[str]]:
        """What is sent that has no row → the fields by which it is known."""
        return debezium.ROWLESS if isinstance(self.envelope, DebeziumEnvelope) else {}

    @property
    def further(self) -> Sequence[Callable[[Any], Mapping[str, Column]]]:
        return (self._event, self._row_parsed, self._parts, self._row)

    def _event(self, parsed: Column) -> dict[str, Column]:
        """The parts of an event as `ChangeReader` has them; `text`: STRING, its row; and `kind`."""
        event = parsed["json"]
        broken = parsed.isNotNull() & json.refused(parsed["text"], event, self._event_type, AS_IT_IS)
        op, text = self._operation(event, parsed["text"])
        if isinstance(self.envelope, FieldsEnvelope):
            text, odd, position, changed_at = self._of_fields(self.envelope, event, text)
        else:
            odd, position, changed_at = self._of_debezium(self.envelope, event)
            if self.envelope.has_documents:
                odd = F.coalesce(events.no_document(op, text), odd)
        return {
            "op": op,
            "broken": broken,
            "odd": odd,
            "position": position,
            "changed_at": changed_at,
            "text": F.when(~broken, text),
            "kind": F.when(~(broken | self._has_row(event)), rowless.kind_of(parsed["text"], self._kinds)),
        }

    def _has_row(self, event: Column) -> Column:
        """BOOLEAN, never null: whether a record is about a row for certain: nearly all are, and cost no more look."""
        marks = (debezium.FLAT_OP, debezium.FLAT_DELETED) if self._is_flat else (self.form.after, self.form.before)
        return reduce(or_, (_at(event, path).isNotNull() for path in marks))

    def _operation(self, event: Column, payload: Column) -> tuple[Column, Column]:
        """STRING: what was done, as the event writes it; and STRING: the text of the row."""
        if self._is_flat:
            return events.flat_op(event[debezium.FLAT_OP], event[debezium.FLAT_DELETED]), payload.cast("string")
        op, before, after = (_at(event, path) for path in (self.form.op, self.form.before, self.form.after))
        deletes = op.isin(self.form.ops(debezium.DELETES))
        if not (isinstance(self.envelope, DebeziumEnvelope) and self.envelope.has_documents):
            return op, F.when(deletes, before).otherwise(after)
        # A delete has no document, unless the database keeps what was there before.
        document = F.when(deletes, F.coalesce(before, F.lit("{}"))).otherwise(after)
        return op, extended_json.plain(document)

    def _of_debezium(self, envelope: DebeziumEnvelope, event: Column) -> tuple[Column, Column, Column]:
        source = {name: F.coalesce(*(_at(event, path) for path in paths)) for name, paths in self._source_paths.items()}
        is_flat = event[debezium.FLAT_OP].isNotNull() | event[debezium.FLAT_DELETED].isNotNull()
        odd = F.when(~is_flat, F.lit(_NOT_FLAT)) if envelope.flattened else F.when(is_flat, F.lit(_FLAT))
        changed_at = log_place.time_of(source)
        if envelope.connector:
            return odd, log_place.placed(log_place.place(source, envelope.connector)), changed_at
        position = log_place.placed(())
        for each in _TOLD_BY_EVENT:
            values = [source[name].isNotNull() for name in sorted(debezium.KNOWN_BY[each])]
            is_of_it = reduce(and_, values)
            position = F.when(is_of_it, log_place.placed(log_place.place(source, each))).otherwise(position)
        for each, (field, database) in _NAMED_BY_FILE.items():
            text = f"its source has {field}, as that of {database}: write decode.envelope.connector: {each}"
            odd = F.coalesce(odd, F.when(source[field].isNotNull(), F.lit(text)))
        return odd, position, changed_at

    def _of_fields(
        self, envelope: FieldsEnvelope, event: Column, text: Column
    ) -> tuple[Column, Column, Column, Column]:
        is_array = F.startswith(text, F.lit("["))
        rows = F.when(is_array, F.json_array_length(text))
        many = F.concat(
            F.lit(f"{self.form.after} has "),
            rows.cast("string"),
            F.lit(" rows, and one record is one row here; let the producer send one row a message"),
        )
        odd = F.when(rows != 1, many)
        numbers = []
        for path in envelope.position:
            written = _at(event, path)
            numbers.append(written.try_cast("bigint"))
            wrong = written.isNotNull() & numbers[-1].isNull()
            odd = F.when(wrong, F.lit(f"{path}, which tells the order, is no whole number")).otherwise(odd)
        changed_at = F.lit(None).cast("timestamp")
        if envelope.changed_at:
            fitted = json_columns.fit(_at(event, envelope.changed_at), T.TimestampType(), self.texts)
            changed_at = fitted.value
            wrong = json_columns.any_of(fitted.misfits)
            odd = F.when(wrong, F.lit(f"{envelope.changed_at} has no value that a TIMESTAMP can hold")).otherwise(odd)
        row = F.when(is_array, F.when(rows == 1, F.substring(text, F.lit(2), F.length(text) - 2))).otherwise(text)
        return row, odd, log_place.placed(numbers), changed_at

    def _row_parsed(self, event: Mapping[str, Column]) -> dict[str, Column]:
        """The same, and `json`, its row."""
        return {**event, "json": self._parsed_row(event["text"].cast("binary"))}

    def _parsed_row(self, text: Column) -> Column:
        parsed = json.parse(text, self._fields_type, self.texts)
        return json.under_columns(parsed, self._row_type, self.texts) if self._is_renamed else parsed

    def _parts(self, event: Mapping[str, Column]) -> dict[str, Column]:
        values = json.columns(event["json"], self._row_type, self.texts)
        parts = {name: event[name] for name in ("op", "odd", "position", "changed_at", "text", "json", "kind")}
        return {
            **parts,
            "broken": event["broken"] | self._is_refused(event["text"], event["json"]),
            "unread": F.lit(None).cast("string"),
            "has_row": event["text"].isNotNull(),
            **{str(at): each for at, each in enumerate(values.values())},
        }

    def _is_refused(self, text: Column, row: Column) -> Column:
        return text.isNotNull() & json.refused(text.cast("binary"), row, self._row_type, self.texts)

    def _row(self, event: Mapping[str, Column]) -> dict[str, Column]:
        return {**super()._row(event), **{name: event[name] for name in ("text", "json", "kind")}}

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        # Of a refused record alone: it is read again, so that nobody else has to hand its row on.
        event = self._event(self.parse(payload))
        row = F.when(~event["broken"], event["text"].cast("binary"))
        of_row = json.explained(row, self._fields_type, self.texts, withheld=withheld)["message"]
        rest = F.when(row.isNull(), payload)
        of_event = json.explained(rest, self._event_type, AS_IT_IS, withheld=withheld)["message"]
        return F.when(row.isNotNull(), of_row).otherwise(of_event)

    def rescued(self, parsed: Mapping[str, Column], dropped: tuple[str, ...], names: Schema) -> Column | None:
        text, row = parsed["text"].cast("binary"), parsed["json"]
        besides = debezium.FLAT if self._is_flat else ""
        rescued = json.rescued(text, row, self._fields_type, everywhere=self._is_renamed, besides=besides)
        if not self._is_renamed:
            return rescued
        return json_names.renamed(rescued, json_names.renamer(json_names.tree_of_columns(self.columns), {}))

    @property
    def _is_flat(self) -> bool:
        return isinstance(self.envelope, DebeziumEnvelope) and self.envelope.flattened

    @property
    def _source_paths(self) -> Mapping[str, tuple[str, ...]]:
        """Where Debezium's events have what `source` has."""
        names = sorted(debezium.SOURCE_FIELDS)
        return {n: debezium.flat_names(n) if self._is_flat else (f"{debezium.SOURCE}.{n}",) for n in names}

    @property
    def _is_renamed(self) -> bool:
        return any(ddl.sources(self.columns))

    @cached_property
    def _row_type(self) -> T.StructType:
        return types.of_columns(self.columns)

    @cached_property
    def _fields_type(self) -> T.StructType:
        return json_columns.under_field_names(self._row_type, self.columns)

    @cached_property
    def _event_type(self) -> T.StructType:
        """What is read of an event: texts, and the numbers of Debezium's `source`."""
        if isinstance(self.envelope, FieldsEnvelope):
            return _struct(dict.fromkeys(self.envelope.paths, T.StringType()))
        row = () if self._is_flat else (self.form.after, self.form.before, self.form.op)
        kinds: dict[str, T.DataType] = dict.fromkeys((*row, *_FLAT_MARKS), T.StringType())
        for name, paths in self._source_paths.items():
            kind = T.LongType() if name in debezium.SOURCE_NUMBERS else T.StringType()
            kinds |= dict.fromkeys(paths, kind)
        return _struct(kinds)


def _at(event: Column, path: str) -> Column:
    for name in path.split("."):
        event = event[name]
    return event


def _struct(paths: Mapping[str, T.DataType]) -> T.StructType:
    """The struct that has these types at these paths."""
    fields: dict[str, T.DataType] = {}
    below: dict[str, dict[str, T.DataType]] = {}
    for path, kind in paths.items():
        name, _, rest = path.partition(".")
        if rest:
            below.setdefault(name, {})[rest] = kind
        else:
            fields[name] = kind
    fields |= {name: _struct(each) for name, each in below.items()}
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
