"""JSON as Kafka Connect's JsonConverter writes it: {"schema": …, "payload": …}, each record with its schema.

The payload is JSON in which bytes are base64, a decimal is base64 of its unscaled number (or a number, under
decimal.format NUMERIC), times are numbers since 1970, and NaN and infinity are texts. Source: JsonConverter of Kafka
4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import decimals, json, json_parts, projection
from lakeingest.decode.json_columns import any_of
from lakeingest.decode.projection import Parsed
from lakeingest.decode.writers import PayloadReader
from lakeingest.schema import model
from lakeingest.schema.json_values import AS_IT_IS
from lakeingest.schema.model import Schema
from lakeingest.schema.paths import step

PAYLOAD = "payload"

_NUMBERS = {"int8": T.ByteType(), "int16": T.ShortType(), "int32": T.IntegerType(), "int64": T.LongType()}


@dataclass(frozen=True)
class ConnectJsonReader(PayloadReader):
    """Reads payloads of one schema (see `writers.PayloadReader`).

    Attributes:
        schema: of the payload; fields that it does not name are left unread.
        names: it under the names of the columns.
        is_numeric: whether decimals are numbers.
    """

    schema: Schema
    names: Schema
    is_numeric: bool = False

    def parse(self, payload: Column) -> Column:
        parsed = json.parse(payload, self._type, AS_IT_IS)
        return F.when(payload.isNotNull(), F.struct(parsed.alias("json"), payload.alias("text")))

    @property
    def further(self) -> Sequence[Callable[[Any], Mapping[str, Column]]]:
        return (self._fields,)

    def _fields(self, parsed: Column) -> dict[str, Column]:
        """Its fields by the numbers that they have; broken: BOOLEAN, never null; and fault: STRING."""
        payload = json.columns(parsed["json"], self._type, AS_IT_IS)[PAYLOAD]
        refused = json.refused(parsed["text"], parsed["json"], self._type, AS_IT_IS)
        fault = F.lit(None).cast("string")
        for path, test in self._misfits(payload, self.schema, ""):
            text = F.lit(f"{path} has no value that its type can hold")
            fault = F.when(F.coalesce(test, F.lit(False)), text).otherwise(fault)
        fault = F.when(~refused, fault)
        pairs = zip(self.schema.fields, self.names.fields, strict=True)
        values = (self._value(payload[f.name], f.schema, name.schema) for f, name in pairs)
        broken = parsed.isNotNull() & (refused | fault.isNotNull())
        return {"broken": broken, "fault": fault, **{str(at): each for at, each in enumerate(values)}}

    def fault(self, parsed: Mapping[str, Column]) -> Column | None:
        return parsed["fault"]

    def broken(self, parsed: Mapping[str, Column]) -> Column:
        return parsed["broken"]

    def value(self, parsed: Mapping[str, Column]) -> Parsed:
        return {f.name: parsed[str(at)] for at, f in enumerate(self.names.fields)}

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        return json.explained(payload, self._type, AS_IT_IS, withheld=withheld)["message"]

    def rescued(self, parsed: Mapping[str, Column], dropped: tuple[str, ...], names: Schema) -> Column | None:
        return projection.rescued(self.value(parsed), dropped, self.names, names)

    @cached_property
    def _type(self) -> T.StructType:
        return T.StructType([T.StructField(PAYLOAD, self._parsed_type(self.schema), metadata=_mark(self.schema))])

    def _parsed_type(self, schema: Schema) -> T.DataType:
        """What JSON's parser is asked for."""
        match schema.type:
            case "struct":
                return T.StructType(
                    [
                        T.StructField(f.name, self._parsed_type(f.schema), metadata=_mark(f.schema))
                        for f in schema.fields
                    ]
                )
            case "array":
                return T.ArrayType(self._parsed_type(_of(schema.value)))
            case "map":
                return T.MapType(T.StringType(), self._parsed_type(_of(schema.value)))
            case "boolean":
                return T.BooleanType()
            case "bytes" if schema.name == model.DECIMAL and self.is_numeric:
                return projection.data_type(schema)
        return _NUMBERS.get(schema.type, T.StringType())

    def _value(self, value: Column, schema: Schema, names: Schema) -> Column:
        """The value in its schema's own types, under the names of the columns."""
        match schema.type:
            case "struct":
                pairs = zip(schema.fields, names.fields, strict=True)
                fields = (self._value(value[f.name], f.schema, name.schema).alias(name.name) for f, name in pairs)
                return F.when(value.isNotNull(), F.struct(*fields))
            case "array" if self._converts(schema):
                return F.transform(value, lambda e: self._value(e, _of(schema.value), _of(names.value)))
            case "map" if self._converts(schema):
                return F.transform_values(value, lambda _, v: self._value(v, _of(schema.value), _of(names.value)))
        return self._scalar(value, schema)

    def _scalar(self, value: Column, schema: Schema) -> Column:
        match schema.type:
            case "float32" | "float64":
                return value.try_cast("float" if schema.type == "float32" else "double")
            case "bytes" if schema.name == model.DECIMAL:
                return value if self.is_numeric else decimals.of_bytes(_bytes(value), schema)
            case "bytes":
                return _bytes(value)
        return _time(value, schema)

    def _converts(self, schema: Schema) -> bool:
        """Whether a value, or one within it, is not what the parser gives."""
        if schema.type in ("array", "map"):
            return self._converts(_of(schema.value))
        return schema.type not in ("string", "boolean", *_NUMBERS) or schema.name in _TIMES

    def _misfits(self, value: Column, schema: Schema, path: str) -> list[tuple[str, Column]]:
        """A path, and BOOLEAN: whether a text is none of the values that it should be."""
        if schema.type == "struct":
            fields = schema.fields
            return [each for f in fields for each in self._misfits(value[f.name], f.schema, step(path, f.name))]
        if not self._converts(schema) or (schema.name == model.DECIMAL and self.is_numeric):
            return []
        if schema.type in ("array", "map"):
            part, values = _of(schema.value), value if schema.type == "array" else F.map_values(value)
            return [(path, F.exists(values, lambda e: any_of([t for _, t in self._misfits(e, part, path)])))]
        return [(path, value.isNotNull() & self._value(value, schema, schema).isNull())]


_TIMES = {model.DATE: F.date_from_unix_date, model.TIMESTAMP: F.timestamp_millis}
"""Connect's logical types that are numbers in JSON, and what makes a time of one."""


def _time(value: Column, schema: Schema) -> Column:
    convert = _TIMES.get(schema.name or "")
    return convert(value) if convert else value


def _bytes(text: Column) -> Column:
    return F.try_to_binary(text, F.lit("base64"))


def _mark(schema: Schema) -> dict[str, bool] | None:
    return dict(json_parts.MARK) if schema.name == model.JSON else None


def _of(part: Schema | None) -> Schema:
    assert part is not None
    return part
