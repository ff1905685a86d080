"""The least type that would have taken what a column refused. Plain Python, with the reading of `diagnose`.

A type is the least that takes the value and all that the declared one takes, so that a table's other records still fit.
Where nothing else does, it is STRING, which takes any JSON.
"""

from __future__ import annotations

import re
from typing import Any

from lakeingest.decode.json_diagnosis import faults_of
from lakeingest.schema.json_values import AS_IT_IS, ISO, Object, Texts, exact, extent, fits, lone_surrogate, read

_INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""With the digits of the longest number, in the order in which one takes another."""
_SPARKS = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}
_REALS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP")
_MOST = 38
_ANYTHING = "STRING"


def fitting(value: bytes, schema: dict[str, Any], texts: Texts = AS_IT_IS) -> dict[str, str] | None:
    """The columns of a record whose values do not fit, each with the type that would have taken them.

    Args:
        value: the record's bytes.
        schema: the declared columns, as Spark's schema JSON read into a dict.
        texts: how what is written becomes a value.

    Returns:
        A column's place (st.a; arr[*] and m.* for what is in an array or a map) → a type as DDL. Empty where all
        columns fit; None where no type would help: no JSON object, or a required value that is not there.
    """
    try:
        record = read(value)
        faults = list(faults_of(record, schema, texts)) if isinstance(record, Object) else None
    except (ValueError, RecursionError):
        return None
    if faults is None or lone_surrogate(record) or any(fault.kind is None for fault in faults):
        return None
    types: dict[str, str] = {}
    for fault in faults:
        least = _least(fault.value, fault.kind, texts)
        types[fault.path] = join(types.get(fault.path, least), least)
    return types


def join(one: str, other: str) -> str:
    """The least type, as DDL, that takes all that two such types take; STRING where there is none.

    A whole number is a DOUBLE too, but no DECIMAL is: it would not be exact.
    """
    names = {one, other}
    if len(names) == 1:
        return one
    for chain in (tuple(_INTEGERS), _TIMES):
        if names <= set(chain):
            return max(names, key=chain.index)
    if names <= {*_INTEGERS, *_REALS}:
        return "DOUBLE"
    (whole, places), (more, smaller) = _room(one), _room(other)
    return _decimal(max(whole, more), max(places, smaller))


def _room(type: str) -> tuple[int, int]:
    """The digits before and behind the point that a type takes; too many of one that is for no exact numbers."""
    if sizes := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type):
        return int(sizes[1]) - int(sizes[2]), int(sizes[2])
    return _INTEGERS.get(type, _MOST + 1), 0


def _decimal(whole: int, places: int) -> str:
    return f"DECIMAL({max(1, whole + places)},{places})" if whole + places <= _MOST else _ANYTHING


def _least(value: Any, kind: Any, texts: Texts) -> str:
    """The least type for a value, and for all of the type of Spark's that has not taken it."""
    declared = {spark: ddl for ddl, spark in _SPARKS.items()}.get(kind, kind.upper()) if isinstance(kind, str) else ""
    wider: tuple[str, ...] = ()
    if declared.startswith("DECIMAL") and (number := exact(value)) is not None:
        _, places = _room(declared)
        return join(declared, _decimal(*extent(number, places if texts.rounds else None)))
    if declared in _INTEGERS:
        chain = tuple(_INTEGERS)
        wider = (*chain[chain.index(declared) + 1 :], *_whole(value), "DOUBLE")
    elif declared == "FLOAT":
        wider = ("DOUBLE",)
    elif _is_time(value) and (
        declared == "TIMESTAMP_NTZ" or (declared == "DATE" and texts.dates == texts.times == ISO)
    ):
        # Else a text that is a DATE would be no TIMESTAMP.
        wider = ("TIMESTAMP",)
    fitting_types = (type for type in wider if fits(value, _SPARKS.get(type, type.lower()), texts))
    return join(declared, next(fitting_types, _ANYTHING))


def _whole(value: Any) -> tuple[str, ...]:
    """The DECIMAL for a whole number that no integer's type takes."""
    number = exact(value) if isinstance(value, int) else None
    decimal = _ANYTHING if number is None else _decimal(*extent(number))
    return () if decimal == _ANYTHING else (decimal,)


def _is_time(value: Any) -> bool:
    """Whether a value is a text that would not be milliseconds since 1970: these are no dates."""
    return isinstance(value, str) and not re.fullmatch(r"-?\d+", value)
