"""Rows in one form, whoever read them, so that they can be compared.

Times are microseconds since 1970 in UTC, a time without a zone as if it were UTC; days are days since 1970; a decimal,
and a number with a fraction, is its shortest text. A text and its UTF-8 bytes are the same: some readers know no
difference.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa


def rows(table: pa.Table) -> dict[str, list[Any]]:
    """Column → its values in the order of the rows."""
    return {name: values(table.column(name)) for name in table.column_names}


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values(chunk)]
    kind = column.type
    if isinstance(kind, pa.ExtensionType):
        return values(column.storage)
    if pa.types.is_nested(kind):
        return [None if not item.is_valid else _nested(item) for item in column]
    if pa.types.is_dictionary(kind):
        return values(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    digits = "%.9g" if pa.types.is_float32(kind) else "%.17g"
    return [plain(value, digits) for value in column.to_pylist()]


def _nested(item: pa.Scalar) -> Any:
    if pa.types.is_struct(item.type):
        return {field.name: values(pa.array([item[field.name]], field.type))[0] for field in item.type}
    if pa.types.is_map(item.type):
        return sorted(zip(*map(values, item.values.flatten()), strict=True), key=repr)
    return values(item.values)


def plain(value: Any, digits: str = "%.17g") -> Any:
    """A value without parts."""
    if isinstance(value, float):
        return digits % value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    return f"{value:f}" if isinstance(value, Decimal) else value


def compared(wanted: dict[str, list[Any]], got: dict[str, list[Any]], key: list[str]) -> str:
    """What of the wanted rows was got: `all`, or what is missing or differs, by the names of columns."""
    found = []
    if lost := [name for name in wanted if name not in got]:
        found.append(f"without {', '.join(lost)}")
    if more := [name for name in got if name not in wanted]:
        found.append(f"more columns: {', '.join(more)}")
    one, other = ordered(wanted, key), ordered(got, key)
    counts = len(next(iter(one.values()))), len(next(iter(other.values())))
    if counts[0] != counts[1]:
        found.append(f"{counts[1]} rows of {counts[0]}")
    elif wrong := [name for name in one if name in other and not same(one[name], other[name])]:
        found.append(f"other values: {', '.join(wrong)}")
    return "; ".join(found) or "all"


def same(one: Any, other: Any) -> bool:
    """As JSON, for what comes from another process has been JSON."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def ordered(columns: dict[str, list[Any]], key: list[str]) -> dict[str, list[Any]]:
    order = sorted(range(len(next(iter(columns.values())))), key=lambda i: json.dumps([columns[k][i] for k in key]))
    return {name: [found[i] for i in order] for name, found in columns.items()}
