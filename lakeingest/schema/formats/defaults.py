"""Whether a schema's defaults are values of its columns. With one that is none it is no schema, by its own rules.

The readers of Avro, Protobuf and JSON Schema look at a default's kind; here its range counts too, and what lies within.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakeingest.schema import model
from lakeingest.schema.model import Schema, SchemaError
from lakeingest.schema.paths import ELEMENT, VALUE, step

_DAYS = (-719_162, 2_932_896)
_MILLIS = (-62_135_596_800_000, 253_402_300_799_999)
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 0001 to 9999."""
_RANGES: Mapping[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    model.DATE: _DAYS,
    model.TIMESTAMP: _MILLIS,
    model.LOCAL_TIMESTAMP_MILLIS: _MILLIS,
    model.TIMESTAMP_MICROS: _MICROS,
    model.LOCAL_TIMESTAMP_MICROS: _MICROS,
}


def check(schema: Schema, path: str = "") -> None:
    """Look at every default of a schema.

    Raises:
        SchemaError: one is no value of its type, or no column can hold it.
    """
    if schema.default is not None:
        _check(json.loads(schema.default), schema, path)
    for field in schema.fields:
        check(field.schema, step(path, field.name))
    for part, below in ((schema.key, path), (schema.value, path + (VALUE if schema.key else ELEMENT))):
        if part is not None:
            check(part, below)


def _check(value: Any, schema: Schema, path: str) -> None:
    if value is None:
        return
    match schema.type, value:
        case "struct", dict():
            for field in schema.fields:
                _check(value.get(field.name), field.schema, step(path, field.name))
        case "array", list() if schema.value:
            for each in value:
                _check(each, schema.value, path + ELEMENT)
        case "map", dict() if schema.value:
            for each in value.values():
                _check(each, schema.value, path + VALUE)
        case _:
            if not _fits(value, schema):
                text = json.dumps(value)
                text = text if len(text) <= 80 else text[:80] + "…"
                raise SchemaError(f"{path or 'the record'}: its default {text} is no {model.type_text(schema)}")


def _fits(value: Any, schema: Schema) -> bool:
    match schema.type:
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and all(ord(c) < 256 for c in value) and _fits_decimal(value, schema)
        case "float32" | "float64":
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1023
        case "int8" | "int16" | "int32" | "int64":
            low, high = _RANGES.get(schema.name or "", _RANGES[schema.type])
            return type(value) is int and low <= value <= high
    return False


def _fits_decimal(value: str, schema: Schema) -> bool:
    if schema.name != model.DECIMAL:
        return True
    unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
    return len(value) <= 32 and len(str(abs(unscaled))) <= int(schema.parameter(model.PRECISION) or 38)
