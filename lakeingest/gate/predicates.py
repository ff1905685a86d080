"""Expectations as Columns: which rows break one, in one predicate, with Great Expectations' own semantics.

A null value passes, but where an expectation is about null itself. A row that `row_condition` or `ignore_row_if` leaves
out passes too. tests/spark/test_gate_rules.py holds each of these against Great Expectations over the same frames.

None of them throws, whatever a record holds: one that did would end its batch, and each later run at the same record.
A value breaks a rule too, if it cannot be told whether it matches the rule's pattern (see `patterns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import and_, or_
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.gate import arguments, patterns
from lakeingest.gate.strftime import pattern
from lakeingest.gate.suite import Rule
from lakeingest.record import UNDECODED, Refusal, diagnosis
from lakeingest.schema import ddl
from lakeingest.schema.functions import DAYLESS
from lakeingest.spark import timestamps

STAGE = "gate"
EXPECTATION = "EXPECTATION"
BATCH = "BATCH"
"""Reasons: the record breaks expectations, or its whole batch does."""
SHOWN = 200
"""Characters of an offending value that messages and results show; quarantine has the record's bytes beside it."""

_ENDLESS = " characters, and to hold them against the pattern takes too many steps or too deep a stack"

Kwargs = Mapping[str, Any]


def unexpected(rule: Rule, columns: T.StructType) -> Column:
    """Whether a row breaks the rule: BOOLEAN, never null.

    Args:
        columns: the table's columns of the value, and their types.
    """
    bad = ~COMPILED[rule.type](_sql_arguments(rule.kwargs, columns), columns) & present(rule, columns)
    return F.coalesce(bad, F.lit(False))


def present(rule: Rule, columns: T.StructType) -> Column:
    """Whether the row has a value for the rule; `mostly` is a share of these. BOOLEAN, never null."""
    kwargs = _sql_arguments(rule.kwargs, columns)
    one = kwargs.get("column")
    about_null = one is None or rule.type.endswith("_be_null")
    applies = F.coalesce(_applies(kwargs), F.lit(False))
    return applies & (F.lit(True) if about_null else F.col(str(one)).isNotNull())


def refusal(rules: Sequence[Rule], columns: T.StructType) -> Refusal:
    """Refuse a record for every rule that it breaks, at once: all of them are named, each with its value."""
    bad = {rule: unexpected(rule, columns) for rule in rules}
    return Refusal(STAGE, reduce(or_, bad.values()), lambda: _why(bad, columns), lambda: _names(bad))


def _why(bad: Mapping[Rule, Column], columns: T.StructType) -> Column:
    return diagnosis(EXPECTATION, F.concat_ws("; ", *(F.when(b, _says(r, columns)) for r, b in bad.items())))


def _names(bad: Mapping[Rule, Column]) -> Column:
    none = F.lit(None).cast("string")
    return F.filter(F.array(*(F.when(b, F.lit(r.name)).otherwise(none) for r, b in bad.items())), F.isnotnull)


def _says(rule: Rule, columns: T.StructType) -> Column:
    texts = (F.concat(F.lit(f"{name} is "), value_text(name, columns)) for name in rule.columns)
    values, kwargs = F.concat_ws(", ", *texts), _sql_arguments(rule.kwargs, columns)
    unjudged = _unjudged(kwargs)
    if unjudged is not None:
        size = F.length(_value(kwargs)).cast("string")
        values = F.when(unjudged, F.concat(F.lit(f"{rule.columns[0]} has "), size, F.lit(_ENDLESS))).otherwise(values)
    return F.concat(values, F.lit(f": {rule.text}"))


def value_text(name: str, columns: T.StructType) -> Column:
    """A value as text, cut short: STRING, never null."""
    text = F.coalesce(F.col(_name(name, columns)).cast("string"), F.lit("null"))
    return F.when(F.length(text) > SHOWN, F.concat(F.substring(text, 1, SHOWN), F.lit("…"))).otherwise(text)


# Which columns it is about -----------------------------------------------------------------------------------------


def _sql_arguments(kwargs: Kwargs, columns: T.StructType) -> Kwargs:
    """The arguments with each column as SQL takes it: a dot may be part of its name, or lead into a struct."""
    names: dict[str, Any] = {
        key: _name(kwargs[key], columns) for key in ("column", "column_A", "column_B") if key in kwargs
    }
    if "column_list" in kwargs:
        names["column_list"] = [_name(name, columns) for name in kwargs["column_list"]]
    if kwargs.get("row_condition"):
        names["row_condition"] = _condition_named(kwargs["row_condition"], columns)
    return {**kwargs, **names}


def _condition_named(condition: Mapping[str, Any], columns: T.StructType) -> Mapping[str, Any]:
    if "conditions" in condition:
        return {**condition, "conditions": [_condition_named(each, columns) for each in condition["conditions"]]}
    return {**condition, "column": {"name": _name(condition["column"]["name"], columns)}}


def _name(path: str, columns: T.DataType) -> str:
    for f in columns if isinstance(columns, T.StructType) else ():
        if path.lower() == f.name.lower():
            return ddl.quoted(f.name)
        if path.lower().startswith(f.name.lower() + "."):
            return f"{ddl.quoted(f.name)}.{_name(path[len(f.name) + 1 :], f.dataType)}"
    return path


# Which rows a rule is about ----------------------------------------------------------------------------------------


def _applies(kwargs: Kwargs) -> Column:
    condition = kwargs.get("row_condition")
    applies = _condition(condition) if condition else F.lit(True)
    names = arguments.columns(kwargs)
    nulls = [F.col(name).isNull() for name in names]
    match kwargs.get("ignore_row_if"):
        case "both_values_are_missing" | "all_values_are_missing":
            ignored = reduce(and_, nulls)
        case "either_value_is_missing" | "any_value_is_missing":
            ignored = reduce(or_, nulls)
        case "neither" | "never":
            ignored = F.lit(False)
        case _:
            ignored = reduce(and_, nulls) if len(names) > 1 else F.lit(False)
    return applies & ~ignored


_OPERATORS: Mapping[str, Callable[[Column, Any], Column]] = MappingProxyType(
    {
        "==": lambda column, value: column == value,
        "!=": lambda column, value: column != value,
        "<": lambda column, value: column < value,
        "<=": lambda column, value: column <= value,
        ">": lambda column, value: column > value,
        ">=": lambda column, value: column >= value,
        "IN": lambda column, value: column.isin(*value),
        "NOT_IN": lambda column, value: ~column.isin(*value),
    }
)


def _condition(condition: Mapping[str, Any]) -> Column:
    """A row_condition as Great Expectations 1.x writes it into a suite."""
    match condition["type"]:
        case "and":
            return reduce(and_, map(_condition, condition["conditions"]))
        case "or":
            return reduce(or_, map(_condition, condition["conditions"]))
        case "nullity":
            column = F.col(condition["column"]["name"])
            return column.isNull() if condition["is_null"] else column.isNotNull()
        case _:
            column = F.col(condition["column"]["name"])
            return _OPERATORS[condition["operator"]](column, condition["parameter"])


# What breaks a rule ------------------------------------------------------------------------------------------------


def _value(kwargs: Kwargs) -> Column:
    return F.col(kwargs["column"])


def _within(column: Column, kwargs: Kwargs) -> Column:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    within = F.lit(True)
    if low is not None:
        within = column > low if kwargs.get("strict_min") else column >= low
    if high is not None:
        within = within & (column < high if kwargs.get("strict_max") else column <= high)
    return within


def _matches(kwargs: Kwargs) -> list[Column]:
    """BOOLEAN for each pattern of a rule: whether the value matches; null where that cannot be told."""
    likes = [kwargs["like_pattern"]] if "like_pattern" in kwargs else kwargs.get("like_pattern_list", ())
    regexes = [kwargs["regex"]] if "regex" in kwargs else kwargs.get("regex_list", ())
    matches = [patterns.like(_value(kwargs), pattern, kwargs.get("escape")) for pattern in likes]
    return matches + [patterns.regex(_value(kwargs), pattern) for pattern in regexes]


def _match(kwargs: Kwargs, _: T.StructType) -> Column:
    matches, join = _matches(kwargs), and_
    if kwargs.get("match_on", "any") == "any":
        # One pattern of all, as Great Expectations has it: a flag within holds for those behind it too.
        matches = (
            [patterns.regex(_value(kwargs), "|".join(kwargs["regex_list"]))] if "regex_list" in kwargs else matches
        )
        join = or_
    return reduce(join, (F.coalesce(each, F.lit(False)) for each in matches))


def _match_none(kwargs: Kwargs, _: T.StructType) -> Column:
    return ~reduce(or_, (F.coalesce(each, F.lit(True)) for each in _matches(kwargs)))


def _unjudged(kwargs: Kwargs) -> Column | None:
    """BOOLEAN: whether a value breaks its rule because nobody can tell if it matches; None for rules of no pattern."""
    matches = _matches(kwargs)
    return _value(kwargs).isNotNull() & reduce(or_, (each.isNull() for each in matches)) if matches else None


def _pair(kwargs: Kwargs) -> tuple[Column, Column]:
    return F.col(kwargs["column_A"]), F.col(kwargs["column_B"])


def _greater(kwargs: Kwargs, columns: T.StructType) -> Column:
    a, b = _alike(kwargs["column_A"], kwargs["column_B"], columns)
    greater = (a >= b) | a.eqNullSafe(b) if kwargs.get("or_equal") else a > b
    strange = [F.col(kwargs[side]).isNotNull() & each.isNull() for side, each in (("column_A", a), ("column_B", b))]
    return F.when(reduce(or_, strange), F.lit(False)).otherwise(greater)


def _alike(a: str, b: str, columns: T.StructType) -> tuple[Column, Column]:
    """Two columns as they can be compared: each as a value of the other's type, null where it is none.

    Spark would cast them so too, and end the batch where one is none.
    """
    one, other = _type(columns, a), _type(columns, b)
    return _beside(F.col(a), one, other), _beside(F.col(b), other, one)


def _beside(value: Column, kind: T.DataType, other: T.DataType) -> Column:
    if isinstance(kind, T.DateType) and isinstance(other, T.TimestampType | T.TimestampNTZType):
        return timestamps.local(value, kind, "UTC")
    if not isinstance(kind, T.StringType) or isinstance(other, T.StringType | T.BinaryType | T.NullType):
        return value
    if isinstance(other, T.IntegralType):
        return value.try_cast("bigint")
    if isinstance(other, T.TimestampType):
        value = F.when(~value.rlike(DAYLESS), value)
    return value.try_cast("double" if isinstance(other, T.NumericType) else other)


def _equal(a: str, b: str, columns: T.StructType) -> Column:
    """BOOLEAN, never null: whether two columns are equal, or both null."""
    return reduce(Column.eqNullSafe, _alike(a, b, columns)) & F.col(a).isNull().eqNullSafe(F.col(b).isNull())


def _pair_in_set(kwargs: Kwargs, _: T.StructType) -> Column:
    a, b = _pair(kwargs)
    return reduce(or_, (a.eqNullSafe(F.lit(x)) & b.eqNullSafe(F.lit(y)) for x, y in kwargs["value_pairs_set"]))


def _all_equal(kwargs: Kwargs, columns: T.StructType) -> Column:
    first, *rest = kwargs["column_list"]
    return reduce(and_, (_equal(first, other, columns) for other in rest), F.lit(True))


def _all_different(kwargs: Kwargs, columns: T.StructType) -> Column:
    return ~reduce(or_, (_equal(a, b, columns) for a, b in combinations(kwargs["column_list"], 2)))


def _sum(kwargs: Kwargs, columns: T.StructType) -> Column:
    """Whole numbers are added as DECIMAL(38,0): their sum may be more than any of them can hold.

    A sum that is more than a decimal can hold is none that is asked for.
    """
    terms = []
    for name in kwargs["column_list"]:
        term = F.coalesce(F.col(name), F.lit(0))
        terms.append(term.cast("decimal(38,0)") if isinstance(_type(columns, name), T.IntegralType) else term)
    return F.coalesce(reduce(F.try_add, terms) == F.lit(kwargs["sum_total"]), F.lit(False))


def _type(columns: T.StructType, path: str) -> T.DataType:
    kind: T.DataType = columns
    for name in re.findall(r"`((?:[^`]|``)+)`|([^`.]+)", path):
        fields = {f.name.lower(): f.dataType for f in kind} if isinstance(kind, T.StructType) else {}
        kind = fields.get((name[0].replace("``", "`") or name[1]).lower(), T.NullType())
    return kind


def _is_of(kwargs: Kwargs, columns: T.StructType, names: Sequence[str]) -> Column:
    types = tuple(getattr(T, name) for name in names if isinstance(getattr(T, name, None), type))
    return F.when(_value(kwargs).isNotNull(), F.lit(isinstance(_type(columns, kwargs["column"]), types)))


def _once(kwargs: Kwargs, names: Sequence[str]) -> Column:
    """Among the batch's rows that could be decoded and that the rule is about; it costs the batch a shuffle."""
    return F.count(F.lit(1)).over(Window.partitionBy(UNDECODED, _applies(kwargs), *names)) <= 1


def _strftime(kwargs: Kwargs, _: T.StructType) -> Column:
    """The text fits the format, and its day is one that its month has."""
    column, parts = _value(kwargs), pattern(kwargs["strftime_format"])
    assert parts is not None
    regex, places = parts
    fits = column.rlike(regex)
    if not {"Y", "m", "d"} <= set(places):
        return fits
    year, month, day = (F.regexp_extract(column, regex, places[part]) for part in ("Y", "m", "d"))
    first = F.concat(year, F.lit("-"), F.lpad(month, 2, "0"), F.lit("-01")).try_cast("date")
    real = F.trim(day).try_cast("int") <= F.dayofmonth(F.last_day(first))
    return F.when(fits, real).otherwise(F.lit(False))


COMPILED: Mapping[str, Callable[[Kwargs, T.StructType], Column]] = MappingProxyType(
    {
        "expect_column_values_to_not_be_null": lambda k, _: _value(k).isNotNull(),
        "expect_column_values_to_be_null": lambda k, _: _value(k).isNull(),
        "expect_column_values_to_be_in_set": lambda k, _: _value(k).isin(*k["value_set"]),
        "expect_column_values_to_not_be_in_set": lambda k, _: ~_value(k).isin(*k["value_set"]),
        "expect_column_values_to_be_between": lambda k, _: _within(_value(k), k),
        "expect_column_value_lengths_to_be_between": lambda k, _: _within(F.length(_value(k)), k),
        "expect_column_value_lengths_to_equal": lambda k, _: F.length(_value(k)) == k["value"],
        "expect_column_values_to_match_regex": _match,
        "expect_column_values_to_not_match_regex": _match_none,
        "expect_column_values_to_match_regex_list": _match,
        "expect_column_values_to_not_match_regex_list": _match_none,
        "expect_column_values_to_match_like_pattern": _match,
        "expect_column_values_to_not_match_like_pattern": _match_none,
        "expect_column_values_to_match_like_pattern_list": _match,
        "expect_column_values_to_not_match_like_pattern_list": _match_none,
        "expect_column_values_to_match_strftime_format": _strftime,
        "expect_column_values_to_be_of_type": lambda k, c: _is_of(k, c, [k["type_"]]),
        "expect_column_values_to_be_in_type_list": lambda k, c: _is_of(k, c, k["type_list"]),
        "expect_column_values_to_be_unique": lambda k, _: _once(k, [k["column"]]),
        "expect_compound_columns_to_be_unique": lambda k, _: _once(k, k["column_list"]),
        "expect_column_pair_values_to_be_equal": lambda k, c: _equal(k["column_A"], k["column_B"], c),
        "expect_column_pair_values_a_to_be_greater_than_b": _greater,
        "expect_column_pair_values_to_be_in_set": _pair_in_set,
        "expect_multicolumn_values_to_be_equal": _all_equal,
        "expect_select_column_values_to_be_unique_within_record": _all_different,
        "expect_multicolumn_sum_to_equal": _sum,
    }
)
