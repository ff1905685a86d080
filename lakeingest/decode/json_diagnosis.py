"""Says what exactly is wrong with a JSON record that was refused. Plain Python: it runs on executors, by value.

The hot path only knows *that* Spark's parser refused a record; this reads the bytes again, slowly, and finds out why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

from lakeingest.schema.json_values import AS_IT_IS, ISO, SHOWN, Object, Texts, fits, lone_surrogate, read, since_1970
from lakeingest.schema.time_patterns import EPOCH_UNITS

_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
_LONGEST_MESSAGE = 500


def diagnose(
    value: bytes | None, schema: dict[str, Any], texts: Texts = AS_IT_IS, *, withheld: bool = False
) -> tuple[str, str]:
    """Reason code and message for a refused record.

    Args:
        value: the record's bytes.
        schema: the declared columns, as Spark's schema JSON read into a dict.
        texts: how what is written becomes a value.
        withheld: whether the message names the place and the rule alone, and no value of the record.

    Returns:
        INVALID_UTF8, BROKEN_JSON, NOT_AN_OBJECT, WRONG_TYPE, REQUIRED_MISSING or REQUIRED_NULL with the place and the
        value that is wrong; UNREADABLE where Spark's parser refuses what this one finds nothing wrong with. The
        message has at most 500 characters, all of which UTF-8 can write.
    """
    try:
        reason, message = _diagnose(value, schema, texts, withheld=withheld)
    except RecursionError:
        reason, message = "BROKEN_JSON", "nested too deep"
    message = message.encode("utf-8", "replace").decode()
    return reason, message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"


def _diagnose(value: bytes | None, schema: dict[str, Any], texts: Texts, *, withheld: bool) -> tuple[str, str]:
    if value is None:
        return "NULL_VALUE", "the record has no value"
    try:
        record = read(value)
    except UnicodeDecodeError as error:
        return "INVALID_UTF8", f"byte 0x{error.object[error.start]:02x} at position {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        return "BROKEN_JSON", f"{error.msg.removesuffix(' at')} at character {error.pos} of {len(error.doc)}"
    except ValueError as error:
        return "BROKEN_JSON", "a number that nothing holds" if withheld else str(error)
    if not isinstance(record, Object):
        text = "" if withheld else f": {_short(record)}"
        return "NOT_AN_OBJECT", f"a JSON object is needed, this is {_kind(record)}{text}"
    faults = (fault.withheld if withheld else fault.reason_and_message for fault in faults_of(record, schema, texts))
    halves = _halves(record, schema, withheld=withheld)
    return next(chain(halves, faults), ("UNREADABLE", "Spark's JSON parser refuses this record"))


def _halves(record: Object, schema: dict[str, Any], *, withheld: bool) -> Iterator[tuple[str, str]]:
    half, rule = lone_surrogate(record), "has half of a surrogate pair, which is no character"
    if half is not None and not withheld:
        place, text = half
        yield "INVALID_UTF8", f"{place} = {json.dumps(text)[:SHOWN]} {rule}"
    elif half is not None:
        # Keys of maps, and names that no column has, may be values.
        columns = {column["name"] for column in schema["fields"]}
        names = (name for name, value in record.pairs if name in columns and lone_surrogate(value))
        yield "INVALID_UTF8", f"{next(names, 'the record')} {rule}"


@dataclass(frozen=True)
class FieldFault:
    """A problem in one place.

    Attributes:
        path: the place, with * for any element of an array or map.
        kind: the type of Spark's that the value does not have; None where a required one is not there.
        value: the value.
        reason_and_message: reason code and message.
        rule: what the message says of the place, without any value of the record.
    """

    path: str
    kind: Any
    value: Any
    reason_and_message: tuple[str, str]
    rule: str

    @property
    def withheld(self) -> tuple[str, str]:
        """Reason code and message without any value of the record: keys of maps are values, too."""
        return self.reason_and_message[0], f"{self.path} {self.rule}"


def faults_of(
    record: Object, struct: dict[str, Any], texts: Texts, place: str = "", path: str = "", *, exact: bool = False
) -> Iterator[FieldFault]:
    """All that is wrong with an object that was read, in the order of the columns.

    Args:
        exact: whether a DOUBLE must be the number that is written; so it must where the column's metadata says so.
    """
    for column in struct["fields"]:
        name = column["name"]
        for key, value in record.pairs:
            if key == name:
                own_exact = exact or bool(column["metadata"].get("exact"))
                yield from _misfits(value, column["type"], texts, place + name, path + name, exact=own_exact)
        if not column["nullable"] and record.get(name) is None:
            null = name in record
            rule = f"is required, and {'null' if null else 'missing'}"
            reason = "REQUIRED_NULL" if null else "REQUIRED_MISSING"
            yield FieldFault(path + name, None, None, (reason, f"{place}{name} {rule}"), rule)


def _misfits(value: Any, kind: Any, texts: Texts, place: str, path: str, *, exact: bool) -> Iterator[FieldFault]:
    if value is None or kind == "string":
        return
    if isinstance(kind, str):
        if not fits(value, kind, texts):
            rule = f"is no {_spelled(kind)}{_written(kind, texts)}"
            if kind.startswith("timestamp") and since_1970(value, kind, texts) is not None:
                unit = EPOCH_UNITS[texts.epoch][2]
                rule = (
                    f"is no {_spelled(kind)}: {unit} since 1970 outside of the years 1 to 9999 (see decode.value.epoch)"
                )
            yield FieldFault(path, kind, value, ("WRONG_TYPE", f"{place} = {_short(value)} {rule}"), rule)
        elif not fits(value, kind, texts, exact=exact):
            rule = "would be another number as DOUBLE: declare the column, as DECIMAL or STRING"
            yield FieldFault(path, kind, value, ("WRONG_TYPE", f"{place} = {_short(value)} {rule}"), rule)
    elif kind["type"] == "struct" and isinstance(value, Object):
        yield from faults_of(value, kind, texts, place + ".", path + ".", exact=exact)
    elif kind["type"] == "array" and isinstance(value, list):
        for i, element in enumerate(value):
            yield from _misfits(element, kind["elementType"], texts, f"{place}[{i}]", f"{path}[*]", exact=exact)
    elif kind["type"] == "map" and isinstance(value, Object):
        for key, element in value.pairs:
            yield from _misfits(element, kind["valueType"], texts, f"{place}.{key}", f"{path}.*", exact=exact)
    else:
        rule = f"is no {kind['type'].upper()}"
        yield FieldFault(path, kind, value, ("WRONG_TYPE", f"{place} = {_short(value)} {rule}"), rule)


def _spelled(kind: str) -> str:
    return _NAMES.get(kind, kind.upper())


def _written(kind: str, texts: Texts) -> str:
    """The patterns, where there are others than ISO 8601."""
    patterns = texts.patterns(kind)
    return "" if patterns == ISO else f" as {' or '.join(pattern.written for pattern in patterns)}"


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", Decimal: "a number"}
    return names.get(type(value), "null")


def _short(value: Any) -> str:
    text = (
        str(value)
        if isinstance(value, Decimal)
        else json.dumps(value, ensure_ascii=False, default=lambda d: float(d) if math.isfinite(d) else str(d))
    )
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
