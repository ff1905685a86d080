"""What an expression takes of the types of numbers and times, beyond their values. Pure.

A column may become wider: INT to BIGINT or DOUBLE, FLOAT to DOUBLE, DATE to TIMESTAMP_NTZ, a DECIMAL to a larger one.
An old value stays the same number, or the same time. What is computed of it may not: the text of 5 is `5` as INT and
`5.0` as DOUBLE, and a product that INT cannot hold is null. So each part of an expression has a text here. Where all
these texts are equal for two types of a column, the expression gives the same for each value that both types hold.
A part of which nothing is known has the types of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakeingest.schema import ddl, numbers
from lakeingest.schema.functions import DATE, FUNCTIONS, LOCAL, NULL, NUMBER, TEXT

if TYPE_CHECKING:
    from lakeingest.schema.expression_parts import Expression

_LITERAL = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_IN_DOUBLE = ("tinyint", "smallint", "int", "float", "double")
_MOST = 38


def of(node: Any, parts: Sequence[Expression], result: Expression) -> str:
    """What one part of an expression takes of the types of its operands; empty where their values alone say it.

    Args:
        node: the part, as sqlglot has it.
        parts: its operands, in the order in which they are written.
        result: what was made of it.
    """
    if not parts:
        return ""
    name = type(node).__name__
    if name == "Anonymous":
        name = str(node.this).lower()
    rule = _RULES.get(name)
    if rule is not None:
        return rule(node, parts, result)
    if name in FUNCTIONS:
        return ",".join(_argument(name, FUNCTIONS[name].argument(at), part) for at, part in enumerate(parts))
    return _types(parts)


Rule = Callable[[Any, Sequence["Expression"], "Expression"], str]


def _type(part: Expression) -> ddl.Type | None:
    return part.number or part.type


def _types(parts: Sequence[Expression]) -> str:
    return ",".join(str(_type(part)) for part in parts)


def _text(type_: ddl.Type | None) -> str:
    """Types of which one value has one text have the same here."""
    match type_:
        case ddl.Struct(fields):
            return f"({','.join(_text(field.type) for field in fields)})"
        case ddl.Array(element):
            return f"[{_text(element)}]"
        case ddl.Map(key, value):
            return f"[{_text(key)}:{_text(value)}]"
        case ddl.Atomic(name) if name in numbers.LEAST:
            return "whole"
        case ddl.Atomic(name) if name.startswith("decimal"):
            return f"{numbers.digits(type_)[1]} digits behind the point"
    return str(type_)


def _together(parts: Sequence[Expression]) -> str:
    """Values that take one type, to be compared or as branches: that changes none, or Spark rounds some to DOUBLE."""
    rounds = any(numbers.inexact(_type(part)) for part in parts) and not all(map(_exact_in_double, parts))
    return "double" if rounds else ""


def _exact_in_double(part: Expression) -> bool:
    if _LITERAL.fullmatch(part.value):
        return Decimal(part.value) == Decimal(float(part.value))
    return part.kind == NULL or str(_type(part)) in _IN_DOUBLE


def _compared(one: Expression, values: Sequence[Expression]) -> str:
    """One value with each of the others: by twos, or all of them in one type."""
    return ",".join([*(_together((one, other)) for other in values), _together((one, *values))])


def _case(node: Any, parts: Sequence[Expression], _: Expression) -> str:
    subject = 0 if node.this is None else 1
    end = subject + 2 * len(node.args["ifs"])
    values = (*parts[subject + 1 : end : 2], *parts[end:])
    whens = _compared(parts[0], parts[subject:end:2]) if subject else ""
    return f"{whens};{_together(values)}"


def _arithmetic(node: Any, parts: Sequence[Expression], result: Expression) -> str:
    number, name = result.number, type(node).__name__
    if str(number) in numbers.LEAST:
        # A remainder is no larger than its operands.
        return "whole" if name == "Mod" else str(number)
    if number is None or numbers.inexact(number):
        return str(number)
    # A sum, a difference and a product have all their digits; a quotient is rounded as its operands' types say.
    return "exact" if name in ("Add", "Sub", "Mul") and _has_room(number) else _types(parts)


def _has_room(number: ddl.Type) -> bool:
    return sum(numbers.digits(number)) < _MOST


def _other_sign(number: ddl.Type | None) -> str:
    """The least whole number of a type has no counterpart in it."""
    if number is None or str(number) in numbers.LEAST:
        return str(number)
    if numbers.inexact(number):
        return "inexact"
    return "exact" if _has_room(numbers.minus(number) or number) else str(number)


def _cast(_: Any, parts: Sequence[Expression], result: Expression) -> str:
    """A value alone says what it is in another type; but for its text."""
    (part,) = parts
    return _text(_type(part)) if result.kind == TEXT and part.kind in (NUMBER, DATE, LOCAL) else ""


def _element(_: Any, parts: Sequence[Expression], __: Expression) -> str:
    """The keys of a map are compared in a type that Spark chooses."""
    outer, index = parts
    return f"{outer.type.key},{_type(index)}" if isinstance(outer.type, ddl.Map) else ""


def _argument(name: str, takes: str, part: Expression) -> str:
    """What a function takes of the type of an argument."""
    if takes == "any":
        if name in ("concat", "concat_ws", "to_json"):
            return _text(_type(part))
        return "" if name == "size" else str(_type(part))
    if takes != "number" or name in ("ceil", "floor", "sign"):
        return ""
    if name == "abs":
        return _other_sign(part.number)
    return "exact" if name == "round" and not numbers.inexact(part.number) else str(part.number)


def _nothing(*_: Any) -> str:
    return ""


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Paren", "Dot", "Is", "Like", "Not", "And", "Or"), _nothing),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod"), _arithmetic),
    **dict.fromkeys(
        ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "coalesce", "ifnull", "nvl", "greatest", "least"),
        lambda _, parts, __: _together(parts),
    ),
    **dict.fromkeys(("Between", "In", "nullif"), lambda _, parts, __: _compared(parts[0], parts[1:])),
    **dict.fromkeys(("Cast", "TryCast"), _cast),
    "Bracket": _element,
    "Case": _case,
    "DPipe": lambda _, parts, __: ",".join(_text(_type(part)) for part in parts),
    "Neg": lambda _, parts, __: _other_sign(parts[0].number),
    "if": lambda _, parts, __: _together(parts[1:]),
}
