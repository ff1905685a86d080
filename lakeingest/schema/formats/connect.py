"""Schemas as Kafka Connect's JsonConverter writes them beside each payload (`schemas.enable`). Pure.

A field is {"type", "optional", "field", "name", "version", "parameters", "default", "doc"}; a struct has "fields", an
array "items", a map "keys" and "values" (KIP-26; org.apache.kafka.connect.json.JsonSchema).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakeingest.schema import model
from lakeingest.schema.formats.avro import MAX_PARTS
from lakeingest.schema.formats.avro_text import MAX_DEPTH
from lakeingest.schema.model import Field, Kind, Schema, SchemaError
from lakeingest.schema.paths import ELEMENT, VALUE, step

_KINDS: Mapping[str, Kind] = {
    **{name: name for name in ("int8", "int16", "int32", "int64", "boolean", "string", "bytes")},
    "float": "float32",
    "double": "float64",
}
_PRECISION = "connect.decimal.precision"
"""The parameter in which connectors that know it write a decimal's precision."""
_LARGEST_PRECISION = 38


def read(text: str) -> Schema:
    """The schema of a schema's JSON text. Fields keep the names of logical types, as `io.debezium.time.Date`.

    What contains nothing (a struct without fields), and a map whose keys are no text, is JSON text.

    Raises:
        SchemaError: the text is no such schema; or it has more than a table can hold.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise SchemaError(f"not JSON: {wrong}") from None
    return _ConnectSchemaReader().part(tree, "", 0)


class _ConnectSchemaReader:
    """Turns trees into schemas; counts the parts."""

    def __init__(self) -> None:
        self._parts = 0

    def part(self, tree: Any, path: str, depth: int) -> Schema:
        """The schema of a tree at a path, within so many others."""
        self._parts += 1
        place = path or "the schema"
        if self._parts > MAX_PARTS:
            raise SchemaError(f"{place}: more than {MAX_PARTS:,} fields, elements and values in one schema")
        if depth > MAX_DEPTH:
            raise SchemaError(f"{place}: nested deeper than {MAX_DEPTH} levels")
        if not isinstance(tree, dict):
            raise SchemaError(f"{place} is no object, but {json.dumps(tree)[:40]}")
        schema = self._of_type(tree, path, depth)
        return replace(
            schema,
            optional=tree.get("optional") is True,
            default=None if schema.name == model.JSON else model.default_text(tree.get("default")),
            doc=_text(tree, "doc"),
        )

    def _of_type(self, tree: Mapping[str, Any], path: str, depth: int) -> Schema:
        kind, name = tree.get("type"), _text(tree, "name")
        match kind:
            case "struct":
                return self._struct(tree, path, depth)
            case "array":
                return Schema("array", name, value=self.part(tree.get("items"), path + ELEMENT, depth + 1))
            case "map":
                key = self.part(tree.get("keys"), path, depth + 1)
                if key.type != "string":
                    return model.json_text("is a map whose keys are no text")
                return Schema(
                    "map", name, key=Schema("string"), value=self.part(tree.get("values"), path + VALUE, depth + 1)
                )
            case str() if kind in _KINDS:
                return Schema(_KINDS[kind], name, parameters=_parameters(tree, name))
        raise SchemaError(f"{path or 'the schema'}: {json.dumps(kind)[:40]} is no type of Kafka Connect")

    def _struct(self, tree: Mapping[str, Any], path: str, depth: int) -> Schema:
        fields = tree.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) and _text(f, "field") for f in fields):
            raise SchemaError(f"{path or 'the schema'}: a struct has fields, each with the name that its field says")
        if not fields and depth:
            return model.json_text("is a struct without fields")
        parts = (Field(f["field"], self.part(f, step(path, f["field"]), depth + 1)) for f in fields)
        return Schema("struct", _text(tree, "name"), fields=tuple(parts))


def _parameters(tree: Mapping[str, Any], name: str | None) -> tuple[tuple[str, str], ...]:
    """Those that belong to the type; of a decimal its scale, and its precision if it is known."""
    parameters = tree.get("parameters")
    texts = {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {}
    if name == model.DECIMAL:
        precision = texts.get(_PRECISION, "")
        is_usable = precision.isdecimal() and int(precision) <= _LARGEST_PRECISION
        texts = {model.SCALE: texts.get(model.SCALE, "0"), model.PRECISION: precision if is_usable else "38"}
    return tuple(sorted(texts.items()))


def _text(tree: Mapping[str, Any], name: str) -> str | None:
    value = tree.get(name)
    return value if isinstance(value, str) and value else None
