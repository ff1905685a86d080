"""The functions of an expression, and the kinds of values that they take and give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakeingest.schema import ddl, numbers

NUMBER, TEXT, BOOLEAN, DATE, TIME, BYTES, NULL = "number", "text", "boolean", "date", "time", "bytes", "null"
LOCAL = "time without a zone"
"""Kinds of values; one with parts is of the kind of its type."""
_LEAF = re.compile(r"(`[^`]*`\.?)+|\w+")
_INT, _BIGINT = ddl.Atomic("int"), ddl.Atomic("bigint")

Numbers = Sequence[ddl.Type | None]
"""Spark's types of numbers; None for one that is not known."""


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        takes: the kinds of its arguments, a space between them; those with ? may be left out, those with * come again.
        gives: the kind of its value.
        template: what is written in its place, with {0} for the first argument, and {1} for ", " and the others; of the
            type of the first argument, if that is a number whose type is known.
        tried: whether that is null where the function fails.
        number: the type of its value, where that is a number; `size` is the second argument, or 0.
    """

    takes: str
    gives: str
    template: str | Callable[[ddl.Type | None], str] = ""
    tried: bool = False
    number: ddl.Type | Callable[[ddl.Type | None, int], ddl.Type | None] | None = None

    def argument(self, at: int) -> str:
        """The kind of an argument by its position; of those behind the last that is named, the kind of that one."""
        takes = self.takes.split()
        return takes[min(at, len(takes) - 1)].rstrip("?*")


def written(template: str, value: str, arguments: Sequence[str] = ()) -> str:
    """A template with its arguments. One that is computed is written once, however often the template has it."""
    more = "".join(f", {other}" for other in arguments)
    if template.count("{0}") < 2 or _LEAF.fullmatch(value):
        # At once: a text among the arguments may look like a place of the template.
        return template.format(value, more)
    return f"get(transform(array({value}), v -> {template.format('v', more)}), 0)"


_WITHIN_YEARS = {
    DATE: ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    TIME: ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    LOCAL: ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}
"""The first and the last time that a table's readers know; Spark itself reads others from texts and numbers."""
_INSTANT = "{0} >= -62135596800{1} AND {0} < 253402300800{1}"
DAYLESS = "^[^-]*[:T]"
"""A pattern of a text that may be a time of day alone, which Spark takes for one of the day on which it runs."""
_NUMBER = r"'^[ \t\r\n]*[+-]?[0-9.]+([eE][+-]?0*[0-9]{{1,4}})?[ \t\r\n]*$'"
_SHORT = "length({0}) <= 1000 AND {0} RLIKE " + _NUMBER
"""A text that Spark makes a DECIMAL of at once: of a longer one, or of a far exponent, in minutes, or in years."""


def cast(kind: str | None, number: ddl.Type | None, target: str | None, text: str) -> str:
    """The template of a cast to a type; null where the value has no counterpart in it.

    Args:
        kind: of the value.
        number: its type, if it is a number.
        target: the kind of the type.
        text: the type.
    """
    casted = f"try_cast({{0}} AS {text})"
    if kind == TEXT and text.startswith("DECIMAL"):
        return f"CASE WHEN {_SHORT} THEN {casted} END"
    if kind == BYTES and target == TEXT:
        return f"try_validate_utf8({casted})"
    if kind == NUMBER and target == TIME:
        # A number that is too large comes round to another time.
        return f"CASE WHEN {_INSTANT.format('{0}', '')} THEN {casted} END"
    if target in _WITHIN_YEARS and kind not in _WITHIN_YEARS:
        first, last = _WITHIN_YEARS[target]
        dated = f"NOT {{0}} RLIKE '{DAYLESS}' AND " if (kind, target) == (TEXT, TIME) else ""
        return f"CASE WHEN {dated}{casted} BETWEEN {first} AND {last} THEN {casted} END"
    if numbers.inexact(number) and text == "BIGINT":
        # Spark takes 2^63 for the number before it.
        return f"CASE WHEN {{0}} < 9223372036854775807D THEN {casted} END"
    return casted


MOMENTS: Mapping[str, tuple[Callable[[ddl.Type], bool], str]] = {
    "seconds": (lambda number: numbers.inexact(number) or numbers.digits(number)[1] <= 6, "CAST it AS DECIMAL(20,6)"),
    **dict.fromkeys(("millis", "micros"), (lambda number: str(number) in numbers.LEAST, "CAST it AS BIGINT")),
}
"""What is taken as a time since 1970: whether a type of numbers is, and the cure where it is not. At a part of a
microsecond Spark would stop the batch.
"""


def minus(number: ddl.Type | None) -> str:
    """The template of a number with the other sign.

    Spark's own minus rounds a DECIMAL to 34 digits, in silence; and a difference to 38, where a division keeps what is
    behind the point.
    """
    if number is None or str(number) in numbers.LEAST:
        return "try_subtract(0, {0})"
    if numbers.inexact(number):
        # Two signs without a blank between them would begin a comment.
        return "(- {0})"
    before, behind = numbers.digits(number)
    return "try_divide({0}, -1)" if before + behind == 38 and behind > 6 else "try_subtract(0, {0})"


def _abs(number: ddl.Type | None) -> str:
    if number is None or numbers.inexact(number):
        return "abs({0})"
    if str(number) in numbers.LEAST:
        return f"abs(nullif({{0}}, {numbers.LEAST[str(number)]}))"
    return f"greatest({{0}}, {minus(number)})"


def _whole(name: str) -> Callable[[ddl.Type | None], str]:
    """floor, or ceil: Spark gives the largest BIGINT for a DOUBLE that is larger, and 0 for what is no number."""

    def template(number: ddl.Type | None) -> str:
        return f"CASE WHEN abs({{0}}) < 9e18 THEN {name}({{0}}) END" if numbers.inexact(number) else f"{name}({{0}})"

    return template


JSON_TIMES: Mapping[str, str] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's to_json, which would write three digits of a second."""
_JSON = "to_json({{0}}, map({}))".format(
    ", ".join("'" + text.replace("'", "\\'") + "'" for option in JSON_TIMES.items() for text in option)
)

FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim", "initcap", "reverse"), Function("text", TEXT)),
    **dict.fromkeys(("length", "char_length", "octet_length"), Function("text", NUMBER, number=_INT)),
    **dict.fromkeys(("substring", "substr"), Function("text whole whole?", TEXT)),
    **dict.fromkeys(("left", "right"), Function("text whole", TEXT)),
    **dict.fromkeys(("lpad", "rpad"), Function("text size text?", TEXT)),
    "concat": Function("any any*", TEXT),
    "concat_ws": Function("text any*", TEXT),
    "replace": Function("text text text?", TEXT),
    "translate": Function("text text text", TEXT),
    "split_part": Function("text text size", TEXT),
    "instr": Function("text text", NUMBER, number=_INT),
    **dict.fromkeys(("startswith", "endswith", "contains"), Function("text text", BOOLEAN)),
    "md5": Function("text", TEXT),
    "sha1": Function("text", TEXT),
    "sha2": Function("text whole", TEXT),
    "crc32": Function("text", NUMBER, number=_BIGINT),
    "xxhash64": Function("any any*", NUMBER, number=_BIGINT),
    "hex": Function("text", TEXT),
    "get_json_object": Function("text text", TEXT),
    "abs": Function("number", NUMBER, _abs, True, lambda number, _: numbers.magnitude(number)),
    "sign": Function("number", NUMBER, number=numbers.DOUBLE),
    "round": Function("number size?", NUMBER, number=numbers.rounded),
    **{
        name: Function(
            "number", NUMBER, _whole(name), True, lambda number, _: numbers.rounded(number, 0, whole="bigint")
        )
        for name in ("floor", "ceil")
    },
    **dict.fromkeys(
        ("year", "quarter", "month", "day", "dayofweek", "dayofyear", "weekofyear"),
        Function("day", NUMBER, number=_INT),
    ),
    **dict.fromkeys(("hour", "minute", "second"), Function("time", NUMBER, number=_INT)),
    "date_trunc": Function("text time", TIME),
    "trunc": Function("day text", DATE),
    "datediff": Function("day day", NUMBER, number=_INT),
    "unix_seconds": Function("time", NUMBER, number=_BIGINT),
    "unix_millis": Function("time", NUMBER, number=_BIGINT),
    "unix_micros": Function("time", NUMBER, number=_BIGINT),
    "timestamp_seconds": Function(
        "seconds", TIME, f"CASE WHEN {_INSTANT.format('{0}', '')} THEN timestamp_seconds({{0}}) END", True
    ),
    "timestamp_millis": Function(
        "millis", TIME, f"CASE WHEN {_INSTANT.format('{0}', '000')} THEN timestamp_millis({{0}}) END", True
    ),
    "timestamp_micros": Function(
        "micros", TIME, f"CASE WHEN {_INSTANT.format('{0}', '000000')} THEN timestamp_micros({{0}}) END", True
    ),
    # All that a BIGINT counts are of the years 1677 to 2262.
    "timestamp_nanos": Function("micros", TIME, "timestamp_micros({0} DIV 1000)", True),
    "size": Function("any", NUMBER, number=_INT),
    "to_json": Function("any", TEXT, _JSON),
}
"""Those whose value follows from their arguments, is no larger than these by much, and that raise nothing."""
