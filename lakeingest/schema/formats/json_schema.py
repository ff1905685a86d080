"""JSON Schema (draft 4 to 2020-12) → the form that all formats share, as Confluent's JsonSchemaConverter reads it.

What only restricts values (minimum, pattern, if, not, …) says nothing about columns and is passed over. The others:

    object with properties            struct named by its title, in written order, or in that of `connect.index`
    object of additionalProperties    map<string, …>, also with one of patternProperties
    object that says neither          string, which holds the object's JSON text
    array                             array of its items; Confluent's list of entries stays a list of key and value
    integer, number, boolean          int64, float64, boolean, or what `connect.type` says
    string                            string; with `enum`, `const` or oneOf of those its symbols too
    string of format date, date-time  Connect's Date and Timestamp: the record holds ISO text, the table a time.
                                      Confluent leaves them strings, so there this differs
    allOf                             one schema that has the keywords of all
    oneOf, anyOf of null and one      that one, optional
    several types, no type, an array without one schema for its items, an object without fields, a part that is within
    itself: JSON text, at its place

A field is optional unless it is listed in `required`, and always where its type includes null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, cast

from lakeingest.schema import model
from lakeingest.schema.formats.json_documents import Documents
from lakeingest.schema.model import Field, Kind, Schema, SchemaError

_Node: TypeAlias = dict[str, Any]
_DEEPEST = 64
_LARGEST = 20_000
"""Parts of one schema: references can make a text of a few lines as wide as one likes."""
_PLAIN: Mapping[str, Kind] = {"string": "string", "integer": "int64", "number": "float64", "boolean": "boolean"}
_CONNECT = frozenset(model.KINDS) - {"array", "map", "struct"}
_FITS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (int,)),
    "float32": (int, float),
    "float64": (int, float),
    "boolean": (bool,),
    "string": (str,),
    "array": (list,),
    "map": (dict,),
    "struct": (dict,),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE_OF = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}
_WIDER = {"integer": "number"}
_TIMES = {"date": Schema("int32", name=model.DATE), "date-time": Schema("int64", name=model.TIMESTAMP)}
_WRITTEN: Mapping[str, type] = {
    **dict.fromkeys(("properties", "patternProperties", "connect.parameters"), dict),
    **dict.fromkeys(("allOf", "oneOf", "anyOf", "enum"), list),
    **dict.fromkeys(("title", "description", "format", "connect.type"), str),
}
_COMBINING = frozenset({"$ref", "allOf", "oneOf", "anyOf"})
_NO_COLUMN = " no column"
"""A keyword of our own: why no typed column can hold the part."""


def read(text: str, references: Sequence[tuple[str, str]] = ()) -> Schema:
    """A JSON Schema, of any type, as a schema without a version.

    Args:
        text: the schema.
        references: (name or URI, text) of the schemas that `$ref` may name, by that name or by their own `$id`.

    Raises:
        SchemaError: no JSON, no schema, a recursive one, a `$ref` that leads nowhere, or a type that no column holds;
            the message begins with the place.
    """
    try:
        documents = Documents([("", text), *references])
        return _JsonSchemaReader(documents).schema(_Bound(documents.root, ("#",)), "")
    except RecursionError:
        raise SchemaError("nested too deep") from None


class _Bound(NamedTuple):
    """A part, and the references that led to it: one that comes twice on a way is recursive."""

    node: Any
    way: tuple[str, ...]


class _JsonSchemaReader:
    """Walks a schema; `place` is the way to a part within the record."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._parts = 0

    def schema(self, node: Any, place: str) -> Schema:
        return self._typed(self._flat(node, place, ()), place)

    def _typed(self, flat: _Node, place: str) -> Schema:
        kinds = _kinds(flat)
        null = "null" in kinds
        if reason := flat.get(_NO_COLUMN) or _no_column(flat):
            return model.json_text(reason, flat.get("description"), optional=null or not kinds)
        kinds -= {"null"}
        match next(iter(kinds - {"integer"} or kinds)):
            case "object":
                schema = self._object(flat, place)
            case "array":
                schema = self._array(flat, place)
            case kind:
                schema = _scalar(flat, kind, place)
        schema = replace(schema, name=schema.name or flat.get("title"), optional=null, doc=flat.get("description"))
        return replace(schema, default=_default(schema, flat.get("default"), place))

    def _flat(self, part: Any, place: str, way: tuple[str, ...]) -> _Node:
        """The part as one set of keywords, with those of its $ref, its allOf, and a choice of null or one other."""
        node, way = part if isinstance(part, _Bound) else (part, way)
        self._parts += 1
        if len(way) + place.count(".") > _DEEPEST or self._parts > _LARGEST:
            raise _refusal(place, f"is nested too deep, or the schema has more than {_LARGEST} parts")
        if isinstance(node, bool):
            node = {}
        if not isinstance(node, dict):
            raise _refusal(place, f"is {json.dumps(node)[:80]}, which is no schema")
        if wrong := [word for word, type_ in _WRITTEN.items() if not isinstance(node.get(word, type_()), type_)]:
            raise _refusal(place, f"has {wrong[0]} with something else than its kind of value")
        flat = {word: _bound(word, value, way) for word, value in node.items() if word not in _COMBINING}
        if isinstance(node.get("$ref"), tuple):
            written, address = node["$ref"]
            if address in way:
                return {**flat, _NO_COLUMN: f"is recursive ($ref {written!r})"}
            target = self._documents.find(written, address, place)
            flat = _merged(flat, self._flat(target, place, (*way, address)))
        for other in node.get("allOf", ()):
            flat = _merged(flat, self._flat(other, place, way))
        for word in ("oneOf", "anyOf"):
            if branches := node.get(word):
                flat = self._chosen(flat, [self._flat(branch, place, way) for branch in branches])
        return flat

    def _chosen(self, flat: _Node, branches: list[_Node]) -> _Node:
        """The one branch that is not null, or the symbols of all of them."""
        real = [branch for branch in branches if _kinds(branch) != {"null"}]
        null = ["null"] if len(real) < len(branches) else []
        if real and all(map(_symbols, real)):
            symbols = [symbol for branch in real for symbol in _symbols(branch)]
            return {**flat, "type": ["string", *null], "enum": symbols}
        if all(_kinds(branch) <= {"object"} and "properties" not in branch for branch in branches):
            return flat  # Each says only which fields are required, say.
        if len(real) != 1:
            kinds = {kind for branch in real for kind in _kinds(branch) or {"null"}}
            return {**flat, "type": [*kinds, *null], _NO_COLUMN: f"is a choice of {len(real)} types"}
        merged = _merged(real[0], {word: value for word, value in flat.items() if word != "type"})
        return {**merged, "type": [*_kinds(merged), *null]}

    def _object(self, flat: _Node, place: str) -> Schema:
        properties, more = flat.get("properties") or {}, flat.get("additionalProperties")
        if flat.get("connect.type") != "map" and (properties or _unbound(more) is False):
            return Schema("struct", fields=self._fields(properties, flat.get("required"), place))
        patterns = list((flat.get("patternProperties") or {}).values())
        values = patterns[0] if len(patterns) == 1 and not isinstance(_unbound(more), dict) else more
        if not isinstance(_unbound(values), dict) or not _unbound(values):
            return Schema("string")
        return Schema("map", key=Schema("string"), value=self.schema(values, f"{place}.*"))

    def _fields(self, properties: _Node, required: Any, place: str) -> tuple[Field, ...]:
        listed = required if isinstance(required, list) else []
        numbered: list[tuple[int, Field]] = []
        for name, part in properties.items():
            inside = f"{place}.{name}".removeprefix(".")
            flat = self._flat(part, inside, ())
            schema = self._typed(flat, inside)
            index = flat.get("connect.index")
            field = Field(name, replace(schema, optional=schema.optional or name not in listed))
            numbered.append((index if isinstance(index, int) else len(numbered), field))
        return tuple(field for _, field in sorted(numbered, key=lambda pair: pair[0]))

    def _array(self, flat: _Node, place: str) -> Schema:
        return Schema("array", value=self.schema(flat["items"], f"{place}[]"))


def _no_column(flat: _Node) -> str | None:
    """The reason why no typed column can hold such values; None where one can."""
    kinds = _kinds(flat) - {"null"}
    if not kinds:
        return "is always null" if _kinds(flat) else "says no type"
    if len(kinds) > 1 and kinds != {"integer", "number"}:
        return f"is {' or '.join(sorted(kinds))}"
    if kinds == {"array"} and not isinstance(_unbound(flat.get("items")), dict):
        return "is an array without one schema for all of its items"
    if kinds == {"object"} and flat.get("properties") == {} and _unbound(flat.get("additionalProperties")) is False:
        return "is an object without fields"
    return None


def _refusal(place: str, reason: str) -> SchemaError:
    return SchemaError(f"{place or 'the schema'} {reason}")


def _bound(word: str, value: Any, way: tuple[str, ...]) -> Any:
    if word in ("properties", "patternProperties") and isinstance(value, dict):
        return {name: _Bound(part, way) for name, part in value.items()}
    return _Bound(value, way) if word in ("items", "additionalProperties") else value


def _unbound(part: Any) -> Any:
    return part.node if isinstance(part, _Bound) else part


def _merged(node: _Node, others_node: _Node) -> _Node:
    """Both sets of keywords; where they cannot both hold, mine do."""
    merged = {**others_node, **node}
    for word in node.keys() & others_node.keys():
        if word == "properties":
            shared = {
                name: {"allOf": [node[word][name], others_node[word][name]]}
                for name in node[word]
                if name in others_node[word]
            }
            merged[word] = {**node[word], **others_node[word], **shared}
        elif word == "required" and isinstance(node[word], list) and isinstance(others_node[word], list):
            merged[word] = [*node[word], *others_node[word]]
        elif word == "type":
            one, other = _types(node), _types(others_node)
            merged[word] = [t for t in one | other if {t, _WIDER.get(t)} & one and {t, _WIDER.get(t)} & other]
    return merged


def _types(flat: _Node) -> set[str]:
    written = flat.get("type")
    return {kind for kind in (written if isinstance(written, list) else [written]) if isinstance(kind, str)}


def _kinds(flat: _Node) -> set[str]:
    """The types that a value may have; where none is written, those that the other keywords speak of."""
    if "type" in flat:
        return _types(flat)
    if values := _values(flat):
        return {_TYPE_OF[type(value)] for value in values}
    if flat.keys() & {"properties", "additionalProperties", "patternProperties"}:
        return {"object"}
    return {"array"} if "items" in flat else set()


def _values(flat: _Node) -> list[Any]:
    values: list[Any] = flat.get("enum", [])
    return [flat["const"]] if "const" in flat else values


def _symbols(flat: _Node) -> list[str]:
    """The texts that an enum allows; none where some are no texts, or have the comma that would join them."""
    values = [value for value in _values(flat) if value is not None]
    return values if all(isinstance(value, str) and "," not in value for value in values) else []


def _scalar(flat: _Node, kind: str, place: str) -> Schema:
    parameters = {str(name): str(value) for name, value in (flat.get("connect.parameters") or {}).items()}
    if "connect.decimal.precision" in parameters:
        parameters[model.PRECISION] = parameters.pop("connect.decimal.precision")
    connect, format = flat.get("connect.type"), flat.get("format")
    if connect is None and kind == "string" and format in _TIMES:
        return _TIMES[format]
    if kind == "string" and (symbols := _symbols(flat)):
        parameters[model.SYMBOLS] = ",".join(symbols)
    written = tuple(sorted(parameters.items()))
    if connect in _CONNECT:
        return Schema(cast(Kind, connect), parameters=written)
    if connect is not None or kind not in _PLAIN:
        raise _refusal(place, f"is of an unknown type: {connect or kind}")
    return Schema(_PLAIN[kind], parameters=written)


def _default(schema: Schema, value: Any, place: str) -> str | None:
    """The default as the model holds it: JSON Schema writes times as ISO text, and Confluent bytes as base64."""
    types = _FITS.get(schema.type, ())
    try:
        if isinstance(value, str) and schema.name == model.DATE:
            value = (date.fromisoformat(value) - _EPOCH.date()).days
        elif isinstance(value, str) and schema.name == model.TIMESTAMP:
            moment = datetime.fromisoformat(value)
            value = (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)
        elif isinstance(value, str) and schema.type == "bytes":
            value, types = base64.b64decode(value, validate=True).decode("latin-1"), (str,)
    except ValueError:
        types = ()
    if value is not None and (not isinstance(value, types) or isinstance(value, bool) != (schema.type == "boolean")):
        raise _refusal(place, f"is a {schema.name or schema.type}, and its default {json.dumps(value)} is none")
    return model.default_text(value)
