"""A schema as Kafka Connect sees it: what Avro, Protobuf, JSON Schema and declared columns all become.

Compatibility, projection and the ledger speak of these values alone, so each of their rules is written once. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from lakeingest.schema import ddl
from lakeingest.schema.paths import ELEMENT, KEY, VALUE, step

Kind: TypeAlias = Literal[
    "int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "bytes", "array", "map", "struct"
]
"""Connect's types, in the order in which numbers promote: int8 ≤ int16 ≤ int32 ≤ int64 ≤ float32 ≤ float64."""
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBERS = KINDS[:6]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
"""Connect's own logical types: bytes with `scale` (and `precision`), int32 days, int32 ms of a day, int64 ms."""
TIME_MICROS = "time-micros"
TIMESTAMP_MICROS = "timestamp-micros"
LOCAL_TIMESTAMP_MILLIS = "local-timestamp-millis"
LOCAL_TIMESTAMP_MICROS = "local-timestamp-micros"
UUID = "uuid"
"""Logical types that Connect does not know, under Avro's names."""
JSON = "json"
"""A string that is the JSON text of a value which no column of its own type can hold; see `json_text`."""

SCALE, PRECISION, SYMBOLS, SYMBOL_DEFAULT = "scale", "precision", "symbols", "symbol default"
"""Parameters: of a decimal; an enum's symbols (joined by commas, in their order), and the one for those it lacks."""
REASON = "reason.doc"
"""A parameter of JSON text: why it is no typed column. As documentation, it makes no other schema of it."""

_ATOMIC: Mapping[Kind, str] = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
_LOGICAL: Mapping[str, str] = {
    DATE: "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_MICROS: "timestamp",
    LOCAL_TIMESTAMP_MILLIS: "timestamp_ntz",
    LOCAL_TIMESTAMP_MICROS: "timestamp_ntz",
    UUID: "string",
}
_OF_ATOMIC: Mapping[str, Kind] = {kind: name for name, kind in _ATOMIC.items()}
_OF_LOGICAL: Mapping[str, str] = {
    "date": DATE,
    "timestamp": TIMESTAMP_MICROS,
    "timestamp_ntz": LOCAL_TIMESTAMP_MICROS,
}


WHOLE = "value"
"""The column of a value that is no struct."""
_CURE = "name it in schema.names"
_LONGEST_MESSAGE = 500
_LONGEST_NAME = 255
_LONGEST_COMMENT = 2000
"""Whoever may register a schema decides how long its documentation is, and each commit of metadata bears all of it."""


class SchemaError(ValueError):
    """The text is no schema, or one that no table can hold (a recursive one); the message says where and why.

    The message has at most 500 characters: it stands beside each record that is refused for it.
    """

    def __init__(self, message: str) -> None:
        text = message.encode("utf-8", "replace").decode()
        super().__init__(text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…")


@dataclass(frozen=True)
class Schema:
    """A schema, or a part of one.

    Attributes:
        type: Connect's type.
        name: of a struct, an enum or a logical type; None for a plain one.
        optional: whether null is a value.
        default: the default as JSON text; None where there is none (a default of null is none, as in Connect).
            Bytes are text of the characters U+0000 to U+00FF, as Avro writes them.
        parameters: sorted (name, value) pairs that belong to the type: scale, precision, symbols.
        fields: of a struct.
        key, value: of a map; an array's element is its value.
        version: in its subject; None where unknown. Only the outermost schema has one.
        doc: documentation.
        aliases: other names of a struct, an enum or a fixed.
    """

    type: Kind
    name: str | None = None
    optional: bool = False
    default: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    key: Schema | None = None
    value: Schema | None = None
    version: int | None = None
    doc: str | None = None
    aliases: tuple[str, ...] = ()

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)

    def field(self, name: str) -> Schema | None:
        """The schema of the field of that name; None where there is no such field."""
        return next((field.schema for field in self.fields if field.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """As a tree for JSON, without what is empty."""
        tree: dict[str, Any] = {"type": self.type}
        for name in ("name", "optional", "default", "version", "doc"):
            if getattr(self, name) not in (None, False):
                tree[name] = getattr(self, name)
        if self.parameters:
            tree["parameters"] = dict(self.parameters)
        if self.fields:
            tree["fields"] = [field.to_json() for field in self.fields]
        if self.aliases:
            tree["aliases"] = list(self.aliases)
        for name in ("key", "value"):
            if (part := getattr(self, name)) is not None:
                tree[name] = part.to_json()
        return tree

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Schema:
        """The inverse of `to_json`."""
        return cls(
            type=tree["type"],
            name=tree.get("name"),
            optional=tree.get("optional", False),
            default=tree.get("default"),
            parameters=tuple(sorted(tree.get("parameters", {}).items())),
            fields=tuple(map(Field.from_json, tree.get("fields", ()))),
            key=cls.from_json(tree["key"]) if "key" in tree else None,
            value=cls.from_json(tree["value"]) if "value" in tree else None,
            version=tree.get("version"),
            doc=tree.get("doc"),
            aliases=tuple(tree.get("aliases", ())),
        )


@dataclass(frozen=True)
class Field:
    """A named field of a struct.

    Attributes:
        aliases: other names of it.
    """

    name: str
    schema: Schema
    aliases: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """As a tree for JSON: name, schema, and the aliases if there are any."""
        return [self.name, self.schema.to_json(), *([list(self.aliases)] if self.aliases else [])]

    @classmethod
    def from_json(cls, tree: Sequence[Any]) -> Field:
        """The inverse of `to_json`."""
        name, part, *aliases = tree
        return cls(name, Schema.from_json(part), *map(tuple, aliases))


def struct(fields: Mapping[str, Schema], **more: Any) -> Schema:
    """A struct of these fields, in their order."""
    return Schema("struct", fields=tuple(Field(name, schema) for name, schema in fields.items()), **more)


def json_text(reason: str, doc: str | None = None, *, optional: bool = True) -> Schema:
    """A part that no typed column can hold: its column has the JSON text of its value.

    Args:
        reason: why no typed column can hold it; it is said behind the part's place: "is string or integer".
    """
    return Schema("string", JSON, optional, parameters=((REASON, reason),), doc=doc)


def json_parts(schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """The place of each part that becomes JSON text, and the reason."""
    if schema.name == JSON:
        yield path, schema.parameter(REASON) or ""
    for field in schema.fields:
        yield from json_parts(field.schema, step(path, field.name))
    for part, below in ((schema.key, path + KEY), (schema.value, path + (VALUE if schema.key else ELEMENT))):
        if part is not None:
            yield from json_parts(part, below)


def default_text(value: Any) -> str | None:
    """A default as `Schema.default` holds it."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def column_type(schema: Schema) -> ddl.Type:
    """The type of a Delta column that holds such values.

    Raises:
        SchemaError: a struct without fields, which Parquet cannot hold, or a name that Delta refuses.
    """
    match schema.type:
        case "struct":
            if not schema.fields:
                raise SchemaError(f"{schema.name or 'a record'} has no fields, and a table cannot hold it")
            _distinct(schema)
            return ddl.Struct(
                tuple(ddl.Column(_storable(f.name), column_type(f.schema), comment=_comment(f)) for f in schema.fields)
            )
        case "array":
            assert schema.value is not None
            return ddl.Array(column_type(schema.value))
        case "map":
            assert schema.key is not None
            assert schema.value is not None
            return ddl.Map(column_type(schema.key), column_type(schema.value))
        case "bytes" if schema.name == DECIMAL:
            return ddl.Atomic(_decimal(schema))
        case _:
            return ddl.Atomic(_LOGICAL.get(schema.name or "", _ATOMIC[schema.type]))


def _decimal(schema: Schema) -> str:
    precision, scale = schema.parameter(PRECISION) or "38", schema.parameter(SCALE) or "0"
    numbers = all(re.fullmatch(r"\d{1,2}", number, re.ASCII) for number in (precision, scale))
    if not numbers or not 1 <= int(precision) <= 38 or int(scale) > int(precision):
        raise SchemaError(f"a decimal of precision {precision!r} and scale {scale!r}, which no column can hold")
    return f"decimal({int(precision)},{int(scale)})"


def _distinct(schema: Schema) -> None:
    names: set[str] = set()
    for field in schema.fields:
        if field.name.lower() in names:
            raise SchemaError(
                f"{field.name}: a table has one column for upper and lower case, this schema two; {_CURE}"
            )
        names.add(field.name.lower())


def _storable(name: str) -> str:
    if not name or any(character in ddl.UNSTORABLE for character in name):
        raise SchemaError(f"the field {name!r} has a name that no Delta column can have; {_CURE}")
    if len(name) > _LONGEST_NAME:
        raise SchemaError(f"the field {name[:40]!r}… has a name of {len(name)} characters; at most {_LONGEST_NAME}")
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in name):
        raise SchemaError(f"the field {name!r} has a name with a character that no column's name may have")
    return name


def _comment(field: Field) -> str | None:
    doc = field.schema.doc
    if field.schema.name == JSON:
        doc = f"{doc} (JSON text)" if doc else "JSON text"
    return doc if doc is None or len(doc) <= _LONGEST_COMMENT else f"{doc[:_LONGEST_COMMENT]}…"


def value_columns(schema: Schema) -> tuple[ddl.Column, ...]:
    """The table's columns of a record's value: a struct's fields, or one column `value` for anything else.

    All may be null, whatever the schema requires: what it requires may change, and a column's NOT NULL may not. Their
    comments are the documentation of the fields.

    Raises:
        SchemaError: see `column_type`.
    """
    if schema.type != "struct":
        return (ddl.Column(WHOLE, column_type(schema)),)
    kind = column_type(schema)
    assert isinstance(kind, ddl.Struct)
    return kind.fields


def type_text(schema: Schema) -> str:
    """The type as people read it in a table: INT, DECIMAL(10,2), ARRAY<STRING>, STRUCT<street: STRING, zip: INT>."""
    match schema.type:
        case "struct":
            return f"STRUCT<{', '.join(f'{field.name}: {type_text(field.schema)}' for field in schema.fields)}>"
        case "array":
            return f"ARRAY<{type_text(schema.value) if schema.value else '?'}>"
        case "map":
            key, value = (type_text(part) if part else "?" for part in (schema.key, schema.value))
            return f"MAP<{key}, {value}>"
        case _:
            return str(column_type(schema)).upper()


def from_columns(columns: Sequence[ddl.Column], **more: Any) -> Schema:
    """The schema of declared columns: a struct, whose NOT NULL fields are required."""
    return struct({c.name: _from_type(c.type, optional=c.nullable) for c in columns}, **more)


def knows(kind: ddl.Type) -> bool:
    """Whether a schema can say such a type; not VARIANT or INTERVAL, which nobody but the table's owner makes."""
    match kind:
        case ddl.Struct(fields):
            return all(knows(field.type) for field in fields)
        case ddl.Array(element):
            return knows(element)
        case ddl.Map(key, value):
            return knows(key) and knows(value)
    return str(kind).startswith("decimal") or str(kind) in {**_OF_LOGICAL, **_OF_ATOMIC}


def _from_type(kind: ddl.Type, *, optional: bool = True) -> Schema:
    match kind:
        case ddl.Struct(fields):
            return from_columns(fields, optional=optional)
        case ddl.Array(element):
            return Schema("array", optional=optional, value=_from_type(element))
        case ddl.Map(key, value):
            return Schema("map", optional=optional, key=_from_type(key, optional=False), value=_from_type(value))
    name = str(kind)
    if name.startswith("decimal"):
        precision, scale = name[len("decimal(") : -1].split(",")
        return Schema("bytes", DECIMAL, optional, parameters=((PRECISION, precision), (SCALE, scale)))
    if name in _OF_LOGICAL:
        logical = _OF_LOGICAL[name]
        return Schema("int32" if logical == DATE else "int64", logical, optional)
    return Schema(_OF_ATOMIC[name], optional=optional)
