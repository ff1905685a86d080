"""Problems with an expectation's arguments, as sentences with their cure. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any

from lakeingest.config.mistakes import did_you_mean
from lakeingest.gate import query
from lakeingest.gate.expectations import EVERYWHERE, KNOWN
from lakeingest.record import RESERVED
from lakeingest.schema import ddl
from lakeingest.schema.time_patterns import DAY

_COLUMN_ARGUMENTS = ("column", "column_A", "column_B")
_BOUNDED = ("expect_column_values_to_be_between", "expect_column_value_lengths_to_be_between")
_LISTS = ("value_set", "regex_list", "column_list", "like_pattern_list", "value_pairs_set", "type_list")
_COMPARING = (
    "expect_column_pair_values_a_to_be_greater_than_b",
    "expect_column_pair_values_to_be_equal",
    "expect_multicolumn_values_to_be_equal",
    "expect_select_column_values_to_be_unique_within_record",
)
_LONGEST_PATTERN = 1000
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_OPPOSITES = {"==": "!=", "<": ">=", "<=": ">", "IN": "NOT_IN"}
_DEEPEST = 20
_CONDITION = (
    'write it as Great Expectations 1.x does: {"type": "comparison", "column": {"name": "x"}, "operator": "==", '
    '"parameter": 1} or {"type": "nullity", "column": {"name": "x"}, "is_null": false}, joined by '
    '{"type": "and", "conditions": […]} or "or"'
)
_REFERENCES = (".$ref", ".$dynamicRef", ".$recursiveRef")
"""Keywords by which a JSON schema is fetched from elsewhere."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_WRITTEN = {
    "date": DAY,
    **dict.fromkeys(_TIMES[1:], rf"{DAY}([T ]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?(Z|[+-]\d\d:\d\d)?)?"),
}
"""Patterns of the texts that Spark reads as a time as Python does."""
_OF_TEXT = ("_regex", "_like_pattern", "_value_lengths", "_strftime")

Kwargs = Mapping[str, Any]


def columns(kwargs: Kwargs) -> tuple[str, ...]:
    """The columns that an expectation is about."""
    listed = kwargs.get("column_list")
    return tuple(
        [kwargs[name] for name in _COLUMN_ARGUMENTS if name in kwargs] + (listed if isinstance(listed, list) else [])
    )


def mostly(kwargs: Kwargs) -> float:
    """The share of the values that must meet an expectation."""
    share = kwargs.get("mostly")
    return 1.0 if share is None else float(share)


def negated(condition: Kwargs) -> dict[str, Any]:
    """What a comparison, or a test for null, is not; neither comparison is true of a null."""
    if condition["type"] == "nullity":
        return {**condition, "is_null": not condition["is_null"]}
    opposites = _OPPOSITES | {other: one for one, other in _OPPOSITES.items()}
    return {**condition, "operator": opposites[condition["operator"]]}


def problems(kind: str, kwargs: Kwargs, schema: Sequence[ddl.Column]) -> Iterator[str]:
    """Problems with the arguments of an expectation of this type.

    Args:
        schema: the columns of a record's value; empty where only the records will tell.
    """
    required, optional = KNOWN[kind]
    for name in sorted(required - set(kwargs)):
        yield f".{name}: required by {kind}, and missing"
    for name in sorted(set(kwargs) - required - optional - EVERYWHERE):
        allowed = sorted(required | optional)
        yield f".{name}: {kind} has no such argument; {did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"
    for name in _LISTS:
        if name in kwargs and not (isinstance(kwargs[name], list) and kwargs[name]):
            yield f".{name}: not a list with values; write [one, other]"
            return
    texts = [*_columns(kind, kwargs, schema), *_bounds(kind, kwargs), *_patterns(kwargs), *_pairs(kwargs)]
    yield from texts
    yield from _reaches_out(kwargs)
    if "unexpected_rows_query" in kwargs:
        names = (*RESERVED, *(column.name for column in schema))
        yield from (
            f".unexpected_rows_query: {each}" for each in query.problems(kwargs["unexpected_rows_query"], names)
        )
    condition = kwargs.get("row_condition")
    if condition is not None:
        yield from _condition(".row_condition", condition, schema)
    if not texts and not required - set(kwargs):
        yield from _types(kind, kwargs, schema)


def _columns(kind: str, kwargs: Kwargs, schema: Sequence[ddl.Column]) -> Iterator[str]:
    names_by_place = {f".{name}": kwargs[name] for name in _COLUMN_ARGUMENTS if name in kwargs}
    if isinstance(kwargs.get("column_list"), list) and not kind.startswith("expect_table"):
        names_by_place |= {f".column_list[{i}]": name for i, name in enumerate(kwargs["column_list"])}
    for where, name in names_by_place.items():
        yield from _column(where, name, schema)


def _column(where: str, name: Any, schema: Sequence[ddl.Column]) -> Iterator[str]:
    if not isinstance(name, str):
        yield f"{where}: not the name of a column; write it in quotes"
    # Without columns: records bring their schema, and nobody knows it before the run.
    elif schema and name not in RESERVED and ddl.find(schema, name) is None:
        names = [c.name for c in schema]
        yield f'{where}: "{name}" is not among the columns; {did_you_mean(name, names)}declared: {", ".join(names)}'


def _bounds(kind: str, kwargs: Kwargs) -> Iterator[str]:
    low, high, mostly = kwargs.get("min_value"), kwargs.get("max_value"), kwargs.get("mostly")
    if kind in _BOUNDED and low is None and high is None:
        yield f": {kind} needs min_value, max_value or both"
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        yield f".min_value: {low} is above max_value {high}, so that no value can pass; swap them"
    share = isinstance(mostly, int | float) and not isinstance(mostly, bool) and 0 <= mostly <= 1
    if mostly is not None and not share:
        yield f".mostly: {json.dumps(mostly)} is not a share; write a number from 0 to 1"


def _patterns(kwargs: Kwargs) -> Iterator[str]:
    listed = kwargs.get("regex_list")
    patterns = {f".regex_list[{i}]": p for i, p in enumerate(listed)} if isinstance(listed, list) else {}
    if "regex" in kwargs:
        patterns[".regex"] = kwargs["regex"]
    for where, pattern in patterns.items():
        if isinstance(pattern, str) and len(pattern) > _LONGEST_PATTERN:
            yield f"{where}: a pattern of {len(pattern)} characters; write one of at most {_LONGEST_PATTERN}"
            continue
        try:
            # Spark's patterns are Java's: \p{…} and \z are right there, and unknown to Python.
            re.compile(re.sub(r"\\[pP]\{\w+\}|\\z", "x", pattern))
        except TypeError:
            yield f"{where}: not a pattern; write it in quotes"
        except (re.error, OverflowError, RecursionError) as error:
            yield f"{where}: {json.dumps(pattern)} is not a regular expression: {error}; mend it"
    if not isinstance(kwargs.get("strftime_format", ""), str):
        yield ".strftime_format: not a format; write it in quotes"


def _reaches_out(kwargs: Kwargs) -> Iterator[str]:
    """Arguments that Great Expectations would fill in from elsewhere, and schemas fetched or read from a file."""
    pending: list[tuple[str, Any]] = [("", kwargs)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, list):
            pending += [(f"{where}[{i}]", each) for i, each in enumerate(value)]
        elif isinstance(value, dict):
            pending += [(f"{where}.{name}", each) for name, each in value.items()]
        elif where.endswith(_REFERENCES) and isinstance(value, str) and not value.startswith("#"):
            yield f"{where}: {json.dumps(value)} leads out of the suite; put what is there into $defs, as #/$defs/name"
        elif where.endswith(".$PARAMETER"):
            yield f"{where}: nothing is filled in here; write the value itself"


def _pairs(kwargs: Kwargs) -> Iterator[str]:
    for i, pair in enumerate(kwargs.get("value_pairs_set") or ()):
        if not (isinstance(pair, list) and len(pair) == 2):
            yield f".value_pairs_set[{i}]: not a pair; write [one, other]"


def _condition(where: str, condition: Any, schema: Sequence[ddl.Column], depth: int = 0) -> Iterator[str]:
    kind = condition.get("type") if isinstance(condition, dict) else None
    if isinstance(condition, str):
        convert = "make a suite of conditions by lakeingest gate convert SUITE --out NEW.json"
        yield f"{where}: text is not run as SQL or Python here; {convert}, or {_CONDITION}"
    elif kind in ("and", "or") and depth < _DEEPEST:
        conditions = condition.get("conditions")
        if not (isinstance(conditions, list) and conditions):
            yield f"{where}.conditions: not a list with conditions; {_CONDITION}"
            return
        for i, each in enumerate(conditions):
            yield from _condition(f"{where}.conditions[{i}]", each, schema, depth + 1)
    elif kind in ("comparison", "nullity") and isinstance(condition.get("column"), dict):
        name = condition["column"].get("name")
        yield from _column(f"{where}.column.name", name, schema)
        if kind == "nullity":
            if not isinstance(condition.get("is_null"), bool):
                yield f"{where}.is_null: neither true nor false; write one of them"
            return
        operator, value = condition.get("operator"), condition.get("parameter")
        if operator not in _OPERATORS:
            yield f"{where}.operator: {json.dumps(operator)} is none; write one of {', '.join(_OPERATORS)}"
        elif operator in ("IN", "NOT_IN") and not (isinstance(value, list) and value):
            yield f"{where}.parameter: not a list with values; write [one, other]"
        elif value is None:
            yield f'{where}.parameter: nothing equals null; write {{"type": "nullity", …}}'
        elif isinstance(name, str):
            values = value if isinstance(value, list) else [value]
            yield from _comparable(f"{where}.parameter", name, values, schema)
    else:
        yield f"{where}: not a condition; {_CONDITION}"


def _types(kind: str, kwargs: Kwargs, schema: Sequence[ddl.Column]) -> Iterator[str]:
    """Values that no value of their column can be compared with: Spark would end the batch for them."""
    one = kwargs.get("column")
    if one is not None:
        of = _kind(one, schema)
        if of not in (None, "string") and any(word in kind for word in _OF_TEXT):
            yield f".column: {one} is {of}, and {kind} is about text; ask something else of it, or declare it STRING"
            return
        if kind.startswith("expect_column_values_"):
            for name in ("min_value", "max_value", "value_set"):
                value = kwargs.get(name)
                if value is not None:
                    yield from _comparable(f".{name}", one, value if isinstance(value, list) else [value], schema)
    for i, column in enumerate(columns(kwargs) if "value_pairs_set" in kwargs else ()):
        yield from _comparable(".value_pairs_set", column, [pair[i] for pair in kwargs["value_pairs_set"]], schema)
    if kind in _COMPARING:
        yield from _pairwise(columns(kwargs), schema)
    if kind == "expect_multicolumn_sum_to_equal":
        for i, column in enumerate(kwargs["column_list"]):
            if _kind(column, schema) not in (None, *_NUMBERS):
                of = _kind(column, schema)
                yield f".column_list[{i}]: {column} is {of}, and only numbers have a sum; leave it out"


def _pairwise(names: Sequence[str], schema: Sequence[ddl.Column]) -> Iterator[str]:
    """Columns that cannot be compared with each other: Spark would end the batch for them."""
    for one, other in combinations(names, 2):
        of, and_of = _kind(one, schema), _kind(other, schema)
        if of is not None and and_of is not None and not _of_a_kind(of, and_of):
            yield f": {one} is {of} and {other} is {and_of}, which cannot be compared; ask it of columns of one type"


def _of_a_kind(one: str, other: str) -> bool:
    nested = {"array", "map", "struct", "variant"}
    if {one, other} & nested:
        return one == other and one in ("array", "struct")
    if "string" in (one, other):
        return True
    return one == other or any({one, other} <= set(family) for family in (_NUMBERS, _TIMES))


def _kind(name: str, schema: Sequence[ddl.Column]) -> str | None:
    """The name of a column's type without its parameters; None where it is not known."""
    column = ddl.find(schema, name)
    return str(column.type).partition("(")[0].partition("<")[0] if column else None


def _comparable(where: str, name: str, values: Sequence[Any], schema: Sequence[ddl.Column]) -> Iterator[str]:
    kind = _kind(name, schema)
    if kind is None:
        return
    for value in values:
        if value is not None and not _fits(kind, value):
            cure = "write values of that type" if kind not in ("array", "map", "struct") else "name a field within it"
            yield f"{where}: {json.dumps(value)} cannot be compared with {name}, which is {kind}; {cure}"


def _fits(kind: str, value: Any) -> bool:
    if kind in _NUMBERS:
        # Spark knows no larger whole number by itself; as a float it does.
        whole = isinstance(value, int) and -(2**63) <= value < 2**63
        return (whole or isinstance(value, float)) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind not in _WRITTEN or not isinstance(value, str) or not re.fullmatch(_WRITTEN[kind], value, re.ASCII):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
