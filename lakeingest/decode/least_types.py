"""The least type that would have taken what a column refused. Plain Python, with the reading of `diagnose`.

A type is the least that takes the value and all that the declared one takes, so that a table's other records still fit.
Where nothing else does, it is STRING, which takes any JSON.
"""

from __future__ import annotations

import re
from typing import Any

from lakeingest.decode.json_diagnosis import faults_of
from lakeingest.schema.json_values import AS_IT_IS, ISO, Object, Texts, exact, extent, fits, lone_surrogate, read
from lakeingest.schema.observed_types import ANYTHING, INTEGERS, decimal_of, join, room

_SPARKS = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}


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


def _least(value: Any, kind: Any, texts: Texts) -> str:
    """The least type for a value, and for all of the type of Spark's that has not taken it."""
    declared = {spark: ddl for ddl, spark in _SPARKS.items()}.get(kind, kind.upper()) if isinstance(kind, str) else ""
    wider: tuple[str, ...] = ()
    if declared.startswith("DECIMAL") and (number := exact(value)) is not None:
        _, places = room(declared)
        return join(declared, decimal_of(*extent(number, places if texts.rounds else None)))
    if declared in INTEGERS:
        chain = tuple(INTEGERS)
        wider = (*chain[chain.index(declared) + 1 :], *_whole(value), "DOUBLE")
    elif declared == "FLOAT":
        wider = ("DOUBLE",)
    elif _is_time(value) and (
        declared == "TIMESTAMP_NTZ" or (declared == "DATE" and texts.dates == texts.times == ISO)
    ):
        # Else a text that is a DATE would be no TIMESTAMP.
        wider = ("TIMESTAMP",)
    fitting_types = (type for type in wider if fits(value, _SPARKS.get(type, type.lower()), texts))
    return join(declared, next(fitting_types, ANYTHING))


def _whole(value: Any) -> tuple[str, ...]:
    """The DECIMAL for a whole number that no integer's type takes."""
    number = exact(value) if isinstance(value, int) else None
    decimal = ANYTHING if number is None else decimal_of(*extent(number))
    return () if decimal == ANYTHING else (decimal,)


def _is_time(value: Any) -> bool:
    """Whether a value is a text that would not be milliseconds since 1970: these are no dates."""
    return isinstance(value, str) and not re.fullmatch(r"-?\d+", value)
