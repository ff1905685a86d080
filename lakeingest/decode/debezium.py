"""Reads Debezium's change events as rows: the value of a record is the row that it is about, and four columns beside.

What an event means, and which columns a row has, `schema.debezium` says; here its values become those of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.decode import decimals, log_place, projection
from lakeingest.decode.json_columns import any_of
from lakeingest.decode.projection import Parsed
from lakeingest.decode.writers import PayloadReader
from lakeingest.schema import debezium, event_form, model
from lakeingest.schema.debezium import AFTER, BEFORE, OP, SEMANTIC, SOURCE
from lakeingest.schema.event_form import EventForm
from lakeingest.schema.model import Field, Schema
from lakeingest.spark import timestamps

DELETE_OP = "d"
_OF_NUMBERS = ("array<int>", "array<bigint>")
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
"""Microseconds."""


@dataclass(frozen=True, kw_only=True)
class ChangeReader(PayloadReader):
    """Makes rows of the parts of events, whoever has read them: the last but one of `further` gives these parts.

    op: STRING; broken: BOOLEAN, never null; unread: STRING, why it is broken; odd: STRING, why it is no row, if the
    parts say so; has_row: BOOLEAN; position: STRUCT; changed_at: TIMESTAMP; and the row's fields by their numbers.

    Attributes:
        fields: those of the rows, as events have them.
        row: the schema of the rows, as `debezium.row_schema` gives it, under the names of the columns.
        placeholder: what stands for a value that the database did not log (unavailable.value.placeholder); empty where
            nothing does.
        form: what the parts are called.
    """

    fields: tuple[Field, ...]
    row: Schema
    placeholder: str
    form: EventForm = event_form.DEBEZIUM

    def _row(self, event: Mapping[str, Column]) -> dict[str, Column]:
        """The columns of the row by their numbers; fault: STRING; and broken: BOOLEAN, never null."""
        fields = [f.schema for f in self.fields]
        unavailable = [self._is_unavailable(event[str(at)], schema) for at, schema in enumerate(fields)]
        columns = [
            F.when(~test, _converted(event[str(at)], schema))
            for at, (test, schema) in enumerate(zip(unavailable, fields, strict=True))
        ]
        fault = F.lit(None).cast("string")
        for test, text in reversed(list(self._faults(event))):
            fault = F.when(F.coalesce(test, F.lit(False)), text).otherwise(fault)
        return {
            "broken": event["broken"],
            # Of an event that could not be read nothing more is known.
            "fault": F.when(event["broken"], event["unread"]).otherwise(fault),
            **{str(at): each for at, each in enumerate((*columns, *self._beside(event, unavailable)))},
        }

    def broken(self, parsed: Mapping[str, Column]) -> Column:
        return parsed["broken"] | parsed["fault"].isNotNull()

    def fault(self, parsed: Mapping[str, Column]) -> Column | None:
        return parsed["fault"]

    def value(self, parsed: Mapping[str, Column]) -> Parsed:
        return {f.name: parsed[str(at)] for at, f in enumerate(self.row.fields)}

    def _beside(self, event: Mapping[str, Column], unavailable: Sequence[Column]) -> tuple[Column, ...]:
        """The columns beside the row's, in their order."""
        kind = projection.data_type(_of(self.row.field(debezium.POSITION)))
        names = (f.name for f in self.row.fields)
        missing = F.array(*(F.when(test, F.lit(name)) for test, name in zip(unavailable, names, strict=False)))
        place = projection.data_type(_of(_of(self.row.field(debezium.UNAVAILABLE)).value))
        missing_names = F.array_compact(missing)
        # Without a lambda, which would keep Spark from compiling the stage.
        nobody = F.array_repeat(F.lit(None).cast(place), F.size(missing_names))
        is_missing = reduce(or_, unavailable, F.lit(False))
        return (
            self._change(event["op"]),
            event["position"].cast(kind),
            event["changed_at"],
            F.when(is_missing, F.map_from_arrays(missing_names, nobody)),
        )

    def _change(self, op: Column) -> Column:
        case = F.lit(None).cast("string")
        for each, change in reversed([*self.form.changes.items()]):
            case = F.when(op == each, F.lit(change)).otherwise(case)
        return case

    def _is_unavailable(self, value: Column, schema: Schema) -> Column:
        """BOOLEAN, never null: whether the placeholder stands where a value was not logged."""
        if not self.placeholder:
            return F.lit(False)
        if schema.type == "string":
            test = value == self.placeholder
        elif schema.type == "bytes" and schema.name is None:
            test = value == F.lit(bytearray(self.placeholder.encode()))
        elif schema.type == "array" and schema.value is not None and schema.value.type == "string":
            test = value == F.array(F.lit(self.placeholder))
        elif schema.type == "array" and (kind := str(model.column_type(schema))) in _OF_NUMBERS:
            # Of numbers it is the bytes of the text, one for each element.
            test = value == F.array(*(F.lit(byte) for byte in self.placeholder.encode())).cast(kind)
        elif schema.type == "map":
            test = F.array_contains(F.map_keys(value), self.placeholder)
        else:
            return F.lit(False)
        return F.coalesce(test, F.lit(False))

    def _faults(self, event: Mapping[str, Column]) -> Iterator[tuple[Column, Column]]:
        """Why an event is no row: a test, and what is said where it is true."""
        op, form, begin = event["op"], self.form, F.lit(f"{self.form.op} is ")
        yield event["odd"].isNotNull(), event["odd"]
        codes = F.lit(f", and none of {', '.join(form.changes)}")
        yield (
            ~op.isin(*form.changes) | op.isNull(),
            F.concat(begin, F.coalesce(F.left(op, F.lit(50)), F.lit("null")), codes),
        )
        for changes, side in ((debezium.ROWS, form.after), (debezium.DELETES, form.before)):
            text = F.concat(begin, op, F.lit(f", and {side}, which has the row, is null"))
            yield op.isin(*form.ops(changes)) & ~event["has_row"], text
        for at, (f, column) in enumerate(zip(self.fields, self.row.fields, strict=False)):
            for test in _misfits(event[str(at)], f.schema):
                yield test, F.lit(f"{column.name} has no value that a {_type_text(f.schema)} can hold")


@dataclass(frozen=True, kw_only=True)
class EventReader(ChangeReader):
    """Reads the events of one schema.

    Attributes:
        reader: of the events as they are.
        event: their schema, in whose types `reader` gives them.
    """

    reader: PayloadReader
    event: Schema

    def parse(self, payload: Column) -> Column:
        return self.reader.parse(payload)

    @property
    def further(self) -> Sequence[Callable[[Any], Mapping[str, Column]]]:
        return (*self.reader.further, self._parts, self._row)

    def _parts(self, parsed: Parsed) -> dict[str, Column]:
        """The parts of an event; see `ChangeReader`."""
        value, places = self.reader.value(parsed), debezium.source_fields(self.event)
        fields, odd = [f.name for f in self.fields], F.lit(None).cast("string")
        if debezium.is_flat(self.event):
            op, deleted = (
                value[name].cast("string") if self.event.field(name) else F.lit(None).cast("string")
                for name in (debezium.FLAT_OP, debezium.FLAT_DELETED)
            )
            op = flat_op(op, deleted)
            has_row, row = F.lit(True), [value[name] for name in fields]
            source: Parsed = value
        else:
            op, source, after = value[OP], value[SOURCE], value[AFTER]
            before = value[BEFORE] if self.event.field(BEFORE) else F.lit(None).cast("string")
            deletes = op == DELETE_OP
            has_row = F.when(deletes, before.isNotNull()).otherwise(after.isNotNull())
            if debezium.has_document(self.event):
                row, has_row = [F.when(deletes, before).otherwise(after)], deletes | has_row
                odd = no_document(op, after)
            else:
                row = [F.when(deletes, before[name]).otherwise(after[name]) for name in fields]
        in_log = {name: source[field] for name, field in places.items()}
        return {
            "op": op,
            "broken": self.reader.broken(parsed),
            "unread": fault if (fault := self.reader.fault(parsed)) is not None else F.lit(None).cast("string"),
            "has_row": has_row,
            "odd": odd,
            "position": log_place.position(in_log),
            "changed_at": log_place.time_of(in_log),
            **{str(at): each for at, each in enumerate(row)},
        }

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        return self.reader.why(payload, withheld=withheld)

    def rescued(self, parsed: Mapping[str, Column], dropped: tuple[str, ...], names: Schema) -> Column | None:
        return projection.rescued(self.value(parsed), dropped, self.row, names)


def flat_op(op: Column, deleted: Column) -> Column:
    """STRING: the operation of a flattened record, by its `__op` and `__deleted`; null where it has neither."""
    written = F.coalesce(op, F.when(deleted.isNotNull(), F.lit("u")))
    return F.when(deleted == "true", DELETE_OP).otherwise(written)


def no_document(op: Column, after: Column) -> Column:
    """STRING: why an update of MongoDB's is no row, where it is none."""
    text = F.lit(
        "op is u, and after, which has the document, is null: set capture.mode of the connector to "
        "change_streams_update_full; where it is that, the document was deleted before the connector read it"
    )
    return F.when((op == "u") & after.isNull(), text)


# Values ---------------------------------------------------------------------------------------------------------------


def _converted(value: Column, schema: Schema) -> Column:
    """A value of an event's row as its column holds it; null where that cannot hold it."""
    if (convert := _CONVERTERS.get(schema.name or "")) is not None:
        return convert(value, schema)
    if not _converts(schema):
        return value
    if schema.type == "struct":
        fields = (_converted(value[f.name], f.schema).alias(f.name) for f in schema.fields)
        return F.when(value.isNotNull(), F.struct(*fields))
    if schema.type == "array":
        return F.transform(value, lambda each: _converted(each, _of(schema.value)))
    return F.transform_values(value, lambda _, each: _converted(each, _of(schema.value)))


def _converts(schema: Schema) -> bool:
    if schema.name in SEMANTIC:
        return True
    return any(_converts(f.schema) for f in schema.fields) or (schema.value is not None and _converts(schema.value))


def _misfits(value: Column, schema: Schema) -> list[Column]:
    """BOOLEAN, each: whether there is a value that the column cannot hold."""
    if not _converts(schema):
        return []
    if schema.name in SEMANTIC:
        return [value.isNotNull() & _converted(value, schema).isNull()]
    if schema.type == "struct":
        return [test for f in schema.fields for test in _misfits(value[f.name], f.schema)]
    values = value if schema.type == "array" else F.map_values(value)
    return [F.exists(values, lambda each: any_of(_misfits(each, _of(schema.value))))]


def _local(value: Column, _: Schema, *, per_micro: float) -> Column:
    return timestamps.within_years(F.timestamp_micros(_micros(value, per_micro))).cast("timestamp_ntz")


def _micros(value: Column, per_micro: float) -> Column:
    """BIGINT: microseconds; what is smaller is cut off. Null where they are too many."""
    if per_micro == 1:
        return value.cast("bigint")
    if per_micro < 1:
        return F.try_multiply(value.cast("bigint"), F.lit(round(1 / per_micro)).cast("bigint"))
    # As a decimal: a double has not all digits.
    return F.floor(value.cast("decimal(20,0)") / F.lit(int(per_micro))).cast("bigint")


def _clock(value: Column, _: Schema, *, per_micro: float) -> Column:
    """STRING: hours, minutes, seconds and six digits of their fraction. MySQL has times below 0 and beyond a day."""
    micros = _micros(value, per_micro)
    size = F.abs(micros)

    def part(unit: int, most: int | None = None) -> Column:
        count = F.floor(size / F.lit(unit))
        return count if most is None else F.pmod(count, F.lit(most))

    text = F.format_string(
        "%02d:%02d:%02d.%06d", part(_HOUR), part(_MINUTE, 60), part(_SECOND, 60), F.pmod(size, F.lit(_SECOND))
    )
    return F.when(micros < 0, F.concat(F.lit("-"), text)).when(micros.isNotNull(), text)


def _date(value: Column, _: Schema) -> Column:
    return timestamps.day_of_count(value)


def _bits(value: Column, schema: Schema) -> Column:
    """STRING of 0 and 1. The bytes come the lowest first, without those at the end that are 0."""
    pairs = F.reverse(F.regexp_extract_all(F.hex(value), F.lit("(..)"), F.lit(1)))
    text = F.array_join(F.transform(pairs, lambda pair: F.lpad(F.conv(pair, 16, 2), 8, "0")), "")
    length = schema.parameter("length") or ""
    return F.lpad(F.right(text, F.lit(int(length))), int(length), "0") if length.isdecimal() else text


def _without_zone(text: Column) -> Column:
    """The text of a time that has no zone, and is written with Z all the same."""
    return F.rtrim(text, F.lit("Z"))


def _as_it_is(value: Column, _: Schema) -> Column:
    return value


_CONVERTERS: Mapping[str, Callable[[Column, Schema], Column]] = {
    "io.debezium.time.Date": _date,
    "io.debezium.time.Timestamp": partial(_local, per_micro=0.001),
    "io.debezium.time.MicroTimestamp": partial(_local, per_micro=1),
    "io.debezium.time.NanoTimestamp": partial(_local, per_micro=1000),
    "io.debezium.time.ZonedTimestamp": lambda value, _: timestamps.from_iso(value, "UTC", zoned=True),
    "io.debezium.time.IsoDate": lambda value, _: _without_zone(value).try_cast("date"),
    "io.debezium.time.IsoTimestamp": lambda value, _: timestamps.local_from_text(_without_zone(value)),
    "io.debezium.time.IsoTime": lambda value, _: _without_zone(value),
    "io.debezium.time.Time": partial(_clock, per_micro=0.001),
    "io.debezium.time.MicroTime": partial(_clock, per_micro=1),
    "io.debezium.time.NanoTime": partial(_clock, per_micro=1000),
    "io.debezium.data.VariableScaleDecimal": lambda value, _: decimals.with_point(
        decimals.unscaled(value["value"]), value["scale"]
    ),
    "io.debezium.data.Bits": _bits,
    model.DATE: _as_it_is,
    model.TIME: partial(_clock, per_micro=0.001),
    model.TIMESTAMP: lambda value, _: value.cast("timestamp_ntz"),
}
"""The names of `SEMANTIC`, each with what makes the column's value of the event's."""


def _type_text(schema: Schema) -> str:
    return model.type_text(debezium.converted(schema))


def _of(part: Schema | None) -> Schema:
    assert part is not None
    return part
