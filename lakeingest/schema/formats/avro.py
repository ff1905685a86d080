"""Avro schemas, as Connect sees them and in the shape in which Spark's from_avro returns their records. Pure.

fastavro resolves names, namespaces and references, and validates; `avro_text` prepares the text for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastavro.schema import SchemaParseException, UnknownType, fullname, parse_schema

from lakeingest.schema import model
from lakeingest.schema.formats.avro_text import MAX_DEPTH, normalise
from lakeingest.schema.model import Field, Kind, Schema, SchemaError
from lakeingest.schema.paths import ELEMENT, VALUE, step

UNION = "io.confluent.connect.avro.Union"
"""The name of the struct that stands for a union of several types, as Confluent's converter calls it."""
UNION_PREFIX = "member_"
"""The prefix of its fields' names, under from_avro's option enableStableIdentifiersForUnionType."""
MAX_PARTS = 20_000
"""Fields, elements, keys and values of one schema, named types counted wherever they are used."""

_PRIMITIVES: Mapping[str, Kind] = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "bytes",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): model.DATE,
    ("int", "time-millis"): model.TIME,
    ("long", "time-micros"): model.TIME_MICROS,
    ("long", "timestamp-millis"): model.TIMESTAMP,
    ("long", "timestamp-micros"): model.TIMESTAMP_MICROS,
    ("long", "local-timestamp-millis"): model.LOCAL_TIMESTAMP_MILLIS,
    ("long", "local-timestamp-micros"): model.LOCAL_TIMESTAMP_MICROS,
    ("string", "uuid"): model.UUID,
    ("fixed", "uuid"): model.UUID,
}
_UUID_BYTES = 16
_SPARK_DIGITS = 38
_AS_ONE: Mapping[frozenset[str], Kind] = {
    frozenset(("int", "long")): "int64",
    frozenset(("float", "double")): "float64",
}
"""Unions that from_avro reads as one number; a logical type of a branch is lost there."""


def read(text: str, references: Sequence[str] = (), *, semantic: bool = False) -> Schema:
    """The schema of an Avro schema's JSON text.

    A union with null is optional; one of [int, long] or [float, double] is the wider number; any other is a struct with
    one optional field a branch, of which one is set. An enum is a string with a name and symbols, a fixed is bytes with
    a name. Logical types that are unknown, or invalid where they stand, are ignored, as the Avro specification has it.
    A named type that two references define is the last one's. What contains itself, is always null, has no fields, or
    is a union with two branches of one simple name is JSON text: see `avro_plan`.

    Args:
        text: the schema.
        references: the texts of schemas whose named types it uses, each behind those that it uses itself.
        semantic: whether a type without a logical one has the name and the parameters that Kafka Connect gave it, as
            `io.debezium.time.MicroTimestamp`.

    Raises:
        SchemaError: the text is no schema; or it has more than a table can hold.
    """
    tree, types = parsed(text, references)
    return AvroSchemaReader(types, semantic=semantic).part(tree, "", ())


def parsed(text: str, references: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """A schema's tree, in which every name is a full one, and the named types.

    Raises:
        SchemaError: the text is no schema.
    """
    types: dict[str, Any] = {}
    for reference in references:
        _parse(reference, types)
    return _parse(text, types), types


def with_decimals_of_spark(text: str) -> str:
    """A text of the same schema whose decimals have 38 digits, where Kafka Connect wrote 64 as it knew no number.

    Raises:
        SchemaError: the text is no JSON.
    """
    return json.dumps(_narrowed(_json(text)))


def _narrowed(tree: Any) -> Any:
    match tree:
        case list():
            return [_narrowed(part) for part in tree]
        case {"logicalType": "decimal", "precision": int(digits), "connect.name": _} if digits > _SPARK_DIGITS:
            return {**tree, "precision": _SPARK_DIGITS}
        case dict():
            return {key: value if key == "default" else _narrowed(value) for key, value in tree.items()}
    return tree


def name(text: str) -> str | None:
    """The full name of a record; None for a schema of another type.

    Raises:
        SchemaError: the text is no JSON, or a record without a name.
    """
    tree = _json(text)
    if not isinstance(tree, dict) or tree.get("type") not in ("record", "error"):
        return None
    try:
        return str(fullname(tree))
    except (SchemaParseException, TypeError) as error:
        raise SchemaError(f"a record without a name: {error}") from None


def without_docs(text: str) -> str:
    """A text of the same schema without its documentation, which makes no other schema of it.

    Raises:
        SchemaError: the text is no JSON.
    """
    return json.dumps(_without_docs(_json(text)))


def _without_docs(tree: Any) -> Any:
    match tree:
        case list():
            return [_without_docs(part) for part in tree]
        case {"type": _}:
            # A default may be any JSON, and is no schema.
            return {k: v if k == "default" else _without_docs(v) for k, v in tree.items() if k != "doc"}
        case _:
            return tree


def _json(text: str) -> Any:
    try:
        tree = json.loads(text)
        # Half a character can be written in JSON, and nowhere else.
        json.dumps(tree, ensure_ascii=False).encode()
        return tree
    except RecursionError:
        raise SchemaError(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from None


def _parse(text: str, types: dict[str, Any]) -> Any:
    """The schema as a tree in which every name is a full one; `types` gains the types that it defines."""
    tree = _json(text)
    try:
        return parse_schema(normalise(tree), types)
    except SchemaError:
        raise
    except UnknownType as error:
        raise SchemaError(f"the type {error.name} is defined neither here nor in a reference") from None
    except (SchemaParseException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SchemaError(str(error)) from None
    except KeyError as error:
        raise SchemaError(f"{error} is missing") from None


class AvroSchemaReader:
    """Turns parsed trees into schemas; counts the parts."""

    def __init__(self, types: Mapping[str, Any], *, semantic: bool = False) -> None:
        self._types, self._semantic = types, semantic
        self._parts = 0

    def part(self, tree: Any, path: str, around: tuple[str, ...]) -> Schema:
        """The schema of a tree at a path, within the levels of `around`: names of records, and steps."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise SchemaError(f"{path}: more than {MAX_PARTS:,} fields, elements and values in one schema")
        if len(around) > MAX_DEPTH:
            raise SchemaError(f"{path}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(tree, list):
            return self._union(tree, path, around)
        if isinstance(tree, str):
            return self._atomic({"type": tree}, path) if tree not in self._types else self._use(tree, path, around)
        match tree["type"]:
            case "record" | "error":
                return self._record(tree, path, around)
            case "array":
                return Schema(
                    "array", value=self.part(tree["items"], path + ELEMENT, (*around, ELEMENT)), doc=_doc(tree)
                )
            case "map":
                value = self.part(tree["values"], path + VALUE, (*around, VALUE))
                return Schema("map", key=Schema("string"), value=value, doc=_doc(tree))
            case _:
                return self._atomic(tree, path)

    def _use(self, type_name: str, path: str, around: tuple[str, ...]) -> Schema:
        if type_name in around:
            return model.json_text(f"is {type_name} within another")
        return self.part(self._types[type_name], path, around)

    def _record(self, tree: Mapping[str, Any], path: str, around: tuple[str, ...]) -> Schema:
        if around and not tree["fields"]:
            return model.json_text("is a record without fields", _doc(tree))
        around = (*around, tree["name"])
        fields = tuple(
            Field(f["name"], self._field(f, step(path, f["name"]), around), tuple(f.get("aliases", ())))
            for f in tree["fields"]
        )
        return Schema("struct", name=tree["name"], fields=fields, doc=_doc(tree), aliases=_aliases(tree))

    def _field(self, field: Mapping[str, Any], path: str, around: tuple[str, ...]) -> Schema:
        schema = self.part(field["type"], path, around)
        default = None if schema.name == model.JSON else field.get("default")
        if schema.name == UNION and default is not None:
            default = {_member(_branch(field["type"], default)): default}
        return replace(schema, default=model.default_text(default), doc=_doc(field) or schema.doc)

    def _atomic(self, tree: Mapping[str, Any], path: str) -> Schema:
        kind, logical = tree["type"], tree.get("logicalType")
        if kind == "null":
            return model.json_text("is always null", _doc(tree))
        if logical == "decimal":
            return _decimal(tree)
        if kind == "enum":
            default = ((model.SYMBOL_DEFAULT, tree["default"]),) if "default" in tree else ()
            parameters = (*default, (model.SYMBOLS, ",".join(tree["symbols"])))
            return Schema("string", name=tree["name"], parameters=parameters, doc=_doc(tree), aliases=_aliases(tree))
        name = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
        connect_name = tree.get("connect.name") if self._semantic and name is None and kind in _PRIMITIVES else None
        if isinstance(connect_name, str):
            texts = ((str(key), str(value)) for key, value in tree.get("connect.parameters", {}).items())
            return Schema(_PRIMITIVES[kind], connect_name, parameters=tuple(sorted(texts)), doc=_doc(tree))
        if kind == "fixed":
            name = name if tree["size"] == _UUID_BYTES else None
            aliases = () if name else _aliases(tree)
            return Schema("bytes", name=name or tree["name"], doc=_doc(tree), aliases=aliases)
        return Schema(_PRIMITIVES[kind], name=name, doc=_doc(tree))

    def _union(self, branches: Sequence[Any], path: str, around: tuple[str, ...]) -> Schema:
        types = [branch if isinstance(branch, str) else branch["type"] for branch in branches]
        optional = "null" in types
        non_null = [branch for branch, kind in zip(branches, types, strict=True) if kind != "null"]
        if not non_null:
            return self._atomic({"type": "null"}, path)
        if len(non_null) == 1:
            return replace(self.part(non_null[0], path, around), optional=optional)
        if as_one := _AS_ONE.get(frozenset(types) - {"null"}):
            return Schema(as_one, optional=optional)
        fields = []
        for branch in non_null:
            member = _member(branch)
            schema = self.part(branch, step(path, member), around)
            # A branch whose type has another name now.
            aliases = tuple(f"{UNION_PREFIX}{alias.rpartition('.')[2]}" for alias in schema.aliases)
            fields.append(Field(member, replace(schema, optional=True), aliases))
        if twice := _twice([field.name for field in fields]):
            return model.json_text(f"is a union with two branches {twice.removeprefix(UNION_PREFIX)}")
        return Schema("struct", name=UNION, optional=optional, fields=tuple(fields))


def _member(branch: Any) -> str:
    """The field of a union's branch, as Spark names it: after its type, a named type without its namespace."""
    type_name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
    return UNION_PREFIX + str(type_name).rpartition(".")[2]


def _branch(branches: Sequence[Any], default: Any) -> Any:
    """The branch of a union that a default belongs to: Avro's rule is the first one that is not null."""
    fits: Mapping[type, tuple[str, ...]] = {
        bool: ("boolean",),
        int: ("int", "long", "float", "double"),
        float: ("float", "double"),
        str: ("string", "bytes", "enum", "fixed"),
        list: ("array",),
        dict: ("map", "record"),
    }
    non_null = [branch for branch in branches if branch != "null"]
    of_type = [b for b in non_null if (b if isinstance(b, str) else b["type"]) in fits.get(type(default), ())]
    return (of_type or non_null)[0]


def _twice(members: Sequence[str]) -> str | None:
    """A name that two branches have, by Spark's rule: upper and lower case are one."""
    names: set[str] = set()
    for member in members:
        if member.lower() in names:
            return member
        names.add(member.lower())
    return None


def _decimal(tree: Mapping[str, Any]) -> Schema:
    precision, scale = tree["precision"], tree.get("scale", 0)
    if precision > 38:
        return model.json_text(f"is a decimal of {precision} digits; Spark's have at most 38", _doc(tree))
    parameters = ((model.PRECISION, str(precision)), (model.SCALE, str(scale)))
    return Schema("bytes", name=model.DECIMAL, parameters=parameters, doc=_doc(tree))


def _aliases(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """The full names: one without a dot lies in the namespace of the type itself."""
    space = tree["name"].rpartition(".")[0]
    return tuple(a if "." in a or not space else f"{space}.{a}" for a in tree.get("aliases", ()))


def _doc(tree: Mapping[str, Any]) -> str | None:
    doc = tree.get("doc")
    return doc if isinstance(doc, str) and doc else None
