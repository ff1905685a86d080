"""Avro in the JVM. Spark's `from_avro` reads a payload, and cannot tell whether that was all of it.

Where a session has lakeingest's jar, a function of its catalog reads it in one step, to the last byte, into what
`from_avro` would give (`AvroFunctions.java`). Elsewhere the payload is read as the field `value` of an envelope whose
last field is a seal: sixteen random bytes, put behind the payload. A payload that was cut short, or has bytes too many,
or was written with another schema, does not end where the seal begins. Types of other schemas that the schema refers to
are declared by fields before it, each an optional one whose value is null: one zero byte.

`from_avro` cuts a decimal of at most 18 digits to the 64 bits of a long, so that 2^64 + 5 is 5. In the envelope such a
decimal has all the digits that its bytes may hold, and its value is then held against the digits that it should have.
Avro 1.12.0, which Spark 4.0 has, keeps the doubles of an array as floats: there such a schema needs the jar.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import projection
from lakeingest.decode.writers import PayloadReader
from lakeingest.errors import SetupError
from lakeingest.schema import json_text
from lakeingest.schema.formats import avro as avro_schema
from lakeingest.schema.formats import avro_copy, avro_fault, avro_plan, avro_walk
from lakeingest.schema.model import JSON, Schema
from lakeingest.spark import jvm, maps, python

_SEAL = os.urandom(16)
_LONG_DIGITS, _LONG_BYTES, _MOST_DIGITS = 18, 8, 38
"""Digits that a long holds for certain, its bytes, and the digits of Spark's decimals."""
_LOGICAL_TYPES = (
    *("decimal", "date", "timestamp-millis", "timestamp-micros"),
    *("local-timestamp-millis", "local-timestamp-micros"),
)
"""Those that a column's type comes from. Spark 4.2 makes a TIME of time-micros, which no table of Delta can hold."""
_OPTIONS = {"mode": "PERMISSIVE", "enableStableIdentifiersForUnionType": "true"}


@dataclass(frozen=True)
class AvroReader(PayloadReader):
    """Reads what was written with one schema.

    Attributes:
        text: the schema.
        references: the texts that it refers to, dependencies first.
        schema: it under the names of the columns; None where these are the fields' own.
    """

    text: str
    references: Sequence[str] = ()
    schema: Schema | None = None

    def parse(self, payload: Column) -> Column:
        """BINARY → STRUCT<value: …>, null where it cannot be read; by `from_avro` STRUCT<value: …, seal: BINARY>.

        Raises:
            SetupError: `from_avro` would change doubles.
        """
        from pyspark.sql.avro.functions import from_avro

        if self._copied and self._copied[1]:
            payload = self._copy(payload, self._copied[1])
        if jvm.offered("avro"):
            return F.call_function(jvm.function("avro", self._envelope()), payload)
        if has_doubles_in_array(self._trees):
            _check_doubles(SparkSession.active())
        head, tail = F.lit(bytearray(len(self._trees) - 1)), F.lit(bytearray(_SEAL))
        sealed = F.concat(head, payload, tail) if len(self._trees) > 1 else F.concat(payload, tail)
        seal = {"name": "seal", "type": {"type": "fixed", "name": "LakeingestSeal", "size": len(_SEAL)}}
        return from_avro(sealed, self._envelope(seal), _OPTIONS)

    def broken(self, parsed: Column) -> Column:
        """BOOLEAN, never null."""
        if jvm.offered("avro"):
            return parsed.isNull()
        whole = F.coalesce(parsed["seal"] == F.lit(bytearray(_SEAL)), F.lit(False))
        return ~whole | F.coalesce(_misfit(parsed["value"], self._type), F.lit(False))

    def value(self, parsed: Column) -> Column:
        value = parsed["value"] if jvm.offered("avro") else _fitted(parsed["value"], self._type)
        value = _unwrapped(value, self._schema) if self._copied else value
        return maps.last_of_each(value, self._type)

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        fault = avro_fault.fault(self.text, tuple(self.references), withheld=withheld)
        return python.by_value(fault, "STRING", (avro_walk, avro_fault))(payload)

    def rescued(self, parsed: Column, dropped: tuple[str, ...], names: Schema) -> Column | None:
        return projection.rescued(self.value(parsed), dropped, self._schema, names)

    def _copy(self, payload: Column, plan: avro_copy.Plan) -> Column:
        copy = avro_copy.copier(self.text, tuple(self.references), plan)
        return python.by_value(copy, "BINARY", (json_text, avro_walk, avro_copy))(payload)

    @cached_property
    def _copied(self) -> tuple[str, avro_copy.Plan] | None:
        return avro_plan.copied(self.text, self.references, self._schema)

    @cached_property
    def _trees(self) -> list[Any]:
        """The schema of what is read, and those that it refers to: the record's own, or that of its copy."""
        return [json.loads(text) for text in ((self._copied[0],) if self._copied else (self.text, *self.references))]

    def _envelope(self, *behind: object) -> str:
        """A schema: for each reference a field that declares its types, then the value, then the fields behind it."""
        # What stands behind the value is the seal of from_avro's way.
        value, *references = (_prepared(tree, widened=bool(behind)) for tree in self._trees)
        reference_fields = [{"name": f"declared{i}", "type": ["null", each]} for i, each in enumerate(references)]
        fields = [*reference_fields, {"name": "value", "type": value}, *behind]
        return json.dumps({"type": "record", "name": "LakeingestEnvelope", "fields": fields})

    @cached_property
    def _schema(self) -> Schema:
        return self.schema or avro_schema.read(self.text, self.references)

    @cached_property
    def _type(self) -> T.DataType:
        return projection.data_type(self._schema)


@lru_cache(maxsize=8)
def _check_doubles(session: SparkSession) -> None:
    """Raises:
    SetupError: `from_avro` of this session makes floats of the doubles of an array.
    """
    from pyspark.sql.avro.functions import from_avro

    payload, schema = b"\x02" + struct.pack("<d", 0.1) + b"\0", '{"type":"array","items":"double"}'
    row = session.range(1).select(from_avro(F.lit(bytearray(payload)), schema)).first()
    if row is not None and row[0] != [0.1]:
        raise SetupError(
            f"from_avro of Spark {session.version} makes floats of doubles in an array, of 0.1 {row[0][0]!r}",
            cure="start the session with lakeingest's jar, or use Spark 4.1 or newer",
        )


def has_doubles_in_array(tree: Any) -> bool:
    """Whether a schema has an array of doubles, with no null among them."""
    match tree:
        case {"type": "array", "items": "double" | {"type": "double"}}:
            return True
        case dict():
            return any(map(has_doubles_in_array, tree.values()))
        case list():
            return any(map(has_doubles_in_array, tree))
    return False


def _unwrapped(value: Column, schema: Schema) -> Column:
    """A value whose unions have text in the place of the records that stand for it (see `avro_plan`)."""
    if not _has_text_member(schema):
        return value
    if schema.type == "struct":
        is_union = schema.name == avro_schema.UNION
        fields = [
            (
                value[f.name][avro_plan.TEXT]
                if is_union and f.schema.name == JSON
                else _unwrapped(value[f.name], f.schema)
            )
            for f in schema.fields
        ]
        aliased = (column.alias(f.name) for column, f in zip(fields, schema.fields, strict=True))
        return F.when(value.isNotNull(), F.struct(*aliased))
    assert schema.value is not None
    inner = schema.value
    if schema.type == "array":
        return F.transform(value, lambda each: _unwrapped(each, inner))
    return F.transform_values(value, lambda _, each: _unwrapped(each, inner))


def _has_text_member(schema: Schema) -> bool:
    parts = [*(field.schema for field in schema.fields), *([schema.value] if schema.value else [])]
    is_union = schema.name == avro_schema.UNION
    return any((is_union and part.name == JSON) or _has_text_member(part) for part in parts)


def _prepared(tree: Any, *, widened: bool) -> Any:
    """A schema as every version of Spark reads it alike.

    Args:
        widened: whether its decimals are widened, so that `from_avro` does not cut them.
    """
    prepared: Any = tree
    match tree:
        case list():
            prepared = [_prepared(branch, widened=widened) for branch in tree]
        case {"type": "record" | "error", "fields": fields}:
            below = [{**field, "type": _prepared(field["type"], widened=widened)} for field in fields]
            prepared = {**tree, "fields": below}
        case {"type": "array", "items": inner}:
            prepared = {**tree, "items": _prepared(inner, widened=widened)}
        case {"type": "map", "values": inner}:
            prepared = {**tree, "values": _prepared(inner, widened=widened)}
        case {"type": str()}:
            is_column_type = tree.get("logicalType") in _LOGICAL_TYPES
            prepared = {key: value for key, value in tree.items() if is_column_type or key != "logicalType"}
            prepared |= {"precision": _digits(tree)} if widened and _cut(tree) else {}
        case {"type": inner}:
            prepared = {**tree, "type": _prepared(inner, widened=widened)}
    return prepared


def _cut(tree: dict[str, Any]) -> bool:
    if tree.get("logicalType") != "decimal" or tree.get("size", _MOST_DIGITS) <= _LONG_BYTES:
        return False
    # What is no decimal in Avro's eyes stays bytes.
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    return isinstance(precision, int) and max(scale, 1) <= precision <= _LONG_DIGITS and scale >= 0


def _digits(tree: dict[str, Any]) -> int:
    """The most digits that a decimal of these bytes may have."""
    return min(_MOST_DIGITS, len(str(2 ** (8 * tree.get("size", _MOST_DIGITS) - 1))) - 1)


def _fitted(value: Column, kind: T.DataType) -> Column:
    """A value read with a widened schema, in the declared type; null where it does not fit."""
    if not _has_narrow(kind):
        return value
    match kind:
        case T.StructType():
            fields = F.struct(*(_fitted(value[f.name], f.dataType).alias(f.name) for f in kind))
            return F.when(value.isNotNull(), fields)
        case T.ArrayType():
            return F.transform(value, lambda each: _fitted(each, kind.elementType))
        case T.MapType():
            return F.transform_values(value, lambda _, each: _fitted(each, kind.valueType))
    return value.try_cast(kind)


def _misfit(value: Column, kind: T.DataType) -> Column:
    """BOOLEAN: whether a value that was read with a widened schema does not fit; null may mean that it does."""
    if not _has_narrow(kind):
        return F.lit(False)
    match kind:
        case T.StructType():
            tests = [_misfit(value[f.name], f.dataType) for f in kind if _has_narrow(f.dataType)]
            return reduce(or_, (F.coalesce(test, F.lit(False)) for test in tests))
        case T.ArrayType():
            return F.exists(value, lambda each: _misfit(each, kind.elementType))
        case T.MapType():
            return F.exists(F.map_values(value), lambda each: _misfit(each, kind.valueType))
    return value.isNotNull() & value.try_cast(kind).isNull()


def _has_narrow(kind: T.DataType) -> bool:
    """Whether a decimal is within that may have been widened."""
    match kind:
        case T.StructType():
            return any(_has_narrow(f.dataType) for f in kind)
        case T.ArrayType():
            return _has_narrow(kind.elementType)
        case T.MapType():
            return _has_narrow(kind.valueType)
    return isinstance(kind, T.DecimalType) and kind.precision <= _LONG_DIGITS
